"""Waiting for the kernel and the loop together; a pipe stands in for the kernel."""

import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import trio

from shardfs.core.loop import Done, EventLoop
from shardfs.errors import DeviceFailed
from shardfs.fuse.pyfuse3_loop import Readiness


class Bench:
    """A loop, its readiness, and a pipe as the kernel."""

    def __init__(self) -> None:
        self.loop = EventLoop(io_threads=4)
        self.readiness = Readiness(self.loop)
        self.kernel_fd, self.request_fd = os.pipe()

    def request(self, count: int = 1) -> None:
        os.write(self.request_fd, b"r" * count)

    async def wait(self) -> None:
        await self.readiness.wait_readable(self.kernel_fd)
        os.read(self.kernel_fd, 1)

    async def job(self, work: Callable[[], Any]) -> Any:
        def begin(done: Done) -> None:
            self.loop.run_blocking(work, done)

        return await self.readiness.outcome(begin)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.loop.close()
    os.close(made.kernel_fd)
    os.close(made.request_fd)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run in trio; what hangs fails."""

    async def bounded() -> None:
        with trio.fail_after(20):
            await main()

    trio.run(bounded)


def test_a_request_is_noticed_at_once(bench: Bench) -> None:
    bench.request()
    run(bench.wait)


def test_what_is_posted_runs_while_the_kernel_is_silent(bench: Bench) -> None:
    threading.Timer(0.02, lambda: bench.loop.post(bench.request)).start()
    run(bench.wait)


def test_timers_run_while_the_kernel_is_silent(bench: Bench) -> None:
    bench.loop.call_later(0.02, bench.request)
    run(bench.wait)


def test_a_timer_runs_while_the_kernel_is_never_silent(bench: Bench) -> None:
    fired = []
    bench.loop.call_later(0.0, lambda: fired.append(True))

    async def busy() -> None:
        while not fired:
            bench.request()
            await bench.wait()

    run(busy)


def test_a_waiting_handler_gets_its_result_while_another_task_waits_for_the_kernel(bench: Bench) -> None:
    answers: list[int] = []

    async def session() -> None:
        await bench.wait()
        if not answers:
            answers.append(await bench.job(lambda: 42))
            bench.request()

    async def main() -> None:
        bench.request()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session)
            nursery.start_soon(session)

    run(main)
    assert answers == [42]


def test_an_error_of_the_work_is_raised_to_the_handler(bench: Bench) -> None:
    def work() -> None:
        raise DeviceFailed("gone")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.readiness.run_loop)
            with pytest.raises(DeviceFailed, match="gone"):
                await bench.job(work)
            nursery.cancel_scope.cancel()

    run(main)


def test_the_loop_runs_while_every_task_waits(bench: Bench) -> None:
    done: list[int] = []

    async def main() -> None:
        async def handler(number: int) -> None:
            done.append(await bench.job(lambda: number))

        async with trio.open_nursery() as outer:
            outer.start_soon(bench.readiness.run_loop)
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(handler, number)
            outer.cancel_scope.cancel()

    run(main)
    assert sorted(done) == list(range(8))


def test_many_tasks_share_requests_and_jobs(bench: Bench) -> None:
    """Session tasks as pyfuse3 runs them: each request needs a job, and every one is answered."""
    answered: list[int] = []

    async def session() -> None:
        while True:
            try:
                await bench.wait()
            except trio.ClosedResourceError:
                return
            answered.append(await bench.job(lambda: 1))
            if len(answered) == 200:
                bench.readiness.close()

    async def main() -> None:
        bench.request(200)
        async with trio.open_nursery() as outer:
            outer.start_soon(bench.readiness.run_loop)
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(session)
            outer.cancel_scope.cancel()

    run(main)
    assert len(answered) == 200


def test_closing_ends_every_waiting_task(bench: Bench) -> None:
    ended = []

    async def waiter() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await bench.wait()
        ended.append(True)

    async def main() -> None:
        bench.loop.call_later(0.02, bench.readiness.close)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(waiter)

    run(main)
    assert len(ended) == 3


def test_the_end_of_the_mount_ends_every_waiting_task(bench: Bench) -> None:
    """poll(2) reports an error on /dev/fuse when the mount is gone, and on a pipe when nobody reads it any more."""
    ended = []

    async def waiter() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await bench.readiness.wait_readable(bench.request_fd)
        ended.append(True)

    reader, writer = os.pipe()
    os.dup2(writer, bench.request_fd)
    os.close(writer)
    os.close(reader)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter)
            nursery.start_soon(waiter)

    run(main)
    assert len(ended) == 2
