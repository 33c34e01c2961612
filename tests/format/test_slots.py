"""Bytes of the slot table: their tables, round trips, which copy of a header counts."""

from hypothesis import given
from hypothesis import strategies as st

from shardfs.format import slots
from shardfs.format.slots import SlotHeader, SlotState, TableHeader
from shardfs.ids import Ino, SlotId

u64 = st.integers(0, (1 << 64) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
headers = st.builds(SlotHeader, u64, st.integers(0, 1), u64, u64, i64, i64)
TABLE = TableHeader(3, bytes(range(16)), 8192)
OLD = SlotHeader(6, SlotState.DIRTY, Ino(1), 2, 3, 4)
NEW = SlotHeader(7, SlotState.FREE, Ino(5), 6, 7, -8)


def test_the_layout_is_the_documented_one() -> None:
    data = slots.encode_table_header(TABLE)
    assert data[:16] == b"sfsslot\0\x01\0\0\0\x03\0\0\0"
    assert data[16:40] == bytes(range(16)) + b"\0\x20" + bytes(6) and len(data) == 48
    copy = slots.encode_slot_header(*NEW)
    assert copy[:24] == b"\x07" + bytes(15) + b"\x05" + bytes(7)
    assert copy[40:56] == b"\xf8" + b"\xff" * 7 + bytes(8) and len(copy) == 64


def test_the_geometry_has_no_overlap() -> None:
    assert [TABLE.header_offset(SlotId(slot)) for slot in range(3)] == [4096, 4224, 4352]
    assert [TABLE.content_offset(SlotId(slot)) for slot in range(3)] == [8192, 16384, 24576]
    assert TABLE.file_bytes == 32768
    many = TABLE._replace(slots=33)
    assert many.header_offset(SlotId(32)) + 128 <= many.headers_end == many.content_offset(SlotId(0)) == 12288


@given(st.integers(0, 47), st.integers(1, 255))
def test_a_table_header_comes_back_unless_it_is_damaged(position: int, difference: int) -> None:
    data = bytearray(slots.encode_table_header(TABLE))
    assert slots.decode_table_header(bytes(data) + b"more") == TABLE
    data[position] ^= difference
    assert slots.decode_table_header(bytes(data)) is None
    assert slots.decode_table_header(bytes(data)[:40]) is None


@given(headers)
def test_a_slot_header_comes_back_from_either_copy(header: SlotHeader) -> None:
    copy = slots.encode_slot_header(*header)
    assert slots.decode_slot_header(copy + bytes(64)) == header
    assert slots.decode_slot_header(bytes(64) + copy) == header


def test_the_newer_copy_counts() -> None:
    old, new = slots.encode_slot_header(*OLD), slots.encode_slot_header(*NEW)
    assert slots.decode_slot_header(old + new) == slots.decode_slot_header(new + old) == NEW


@given(st.integers(0, 63))
def test_a_half_written_copy_leaves_the_older_one(written: int) -> None:
    stale = slots.encode_slot_header(*OLD._replace(seq=5))
    torn = slots.encode_slot_header(*NEW)[:written] + stale[written:]
    assert slots.decode_slot_header(slots.encode_slot_header(*OLD) + torn) == OLD


def test_a_slot_that_was_never_used_has_no_header() -> None:
    assert slots.decode_slot_header(bytes(128)) is None
    assert slots.is_unused(bytes(128))
    assert not slots.is_unused(bytes(127) + b"\1")
