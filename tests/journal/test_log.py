"""The journal that a server writes: LSNs, rotation, failures, sync beside appends, recycling."""

import threading
from collections.abc import Callable

import pytest

from shardfs.errors import DeviceFailed, Exists, InternalError, NoSpace
from shardfs.format.frames import encode_operation, frame_size_bytes
from shardfs.ids import Epoch, Lsn, RequestId, ShardId
from shardfs.journal.log import Journal, create_journal
from shardfs.journal.segments import MAX_SPARES, segment_name, segment_sequence
from shardfs.observe.counters import Counters
from tests.journal.harness import DIRECTORY, PER_SEGMENT, SEGMENT_BYTES, VOLUME, Harness
from tests.journal.simulated import PAGE_BYTES, SimulatedDisk


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_names_of_segments() -> None:
    assert segment_name(0x1F) == "j-000000000000001f"
    assert segment_sequence("j-000000000000001f") == 0x1F
    for name in ("spare-1", "j-1f", "j-000000000000001F", "j-000000000000001g", "000000000000001f", "j-000000000000001f.new"):
        assert segment_sequence(name) is None


def test_a_directory_takes_one_journal(harness: Harness) -> None:
    with pytest.raises(Exists, match=DIRECTORY):
        create_journal(harness.disk, DIRECTORY, bytes(16), segment_bytes=SEGMENT_BYTES)


def test_a_new_journal_survives_a_power_loss() -> None:
    disk = SimulatedDisk()
    create_journal(disk, DIRECTORY, VOLUME, segment_bytes=SEGMENT_BYTES)
    disk.lose_power(names=0, share=0)
    assert disk.list_dir(DIRECTORY) == [segment_name(1)]


def test_lsns_go_on_over_rotations_and_starts(harness: Harness) -> None:
    assert harness.append() == 1
    assert harness.append(2 * PER_SEGMENT) == 2 * PER_SEGMENT + 1
    assert harness.journal.segments == 3
    harness.start()
    assert harness.append() == 2 * PER_SEGMENT + 2
    assert harness.lsns() == list(range(1, 2 * PER_SEGMENT + 3))


def test_what_is_counted(harness: Harness) -> None:
    harness.append(PER_SEGMENT + 1)
    harness.sync()
    harness.sync()
    counted = harness.counters.snapshot()
    assert counted.pop("journal.bytes") > PER_SEGMENT * 300
    assert counted == {"journal.appends": PER_SEGMENT + 1, "journal.rotations": 1, "journal.syncs": 1}


def test_an_epoch_is_not_used_twice(harness: Harness) -> None:
    found = harness.replay()
    with pytest.raises(AssertionError):
        Journal.start(harness.disk, DIRECTORY, VOLUME, found, Epoch(found.last_epoch), Counters(), segment_bytes=SEGMENT_BYTES)


def test_an_operation_that_is_too_large_is_a_bug(harness: Harness) -> None:
    with pytest.raises(InternalError, match="mkdir"):
        harness.append(size=SEGMENT_BYTES, kind="mkdir")
    assert harness.append() == 1


def test_the_largest_operation_fits_into_an_empty_segment(harness: Harness) -> None:
    largest = next(size for size in range(SEGMENT_BYTES, 0, -1) if _fits(harness, size))
    harness.append()
    harness.append(size=largest)
    harness.sync()
    assert {len(harness.content(name)) for name in harness.names("")} == {SEGMENT_BYTES}
    assert harness.lsns() == list(range(1, harness.journal.last_lsn + 1))


def _fits(harness: Harness, size: int) -> bool:
    try:
        harness.append(size=size)
    except InternalError:
        return False
    return True


@pytest.mark.parametrize("cause", [NoSpace("full"), DeviceFailed("broken")])
def test_the_next_append_takes_the_place_of_a_failed_one(harness: Harness, cause: NoSpace | DeviceFailed) -> None:
    harness.append(kind="first")
    harness.disk.refusals["pwrite"] = [cause]
    with pytest.raises(type(cause)):
        harness.append(kind="failed")
    assert harness.journal.last_lsn == 1
    assert harness.append(kind="second") == 2
    assert harness.kinds() == ["first", "second"]


@pytest.mark.parametrize(("method", "spares"), [("create", 0), ("pwrite", 0), ("sync", 0), ("rename", 0), ("pwrite", 1), ("rename", 1)])
def test_a_rotation_that_fails_leaves_everything_as_it_was(harness: Harness, method: str, spares: int) -> None:
    harness.append_until_rotated()
    last, names = harness.append(PER_SEGMENT - 1), harness.names("j-")
    if spares:
        harness.journal.prepare()
    harness.disk.refusals[method] = [NoSpace("full")]
    with pytest.raises(NoSpace):
        harness.append()
    assert harness.names("j-") == names
    assert len(harness.names("spare-")) == spares + (method == "rename" and not spares)
    assert harness.append() == last + 1
    assert harness.journal.segments == len(names) + 1
    assert harness.lsns() == list(range(1, last + 2))


