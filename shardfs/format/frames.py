"""Bytes of the journal: segment headers and frames. Pure functions; all integers are little-endian.

A journal segment is one header block of 4096 bytes and then frames, each on an offset that 8 divides. The header:

    offset  size  field
         0     8  magic "sfsjrnl\\0"
         8     4  version, 1
        12     4  zero
        16    16  volume id
        32     8  sequence of this segment; one higher than any before it, never reused
        40     8  epoch of the server that writes it
        48     8  LSN that its first operation has; operations of earlier segments with this LSN or above do not count
        56     8  sequence of the segment before it in the chain; 0 where nothing before it counts
        64    16  id of the boot in which it was begun
        80     8  salt, random
        88     8  xxh3-64 of bytes 0-87
        96        zero up to 4096

A frame is 32 bytes and its payload, padded with zeros to a multiple of 8:

    offset  size  field
         0     8  xxh3-64 of everything behind it, padding included, seeded with the segment header's checksum
         8     4  length of the payload
        12     1  kind: 1 operation, 2 sync
        13     3  zero
        16     8  epoch
        24     8  LSN; in a sync frame the LSN through which it makes the chain durable
        32        payload

Operations in a segment have LSNs without a gap. The seed ties a frame to its segment header: a stale frame of a
recycled file never validates, and nobody who does not know the salt can have a valid frame written as part of a
payload.

The payload of an operation is a msgpack array [request, kind, [[shard, key, value or nil], ...]]. The payload of a
sync frame is the LSN (8 bytes) through which the chain was durable before the frame was written: a power loss in the
middle of a sync may leave the sync frame on the disk without some of the frames before it, and this tells such a torn
sync from damage.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

import msgpack
import xxhash

from shardfs.errors import CorruptJournal
from shardfs.ids import Epoch, Lsn, RequestId, ShardId

JOURNAL_VERSION: Final = 1
HEADER_BLOCK_BYTES: Final = 4096
FRAME_HEADER_BYTES: Final = 32
SYNC_FRAME_BYTES: Final = FRAME_HEADER_BYTES + 8

_MAGIC: Final = b"sfsjrnl\0"
_HEADER: Final = struct.Struct("<8sI4x16sQQQQ16sQ")
_U64: Final = struct.Struct("<Q")
_FRAME: Final = struct.Struct("<QIB3xQQ")
_FRAME_REST: Final = struct.Struct("<IB3xQQ")
_SYNC_START: Final = struct.Struct("<IB3xQ")
_PADDING: Final = tuple(bytes(-length % 8) for length in range(8))
_PACKER: Final = msgpack.Packer()
"""One for all: packing never lets go of the interpreter lock, and a packer made anew for each call takes longer."""

Change = tuple[ShardId, bytes, bytes | None]
"""One put (key and value, unsealed) or delete (value None) in one shard."""


class FrameKind(IntEnum):
    """What a frame's payload is."""

    OPERATION = 1
    SYNC = 2


class Operation(NamedTuple):
    """One metadata operation: who asked, what it is called, and what it changes, in order."""

    request: RequestId
    kind: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class JournalHeader:
    """The head of a journal segment; see the table at the head of this module."""

    volume_id: bytes
    sequence: int
    epoch: Epoch
    first_lsn: Lsn
    previous_sequence: int
    boot_id: bytes
    salt: int

    def pack(self) -> bytes:
        """Return the fields before the checksum."""
        return _HEADER.pack(
            _MAGIC,
            JOURNAL_VERSION,
            self.volume_id,
            self.sequence,
            self.epoch,
            self.first_lsn,
            self.previous_sequence,
            self.boot_id,
            self.salt,
        )

    @cached_property
    def seed(self) -> int:
        """The header's checksum, with which the checksums of its frames are seeded."""
        return xxhash.xxh3_64_intdigest(self.pack())


class Frame(NamedTuple):
    """An intact frame, its payload still encoded; `offset` is where it begins."""

    offset: int
    kind: FrameKind
    lsn: Lsn
    payload: bytes


class SyncMark(NamedTuple):
    """A sync frame: it makes the chain durable through `through`; before it, `durable` was reached."""

    through: Lsn
    durable: Lsn


def encode_journal_header(header: JournalHeader) -> bytes:
    """Return the header block of a segment."""
    return (header.pack() + _U64.pack(header.seed)).ljust(HEADER_BLOCK_BYTES, b"\0")


