"""Bytes of the slot table, the shared-memory file that holds files being written. All integers are little-endian.

The file begins with a block of 4096 bytes:

    offset  size  field
    0       8     magic "sfsslot\\0"
    8       4     version, 1
    12      4     number of slots
    16      16    volume id
    32      8     most bytes that a slot holds, a multiple of 4096
    40      8     xxh3_64 of bytes 0-39, most significant byte first
    48            zero up to 4096

Then come the headers of all slots, 128 bytes each, and from the next multiple of 4096 on their contents, `slot_bytes`
each. A slot's header is there twice; a change overwrites the older copy, so that a kill in the middle leaves the newer:

    offset  size  field
    0       8     seq              the copy at offset 64 * (seq % 2); the higher one counts
    8       4     state            0 free, 1 dirty
    12      4     zero
    16      8     inode
    24      8     size in bytes    what lies behind it in the slot is garbage
    32      8     mtime_ns         signed, nanoseconds since 1970
    40      8     ctime_ns         signed
    48      8     zero
    56      8     xxh3_64 of bytes 0-55, most significant byte first

A slot that was never used is all zeros, which is no valid header and counts as free.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_digest

from shardfs.ids import Ino, SlotId

PAGE_BYTES = 4096
HEADER_COPY_BYTES = 64
SLOT_HEADER_BYTES = 2 * HEADER_COPY_BYTES

_TABLE = Struct("<8sII16sQ")
_TABLE_MAGIC = b"sfsslot\0"
_TABLE_VERSION = 1
_SLOT = Struct("<QI4xQQqq8x")
_CHECKSUM_BYTES = 8
_UNUSED = bytes(SLOT_HEADER_BYTES)


class SlotState(IntEnum):
    """Whether a slot holds content that is nowhere else."""

    FREE = 0
    DIRTY = 1


class TableHeader(NamedTuple):
    """Whose slot table it is, and its geometry."""

    slots: int
    volume_id: bytes
    slot_bytes: int

    @property
    def headers_end(self) -> int:
        """Where the contents begin."""
        return -(-(PAGE_BYTES + self.slots * SLOT_HEADER_BYTES) // PAGE_BYTES) * PAGE_BYTES

    @property
    def file_bytes(self) -> int:
        """Size of the whole file."""
        return self.headers_end + self.slots * self.slot_bytes

    def header_offset(self, slot: SlotId) -> int:
        """Return where a slot's two header copies are."""
        return PAGE_BYTES + slot * SLOT_HEADER_BYTES

    def content_offset(self, slot: SlotId) -> int:
        """Return where a slot's content is."""
        return self.headers_end + slot * self.slot_bytes


class SlotHeader(NamedTuple):
    """One copy of a slot's header."""

    seq: int
    state: int
    ino: Ino
    size: int
    mtime_ns: int
    ctime_ns: int


def encode_table_header(header: TableHeader) -> bytes:
    """Return the bytes that a slot table begins with."""
    fields = _TABLE.pack(_TABLE_MAGIC, _TABLE_VERSION, *header)
    return fields + xxh3_64_digest(fields)


def decode_table_header(data: bytes) -> TableHeader | None:
    """Return the header that `data` begins with; None if there is no valid one of this version."""
    fields, checksum = data[: _TABLE.size], data[_TABLE.size : _TABLE.size + _CHECKSUM_BYTES]
    if len(checksum) < _CHECKSUM_BYTES or checksum != xxh3_64_digest(fields):
        return None
    magic, version, slots, volume_id, slot_bytes = _TABLE.unpack(fields)
    return TableHeader(slots, volume_id, slot_bytes) if (magic, version) == (_TABLE_MAGIC, _TABLE_VERSION) else None


def encode_slot_header(seq: int, state: int, ino: Ino, size: int, mtime_ns: int, ctime_ns: int) -> bytes:
    """Return one copy of a slot's header."""
    fields = _SLOT.pack(seq, state, ino, size, mtime_ns, ctime_ns)
    return fields + xxh3_64_digest(fields)


def decode_slot_header(copies: bytes) -> SlotHeader | None:
    """Return the newer of the valid copies in the first 128 bytes of a slot; None if neither is valid."""
    halves = copies[:HEADER_COPY_BYTES], copies[HEADER_COPY_BYTES:SLOT_HEADER_BYTES]
    found = [header for header in map(_decode_copy, halves) if header]
    return max(found, key=lambda header: header.seq) if found else None


def is_unused(copies: bytes) -> bool:
    """Say whether a slot's two header copies have never been written."""
    return copies[:SLOT_HEADER_BYTES] == _UNUSED


def _decode_copy(copy: bytes) -> SlotHeader | None:
    fields, checksum = copy[: _SLOT.size], copy[_SLOT.size :]
    return SlotHeader(*_SLOT.unpack(fields)) if checksum == xxh3_64_digest(fields) else None
