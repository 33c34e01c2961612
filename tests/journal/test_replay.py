"""Replay: what counts in the same boot and after a power loss, what is damage and what is torn, and that it stays so."""

from dataclasses import replace
from pathlib import Path

import pytest

from shardfs.errors import CorruptJournal, NotFound
from shardfs.format.frames import HEADER_BLOCK_BYTES, SyncMark, decode_journal_header, encode_journal_header, encode_sync
from shardfs.ids import Lsn
from shardfs.journal.replay import Replayed, replay
from shardfs.journal.segments import segment_name
from shardfs.storage.real import RealStorage
from tests.journal.harness import DIRECTORY, PER_SEGMENT, VOLUME, Harness
from tests.journal.simulated import PAGE_BYTES, SimulatedDisk, Stopped

FIRST = segment_name(2)
"""The segment that the server of a new `Harness` begins with."""


@pytest.fixture
def harness() -> Harness:
    return Harness()


def crash_in_a_sync(harness: Harness) -> None:
    """Lose power when the sync frame is written and the fdatasync has not begun; every page is kept."""
    harness.disk.stop_in = 1
    with pytest.raises(Stopped):
        harness.sync()
    harness.disk.lose_power(share=PAGE_BYTES)


def facts(found: Replayed) -> tuple[int, int, int, bool]:
    return found.first_lsn, found.last_lsn, found.synced_lsn, found.same_boot


def test_an_empty_journal(harness: Harness) -> None:
    assert facts(harness.replay()) == (1, 0, 0, True)
    assert harness.lsns() == []
    harness.disk.lose_power()
    assert facts(harness.replay()) == (1, 0, 0, False)


def test_without_a_journal() -> None:
    disk = SimulatedDisk()
    with pytest.raises(CorruptJournal, match="right directory"):
        replay(disk, DIRECTORY, VOLUME)


def test_the_journal_of_another_volume(harness: Harness) -> None:
    with pytest.raises(CorruptJournal, match="no intact journal segment of this volume"):
        replay(harness.disk, DIRECTORY, bytes(16))


def test_a_segment_under_another_name_does_not_count(harness: Harness) -> None:
    harness.append()
    misnamed = harness.disk.open(f"{DIRECTORY}/{segment_name(9)}", create=True)
    misnamed.pwrite(bytes(harness.content(FIRST)), 0)
    found = harness.replay()
    assert found.last_sequence == 9, "its number is not used again"
    assert found.stale == (f"{DIRECTORY}/{segment_name(9)}",)
    assert harness.lsns() == [1]


def test_operations_come_back_as_they_were(harness: Harness) -> None:
    harness.append(kind="mkdir", size=3)
    [(lsn, operation)] = harness.replay().operations()
    assert (lsn, operation) == (1, (1, "mkdir", ((1, b"key", b"vvv"),)))


def test_operations_from_the_middle(harness: Harness) -> None:
    last = harness.append(3 * PER_SEGMENT)
    found = harness.replay()
    for after in range(last + 1):
        assert [lsn for lsn, _ in found.operations(Lsn(after))] == list(range(after + 1, last + 1))


def test_the_same_boot_takes_what_was_never_synced(harness: Harness) -> None:
    harness.append(3)
    harness.sync(through=1)
    assert facts(harness.replay()) == (1, 3, 1, True)
    assert harness.lsns() == [1, 2, 3]


def test_another_boot_stops_at_the_newest_sync(harness: Harness) -> None:
    harness.append(3)
    harness.sync(through=1)
    harness.append(2)
    harness.sync(through=4)
    harness.append(1)
    harness.disk.lose_power(share=PAGE_BYTES)
    found = harness.replay()
    assert facts(found) == (1, 4, 4, False)
    assert found.torn == "operations 5 to 6 were never synced; the power loss took them"
    assert harness.lsns() == [1, 2, 3, 4]


@pytest.mark.parametrize("kept", [0, 1, 33, 200])
def test_the_same_boot_drops_a_torn_last_frame(harness: Harness, kept: int) -> None:
    harness.append(2)
    end = harness.journal._current.end
    harness.append(1)
    content = harness.content(FIRST)
    content[end + kept :] = bytes(len(content) - end - kept)
    assert harness.lsns() == [1, 2]
    harness.start()
    harness.append(kind="again")
    assert harness.kinds() == ["create", "create", "again"]


def test_a_power_loss_in_a_sync_may_keep_everything(harness: Harness) -> None:
    harness.append(4)
    crash_in_a_sync(harness)
    assert facts(harness.replay()) == (1, 4, 4, False)


