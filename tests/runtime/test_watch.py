"""The supervisor's way of waiting."""

import os
import signal
from collections.abc import Iterator

import pytest

from shardfs.runtime.watch import Watch


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.close()


def test_timers_in_their_order(watch: Watch) -> None:
    happened: list[str] = []
    watch.call_later(0.02, lambda: happened.append("second"))
    watch.call_later(0.0, lambda: happened.append("first"))
    while len(happened) < 2:
        watch.run_once()
    assert happened == ["first", "second"]


def test_descriptors_until_they_are_forgotten(watch: Watch) -> None:
    reader, writer = os.pipe()
    seen: list[bytes] = []
    watch.on_readable(reader, lambda: seen.append(os.read(reader, 1)))
    os.write(writer, b"ab")
    watch.run_once()
    watch.run_once()
    watch.forget(reader)
    os.write(writer, b"c")
    watch.call_later(0.0, lambda: seen.append(b"timer"))
    watch.run_once()
    assert seen == [b"a", b"b", b"timer"]
    os.close(reader)
    os.close(writer)


def test_one_that_another_action_forgets_is_not_called_any_more(watch: Watch) -> None:
    pipes = [os.pipe(), os.pipe()]
    seen: list[int] = []

    def forget_both() -> None:
        seen.append(1)
        for reader, _ in pipes:
            watch.forget(reader)

    for reader, writer in pipes:
        watch.on_readable(reader, forget_both)
        os.write(writer, b"x")
    watch.run_once()
    assert seen == [1]
    for end in (*pipes[0], *pipes[1]):
        os.close(end)


def test_signals(watch: Watch) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    seen: list[bool] = []
    watch.on_signals((signal.SIGUSR1,), lambda: seen.append(True))
    os.kill(os.getpid(), signal.SIGUSR1)
    watch.run_once()
    assert seen == [True]
    signal.signal(signal.SIGUSR1, before)
