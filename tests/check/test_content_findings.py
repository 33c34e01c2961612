"""Damage to content: what fsck finds when it is planted, and what becomes of it."""

import os
from pathlib import Path

import pytest

from shardfs.check.repairs import LOST_FOUND
from shardfs.format import keys
from shardfs.format.records import header_size_bytes
from shardfs.format.values import PackedPlace, RecordEntry, SoloPlace
from shardfs.ids import NO_RECORD, DiskId, Ino, RecordId, SegmentId, ShardId, SoloId, record_shard
from tests.check.sample import CONTENT, LARGE, Sample
from tests.check.volumes import SHARDS, flip_byte

NEW_RECORD = RecordId(50_000 << 8 | 2)


def solo_path(sample: Sample) -> Path:
    """Return the backing file of the large file."""
    place = sample.record(sample.inode(sample.solo).record).place
    assert isinstance(place, SoloPlace)
    return next(Path(sample.superblock.disks[0].path).glob(f"solo/*/{place.solo:016x}"))


def test_missing_record(sample: Sample) -> None:
    sample.put_record(sample.inode(sample.packed).record, None)
    assert "/folder/packed" in sample.check().found[0].message
    sample.assert_stays("MissingRecord")


def test_a_file_with_a_missing_record_can_be_removed(sample: Sample) -> None:
    sample.put_record(sample.inode(sample.packed).record, None)
    with sample.mounted() as mounted:
        mounted.remove(sample.folder, b"packed")
    assert sample.check().found == ()


def test_missing_record_of_a_file_that_was_open_for_write(sample: Sample) -> None:
    sample.put_record(sample.inode(sample.solo).record, None)
    sample.put(ShardId(sample.solo & 0xFF), keys.writing_key(sample.solo), b"")
    report = sample.repair()
    assert [finding.kind for finding in report.left] == ["MissingRecord"]
    assert "StrayWritingMark" in {finding.kind for finding in report.repaired}


def test_unreadable_record(sample: Sample) -> None:
    record = sample.inode(sample.packed).record
    sample.damage(record_shard(record), keys.record_key(record))
    assert "/folder/packed" in sample.check().found[0].message
    sample.assert_stays("UnreadableRecord")


def test_unreferenced_record_becomes_a_file(sample: Sample) -> None:
    record = sample.inode(sample.packed).record
    sample.set_inode(sample.packed, record=NO_RECORD, size=0)
    sample.assert_repairs("UnreferencedRecord")
    with sample.mounted() as mounted:
        found = mounted.find(LOST_FOUND, b"record-%d-packed" % record)
        assert mounted.read_file(found.ino) == CONTENT and found.mode == 0o100644


def test_unreferenced_backing_file_becomes_a_file(sample: Sample) -> None:
    record = sample.inode(sample.solo).record
    sample.set_inode(sample.solo, record=NO_RECORD, size=0)
    sample.assert_repairs("UnreferencedRecord")
    with sample.mounted() as mounted:
        assert mounted.read_file(mounted.find(LOST_FOUND, b"record-%d" % record).ino) == LARGE


@pytest.mark.parametrize(
    "place",
    [
        PackedPlace(SegmentId(1), 0x8000, 10, 12345, 3),
        PackedPlace(SegmentId(99), 0x1000, 10, 12345, 3),
        SoloPlace(DiskId(0), SoloId(999)),
        SoloPlace(DiskId(7), SoloId(1)),
    ],
    ids=["garbage", "missing segment", "missing backing file", "missing disk"],
)
def test_stale_record(sample: Sample, place: PackedPlace | SoloPlace) -> None:
    sample.put_record(NEW_RECORD, RecordEntry(place, 1))
    sample.assert_repairs("StaleRecord")


def test_stale_record_without_a_readable_value(sample: Sample) -> None:
    sample.put_record(NEW_RECORD, RecordEntry(SoloPlace(DiskId(0), SoloId(999)), 1))
    sample.damage(record_shard(NEW_RECORD), keys.record_key(NEW_RECORD))
    sample.assert_repairs("StaleRecord")


def test_record_in_wrong_shard(sample: Sample) -> None:
    record = sample.inode(sample.packed).record
    home, key = record_shard(record), keys.record_key(record)
    value = sample.get(home, key)
    sample.put(home, key, None)
    sample.put(ShardId((home + 1) % SHARDS), key, value)
    sample.assert_repairs("InWrongShard")