@pytest.mark.parametrize("lost", [3, 4, 5])
def test_a_torn_sync_goes_back_to_the_one_before(harness: Harness, lost: int) -> None:
    harness.append(2)
    harness.sync()
    harness.append(3)
    crash_in_a_sync(harness)
    harness.damage_frame(FIRST, lost)
    found = harness.replay()
    assert facts(found) == (1, 2, 2, False)
    assert found.torn == "operations 3 to 5 were never synced; the power loss took them"
    harness.start()
    harness.append(kind="new")
    assert harness.kinds() == ["create", "create", "new"], "the torn sync frame, which covers more, does not count"
    harness.append(3, kind="new")
    harness.disk.lose_power(share=PAGE_BYTES)
    assert facts(harness.replay()) == (1, 2, 2, False)


@pytest.mark.parametrize("lost", [1, 2])
def test_damage_below_a_finished_sync_is_corruption(harness: Harness, lost: int) -> None:
    harness.append(2)
    harness.sync()
    harness.append(2)
    harness.sync()
    harness.disk.lose_power()
    harness.damage_frame(FIRST, lost)
    with pytest.raises(CorruptJournal, match=f"damaged at operation {lost}, but operations up to 2"):
        harness.replay()


def test_damage_below_a_finished_sync_in_a_later_segment_is_corruption(harness: Harness) -> None:
    last_of_first = harness.append_until_rotated()
    harness.sync()
    harness.append()
    harness.sync()
    harness.disk.lose_power()
    harness.damage_frame(FIRST, last_of_first)
    with pytest.raises(CorruptJournal, match=f"damaged at operation {last_of_first}, "):
        harness.replay()


def test_in_the_same_boot_all_below_any_sync_must_be_there(harness: Harness) -> None:
    harness.append(2)
    harness.sync()
    harness.damage_frame(FIRST, 2)
    with pytest.raises(CorruptJournal, match="damaged at operation 2"):
        harness.replay()


def test_in_the_same_boot_finished_segments_must_be_whole(harness: Harness) -> None:
    last_of_first = harness.append_until_rotated()
    harness.damage_frame(FIRST, last_of_first)
    with pytest.raises(CorruptJournal, match=f"damaged at operation {last_of_first}"):
        harness.replay()


def test_a_journal_without_any_sync_frame_is_corrupt(harness: Harness) -> None:
    for name in harness.names("j-"):
        harness.damage(name, HEADER_BLOCK_BYTES)
    with pytest.raises(CorruptJournal, match="no intact sync frame"):
        harness.replay()


@pytest.mark.parametrize("power", [False, True])
def test_a_damaged_header_in_the_middle_is_corruption(harness: Harness, power: bool) -> None:
    harness.append_until_rotated()
    harness.append_until_rotated()
    harness.sync()
    if power:
        harness.disk.lose_power()
    harness.damage(segment_name(3), 20)
    with pytest.raises(CorruptJournal, match=segment_name(3)):
        harness.replay()


def test_stale_frames_of_a_recycled_file_do_not_count(harness: Harness) -> None:
    last_of_first = harness.append_until_rotated()
    stale = bytes(harness.content(FIRST))
    harness.sync()
    harness.journal.recycle(Lsn(last_of_first + 1))
    harness.append_until_rotated()
    reused = harness.names("j-")[-1]
    frames_end = harness.journal._current.end
    assert harness.content(reused)[frames_end:] == stale[frames_end:], "the old frames are still there"
    assert harness.lsns() == list(range(last_of_first + 1, harness.journal.last_lsn + 1))


def test_a_stale_frame_with_the_next_lsn_does_not_count(harness: Harness) -> None:
    harness.append(2)
    header = decode_journal_header(bytes(harness.content(FIRST)[:HEADER_BLOCK_BYTES]))
    other = replace(header, salt=header.salt ^ 1)
    content = harness.content(FIRST)
    content[:HEADER_BLOCK_BYTES] = encode_journal_header(other)
    content[HEADER_BLOCK_BYTES : HEADER_BLOCK_BYTES + 40] = encode_sync(other, SyncMark(Lsn(0), Lsn(0)))
    assert harness.lsns() == []


def test_dropped_operations_stay_dropped(harness: Harness) -> None:
    harness.append(2)
    harness.sync()
    harness.append(2, kind="dropped")
    harness.disk.lose_power(share=PAGE_BYTES)
    harness.start()
    for _ in range(3):
        assert harness.kinds() == ["create", "create"]
        harness.start()
    harness.append(kind="new")
    assert harness.kinds() == ["create", "create", "new"]
    harness.start()
    harness.append(kind="newer")
    harness.sync()
    harness.disk.lose_power(names=0, share=0)
    assert harness.kinds() == ["create", "create", "new", "newer"]


