"""What a killed server leaves, and the next one makes of it, in the same boot."""

import os

import pytest

from shardfs.core.interface import AttributeChanges
from shardfs.core.transaction import Transaction
from shardfs.errors import CorruptRecord, CorruptValue
from shardfs.format import keys
from shardfs.format.frames import Change
from shardfs.format.values import SoloPlace
from shardfs.ids import ROOT_INO, Ino, ShardId, ino_shard, record_shard
from shardfs.limits import MIB
from shardfs.storage.files import DiskSpace
from tests.core.small_volume import PACK_THRESHOLD_BYTES, ROOT, SmallVolume


def test_content_of_slots_survives(small: SmallVolume) -> None:
    ino, handle = small.begin(b"a", b"acknowledged")
    small.call("write", handle, 12, b" twice")
    times = small.fs.getattr(ROOT, ino).mtime_ns
    small.reopen_as_after_a_kill()
    assert small.read(b"a") == b"acknowledged twice"
    assert small.stat(b"a").mtime_ns == times  # type: ignore[union-attr]
    assert small.volume.slots.dirty_count == 0, "it was sealed"


def test_slots_of_another_boot_are_stale(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    _, handle = small.begin(b"a", b"synced")
    small.call("fsync", handle, False)
    small.call("write", handle, 0, b"UNSYNC")
    monkeypatch.setattr(small.storage, "boot_id", lambda: b"another boot id!")
    small.reopen_as_after_a_kill()
    assert small.volume.counters.get("slot.recovered") == 0
    assert small.read(b"a") == b"synced"


def test_a_solo_file_keeps_what_was_written_past_the_journal(small: SmallVolume) -> None:
    _, handle = small.begin(b"a", b"x" * (PACK_THRESHOLD_BYTES + 1))
    small.call("write", handle, PACK_THRESHOLD_BYTES + 1, b"tail")
    small.reopen_as_after_a_kill()
    assert small.read(b"a") == b"x" * (PACK_THRESHOLD_BYTES + 1) + b"tail"
    shards = small.volume.view.shards
    assert not any(small.volume.view.scan(shard.shard, keys.WRITING_TABLE, 1) for shard in shards)


def test_unlinked_open_files_are_freed(small: SmallVolume) -> None:
    ino, _ = small.begin(b"a", b"data")
    small.call("unlink", ROOT, ROOT_INO, b"a")
    assert small.volume.inodes.find(ino) is not None
    count = small.volume.inode_count
    small.reopen_as_after_a_kill()
    assert small.volume.inodes.find(ino) is None
    assert small.volume.inode_count == count - 1


def test_numbers_are_never_used_twice(small: SmallVolume) -> None:
    seen: set[Ino] = set()
    for _ in range(4):
        for number in range(5):
            name = b"%d-%d" % (len(seen), number)
            ino = small.add(name)
            assert ino not in seen
            seen.add(ino)
        small.reopen_as_after_a_kill()


def test_killed_again_and_again_without_a_clean_end(small: SmallVolume) -> None:
    for number in range(10):
        small.add(b"%d" % number, b"%d" % number * 500)
        small.reopen_as_after_a_kill()
    assert sorted(small.names(ROOT_INO)) == sorted(b"%d" % number for number in range(10))
    for number in range(10):
        assert small.read(b"%d" % number) == b"%d" % number * 500


def test_a_clean_end_leaves_nothing_to_recover(small: SmallVolume) -> None:
    small.add(b"a", b"data")
    small.begin(b"left-open", b"data")
    small.fs.shutdown()
    assert not os.path.exists(small.directory / "slots")
    small.open()
    assert small.volume.counters.get("slot.recovered") == 0
    assert small.read(b"a") == b"data"
    assert small.read(b"left-open") == b"data"


def test_a_time_set_by_hand_survives_while_a_large_file_is_open(small: SmallVolume) -> None:
    ino, handle = small.begin(b"a", b"x" * (PACK_THRESHOLD_BYTES + 1))
    small.call("setattr", ROOT, ino, AttributeChanges(mtime_ns=5), handle)
    small.reopen_as_after_a_kill()
    found = small.stat(b"a")
    assert found is not None
    assert (found.mtime_ns, found.size) == (5, PACK_THRESHOLD_BYTES + 1)


def test_slots_are_recovered_on_a_full_disk(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        small.begin(b"%d" % number, b"x" * PACK_THRESHOLD_BYTES)
    real = small.storage.space

    def nearly_full(path: str) -> DiskSpace:
        # Only what data never takes is left: the killed server's room for the slots is a part of it.
        return real(path)._replace(available=20 * MIB) if path.startswith(small.path) else real(path)

    monkeypatch.setattr(small.storage, "space", nearly_full)
    small.reopen_as_after_a_kill()
    assert all(small.read(b"%d" % number) == b"x" * PACK_THRESHOLD_BYTES for number in range(30))
    assert small.volume.slots.dirty_count == 0


def test_a_backing_file_that_is_gone_does_not_keep_a_volume_from_opening(small: SmallVolume) -> None:
    ino, _ = small.begin(b"large", b"x" * (PACK_THRESHOLD_BYTES + 1))
    small.begin(b"small", b"data")
    place = small.volume.record(small.volume.inodes.get(ino).record).place
    assert isinstance(place, SoloPlace)
    small.volume.solos.discard(place)
    small.reopen_as_after_a_kill()
    assert small.read(b"small") == b"data"
    with pytest.raises(CorruptRecord):
        small.read(b"large")
    small.call("unlink", ROOT, ROOT_INO, b"large")


def plant(small: SmallVolume, *changes: Change) -> None:
    """Journal changes that no operation makes, and kill the server."""
    tx = Transaction(small.volume, "plant")
    for change in changes:
        tx.change(change)
    tx.commit()
    small.reopen_as_after_a_kill()


def test_an_orphan_mark_without_an_inode_does_not_keep_a_volume_from_opening(small: SmallVolume) -> None:
    small.add(b"a", b"data")
    plant(small, (ShardId(1), keys.orphan_key(Ino(0x7701)), b""))
    assert small.read(b"a") == b"data"


def test_a_file_that_has_a_name_is_not_freed_for_its_orphan_mark(small: SmallVolume) -> None:
    ino = small.add(b"a", b"data")
    plant(small, (ino_shard(ino), keys.orphan_key(ino), b""))
    assert small.read(b"a") == b"data"


def test_one_damaged_file_does_not_keep_a_volume_from_opening(small: SmallVolume) -> None:
    ino, _ = small.begin(b"large", b"x" * (PACK_THRESHOLD_BYTES + 1))
    small.add(b"a", b"data")
    record = small.volume.inodes.get(ino).record
    plant(small, (record_shard(record), keys.record_key(record), None))
    assert small.read(b"a") == b"data"


def test_a_directory_with_a_damaged_inode_can_be_listed(small: SmallVolume) -> None:
    ino = small.add(b"bad")
    small.add(b"good")
    plant(small, (ino_shard(ino), keys.inode_key(ino), b"not an inode"))
    handle = small.call("opendir", ROOT_INO)
    rows = {row.name: row.is_damaged for row in small.call("readdir", handle, 2, 10)}
    assert rows == {b"bad": True, b"good": False}
    small.call("releasedir", handle)
    with pytest.raises(CorruptValue):
        small.stat(b"bad")


def test_a_damaged_inode_with_the_oldest_slot_harms_no_other_file(small: SmallVolume) -> None:
    ino, _ = small.begin(b"bad", b"data")
    other, handle = small.begin(b"good", b"data")
    tx = Transaction(small.volume, "plant")
    tx.change((ino_shard(ino), keys.inode_key(ino), b"not an inode"))
    tx.commit()
    small.volume.inodes.drop(ino)
    assert small.fs.session.content.packer._seal_oldest(other) is False
    small.call("fsyncdir", small.call("opendir", ROOT_INO), False)
    small.call("release", handle)
    assert small.read(b"good") == b"data"
    small.fs.shutdown()  # what was written to the damaged file stays in its slot
    assert os.path.exists(small.directory / "slots")


def test_a_missing_backing_file_is_an_error_of_the_file_and_not_a_missing_name(small: SmallVolume) -> None:
    ino = small.add(b"large", b"x" * (PACK_THRESHOLD_BYTES + 1))
    place = small.volume.record(small.volume.inodes.get(ino).record).place
    assert isinstance(place, SoloPlace)
    small.volume.solos.discard(place)
    with pytest.raises(CorruptRecord, match="is missing"):
        small.read(b"large")
