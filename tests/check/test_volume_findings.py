"""Damage to a volume as a whole: what fsck finds when it is planted, and what becomes of it."""

import shutil
from pathlib import Path

import lmdb
import pytest

from shardfs.core.formatting import LABEL, SUPERBLOCK, SUPERBLOCK_COPY
from shardfs.core.numbers import SEQUENCE_KEY, SEQUENCE_SHARD, encode_bound
from shardfs.errors import CorruptSuperblock, SetupError
from shardfs.format import keys
from shardfs.format.superblock import decode_superblock, encode_superblock
from shardfs.format.values import Inode, encode_inode, seal_value
from shardfs.ids import Ino, ShardId, ino_shard
from tests.check.sample import CONTENT, Sample
from tests.check.volumes import flip_byte


@pytest.mark.parametrize("name", [SUPERBLOCK, SUPERBLOCK_COPY])
def test_damaged_superblock(sample: Sample, name: str) -> None:
    flip_byte(Path(sample.path, name), 40)
    sample.assert_repairs("DamagedSuperblock")


@pytest.mark.parametrize("name", [SUPERBLOCK, SUPERBLOCK_COPY])
def test_missing_superblock(sample: Sample, name: str) -> None:
    Path(sample.path, name).unlink()
    sample.assert_repairs("DamagedSuperblock")


def test_superblock_that_differs_from_its_copy(sample: Sample) -> None:
    copy = Path(sample.path, SUPERBLOCK_COPY)
    other = decode_superblock(copy.read_bytes(), str(copy))
    object.__setattr__(other, "split_entries", 7)
    copy.write_bytes(encode_superblock(other))
    sample.assert_repairs("DamagedSuperblock")


def test_two_damaged_superblocks_cannot_be_checked(sample: Sample) -> None:
    for name in (SUPERBLOCK, SUPERBLOCK_COPY):
        flip_byte(Path(sample.path, name), 40)
    with pytest.raises(CorruptSuperblock, match="and its copy are damaged"):
        sample.check()


def test_something_that_is_no_volume(sample: Sample, memory_path: Path) -> None:
    sample.path = str(memory_path)
    with pytest.raises(SetupError, match="is not a volume"):
        sample.check()


def test_damaged_label(sample: Sample) -> None:
    flip_byte(Path(sample.superblock.disks[0].path, LABEL), 30)
    sample.assert_repairs("DamagedLabel")


def test_missing_disk_cannot_be_checked(sample: Sample) -> None:
    disk = Path(sample.superblock.disks[0].path)
    disk.rename(disk.with_name("elsewhere"))
    with pytest.raises(SetupError, match="mount that disk first"):
        sample.repair()


@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_damaged_shard(sample: Sample, damage: str) -> None:
    data = Path(sample.shard_path(ShardId(2)), "data.mdb")
    if damage == "missing":
        data.unlink()
    else:
        data.write_bytes(b"" if damage == "empty" else data.read_bytes()[:5000])
    sample.assert_stays("DamagedShard")


def test_damaged_page_of_a_shard(sample: Sample) -> None:
    data = Path(sample.shard_path(ShardId(2)), "data.mdb")
    with lmdb.open(sample.shard_path(ShardId(2)), readonly=True) as environment:
        page = environment.stat()["psize"]
    content = bytearray(data.read_bytes())
    for at in range(2 * page, len(content), page):
        content[at : at + 16] = bytes(16)
    data.write_bytes(content)
    sample.assert_stays("DamagedShard", data=True)
    assert data.read_bytes() == content


def test_damaged_journal(sample: Sample) -> None:
    for segment in Path(sample.superblock.journal_dir).glob("j-*"):
        segment.write_bytes(bytes(segment.stat().st_size))
    sample.assert_stays("DamagedJournal")


def test_journal_of_an_earlier_day(sample: Sample, memory_path: Path) -> None:
    journal = Path(sample.superblock.journal_dir)
    shutil.copytree(journal, memory_path / "old")
    with sample.mounted() as mounted:
        mounted.make_file(sample.folder, b"new", CONTENT)
    shutil.rmtree(journal)
    shutil.copytree(memory_path / "old", journal)
    sample.assert_stays("DamagedJournal")


def test_wrong_shard_counts(sample: Sample) -> None:
    key = keys.xattr_key(sample.packed, b"user.more")
    sample.put_raw(ino_shard(sample.packed), key, seal_value(key, b"value"))
    sample.assert_repairs("WrongShardCounts")


def test_lost_keys_show_in_the_counts(sample: Sample) -> None:
    sample.put_raw(ino_shard(sample.empty), keys.inode_key(sample.empty), None)
    sample.assert_repairs("DanglingEntry", "WrongShardCounts")


@pytest.mark.parametrize("bound", [0, 3])
def test_wrong_sequence_bound(sample: Sample, bound: int) -> None:
    sample.put(SEQUENCE_SHARD, SEQUENCE_KEY, encode_bound(bound))
    before = sample.check().inodes
    sample.assert_repairs("WrongSequenceBound")
    with sample.mounted() as mounted:
        mounted.make_file(sample.folder, b"new")
    assert sample.check().found == () and sample.check().inodes == before + 1


@pytest.mark.parametrize("value", [None, b"", b"short"])
def test_lost_sequence_bound(sample: Sample, value: bytes | None) -> None:
    sample.put(SEQUENCE_SHARD, SEQUENCE_KEY, value)
    sample.assert_repairs("WrongSequenceBound")


def test_damaged_sequence_bound(sample: Sample) -> None:
    sample.damage(SEQUENCE_SHARD, SEQUENCE_KEY)
    sample.assert_repairs("WrongSequenceBound")


def test_number_above_the_bound(sample: Sample) -> None:
    far = Ino(1 << 40 | 1)
    sample.put(ino_shard(far), keys.inode_key(far), encode_inode(Inode(far, 0o100644, nlink=1)))
    sample.assert_repairs("UnreachableInode", "WrongSequenceBound")


STRAY_KEYS = [b"Z", b"Inode", b"E" + bytes(16), b"Mnobody", b"O1", b"Wxyz", b"X" + bytes(8), b"R", keys.inode_key(Ino(77 << 8 | 200))]


@pytest.mark.parametrize("key", STRAY_KEYS)
def test_stray_key(sample: Sample, key: bytes) -> None:
    sample.put(ShardId(1), key, b"value")
    sample.assert_repairs("StrayKey")


def test_damaged_segment_header(sample: Sample) -> None:
    flip_byte(sample.segment_path(sample.packed_place(sample.packed)), 20)
    sample.assert_repairs("DamagedSegmentHeader")


@pytest.mark.parametrize("name", ["segments/notes.txt", "solo/notes", "solo/00/notes", "solo/01/0000000000000001"])
def test_unknown_file(sample: Sample, name: str) -> None:
    path = Path(sample.superblock.disks[0].path, name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"somebody's")
    report = sample.repair()
    assert [finding.kind for finding in report.found] == ["UnknownFile"] and not report.has_errors_left
    assert not report.has_repaired_errors and path.read_bytes() == b"somebody's"


@pytest.mark.parametrize("name", ["segments/seg-00000000000000ff", "solo/00/00000000000000ff"])
def test_file_that_nothing_refers_to(sample: Sample, name: str) -> None:
    path = Path(sample.superblock.disks[0].path, name)
    path.write_bytes(b"once used")
    report = sample.repair()
    assert [finding.kind for finding in report.found] == ["UnknownFile"] and report.left == ()
    assert not path.exists() and sample.check().found == ()
