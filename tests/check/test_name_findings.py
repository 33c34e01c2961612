"""Damage to names: what fsck finds when it is planted, and that it is repaired."""

import stat

from shardfs.check.repairs import LOST_FOUND
from shardfs.format import keys
from shardfs.format.values import Entry, encode_entry
from shardfs.ids import ROOT_INO, Ino, ShardId, ino_shard
from tests.check.sample import CONTENT, Sample
from tests.check.volumes import SHARDS

FILE, DIRECTORY = stat.S_IFREG >> 12, stat.S_IFDIR >> 12
NOBODY = Ino(50_000 << 8)


def add_child(sample: Sample, parent: Ino, *, folders: int = 0) -> None:
    """Let a directory count one entry more."""
    inode = sample.inode(parent)
    sample.set_inode(parent, children=inode.children + 1, nlink=inode.nlink + folders)


def test_dangling_entry(sample: Sample) -> None:
    sample.put_entry(sample.folder, b"ghost", Entry(NOBODY, FILE))
    add_child(sample, sample.folder)
    assert "/folder/ghost" in sample.check().found[0].message
    sample.assert_repairs("DanglingEntry")


def test_dangling_entry_of_a_directory(sample: Sample) -> None:
    sample.put_entry(sample.folder, b"ghost", Entry(NOBODY, DIRECTORY))
    add_child(sample, sample.folder, folders=1)
    sample.assert_repairs("DanglingEntry")


def test_entry_without_directory(sample: Sample) -> None:
    key = keys.entry_key(sample.packed, keys.name_hash(sample.packed, b"x"), b"x")
    sample.put(ShardId(1), key, encode_entry(Entry(sample.other, FILE)))
    sample.set_inode(sample.other, nlink=2)
    sample.assert_repairs("EntryWithoutDirectory")
    assert sample.inode(sample.other).nlink == 1


def wrong_shard(sample: Sample, parent: Ino, name: bytes) -> tuple[ShardId, ShardId, bytes]:
    """Return the right shard of an entry, another one, and the key."""
    shard, key = sample.entry_place(parent, name)
    return shard, ShardId((shard + 1) % SHARDS), key


def test_entry_in_wrong_shard(sample: Sample) -> None:
    right, wrong, key = wrong_shard(sample, sample.folder, b"packed")
    value = sample.get(right, key)
    sample.put(right, key, None)
    sample.put(wrong, key, value)
    sample.assert_repairs("EntryInWrongShard")
    with sample.mounted() as mounted:
        assert mounted.find(b"folder", b"packed").ino == sample.packed


def test_entry_of_a_split_directory_in_its_home_shard(sample: Sample) -> None:
    assert sample.inode(sample.wide).split_below_h == keys.HASH_END
    home = keys.home_shard(sample.wide, SHARDS)
    name = next(b"%d" % number for number in range(40) if sample.entry_place(sample.wide, b"%d" % number)[0] != home)
    right, key = sample.entry_place(sample.wide, name)
    value = sample.get(right, key)
    sample.put(right, key, None)
    sample.put(home, key, value)
    sample.assert_repairs("EntryInWrongShard")


def test_entry_under_a_wrong_hash(sample: Sample) -> None:
    shard, key = sample.entry_place(sample.folder, b"packed")
    value = sample.get(shard, key)
    sample.put(shard, key, None)
    sample.put(shard, keys.entry_key(sample.folder, 12345, b"packed"), value)
    sample.assert_repairs("EntryInWrongShard")


def test_duplicate_entry(sample: Sample) -> None:
    right, wrong, key = wrong_shard(sample, sample.folder, b"packed")
    sample.put(wrong, key, sample.get(right, key))
    sample.assert_repairs("DuplicateEntry")


def test_unreadable_entry_is_given_back_to_its_file(sample: Sample) -> None:
    sample.damage(*sample.entry_place(sample.folder, b"packed"))
    assert f"inode {sample.packed} says" in sample.check().found[0].message
    sample.assert_repairs("UnreadableEntry")
    with sample.mounted() as mounted:
        assert mounted.read_file(mounted.find(b"folder", b"packed").ino) == CONTENT


def test_unreadable_entry_is_given_back_to_its_directory(sample: Sample) -> None:
    sample.damage(*sample.entry_place(sample.folder, b"inner"))
    sample.assert_repairs("UnreadableEntry")
    with sample.mounted() as mounted:
        assert mounted.find(b"folder", b"inner", b"leaf").ino == sample.leaf


