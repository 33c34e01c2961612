"""Damage to inodes and what hangs on them: what fsck finds when it is planted, and that it is repaired."""

import pytest

from shardfs.check.repairs import LOST_FOUND
from shardfs.core import acl
from shardfs.format import keys
from shardfs.format.values import Inode, InodeFlag, SoloPlace
from shardfs.ids import ROOT_INO, Ino, ShardId, ino_shard
from tests.check.sample import CONTENT, LARGE, Sample
from tests.check.volumes import SHARDS

NOBODY = Ino(50_000 << 8 | 1)
FILE_MODE, DIRECTORY_MODE = 0o100644, 0o040755


def remove_name(sample: Sample, parent: Ino, name: bytes, *, folders: int = 0) -> None:
    """Remove an entry, and let its directory know, but not its inode."""
    sample.put_entry(parent, name, None)
    inode = sample.inode(parent)
    sample.set_inode(parent, children=inode.children - 1, nlink=inode.nlink - folders)


def test_unreachable_file(sample: Sample) -> None:
    remove_name(sample, sample.folder, b"packed")
    assert "/folder/packed" in sample.check().found[0].message
    sample.assert_repairs("UnreachableInode")
    with sample.mounted() as mounted:
        assert mounted.read_file(mounted.find(LOST_FOUND, b"inode-%d" % sample.packed).ino) == CONTENT


def test_unreachable_file_that_had_two_names(sample: Sample) -> None:
    remove_name(sample, ROOT_INO, b"linked")
    remove_name(sample, sample.folder, b"second name")
    sample.assert_repairs("UnreachableInode")
    assert sample.inode(sample.linked).nlink == 1


def test_unreachable_directory_comes_back_with_all_below(sample: Sample) -> None:
    remove_name(sample, ROOT_INO, b"folder", folders=1)
    sample.assert_repairs("UnreachableInode")
    with sample.mounted() as mounted:
        assert mounted.find(LOST_FOUND, b"inode-%d" % sample.folder, b"inner", b"leaf").ino == sample.leaf


def test_lost_and_found_takes_more_than_once(sample: Sample) -> None:
    for name in (b"packed", b"other"):
        remove_name(sample, sample.folder, name)
        sample.assert_repairs("UnreachableInode")
    with sample.mounted() as mounted:
        found = mounted.list(mounted.find(LOST_FOUND).ino)
    assert set(found.values()) == {sample.packed, sample.other}


def test_lost_and_found_does_not_replace_what_has_its_names(sample: Sample) -> None:
    remove_name(sample, sample.folder, b"packed")
    with sample.mounted() as mounted:
        mounted.make_file(ROOT_INO, LOST_FOUND, b"not a directory")
    sample.assert_repairs("UnreachableInode")
    with sample.mounted() as mounted:
        assert mounted.find(LOST_FOUND + b".1", b"inode-%d" % sample.packed).ino == sample.packed
        assert mounted.read_file(mounted.find(LOST_FOUND).ino) == b"not a directory"


@pytest.mark.parametrize("links", [0, 2, 9])
def test_wrong_link_count_of_a_file(sample: Sample, links: int) -> None:
    sample.set_inode(sample.packed, nlink=links)
    sample.assert_repairs("WrongLinkCount")
    assert sample.inode(sample.packed).nlink == 1


def test_wrong_link_count_of_a_directory(sample: Sample) -> None:
    sample.set_inode(sample.folder, nlink=2)
    sample.assert_repairs("WrongLinkCount")
    assert sample.inode(sample.folder).nlink == 3


@pytest.mark.parametrize("children", [0, 100])
def test_wrong_child_count(sample: Sample, children: int) -> None:
    sample.set_inode(sample.wide, children=children)
    sample.assert_repairs("WrongChildCount")
    assert sample.inode(sample.wide).children == 48


def test_wrong_counts_of_the_root(sample: Sample) -> None:
    sample.set_inode(ROOT_INO, children=1, nlink=7)
    sample.assert_repairs("WrongChildCount", "WrongLinkCount")