def test_a_prepared_spare_makes_rotation_quick(harness: Harness) -> None:
    harness.journal.prepare()
    harness.journal.prepare()
    assert len(harness.names("spare-")) == 1
    syncs: list[str] = []
    harness.disk.during_sync = lambda: syncs.append("sync")
    harness.append_until_rotated()
    assert syncs == []
    assert harness.names("spare-") == []


def test_only_what_was_synced_survives_a_power_loss(harness: Harness) -> None:
    harness.append(3)
    harness.sync(through=2)
    assert (harness.journal.durable_lsn, harness.journal.last_lsn) == (2, 3)
    harness.disk.lose_power(names=0, share=0)
    assert harness.lsns() == [1, 2]


def test_a_sync_of_what_is_durable_does_nothing(harness: Harness) -> None:
    harness.append(2)
    harness.sync()
    before = bytes(harness.content(harness.names("j-")[-1]))
    harness.sync(through=1)
    harness.sync(through=2)
    assert harness.content(harness.names("j-")[-1]) == before
    assert harness.counters.get("journal.syncs") == 1


def test_a_sync_covers_finished_segments(harness: Harness) -> None:
    harness.append(3 * PER_SEGMENT)
    harness.sync()
    harness.disk.lose_power(names=0, share=0)
    assert harness.lsns() == list(range(1, 3 * PER_SEGMENT + 1))


@pytest.mark.parametrize("at", range(4))
def test_a_rotation_in_the_middle_of_a_sync(harness: Harness, at: int) -> None:
    through = harness.append(2 * PER_SEGMENT + 1)
    calls = iter(range(100))
    harness.disk.during_sync = lambda: _rotate_at_call(harness, next(calls), at)
    harness.sync(through)
    harness.disk.during_sync = lambda: None
    assert harness.journal.last_lsn > through, "the rotation took place"
    harness.disk.lose_power(names=0, share=0)
    assert harness.replay().last_lsn == through


def _rotate_at_call(harness: Harness, call: int, at: int) -> None:
    if call == at:
        harness.append_until_rotated()


def test_a_sync_ends_however_fast_operations_come(harness: Harness) -> None:
    through = harness.append()
    depth: list[None] = []

    def rotate_each_time() -> None:
        if not depth:
            depth.append(None)
            harness.append_until_rotated()
            depth.pop()

    harness.disk.during_sync = rotate_each_time
    harness.sync(through)
    assert harness.journal.durable_lsn == through


def test_a_sync_frame_always_has_room(harness: Harness) -> None:
    last = 0
    for behind in range(3 * PER_SEGMENT, 0, -1):
        last = harness.append()
        harness.sync(max(0, last - behind))
    assert {len(harness.content(name)) for name in harness.names("j-")} == {SEGMENT_BYTES}
    assert harness.lsns() == list(range(1, last + 1))


def test_an_operation_in_the_middle_of_a_sync_leaves_room_for_its_frame(harness: Harness) -> None:
    harness.append_until_rotated()
    through = harness.append(PER_SEGMENT - 1)
    current = harness.journal._current
    room = SEGMENT_BYTES - current.end
    size = next(size for size in range(room) if _frame_bytes(size) == room)
    calls = iter(range(100))
    harness.disk.during_sync = lambda: harness.append(size=size) if next(calls) == 0 else None
    harness.sync(through)
    assert harness.journal.last_lsn == through + 1
    assert current.end <= SEGMENT_BYTES


def _frame_bytes(size: int) -> int:
    return frame_size_bytes(len(encode_operation(RequestId(1), "create", [(ShardId(1), b"key", bytes(size))])))


def test_a_sync_frame_that_cannot_be_written_is_written_the_next_time(harness: Harness) -> None:
    harness.append(2)
    harness.disk.refusals["pwrite"] = [NoSpace("full")]
    with pytest.raises(NoSpace):
        harness.sync()
    assert harness.journal.durable_lsn == 0
    assert harness.append() == 3
    harness.sync()
    harness.disk.lose_power(names=0, share=0)
    assert harness.lsns() == [1, 2, 3]


@pytest.mark.parametrize("method", ["sync", "sync_dir"])
def test_after_a_failed_sync_nothing_is_taken_any_more(harness: Harness, method: str) -> None:
    harness.append(PER_SEGMENT + 1)
    harness.disk.refusals[method] = [DeviceFailed("the disk broke")]
    for use in (harness.sync, harness.append, harness.sync, harness.append):
        with pytest.raises(DeviceFailed, match="the disk broke"):
            use()
    assert harness.journal.last_lsn == PER_SEGMENT + 1
    assert harness.journal.durable_lsn == 0