@pytest.mark.parametrize("references", [2, 5])
def test_wrong_reference_count(sample: Sample, references: int) -> None:
    record = sample.inode(sample.packed).record
    sample.put_record(record, sample.record(record)._replace(references=references))
    sample.assert_repairs("WrongReferenceCount")
    assert sample.record(record).references == 1


def test_two_files_that_share_a_record(sample: Sample) -> None:
    lost, shared = sample.inode(sample.other).record, sample.inode(sample.packed).record
    sample.put_record(lost, None)
    sample.set_inode(sample.other, record=shared, size=len(CONTENT))
    sample.assert_repairs("WrongReferenceCount")
    assert sample.record(shared).references == 2


def move_record(sample: Sample, ino: Ino, offset: int) -> None:
    """Let a packed file's record be elsewhere in its segment."""
    record = sample.inode(ino).record
    sample.put_record(record, RecordEntry(sample.packed_place(ino)._replace(offset=offset), 1))


def test_overlapping_records(sample: Sample) -> None:
    move_record(sample, sample.other, sample.packed_place(sample.packed).offset + 64)
    message = sample.check().found[0].message
    assert "/folder/other" in message and "/folder/packed" in message
    sample.assert_stays("OverlappingRecords")


def test_overlapping_backing_files(sample: Sample) -> None:
    shared = sample.record(sample.inode(sample.solo).record)
    old = sample.inode(sample.packed).record
    sample.put_record(old, shared)
    sample.set_inode(sample.packed, size=len(LARGE))
    sample.assert_stays("OverlappingRecords")


@pytest.mark.parametrize("offset", [0, 4096 + 8, 1 << 40])
def test_record_outside_segment(sample: Sample, offset: int) -> None:
    move_record(sample, sample.packed, offset)
    sample.assert_stays("RecordOutsideSegment")


def test_segment_that_is_cut_short(sample: Sample) -> None:
    place = sample.packed_place(sample.packed)
    os.truncate(sample.segment_path(place), place.offset + 10)
    found = sample.check().found
    assert {finding.kind for finding in found} == {"RecordOutsideSegment"}
    assert any("/folder/packed" in finding.message for finding in found)
    assert set(sample.repair().left) == set(found)


def test_missing_segment(sample: Sample) -> None:
    place = sample.packed_place(sample.packed)
    sample.segment_path(place).unlink()
    sample.assert_stays(*["MissingSegment"] * 52)


def test_missing_backing_file(sample: Sample) -> None:
    solo_path(sample).unlink()
    assert "/solo" in sample.check().found[0].message
    sample.assert_stays("MissingBackingFile")


def test_missing_backing_file_of_a_file_that_was_open_for_write(sample: Sample) -> None:
    solo_path(sample).unlink()
    sample.put(ShardId(sample.solo & 0xFF), keys.writing_key(sample.solo), b"")
    report = sample.repair()
    assert [finding.kind for finding in report.left] == ["MissingBackingFile"]


def test_short_backing_file(sample: Sample) -> None:
    os.truncate(solo_path(sample), 1000)
    sample.assert_repairs("ShortBackingFile")
    with sample.mounted() as mounted:
        assert mounted.read_file(sample.solo) == LARGE[:1000]


def test_damaged_payload(sample: Sample) -> None:
    place = sample.packed_place(sample.packed)
    flip_byte(sample.segment_path(place), place.offset + header_size_bytes(place.name_bytes) + 10)
    assert sample.check().found == ()
    assert "/folder/packed" in sample.check(data=True).found[0].message
    sample.assert_stays("DamagedPayload", data=True)


def test_damaged_record_header(sample: Sample) -> None:
    place = sample.packed_place(sample.packed)
    flip_byte(sample.segment_path(place), place.offset + 20)
    assert sample.check().found == ()
    sample.assert_stays("RecordHeaderMismatch", data=True)
    with sample.mounted() as mounted:
        assert mounted.read_file(sample.packed) == CONTENT


def test_header_of_another_record(sample: Sample) -> None:
    record, other = sample.inode(sample.packed).record, RecordId(50_000 << 8)
    sample.put_record(other, sample.record(record))
    sample.put_record(record, None)
    sample.set_inode(sample.packed, record=other)
    sample.assert_stays("RecordHeaderMismatch", data=True)
