"""Room in segments: reserving, full disks, spreading, recycling."""

import pytest

from shardfs.errors import CorruptRecord, DeviceFailed, NoSpace
from shardfs.format.records import (
    RECORD_OVERHEAD_BYTES,
    decode_record_header,
    decode_segment_header,
    record_size_bytes,
)
from shardfs.ids import SegmentId
from shardfs.limits import KIB
from shardfs.storage.real import RealFile

from .rigs import LARGEST, SEGMENT_BYTES, USABLE, Rig, fill, header


def test_whatever_is_reserved_can_be_appended(rig: Rig) -> None:
    store = rig.open()
    rig.storage.leave(str(rig.paths[0]), 3 * SEGMENT_BYTES)
    sizes: list[int] = []
    with pytest.raises(NoSpace, match="disk0"):
        while True:
            size = (len(sizes) * 7919) % LARGEST + 1
            store.reserve(RECORD_OVERHEAD_BYTES + size)
            sizes.append(size)
            if len(rig.files()) == 4:
                rig.storage.leave(str(rig.paths[0]), 0)
    assert sum(sizes) > 3 * USABLE
    for size in sorted(sizes, reverse=True):
        store.append(header(1, b"n" * 255), bytes(size))
        store.release(RECORD_OVERHEAD_BYTES + size)
    assert len(rig.files()) == 4
    store.close()


def test_a_refused_reservation_reserves_nothing(rig: Rig) -> None:
    store = rig.open()
    rig.storage.leave(str(rig.paths[0]), 0)
    assert store.free_bytes() == USABLE
    store.reserve(USABLE - 10)
    with pytest.raises(NoSpace):
        store.reserve(11)
    store.reserve(10)
    assert store.free_bytes() == 0
    store.release(USABLE)
    assert store.free_bytes() == USABLE
    store.close()


def test_the_last_segment_of_a_disk_is_as_small_as_its_room(rig: Rig) -> None:
    rig.storage.leave(str(rig.paths[0]), 100 * KIB + 5)
    store = rig.open()
    assert rig.files() == {}, "no spare is laid in when room is short"
    store.reserve(1)
    assert list(rig.files().values()) == [100 * KIB]
    store.close()


def test_one_full_disk_is_no_obstacle(two: Rig) -> None:
    two.storage.leave(str(two.paths[0]), 0)
    store = two.open()
    store.reserve(3 * USABLE)
    places = fill(store, 18)
    assert two.files(0) == {} and len(two.files(1)) >= 3
    assert all(store.read(place) for place in places)
    two.storage.leave(str(two.paths[1]), 0)
    with pytest.raises(NoSpace, match=r"disk0.*disk1"):
        store.reserve(SEGMENT_BYTES)
    store.close()


def test_a_disk_without_a_segment_leaves_its_turn_to_the_others(two: Rig) -> None:
    two.storage.leave(str(two.paths[0]), SEGMENT_BYTES)
    two.storage.leave(str(two.paths[1]), SEGMENT_BYTES + 1)
    store = two.open()
    store.reserve(USABLE)
    for path in two.paths:
        two.storage.leave(str(path), 0)
    fill(store, 6)
    assert (len(two.files(0)), len(two.files(1))) == (0, 1)
    store.close()


def test_records_spread_over_the_disks(two: Rig) -> None:
    store = two.open()
    places = fill(store, 10, 1000)
    assert sorted(two.file(place).parent.parent.name for place in places) == ["disk0"] * 5 + ["disk1"] * 5
    store.close()


def test_an_append_that_fails_is_overwritten_by_the_next(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rig.open()
    first = store.append(header(), b"first")

    def fail(self: RealFile, data: bytes, offset: int) -> None:
        raise DeviceFailed("broken")

    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "pwrite", fail)
        with pytest.raises(DeviceFailed):
            store.append(header(), b"never")
    second = store.append(header(), b"second")
    assert second.offset == first.offset + record_size_bytes(4, 5)
    assert store.read(second) == b"second"
    store.close()


def test_a_dead_segment_is_recycled_under_a_new_number(rig: Rig) -> None:
    store = rig.open()
    places = fill(store, 21)
    store.sync()
    by_segment = sorted({place.segment for place in places})
    assert len(by_segment) == 3
    inode = rig.file(places[0]).stat().st_ino
    for place in places:
        if place.segment == by_segment[0]:
            store.drop_live(place)
    store.refill()
    names = rig.files()
    assert f"seg-{by_segment[0]:016x}" not in names
    newest = rig.paths[0] / "segments" / max(names)
    assert newest.stat().st_ino == inode
    assert decode_segment_header(newest.read_bytes()).segment == int(newest.name[4:], 16) > by_segment[-1]
    with pytest.raises(CorruptRecord):
        decode_record_header(newest.read_bytes()[4096:], SegmentId(int(newest.name[4:], 16)))
    assert all(store.read(place) for place in places if place.segment != by_segment[0])
    with pytest.raises(CorruptRecord):
        store.read(places[0])
    store.close()


def test_no_more_spares_are_kept_than_needed(rig: Rig) -> None:
    store = rig.open()
    places = fill(store, 42)
    store.sync()
    open_segment = places[-1].segment
    for place in places:
        if place.segment != open_segment:
            store.drop_live(place)
    store.refill()
    assert len(rig.files()) == 1 + 2
    assert rig.counters.get("segment.recycled") >= 1 and rig.counters.get("segment.removed") >= 3
    store.close()


def test_a_segment_is_not_recycled_while_it_is_open_unsynced_or_read(rig: Rig) -> None:
    store = rig.open()
    places = fill(store, 7)
    for place in places:
        store.drop_live(place)
    store.refill()
    assert rig.file(places[0]).exists(), "open"
    fill(store, 1)
    store._unsynced.add(store._space.segments[places[0].segment])
    store._space.reclaim()
    assert rig.file(places[0]).exists(), "unsynced"
    with store._files.pinned(store._space.segments[places[0].segment]):
        store.sync()
        store._space.reclaim()
        assert rig.file(places[0]).exists(), "read"
    store.refill()
    assert f"seg-{places[0].segment:016x}" not in rig.files()
    store.close()


def test_a_full_disk_goes_on_with_what_was_freed(rig: Rig) -> None:
    store = rig.open()
    places = fill(store, 14)
    store.sync()
    rig.storage.leave(str(rig.paths[0]), 0)
    with pytest.raises(NoSpace):
        store.reserve(2 * USABLE)
    for place in places[:7]:
        store.drop_live(place)
    store.reserve(USABLE)
    fill(store, 6)
    store.close()


def test_a_disk_that_has_gone_is_an_error_and_can_come_back(rig: Rig) -> None:
    store = rig.open()
    segments = rig.paths[0] / "segments"
    segments.rename(rig.paths[0] / "away")
    with pytest.raises(DeviceFailed, match="a hot disk has gone"):
        while True:
            store.reserve(LARGEST)
    (rig.paths[0] / "away").rename(segments)
    store.reserve(LARGEST)