def test_the_next_start_writes_again_what_a_failed_sync_has_lost(harness: Harness) -> None:
    harness.append(3)
    harness.disk.refusals["sync"] = [DeviceFailed("the disk broke")]
    with pytest.raises(DeviceFailed):
        harness.sync()
    harness.start()
    harness.sync()
    harness.disk.lose_power(names=0, share=0)
    assert harness.lsns() == [1, 2, 3]


def test_recycled_segments_become_spares_and_are_used_again(harness: Harness) -> None:
    harness.append(3 * PER_SEGMENT)
    harness.sync()
    harness.journal.recycle(Lsn(PER_SEGMENT + 1))
    first_left = harness.replay().first_lsn
    assert 1 < first_left <= PER_SEGMENT + 1
    spares = harness.names("spare-")
    assert len(spares) >= 1
    harness.append_until_rotated()
    assert len(harness.names("spare-")) == len(spares) - 1
    assert harness.lsns() == list(range(first_left, harness.journal.last_lsn + 1))


@pytest.mark.parametrize("missing", [0, 1])
def test_a_segment_is_recycled_when_its_last_operation_is_below(harness: Harness, missing: int) -> None:
    last_of_first = harness.append_until_rotated()
    harness.sync()
    harness.journal.recycle(Lsn(last_of_first + 1 - missing))
    assert harness.journal.segments == 1 + missing


def test_the_current_segment_is_never_recycled(harness: Harness) -> None:
    harness.append(2)
    harness.sync()
    harness.journal.recycle(Lsn(3))
    assert harness.journal.segments == 1
    assert harness.lsns() == [1, 2]


def test_the_segment_of_the_newest_sync_is_never_recycled(harness: Harness) -> None:
    last_of_first = harness.append(PER_SEGMENT - 1)
    harness.sync()
    while harness.counters.get("journal.rotations") == 0:
        harness.append(size=1200)
    harness.journal.recycle(Lsn(last_of_first + 1))
    harness.disk.lose_power(names=0, share=0)
    assert harness.replay().last_lsn == last_of_first


def test_what_is_not_durable_is_not_recycled(harness: Harness) -> None:
    harness.append(3 * PER_SEGMENT)
    harness.sync(through=PER_SEGMENT)
    with pytest.raises(AssertionError):
        harness.journal.recycle(Lsn(PER_SEGMENT + 2))


def test_spares_are_bounded(harness: Harness) -> None:
    last = harness.append((MAX_SPARES + 4) * PER_SEGMENT)
    harness.sync()
    harness.journal.recycle(Lsn(last + 1))
    assert harness.journal.segments == 1
    assert len(harness.names("spare-")) == MAX_SPARES
    assert harness.journal.size_bytes == (MAX_SPARES + 1) * SEGMENT_BYTES


def test_a_start_takes_over_spares_and_removes_what_is_none(harness: Harness) -> None:
    harness.append(3 * PER_SEGMENT)
    harness.sync()
    harness.journal.recycle(harness.journal.durable_lsn)
    kept = harness.names("spare-")
    half_made = harness.disk.open(f"{DIRECTORY}/spare-99", create=True)
    half_made.pwrite(bytes(PAGE_BYTES), 0)
    harness.disk.open(f"{DIRECTORY}/spare-of-somebody", create=True)
    harness.start()
    assert set(harness.names("spare-")) == {*kept[1:], "spare-of-somebody"}


def test_recycling_is_durable_before_the_file_is_used_again(harness: Harness) -> None:
    harness.append(2 * PER_SEGMENT + 1)
    harness.sync()
    before = len(harness.names("j-"))
    harness.journal.recycle(harness.journal.durable_lsn)
    harness.disk.lose_power(names=0, share=0)
    assert len(harness.names("j-")) < before


def test_closing_closes_every_file(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    harness.append(2 * PER_SEGMENT + 1)
    harness.journal.prepare()
    monkeypatch.setattr("tests.journal.simulated.SimulatedFile.close", lambda file: closed.append(file))
    harness.sync()
    harness.journal.close()
    names = harness.names("")
    assert len(closed) == len(names)
    harness.journal.prepare()
    harness.journal.recycle(Lsn(harness.journal.durable_lsn + 1))
    assert harness.names("") == names, "late upkeep does nothing"


def test_threads_append_sync_and_recycle_at_the_same_time(harness: Harness) -> None:
    journal, errors, done = harness.journal, list[BaseException](), threading.Event()

    def work(step: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                step()
        except BaseException as error:
            errors.append(error)

    def sync() -> None:
        through = journal.last_lsn
        journal.sync(through)
        assert journal.durable_lsn >= through

    steps = (sync, sync, lambda: journal.recycle(Lsn(max(1, journal.durable_lsn - 30))), journal.prepare)
    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        harness.append(1500)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []
    durable = journal.durable_lsn
    found = harness.replay()
    assert [operation.request for _, operation in found.operations()] == list(range(found.first_lsn, 1501))
    harness.disk.lose_power(names=0, share=0)
    assert harness.replay().last_lsn == durable