def decode_journal_header(block: bytes) -> JournalHeader:
    """Return what a header block says; raise CorruptJournal if it is none or damaged."""
    size = _HEADER.size
    if len(block) < HEADER_BLOCK_BYTES or not block.startswith(_MAGIC):
        raise CorruptJournal("this is not a journal segment")
    if xxhash.xxh3_64_intdigest(block[:size]) != _U64.unpack_from(block, size)[0]:
        raise CorruptJournal("the header of the journal segment does not match its checksum")
    _, version, volume_id, sequence, epoch, first_lsn, previous, boot_id, salt = _HEADER.unpack_from(block)
    if version != JOURNAL_VERSION:
        raise CorruptJournal(f"the journal segment is of version {version}, this shardfs knows {JOURNAL_VERSION}")
    return JournalHeader(volume_id, sequence, Epoch(epoch), Lsn(first_lsn), previous, boot_id, salt)


def encode_operation(request: RequestId, kind: str, changes: Sequence[Change]) -> bytes:
    """Return the payload of an operation's frame."""
    packed: bytes = _PACKER.pack((request, kind, changes))
    return packed


def decode_operation(payload: bytes) -> Operation:
    """Return the operation of a payload; raise CorruptJournal if it is none."""
    try:
        request, kind, changes = msgpack.unpackb(payload, use_list=False)
        return Operation(request, kind, changes)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise CorruptJournal(f"an intact journal frame holds no operation: {error}") from error


def frame_size_bytes(payload_bytes: int) -> int:
    """Return what a frame with a payload of this length takes."""
    return FRAME_HEADER_BYTES + payload_bytes + -payload_bytes % 8


def encode_frame(header: JournalHeader, kind: FrameKind, lsn: Lsn, payload: bytes) -> bytes:
    """Return the frame that holds this payload in the segment of this header."""
    length = len(payload)
    rest = _FRAME_REST.pack(length, kind, header.epoch, lsn) + payload + _PADDING[length & 7]
    return _U64.pack(xxhash.xxh3_64_intdigest(rest, header.seed)) + rest


def encode_sync(header: JournalHeader, mark: SyncMark) -> bytes:
    """Return a sync frame, SYNC_FRAME_BYTES long."""
    return encode_frame(header, FrameKind.SYNC, mark.through, _U64.pack(mark.durable))


def decode_sync(frame: Frame) -> SyncMark:
    """Return what a sync frame says."""
    assert frame.kind is FrameKind.SYNC
    return SyncMark(frame.lsn, Lsn(_U64.unpack(frame.payload)[0]))


def decode_frame(segment: bytes, header: JournalHeader, offset: int) -> Frame | None:
    """Return the frame at this offset of a whole segment; None if there is no intact frame of this header."""
    if offset + FRAME_HEADER_BYTES > len(segment):
        return None
    checksum, length, kind, _, lsn = _FRAME.unpack_from(segment, offset)
    end = offset + frame_size_bytes(length)
    if end > len(segment) or xxhash.xxh3_64_intdigest(segment[offset + 8 : end], header.seed) != checksum:
        return None
    start = offset + FRAME_HEADER_BYTES
    return Frame(offset, FrameKind(kind), Lsn(lsn), segment[start : start + length])


def decode_frames(segment: bytes, header: JournalHeader) -> Iterator[Frame]:
    """Yield the frames of a whole segment until the first place where none is intact, or not of the next LSN."""
    offset, next_lsn = HEADER_BLOCK_BYTES, header.first_lsn
    while (frame := decode_frame(segment, header, offset)) is not None:
        if frame.kind is FrameKind.OPERATION:
            if frame.lsn != next_lsn:
                return
            next_lsn = Lsn(next_lsn + 1)
        yield frame
        offset += frame_size_bytes(len(frame.payload))


def find_syncs(segment: bytes, header: JournalHeader, offset: int = HEADER_BLOCK_BYTES) -> Iterator[SyncMark]:
    """Yield every intact sync frame from `offset` on, also behind damage."""
    start = _SYNC_START.pack(8, FrameKind.SYNC, header.epoch)
    found = segment.find(start, offset + 8)
    while found >= 0:
        frame = decode_frame(segment, header, found - 8) if found % 8 == 0 else None
        if frame is not None:
            yield decode_sync(frame)
        found = segment.find(start, found + 8 - found % 8)