def test_lost_file_is_put_together_from_its_record(sample: Sample) -> None:
    before = sample.inode(sample.packed)
    sample.put(ino_shard(sample.packed), keys.inode_key(sample.packed), None)
    sample.put(ino_shard(sample.packed), keys.xattr_key(sample.packed, b"user.kind"), None)
    assert "/folder/packed" in sample.check().found[0].message
    sample.assert_repairs("LostFile")
    after = sample.inode(sample.packed)
    assert (after.mode, after.size, after.mtime_ns, after.record) == (before.mode, before.size, before.mtime_ns, before.record)
    with sample.mounted() as mounted:
        assert mounted.read_file(mounted.find(b"folder", b"packed").ino) == CONTENT


def test_damaged_file_is_put_together_from_its_record(sample: Sample) -> None:
    sample.damage(ino_shard(sample.packed), keys.inode_key(sample.packed))
    sample.assert_repairs("LostFile")
    with sample.mounted() as mounted:
        assert mounted.call("getxattr", sample.packed, b"user.kind") == b"sample"


def test_damaged_inode_with_two_names_keeps_both(sample: Sample) -> None:
    sample.damage(ino_shard(sample.linked), keys.inode_key(sample.linked))
    sample.assert_repairs("LostFile")
    assert sample.inode(sample.linked).nlink == 2


def test_damaged_inode_that_nothing_tells_of(sample: Sample) -> None:
    sample.damage(ino_shard(sample.empty), keys.inode_key(sample.empty))
    assert "/folder/empty" in sample.check().found[0].message
    sample.assert_repairs("UnreadableInode")
    with sample.mounted() as mounted:
        assert b"empty" not in mounted.list(sample.folder)


def test_content_of_a_damaged_large_file_goes_to_lost_and_found(sample: Sample) -> None:
    record = sample.inode(sample.solo).record
    sample.damage(ino_shard(sample.solo), keys.inode_key(sample.solo))
    sample.assert_repairs("UnreadableInode", "UnreferencedRecord")
    with sample.mounted() as mounted:
        assert mounted.read_file(mounted.find(LOST_FOUND, b"record-%d" % record).ino) == LARGE


def test_inode_in_wrong_shard(sample: Sample) -> None:
    key, home = keys.inode_key(sample.packed), ino_shard(sample.packed)
    value = sample.get(home, key)
    sample.put(home, key, None)
    sample.put(ShardId((home + 1) % SHARDS), key, value)
    sample.assert_repairs("InWrongShard")


def test_inode_in_wrong_shard_beside_the_right_one(sample: Sample) -> None:
    key, home = keys.inode_key(sample.packed), ino_shard(sample.packed)
    sample.put(ShardId((home + 1) % SHARDS), key, sample.get(home, key))
    sample.assert_repairs("InWrongShard")


def test_inode_in_wrong_shard_that_is_also_wrong(sample: Sample) -> None:
    sample.set_inode(sample.packed, nlink=4)
    key, home = keys.inode_key(sample.packed), ino_shard(sample.packed)
    value = sample.get(home, key)
    sample.put(home, key, None)
    sample.put(ShardId((home + 1) % SHARDS), key, value)
    sample.assert_repairs("InWrongShard", "WrongLinkCount")
    assert sample.inode(sample.packed).nlink == 1


def test_attribute_in_wrong_shard(sample: Sample) -> None:
    key, home = keys.xattr_key(sample.packed, b"user.kind"), ino_shard(sample.packed)
    sample.put(home, key, None)
    sample.put(ShardId((home + 1) % SHARDS), key, b"sample")
    sample.assert_repairs("InWrongShard")
    assert sample.get(home, key) == b"sample"


def test_stray_xattr(sample: Sample) -> None:
    sample.put(ino_shard(NOBODY), keys.xattr_key(NOBODY, b"user.x"), b"value")
    sample.assert_repairs("StrayXattr")


def test_unreadable_xattr(sample: Sample) -> None:
    sample.damage(ino_shard(sample.packed), keys.xattr_key(sample.packed, b"user.kind"))
    sample.assert_repairs("UnreadableXattr")


def test_wrong_xattr_flag(sample: Sample) -> None:
    sample.set_inode(sample.packed, flags=0)
    sample.assert_repairs("WrongXattrFlag")
    assert sample.inode(sample.packed).flags == InodeFlag.HAS_XATTR


def test_wrong_acl_flag(sample: Sample) -> None:
    sample.put(ino_shard(sample.packed), keys.xattr_key(sample.packed, acl.ACCESS), b"any")
    sample.assert_repairs("WrongXattrFlag")
    assert sample.inode(sample.packed).flags == InodeFlag.HAS_XATTR | InodeFlag.HAS_ACL