def test_dropped_segments_stay_dropped_and_become_spares(harness: Harness) -> None:
    harness.append(2)
    harness.sync()
    for _ in range(3):
        harness.append_until_rotated()
    harness.disk.lose_power(names=99, share=PAGE_BYTES)
    found = harness.replay()
    assert found.last_lsn == 2
    assert found.stale == tuple(f"{DIRECTORY}/{name}" for name in harness.names("j-") if name != FIRST)
    harness.start()
    assert harness.names("j-") == [FIRST, segment_name(found.last_sequence + 1)]
    assert harness.lsns() == [1, 2]


def test_a_sync_in_a_dropped_segment_does_not_count_later(harness: Harness) -> None:
    """A torn sync of the first server is in a segment that the second one leaves out of the chain."""
    harness.append(2)
    harness.sync()
    last_of_first = harness.append_until_rotated()
    harness.disk.stop_in = 3
    with pytest.raises(Stopped):
        harness.sync()
    harness.disk.lose_power(names=99, share=PAGE_BYTES)
    harness.damage_frame(FIRST, last_of_first)
    assert harness.lsns() == [1, 2]
    harness.start()
    harness.append(kind="new")
    for _ in ("same boot", "another"):
        assert harness.lsns()[:2] == [1, 2]
        assert "create" not in harness.kinds()[2:]
        harness.disk.lose_power(share=PAGE_BYTES)


@pytest.mark.parametrize("names", [0, 1, 2, 3])
def test_a_new_segment_whose_header_or_name_was_lost(harness: Harness, names: int) -> None:
    harness.append(2)
    harness.sync()
    harness.append_until_rotated()
    harness.disk.lose_power(names=names, share=0)
    assert harness.lsns() == [1, 2]
    harness.start()
    harness.append()
    assert harness.lsns() == [1, 2, 3]


def test_a_lost_header_between_segments_that_no_sync_reached(harness: Harness) -> None:
    harness.append(2)
    harness.sync()
    harness.append_until_rotated()
    harness.append_until_rotated()
    harness.disk.lose_power(names=99, share=PAGE_BYTES)
    harness.damage(segment_name(3), 20)
    assert harness.lsns() == [1, 2]
    harness.start()
    assert harness.names("j-") == [FIRST, segment_name(5)]


def test_a_sync_frame_proves_the_segments_before_it_even_if_its_own_is_torn(harness: Harness) -> None:
    harness.sync(harness.append_until_rotated())
    harness.append_until_rotated()
    harness.sync()
    harness.append()
    harness.sync()
    harness.disk.lose_power()
    newest = harness.names("j-")[-1]
    header = decode_journal_header(bytes(harness.content(newest)[:HEADER_BLOCK_BYTES]))
    harness.damage_frame(newest, header.first_lsn)
    harness.damage(segment_name(header.previous_sequence), 20)
    with pytest.raises(CorruptJournal, match=f"operations up to {header.first_lsn} were written"):
        harness.replay()


def test_a_missing_segment_that_the_newest_sync_needs_is_corruption(harness: Harness) -> None:
    last_of_first = harness.append_until_rotated()
    harness.sync(last_of_first - 1)
    harness.disk.lose_power()
    harness.disk.remove(f"{DIRECTORY}/{FIRST}")
    with pytest.raises(CorruptJournal, match="no intact sync frame"):
        harness.replay()


def test_shards_that_are_ahead_prove_that_the_end_is_lost(harness: Harness) -> None:
    harness.append(2)
    found = harness.replay()
    found.check_against(Lsn(2))
    with pytest.raises(CorruptJournal, match=r"ends with operation 2, but a shard has applied up to 3"):
        found.check_against(Lsn(3))


def test_segments_left_behind_a_gap_of_recycled_ones_do_not_count(harness: Harness) -> None:
    last = harness.append(3 * PER_SEGMENT)
    harness.sync()
    first, second, _ = harness.names("j-")
    harness.disk.remove(f"{DIRECTORY}/{second}")
    found = harness.replay()
    assert found.first_lsn > 1
    assert harness.lsns() == list(range(found.first_lsn, last + 1))
    assert f"{DIRECTORY}/{first}" in found.stale


def test_the_directory_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        replay(RealStorage(), f"{tmp_path}/missing", VOLUME)