def test_unreadable_entry_that_is_nobodys(sample: Sample) -> None:
    sample.damage(*sample.entry_place(sample.folder, b"second name"))
    sample.assert_repairs("UnreadableEntry", "WrongLinkCount")  # the file counts two names and has one


def test_wrong_entry_kind(sample: Sample) -> None:
    sample.put_entry(sample.folder, b"packed", Entry(sample.packed, DIRECTORY))
    sample.assert_repairs("WrongEntryKind")


def test_directory_with_two_names(sample: Sample) -> None:
    sample.put_entry(ROOT_INO, b"again", Entry(sample.inner, DIRECTORY))
    add_child(sample, ROOT_INO, folders=1)
    sample.assert_repairs("DirectoryWithTwoNames")
    with sample.mounted() as mounted:
        assert mounted.find(b"folder", b"inner").ino == sample.inner


def test_an_entry_of_the_root_directory(sample: Sample) -> None:
    sample.put_entry(sample.folder, b"top", Entry(ROOT_INO, DIRECTORY))
    add_child(sample, sample.folder, folders=1)
    sample.assert_repairs("DirectoryWithTwoNames")


def test_directory_cycle(sample: Sample) -> None:
    # `folder` is taken from the root and put below `inner`, which lies in it.
    sample.put_entry(ROOT_INO, b"folder", None)
    root = sample.inode(ROOT_INO)
    sample.set_inode(ROOT_INO, children=root.children - 1, nlink=root.nlink - 1)
    sample.put_entry(sample.inner, b"up", Entry(sample.folder, DIRECTORY))
    add_child(sample, sample.inner, folders=1)
    sample.set_inode(sample.folder, parent=sample.inner, name=b"up")
    sample.assert_repairs("DirectoryCycle")
    with sample.mounted() as mounted:
        assert mounted.find(LOST_FOUND, b"inode-%d" % sample.folder, b"inner", b"leaf").ino == sample.leaf


def test_wrong_parent(sample: Sample) -> None:
    sample.set_inode(sample.inner, parent=ROOT_INO, name=b"elsewhere")
    sample.assert_repairs("WrongParent")
    assert (sample.inode(sample.inner).parent, sample.inode(sample.inner).name) == (sample.folder, b"inner")


def test_lost_directory_is_made_again_in_its_place(sample: Sample) -> None:
    sample.put(ino_shard(sample.folder), keys.inode_key(sample.folder), None)
    sample.assert_repairs("LostDirectory")
    with sample.mounted() as mounted:
        assert mounted.find(b"folder", b"inner", b"leaf").ino == sample.leaf


def test_unreadable_directory_is_made_again_in_its_place(sample: Sample) -> None:
    sample.damage(ino_shard(sample.inner), keys.inode_key(sample.inner))
    sample.assert_repairs("LostDirectory")


def test_lost_directory_without_a_name_goes_to_lost_and_found(sample: Sample) -> None:
    sample.put(ino_shard(sample.inner), keys.inode_key(sample.inner), None)
    sample.put_entry(sample.folder, b"inner", None)
    folder = sample.inode(sample.folder)
    sample.set_inode(sample.folder, children=folder.children - 1, nlink=folder.nlink - 1)
    sample.assert_repairs("LostDirectory")
    with sample.mounted() as mounted:
        assert mounted.list(mounted.find(LOST_FOUND, b"inode-%d" % sample.inner).ino) == {b"leaf": sample.leaf}


def test_lost_directory_that_was_split(sample: Sample) -> None:
    sample.put(ino_shard(sample.wide), keys.inode_key(sample.wide), None)
    sample.assert_repairs("LostDirectory")
    with sample.mounted() as mounted:
        assert len(mounted.list(sample.wide)) == 48


def test_lost_root(sample: Sample) -> None:
    before = sample.inode(ROOT_INO)
    sample.put(ino_shard(ROOT_INO), keys.inode_key(ROOT_INO), None)
    sample.assert_repairs("LostDirectory")
    after = sample.inode(ROOT_INO)
    assert (after.children, after.nlink, after.parent) == (before.children, before.nlink, before.parent)


def test_damaged_root(sample: Sample) -> None:
    sample.damage(ino_shard(ROOT_INO), keys.inode_key(ROOT_INO))
    sample.assert_repairs("LostDirectory")
