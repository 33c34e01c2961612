"""Starts and recyclings that are cut off anywhere, and journals damaged anywhere: never a wrong operation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfs.errors import CorruptJournal
from shardfs.format.frames import HEADER_BLOCK_BYTES
from shardfs.ids import Lsn
from tests.journal.harness import PER_SEGMENT, SEGMENT_BYTES, Harness
from tests.journal.simulated import PAGE_BYTES, Stopped


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("calls", range(14))
def test_a_start_that_is_cut_off_changes_nothing(harness: Harness, calls: int, power: bool) -> None:
    last = harness.append(2 * PER_SEGMENT)
    harness.sync()
    harness.disk.lose_power(names=99, share=PAGE_BYTES)
    harness.start()
    harness.append()
    expected = list(range(1, last + 1 + (not power)))
    harness.disk.stop_in = calls
    try:
        harness.start()
    except Stopped:
        pass
    harness.disk.stop_in = None
    if power:
        harness.disk.lose_power()
    assert harness.lsns() == expected
    harness.start()
    assert harness.lsns() == expected


@pytest.mark.parametrize("names", [None, 0, 1, 2])
@pytest.mark.parametrize("calls", range(6))
def test_a_recycling_that_is_cut_off_loses_nothing(harness: Harness, calls: int, names: int | None) -> None:
    last = harness.append(3 * PER_SEGMENT)
    harness.sync()
    below = Lsn(2 * PER_SEGMENT + 1)
    harness.disk.stop_in = calls
    try:
        harness.journal.recycle(below)
    except Stopped:
        pass
    harness.disk.stop_in = None
    if names is not None:
        harness.disk.lose_power(names=names)
    found = harness.replay()
    assert found.first_lsn <= below
    assert harness.lsns() == list(range(found.first_lsn, last + 1))
    harness.start()
    assert len(harness.names("j-")) == harness.journal.segments


histories = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 400)),
        st.tuples(st.just("sync"), st.integers(0, 5)),
        st.tuples(st.just("recycle"), st.integers(0, 20)),
        st.tuples(st.just("start"), st.just(0)),
        st.tuples(st.just("power"), st.just(0)),
    ),
    min_size=5,
    max_size=60,
)


def play(history: list[tuple[str, int]]) -> Harness:
    """Return a journal with this history, every operation of which has its LSN as its request."""
    harness = Harness()
    for action, number in history:
        if action == "append":
            harness.append(size=number)
        elif action == "sync":
            harness.sync(max(0, harness.journal.last_lsn - number))
        elif action == "recycle":
            harness.journal.recycle(Lsn(max(1, harness.journal.durable_lsn - number)))
        else:
            if action == "power":
                harness.disk.lose_power()
            harness.start()
    return harness


@settings(deadline=None, max_examples=150)
@given(history=histories, data=st.data())
def test_a_garbled_tail_never_gives_wrong_operations(history: list[tuple[str, int]], data: st.DataObject) -> None:
    harness = play(history)
    last, durable = harness.journal.last_lsn, harness.journal.durable_lsn
    end = harness.journal._current.end
    if data.draw(st.booleans(), label="power"):
        harness.disk.lose_power(names=99, share=PAGE_BYTES)
        last = durable
    content = harness.content(harness.names("j-")[-1])
    start = data.draw(st.integers(HEADER_BLOCK_BYTES, SEGMENT_BYTES - 1), label="start")
    tail = data.draw(st.sampled_from([b"", bytes(SEGMENT_BYTES - start), b"\xa5" * (SEGMENT_BYTES - start)]), label="tail")
    content[start:] = tail
    try:
        found = harness.replay()
    except CorruptJournal:
        assert start < end
        return
    assert found.last_lsn <= last
    assert start < end or found.last_lsn == last
    assert [operation.request for _, operation in found.operations()] == list(range(found.first_lsn, found.last_lsn + 1))
    harness.start()
    harness.append()
    assert harness.lsns() == list(range(found.first_lsn, found.last_lsn + 2))


@settings(deadline=None, max_examples=150)
@given(history=histories, data=st.data())
def test_a_changed_byte_anywhere_never_gives_wrong_operations(history: list[tuple[str, int]], data: st.DataObject) -> None:
    harness = play(history)
    last = harness.journal.last_lsn
    if data.draw(st.booleans(), label="power"):
        harness.disk.lose_power(names=99, share=PAGE_BYTES)
    name = data.draw(st.sampled_from(harness.names("")), label="name")
    harness.damage(name, data.draw(st.integers(0, SEGMENT_BYTES - 1), label="offset"))
    try:
        found = harness.replay()
    except CorruptJournal:
        return
    assert found.last_lsn <= last
    assert [operation.request for _, operation in found.operations()] == list(range(found.first_lsn, found.last_lsn + 1))
