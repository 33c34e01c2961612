"""Bytes of segments: their tables, round trips, sizes, and what damage raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfs.errors import CorruptRecord
from shardfs.format import records
from shardfs.format.records import RecordHeader, SegmentHeader
from shardfs.ids import DiskId, Epoch, Ino, Lsn, RecordId, SegmentId

u32, u64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
headers = st.builds(
    RecordHeader,
    **dict.fromkeys(("record", "ino", "lsn", "parent", "length_bytes", "payload_checksum"), u64),
    **dict.fromkeys(("mode", "uid", "gid"), u32),
    mtime_ns=st.integers(-(1 << 63), (1 << 63) - 1),
    name=st.binary(max_size=255),
)
HEADER = RecordHeader(RecordId(0x0102), Ino(3), Lsn(4), Ino(5), b"name", 6, 7, 8, -1, 9, 10)
SEGMENT = SegmentHeader(DiskId(1), bytes(range(16)), SegmentId(2), Epoch(3))


def test_the_layout_is_the_documented_one() -> None:
    data = records.encode_record_header(HEADER, SegmentId(1))
    assert data[:16] == b"SREC" + b"\x06\0\0\0" + b"\x07\0\0\0" + b"\x08\0\0\0"
    assert data[16:24] == b"\x02\x01" + bytes(6)
    assert data[48:56] == b"\xff" * 8
    assert data[72:80] == b"\x04" + bytes(7)
    assert data[88:] == b"name\0\0\0\0"
    block = records.encode_segment_header(SEGMENT)
    assert block[:16] == b"sfssgmt\0\x01\0\0\0\x01\0\0\0"
    assert block[16:48] == bytes(range(16)) + b"\x02" + bytes(7) + b"\x03" + bytes(7)
    assert len(block) == 4096 and not any(block[56:])


@given(headers, u64)
def test_a_record_header_comes_back(header: RecordHeader, segment: int) -> None:
    data = records.encode_record_header(header, SegmentId(segment))
    assert len(data) == records.header_size_bytes(len(header.name))
    assert records.decode_record_header(data + b"payload", SegmentId(segment)) == header


@given(st.integers(0, 255), st.integers(0, 1 << 20))
def test_sizes_are_aligned_and_bounded(name_length: int, payload_length: int) -> None:
    size = records.record_size_bytes(name_length, payload_length)
    assert size % 64 == 0 and records.header_size_bytes(name_length) % 8 == 0
    assert 0 <= size - records.header_size_bytes(name_length) - payload_length < 64
    assert size <= payload_length + records.RECORD_OVERHEAD_BYTES


@given(st.integers(0, 91), st.integers(1, 255))
def test_a_damaged_record_header_is_refused(position: int, difference: int) -> None:
    data = bytearray(records.encode_record_header(HEADER, SegmentId(1)))
    data[position] ^= difference
    with pytest.raises(CorruptRecord):
        records.decode_record_header(bytes(data), SegmentId(1))


def test_a_header_of_another_segment_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="segment 2"):
        records.decode_record_header(records.encode_record_header(HEADER, SegmentId(1)), SegmentId(2))


@pytest.mark.parametrize("length", [0, 4, 87, 88, 91])
def test_a_record_header_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(CorruptRecord):
        records.decode_record_header(records.encode_record_header(HEADER, SegmentId(1))[:length], SegmentId(1))


@given(st.integers(0, 55), st.integers(1, 255))
def test_a_segment_header_comes_back_unless_it_is_damaged(position: int, difference: int) -> None:
    data = bytearray(records.encode_segment_header(SEGMENT))
    assert records.decode_segment_header(bytes(data)) == SEGMENT
    data[position] ^= difference
    with pytest.raises(CorruptRecord):
        records.decode_segment_header(bytes(data))


def test_a_segment_header_that_is_cut_off_or_newer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptRecord):
        records.decode_segment_header(b"")
    monkeypatch.setattr(records, "_SEGMENT_VERSION", 2)
    newer = records.encode_segment_header(SEGMENT)
    monkeypatch.undo()
    with pytest.raises(CorruptRecord, match="version 2"):
        records.decode_segment_header(newer)
