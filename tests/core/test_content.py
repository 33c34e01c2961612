"""Where content lies: slots, records, backing files, and the ways between them."""

import os
from pathlib import Path

import pytest

from shardfs.core.interface import AttributeChanges
from shardfs.errors import CorruptRecord, InvalidArgument, NoSpace
from shardfs.format import keys
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

    def full(_size_bytes: int, *, from_kept: bool) -> None:
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


def test_what_a_failed_write_left_behind_the_end_never_shows(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    size = PACK_THRESHOLD_BYTES + 1
    ino, handle = small.begin(b"a", b"x" * size)
    solo = small.fs.session.content.solos.find(ino)
    assert solo is not None
    file = solo.file

    def fill_the_disk(data: bytes, offset: int) -> None:
        file._file.pwrite(data[:50], offset)  # type: ignore[attr-defined]
        raise NoSpace("the disk is full")

    monkeypatch.setattr(file, "pwrite", fill_the_disk, raising=False)
    with pytest.raises(NoSpace):
        small.call("write", handle, size, b"!" * 100)
    monkeypatch.undo()
    assert small.fs.getattr(ROOT, ino).size == size
    small.call("setattr", ROOT, ino, AttributeChanges(size=size + 100), handle)
    assert small.call("read", handle, size, 100) == bytes(100)
    small.call("release", handle)


def test_slots_that_tmpfs_refuses_leave_nothing_reserved(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise NoSpace("tmpfs is full")

    free_bytes = small.volume.segments.free_bytes()
    _, handle = small.begin(b"a")
    monkeypatch.setattr(small.volume.slots, "take", full)
    with pytest.raises(NoSpace):
        small.call("write", handle, 0, b"x")
    monkeypatch.undo()
    assert small.volume.segments.free_bytes() == free_bytes
    small.call("release", handle)


def test_a_file_that_cannot_turn_solo_is_synced_as_it_is(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise NoSpace("no disk has room")

    monkeypatch.setattr(small.volume.solos, "take", full)
    ino, handle = small.begin(b"log")
    for number in range(2 * SOLO_AFTER_SYNCS):
        small.call("write", handle, number, b"l")
        small.call("fsync", handle, False)
        assert isinstance(place_of(small, ino), PackedPlace)
    small.call("release", handle)


def test_an_inode_may_have_thousands_of_attributes(small: SmallVolume) -> None:
    ino = small.add(b"a")
    names = [b"user.%d" % number for number in range(1100)]
    for name in names:
        small.call("setxattr", ROOT, ino, name, b"value", 0)
    assert sorted(small.fs.listxattr(ROOT, ino)) == sorted(names)
    small.call("unlink", ROOT, ROOT_INO, b"a")
    small.fs.forget([(ino, 1)])
    assert not any(small.volume.view.scan(shard.shard, keys.XATTR_TABLE, 1) for shard in small.volume.view.shards)


def test_an_unlinked_large_file_keeps_its_size_when_it_is_closed(small: SmallVolume) -> None:
    ino, handle = small.begin(b"a")
    small.call("unlink", ROOT, ROOT_INO, b"a")
    small.call("write", handle, 0, b"x" * (PACK_THRESHOLD_BYTES + 1))
    small.call("release", handle)
    assert small.fs.getattr(ROOT, ino).size == PACK_THRESHOLD_BYTES + 1


def test_a_class_of_attributes_is_no_name(small: SmallVolume) -> None:
    ino = small.add(b"a")
    with pytest.raises(InvalidArgument):
        small.call("setxattr", ROOT, ino, b"user.", b"value", 0)


def test_writing_nothing_changes_nothing(small: SmallVolume) -> None:
    for size in (10, PACK_THRESHOLD_BYTES + 1):
        ino, handle = small.begin(b"%d" % size, b"x" * size)
        assert small.call("write", handle, 1 << 30, b"") == 0
        small.call("release", handle)
        assert small.fs.getattr(ROOT, ino).size == size
