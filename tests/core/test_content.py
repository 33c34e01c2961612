"""Where content lies: slots, records, backing files, and the ways between them."""

import os
from pathlib import Path

import pytest

from shardfs.errors import CorruptRecord, NoSpace
from shardfs.format.values import PackedPlace, SoloPlace
from shardfs.ids import NO_RECORD, ROOT_INO, Ino
from shardfs.limits import SOLO_AFTER_SYNCS
from tests.core.small_volume import PACK_THRESHOLD_BYTES, ROOT, SmallVolume


def place_of(small: SmallVolume, ino: Ino) -> PackedPlace | SoloPlace | None:
    record = small.volume.inodes.get(ino).record
    return None if record == NO_RECORD else small.volume.record(record).place


def test_a_small_file_is_packed_when_it_is_closed(small: SmallVolume) -> None:
    ino, handle = small.begin(b"a", b"x" * 5000)
    assert place_of(small, ino) is None
    assert small.volume.slots.dirty_count == 1
    small.call("release", handle)
    assert isinstance(place_of(small, ino), PackedPlace)
    assert small.volume.slots.dirty_count == 0
    assert small.read(b"a") == b"x" * 5000


def test_many_small_files_share_segments(small: SmallVolume) -> None:
    for number in range(100):
        small.add(b"%d" % number, b"x" * 1000)
    assert small.volume.counters.get("segment.appends") == 100
    assert small.volume.counters.get("segment.allocated") <= 3


def test_a_file_that_grows_beyond_the_threshold_turns_solo(small: SmallVolume) -> None:
    ino, handle = small.begin(b"a", b"x" * PACK_THRESHOLD_BYTES)
    assert small.volume.slots.dirty_count == 1
    small.call("write", handle, PACK_THRESHOLD_BYTES, b"y")
    assert isinstance(place_of(small, ino), SoloPlace)
    assert small.volume.slots.dirty_count == 0
    small.call("release", handle)
    assert small.read(b"a") == b"x" * PACK_THRESHOLD_BYTES + b"y"


def test_a_sparse_file_takes_no_room(small: SmallVolume) -> None:
    ino, handle = small.begin(b"a")
    small.call("write", handle, 5 << 30, b"end")
    small.call("release", handle)
    attributes = small.fs.getattr(ROOT, ino)
    assert attributes.size == (5 << 30) + 3
    assert attributes.blocks <= 64
    handle = small.call("open", ROOT, ino, os.O_RDONLY)
    assert small.call("read", handle, (5 << 30) - 2, 100) == b"\0\0end"
    small.call("release", handle)


def test_a_file_that_is_synced_again_and_again_turns_solo(small: SmallVolume) -> None:
    ino, handle = small.begin(b"log", b"line\n")
    kinds = []
    for number in range(SOLO_AFTER_SYNCS + 1):
        small.call("write", handle, 5 + 5 * number, b"line\n")
        small.call("fsync", handle, False)
        kinds.append(type(place_of(small, ino)))
    assert kinds == [PackedPlace] * (SOLO_AFTER_SYNCS - 1) + [SoloPlace] * 2
    small.call("release", handle)
    assert small.read(b"log") == b"line\n" * (SOLO_AFTER_SYNCS + 2)


def test_more_open_files_than_slots(tmp_path: Path) -> None:
    small = SmallVolume(tmp_path, slot_budget_bytes=8 * PACK_THRESHOLD_BYTES)
    handles = [small.begin(b"%d" % number, b"%d" % number * 3000)[1] for number in range(100)]
    assert small.volume.slots.dirty_bytes <= 9 * PACK_THRESHOLD_BYTES
    assert small.volume.counters.get("slot.pressure") > 0
    for number, handle in enumerate(handles):
        small.call("write", handle, 0, b"!")
        small.call("release", handle)
        assert small.read(b"%d" % number) == b"!" + (b"%d" % number * 3000)[1:]
    small.close()


def test_overwriting_makes_a_new_record_and_frees_the_old_one(small: SmallVolume) -> None:
    ino = small.add(b"a", b"old" * 100)
    first = place_of(small, ino)
    handle = small.call("open", ROOT, ino, os.O_RDWR)
    small.call("write", handle, 0, b"NEW")
    small.call("release", handle)
    assert place_of(small, ino) != first
    assert small.read(b"a") == b"NEW" + b"old" * 99


def test_truncating_to_nothing_gives_the_record_up(small: SmallVolume) -> None:
    for content in (b"x" * 100, b"x" * (PACK_THRESHOLD_BYTES + 1)):
        ino = small.add(b"a", content)
        handle = small.call("open", ROOT, ino, os.O_RDWR | os.O_TRUNC)
        assert place_of(small, ino) is None
        assert small.fs.getattr(ROOT, ino).size == 0
        small.call("write", handle, 0, b"new")
        small.call("release", handle)
        assert small.read(b"a") == b"new"
        small.call("unlink", ROOT, ROOT_INO, b"a")


def test_a_damaged_record_gives_an_error_and_never_its_bytes(small: SmallVolume) -> None:
    ino = small.add(b"a", b"precious" * 100)
    place = place_of(small, ino)
    assert isinstance(place, PackedPlace)
    segments = os.path.join(small.path, "hot", "segments")
    (name,) = [name for name in os.listdir(segments) if name.startswith("seg-") and int(name[4:], 16) == place.segment]
    with open(os.path.join(segments, name), "r+b") as file:
        file.seek(place.offset + 300)
        file.write(b"!")
    with pytest.raises(CorruptRecord):
        small.read(b"a")
    small.call("unlink", ROOT, ROOT_INO, b"a")
    assert small.stat(b"a") is None


def test_no_space_comes_at_write_and_leaves_the_file_as_it_was(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    ino, handle = small.begin(b"a", b"old")

    def full(_size_bytes: int) -> None:
        raise NoSpace("no disk has room")

    monkeypatch.setattr(small.volume.segments, "reserve", full)
    with pytest.raises(NoSpace):
        small.call("write", handle, 3, b"x" * 10_000)
    assert small.fs.getattr(ROOT, ino).size == 3
    monkeypatch.undo()
    small.call("write", handle, 3, b"new")
    small.call("release", handle)
    assert small.read(b"a") == b"oldnew"


def test_a_full_disk_refuses_growth_and_allows_removal(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    small.add(b"a", b"data")
    real = small.storage.space
    monkeypatch.setattr(small.storage, "space", lambda path: real(path)._replace(available=0))
    small.fs.session.space._checked_s = float("-inf")
    with pytest.raises(NoSpace, match="disk is full"):
        small.begin(b"b")
    small.call("unlink", ROOT, ROOT_INO, b"a")
    monkeypatch.undo()
    small.fs.session.space._checked_s = float("-inf")
    small.add(b"b", b"data")