def test_a_flag_without_attributes_is_fine(sample: Sample) -> None:
    sample.set_inode(sample.other, flags=InodeFlag.HAS_XATTR | InodeFlag.HAS_ACL)
    assert sample.check().found == ()


def test_orphan_without_inode(sample: Sample) -> None:
    sample.put(ino_shard(NOBODY), keys.orphan_key(NOBODY), b"")
    sample.assert_repairs("OrphanWithoutInode")


def test_orphan_with_links_is_not_deleted(sample: Sample) -> None:
    sample.put(ino_shard(sample.packed), keys.orphan_key(sample.packed), b"")
    sample.assert_repairs("OrphanWithLinks")
    with sample.mounted() as mounted:
        assert mounted.read_file(sample.packed) == CONTENT


def test_orphan_that_has_names_but_counts_none_is_not_deleted(sample: Sample) -> None:
    sample.put(ino_shard(sample.packed), keys.orphan_key(sample.packed), b"")
    sample.set_inode(sample.packed, nlink=0)
    sample.assert_repairs("OrphanWithLinks", "WrongLinkCount")
    with sample.mounted() as mounted:
        assert mounted.read_file(sample.packed) == CONTENT


def test_orphan_that_has_links_but_no_names_goes_to_lost_and_found(sample: Sample) -> None:
    remove_name(sample, sample.folder, b"packed")
    sample.put(ino_shard(sample.packed), keys.orphan_key(sample.packed), b"")
    sample.assert_repairs("OrphanWithLinks")
    with sample.mounted() as mounted:
        assert mounted.find(LOST_FOUND, b"inode-%d" % sample.packed).ino == sample.packed


def test_unmarked_orphan(sample: Sample) -> None:
    sample.put_inode(Inode(NOBODY, FILE_MODE, nlink=0))
    sample.assert_repairs("UnmarkedOrphan")
    assert sample.get(ino_shard(NOBODY), keys.inode_key(NOBODY)) is None


def test_unmarked_orphan_that_is_a_directory(sample: Sample) -> None:
    sample.put_inode(Inode(NOBODY, DIRECTORY_MODE, nlink=0))
    sample.assert_repairs("UnmarkedOrphan")


def test_removed_directory_with_entries_goes_to_lost_and_found(sample: Sample) -> None:
    remove_name(sample, ROOT_INO, b"folder", folders=1)
    sample.put(ino_shard(sample.folder), keys.orphan_key(sample.folder), b"")
    sample.set_inode(sample.folder, nlink=0)
    sample.assert_repairs("OrphanWithLinks", "WrongLinkCount")
    with sample.mounted() as mounted:
        assert mounted.find(LOST_FOUND, b"inode-%d" % sample.folder, b"inner", b"leaf").ino == sample.leaf


@pytest.mark.parametrize("name", ["packed", "empty", "folder"])
def test_stray_writing_mark(sample: Sample, name: str) -> None:
    ino = getattr(sample, name)
    sample.put(ino_shard(ino), keys.writing_key(ino), b"")
    sample.assert_repairs("StrayWritingMark")


def test_stray_writing_mark_without_inode(sample: Sample) -> None:
    sample.put(ino_shard(NOBODY), keys.writing_key(NOBODY), b"")
    sample.assert_repairs("StrayWritingMark")


def test_a_writing_mark_of_a_large_file_is_fine(sample: Sample) -> None:
    assert isinstance(sample.record(sample.inode(sample.solo).record).place, SoloPlace)
    sample.put(ino_shard(sample.solo), keys.writing_key(sample.solo), b"")
    sample.set_inode(sample.solo, size=10**9)  # its backing file tells
    assert sample.check().found == ()


def test_unreadable_mark(sample: Sample) -> None:
    sample.put(ino_shard(sample.solo), keys.writing_key(sample.solo), b"")
    sample.damage(ino_shard(sample.solo), keys.writing_key(sample.solo))
    sample.assert_repairs("UnreadableMark")


@pytest.mark.parametrize("size", [0, len(CONTENT) - 1, len(CONTENT) + 1])
def test_wrong_size(sample: Sample, size: int) -> None:
    sample.set_inode(sample.packed, size=size)
    sample.assert_repairs("WrongSize")
    assert sample.inode(sample.packed).size == len(CONTENT)
