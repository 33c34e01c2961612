"""Bytes of the data segments: segment headers and record headers. Pure functions; all integers are little-endian.

A segment is one header block of 4096 bytes and then records, each on an offset that 64 divides. The block:

    offset  size  field
    0       8     magic "sfssgmt\\0"
    8       4     version, 1
    12      4     disk
    16      16    volume id
    32      8     segment id, as in the file's name; never reused
    40      8     epoch of the server that writes it
    48      8     xxh3_64 of bytes 0-47, most significant byte first
    56            zero up to 4096

A record is its header, the payload, and zeros up to a multiple of 64. The header is padded with zeros to a multiple
of 8, so the payload begins at `header_size_bytes` of the name's length:

    offset  size  field
    0       4     magic "SREC"
    4       4     mode             of the inode when the record was written, as are owner, name and time
    8       4     uid
    12      4     gid
    16      8     record id
    24      8     inode
    32      8     LSN of the journal record that refers to it
    40      8     parent directory
    48      8     mtime_ns         signed, nanoseconds since 1970
    56      8     length of the payload
    64      8     xxh3_64 of the payload
    72      8     length of the name
    80      8     xxh3_64 of bytes 0-79 and the name, seeded with the segment id, most significant byte first
    88            name

The seed makes a stale record of a recycled file show like a damaged one. The headers are enough to check a segment
without the metadata, and to rebuild names from it.

Decoders raise `CorruptRecord` for bytes that are not what was written.
"""

from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_digest, xxh3_64_intdigest

from shardfs.errors import CorruptRecord
from shardfs.ids import DiskId, Epoch, Ino, Lsn, RecordId, SegmentId
from shardfs.limits import NAME_MAX_BYTES

SEGMENT_HEADER_BYTES = 4096
RECORD_ALIGN_BYTES = 64

_SEGMENT = Struct("<8sII16sQQ")
_SEGMENT_MAGIC = b"sfssgmt\0"
_SEGMENT_VERSION = 1
_RECORD = Struct("<4s3I4Qq3Q")
_RECORD_MAGIC = b"SREC"
_CHECKSUM_BYTES = 8
_NAME_AT = _RECORD.size + _CHECKSUM_BYTES


class SegmentHeader(NamedTuple):
    """The head of a segment file: which segment of which volume it is, and who writes it."""

    disk: DiskId
    volume_id: bytes
    segment: SegmentId
    epoch: Epoch


class RecordHeader(NamedTuple):
    """What a segment tells of one record. The last two fields describe the payload and are set when it is appended."""

    record: RecordId
    ino: Ino
    lsn: Lsn
    parent: Ino
    name: bytes
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    length_bytes: int = 0
    payload_checksum: int = 0


def encode_segment_header(header: SegmentHeader) -> bytes:
    """Return the 4096 bytes that a segment begins with."""
    disk, volume_id, segment, epoch = header
    fields = _SEGMENT.pack(_SEGMENT_MAGIC, _SEGMENT_VERSION, disk, volume_id, segment, epoch)
    return (fields + xxh3_64_digest(fields)).ljust(SEGMENT_HEADER_BYTES, b"\0")


def decode_segment_header(block: bytes) -> SegmentHeader:
    """Return the segment header in the first bytes of a segment."""
    fields, checksum = block[: _SEGMENT.size], block[_SEGMENT.size : _SEGMENT.size + _CHECKSUM_BYTES]
    if len(checksum) < _CHECKSUM_BYTES or checksum != xxh3_64_digest(fields):
        raise CorruptRecord("the header of a segment does not match its checksum; run shardfs fsck")
    magic, version, disk, volume_id, segment, epoch = _SEGMENT.unpack(fields)
    if magic != _SEGMENT_MAGIC or version != _SEGMENT_VERSION:
        raise CorruptRecord(f"a segment of version {version} where this shardfs knows {_SEGMENT_VERSION}; run a newer shardfs")
    return SegmentHeader(disk, volume_id, segment, epoch)


def header_size_bytes(name_length: int) -> int:
    """Return how far behind a record's beginning its payload is, for a name of this length."""
    return -(-(_NAME_AT + name_length) // 8) * 8


def record_size_bytes(name_length: int, payload_length: int) -> int:
    """Return what a record takes in its segment: header, payload and padding."""
    return -(-(header_size_bytes(name_length) + payload_length) // RECORD_ALIGN_BYTES) * RECORD_ALIGN_BYTES


RECORD_OVERHEAD_BYTES = header_size_bytes(NAME_MAX_BYTES) + RECORD_ALIGN_BYTES - 1
"""The most that a record can take beyond its payload: reserve this once per file, and then what the file grows by."""


def payload_checksum(payload: bytes | memoryview) -> int:
    """Return the checksum of a record's payload, as it stands in the header and in the record's place."""
    return xxh3_64_intdigest(payload)


def encode_record_header(header: RecordHeader, segment: SegmentId) -> bytes:
    """Return the padded header of a record for this segment; the payload follows it at once."""
    record, ino, lsn, parent, name, mode, uid, gid, mtime_ns, length, checksum = header
    fields = _RECORD.pack(_RECORD_MAGIC, mode, uid, gid, record, ino, lsn, parent, mtime_ns, length, checksum, len(name))
    block = fields + xxh3_64_digest(fields + name, segment) + name
    return block.ljust(header_size_bytes(len(name)), b"\0")


def decode_record_header(data: bytes, segment: SegmentId) -> RecordHeader:
    """Return the header that `data` begins with; the segment is the one that it was read from."""
    if len(data) < _NAME_AT:
        raise CorruptRecord(f"a record header of {len(data)} bytes in segment {segment:x} is cut off; run shardfs fsck")
    magic, mode, uid, gid, record, ino, lsn, parent, mtime_ns, length, checksum, name_length = _RECORD.unpack_from(data)
    name = data[_NAME_AT : _NAME_AT + name_length]
    expected = xxh3_64_digest(data[: _RECORD.size] + name, segment)
    if magic != _RECORD_MAGIC or len(name) != name_length or data[_RECORD.size : _NAME_AT] != expected:
        raise CorruptRecord(f"a record header in segment {segment:x} does not match its checksum; run shardfs fsck")
    return RecordHeader(record, ino, lsn, parent, name, mode, uid, gid, mtime_ns, length, checksum)
