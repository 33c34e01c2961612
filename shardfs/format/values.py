"""The values of a metadata shard: inodes, directory entries, records, and the seal that every stored value ends in.

All numbers are little-endian. An inode (`_INODE`, then the bytes of `name`, then those of `target`):

    offset  size  field
    0       4     mode              file type and permissions, as in st_mode
    4       4     uid
    8       4     gid
    12      4     nlink
    16      4     rdev              of a device node
    20      4     flags             `InodeFlag`
    24      8     size              bytes
    32      8     blocks            of 512 bytes that a regular file's content takes on its disk
    40      8     atime_ns          signed, nanoseconds since 1970
    48      8     mtime_ns          signed
    56      8     ctime_ns          signed
    64      8     record            0: no content
    72      8     children          entries of a directory
    80      8     split_below_h     entries with a smaller h live in their split shard: 0 none, 1 << 63 all
    88      8     parent            authoritative for a directory, a hint for anything else
    96      2     length of name    the name in `parent`, as authoritative as that
    98      2     length of target  of a symlink
    100

A directory entry: ``ino u64, kind u8`` (9 bytes). A record begins with ``tag u8, references u32``:

    tag 1, packed  segment u64, offset u64, length_bytes u64, checksum u64, name_bytes u16   (39 bytes)
    tag 2, solo    disk u32, solo u64                                                        (17 bytes)

As stored, every value is followed by 8 bytes: xxh3_64 of the key and the value, most significant byte first, so that
a value which LMDB returns for the wrong key shows like a damaged one.

Decoders raise `CorruptValue` for bytes that don't have the layout.
"""

from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_digest

from shardfs.errors import CorruptValue
from shardfs.ids import NO_RECORD, DiskId, Ino, RecordId, SegmentId, SoloId

SEAL_BYTES = 8

_INODE = Struct("<6I2Q3q4Q2H")
_ENTRY = Struct("<QB")
_PACKED = Struct("<cI4QH")
_SOLO = Struct("<cIIQ")
_PACKED_TAG = b"\x01"
_SOLO_TAG = b"\x02"
_NO_PARENT = Ino(0)


class InodeFlag(IntEnum):
    """Bits of `Inode.flags`: plain integers to combine and test with ``|`` and ``&`` (an `IntFlag` costs 10 x more)."""

    HAS_XATTR = 1
    """There are keys in the X table for this inode."""
    HAS_ACL = 2
    """One of them is a POSIX ACL."""


@dataclass(slots=True)
class Inode:
    """What a shard knows of one file, directory or other node; the module's head says what each field holds.

    The fields after `ino` stand in the order in which they are packed.
    """

    ino: Ino
    mode: int
    uid: int = 0
    gid: int = 0
    nlink: int = 1
    rdev: int = 0
    flags: int = 0
    size: int = 0
    blocks: int = 0
    atime_ns: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    record: RecordId = NO_RECORD
    children: int = 0
    split_below_h: int = 0
    parent: Ino = _NO_PARENT
    name: bytes = b""
    target: bytes = b""

    def copy(self) -> "Inode":
        """Return an inode of its own with the same values."""
        return Inode(*_all_fields(self))


_all_fields = attrgetter(*Inode.__slots__)
_numbers = attrgetter(*Inode.__slots__[1:-2])


class Entry(NamedTuple):
    """What a directory entry points to; `kind` is ``mode >> 12``, readdir's d_type."""

    ino: Ino
    kind: int


class PackedPlace(NamedTuple):
    """A record in a segment: the offset of its header, and the payload's length and xxh3_64.

    `name_bytes` is the length of the name in the header, which tells where the payload begins.
    """

    segment: SegmentId
    offset: int
    length_bytes: int
    checksum: int
    name_bytes: int


class SoloPlace(NamedTuple):
    """A backing file of its own on one of the hot disks."""

    disk: DiskId
    solo: SoloId


Place = PackedPlace | SoloPlace


class RecordEntry(NamedTuple):
    """Where a record is, and how many inodes point to it (at least 1)."""

    place: Place
    references: int


def encode_inode(inode: Inode) -> bytes:
    """Return the value of an inode; its number is in the key."""
    name, target = inode.name, inode.target
    return _INODE.pack(*_numbers(inode), len(name), len(target)) + name + target


def decode_inode(ino: Ino, value: bytes) -> Inode:
    """Return the inode with this number and value."""
    if len(value) < _INODE.size:
        raise _misfit(f"inode {ino}", value)
    fields = list(_INODE.unpack_from(value))
    name_end = _INODE.size + fields[-2]
    if len(value) != name_end + fields[-1]:
        raise _misfit(f"inode {ino}", value)
    fields[-2:] = value[_INODE.size : name_end], value[name_end:]
    return Inode(ino, *fields)


def encode_entry(entry: Entry) -> bytes:
    """Return the value of a directory entry."""
    return _ENTRY.pack(*entry)


def decode_entry(value: bytes) -> Entry:
    """Return the directory entry with this value."""
    if len(value) != _ENTRY.size:
        raise _misfit("a directory entry", value)
    return Entry._make(_ENTRY.unpack(value))


def encode_record_entry(entry: RecordEntry) -> bytes:
    """Return the value of a record: its place and reference count."""
    place, references = entry
    assert references >= 1
    if isinstance(place, PackedPlace):
        return _PACKED.pack(_PACKED_TAG, references, *place)
    return _SOLO.pack(_SOLO_TAG, references, *place)


def decode_record_entry(value: bytes) -> RecordEntry:
    """Return the place and reference count in the value of a record."""
    size, tag = len(value), value[:1]
    if size == _PACKED.size and tag == _PACKED_TAG:
        _, references, *place = _PACKED.unpack(value)
        return RecordEntry(PackedPlace._make(place), references)
    if size == _SOLO.size and tag == _SOLO_TAG:
        _, references, *place = _SOLO.unpack(value)
        return RecordEntry(SoloPlace._make(place), references)
    raise _misfit("a record", value)


def seal_value(key: bytes, value: bytes) -> bytes:
    """Return the value as it is stored under this key: with the checksum of both."""
    return value + xxh3_64_digest(key + value)


def open_value(key: bytes, stored: bytes) -> bytes:
    """Return the value that was sealed under this key; raises `CorruptValue` if the bytes are not those."""
    value = stored[:-SEAL_BYTES]
    if stored[-SEAL_BYTES:] != xxh3_64_digest(key + value):
        raise CorruptValue(f"the value stored under {key!r} does not match its checksum; run shardfs fsck")
    return value


def _misfit(what: str, value: bytes) -> CorruptValue:
    return CorruptValue(f"the {len(value)} bytes stored for {what} don't have its layout; run shardfs fsck")
