"""Values of a shard: their bytes, round trips, the seal, and what damage raises."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfs.errors import CorruptValue
from shardfs.format import values
from shardfs.format.values import Entry, Inode, InodeFlag, PackedPlace, RecordEntry, SoloPlace
from shardfs.ids import DiskId, Ino, RecordId, SegmentId, SoloId

u16, u32, u64 = (st.integers(0, (1 << bits) - 1) for bits in (16, 32, 64))
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
names = st.binary(max_size=255)

inodes = st.builds(
    Inode,
    **dict.fromkeys(("mode", "uid", "gid", "nlink", "rdev", "flags"), u32),
    **dict.fromkeys(("ino", "size", "blocks", "record", "children", "split_below_h", "parent"), u64),
    **dict.fromkeys(("atime_ns", "mtime_ns", "ctime_ns"), i64),
    name=names,
    target=st.binary(max_size=4095),
)
places = st.builds(PackedPlace, u64, u64, u64, u64, u16) | st.builds(SoloPlace, u32, u64)
records = st.builds(RecordEntry, places, st.integers(1, (1 << 32) - 1))

INODE = Inode(
    Ino(0x1100),
    mode=0o120777,
    uid=2,
    gid=3,
    nlink=4,
    rdev=5,
    size=6,
    blocks=7,
    atime_ns=-1,
    mtime_ns=8,
    ctime_ns=9,
    flags=InodeFlag.HAS_XATTR | InodeFlag.HAS_ACL,
    record=RecordId(0x0A00),
    children=11,
    split_below_h=1 << 63,
    parent=Ino(1),
    name=b"ab",
    target=b"cde",
)
INODE_HEX = (
    "ffa10000 02000000 03000000 04000000 05000000 03000000"
    "0600000000000000 0700000000000000 ffffffffffffffff 0800000000000000 0900000000000000"
    "000a000000000000 0b00000000000000 0000000000000080 0100000000000000"
    "0200 0300 6162 636465"
).replace(" ", "")
PACKED = RecordEntry(PackedPlace(SegmentId(1), 4096, 3, 0x0102030405060708, 9), 2)
SOLO = RecordEntry(SoloPlace(DiskId(1), SoloId(2)), 1)


def test_golden_bytes() -> None:
    assert values.encode_inode(INODE).hex() == INODE_HEX
    assert values.encode_entry(Entry(Ino(0x0201), 8)).hex() == "010200000000000008"
    assert values.encode_record_entry(PACKED).hex() == "010200000001000000000000000010000000000000030000000000000008070605040302010900"
    assert values.encode_record_entry(SOLO).hex() == "0201000000010000000200000000000000"
    assert values.seal_value(b"key", b"value").hex() == "76616c7565a986367d94cda23c"


def test_flags_keep_their_bits() -> None:
    assert {flag.name: int(flag) for flag in InodeFlag} == {"HAS_XATTR": 1, "HAS_ACL": 2}


@given(inodes)
def test_inode_round_trip(inode: Inode) -> None:
    assert values.decode_inode(inode.ino, values.encode_inode(inode)) == inode


@given(inodes)
def test_a_copy_is_equal_and_its_own(inode: Inode) -> None:
    copy = inode.copy()
    assert copy == inode
    for field in dataclasses.fields(Inode):
        setattr(copy, field.name, None)
        assert getattr(inode, field.name) is not None


@given(st.builds(Entry, u64, st.integers(0, 15)))
def test_entry_round_trip(entry: Entry) -> None:
    assert values.decode_entry(values.encode_entry(entry)) == entry


@given(records)
def test_record_round_trip(record: RecordEntry) -> None:
    decoded = values.decode_record_entry(values.encode_record_entry(record))
    assert decoded == record
    assert type(decoded.place) is type(record.place)


def test_a_record_has_a_reference() -> None:
    with pytest.raises(AssertionError):
        values.encode_record_entry(SOLO._replace(references=0))


@given(st.binary(max_size=272), st.binary(max_size=400))
def test_sealed_value_opens_under_its_key(key: bytes, value: bytes) -> None:
    stored = values.seal_value(key, value)
    assert len(stored) == len(value) + values.SEAL_BYTES
    assert values.open_value(key, stored) == value


@given(st.binary(min_size=9, max_size=9), st.binary(max_size=100), st.data())
def test_any_changed_bit_breaks_the_seal(key: bytes, value: bytes, data: st.DataObject) -> None:
    stored = bytearray(values.seal_value(key, value))
    bit = data.draw(st.integers(0, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptValue, match="does not match its checksum"):
        values.open_value(key, bytes(stored))


def test_a_value_of_another_key_or_cut_short_breaks_the_seal() -> None:
    stored = values.seal_value(b"I\0\0\0\0\0\0\1\0", b"value")
    with pytest.raises(CorruptValue):
        values.open_value(b"I\0\0\0\0\0\0\2\0", stored)
    for length in range(len(stored)):
        with pytest.raises(CorruptValue):
            values.open_value(b"I\0\0\0\0\0\0\1\0", stored[:length])


def test_an_inode_of_any_other_length_is_corrupt() -> None:
    value = values.encode_inode(INODE)
    for misfit in [value[:length] for length in range(len(value))] + [value + b"\0"]:
        with pytest.raises(CorruptValue, match="inode 4352"):
            values.decode_inode(INODE.ino, misfit)


def test_an_entry_of_any_other_length_is_corrupt() -> None:
    value = values.encode_entry(Entry(Ino(1), 4))
    for misfit in (b"", value[:-1], value + b"\0"):
        with pytest.raises(CorruptValue, match="directory entry"):
            values.decode_entry(misfit)


@pytest.mark.parametrize("record", [PACKED, SOLO])
def test_a_record_of_another_length_or_tag_is_corrupt(record: RecordEntry) -> None:
    value = values.encode_record_entry(record)
    other_tag = b"\1" if value[:1] == b"\2" else b"\2"
    for misfit in (b"", value[:-1], value + b"\0", other_tag + value[1:], b"\0" + value[1:]):
        with pytest.raises(CorruptValue, match="a record"):
            values.decode_record_entry(misfit)
