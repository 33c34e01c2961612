"""The superblock of a volume, and the label that each of its hot directories carries.

Both are files written once, as one envelope whose outline is the same in every version of the format:

    offset  size    field
    0       8       magic
    8       4       format version, little-endian (`FormatVersion`)
    12      4       length of the map, little-endian
    16      length  msgpack map of the fields
    ..      8       xxh3_64 of all bytes before, most significant byte first

The checksum is looked at before the version: a volume is newer than this program only if its superblock is intact.

The superblock's map has the fields of `Superblock` but for the version; its disks are maps of `DiskLabel`. The map of a
disk's label file has the fields of `DiskLabel` and `volume_id`. Paths keep undecodable bytes as surrogates.

Invariants of a superblock (`_flaw`): ids have 16 bytes; there are 1 to 256 shards; disks are numbered 0, 1, 2 .. in
their order and there is at least one; two of the largest packed files fit into a segment.
"""

from dataclasses import asdict, dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any

import msgpack
from xxhash import xxh3_64_digest

from shardfs.errors import CorruptSuperblock, InternalError, SetupError
from shardfs.ids import MAX_SHARDS, DiskId

VOLUME_MAGIC = b"shardfs\x01"
DISK_MAGIC = b"shardfs\x02"
ID_BYTES = 16

_HEADER = Struct("<8sII")
_CHECKSUM_BYTES = 8
_DAMAGE = (ValueError, KeyError, TypeError, StructError, msgpack.UnpackException)


class FormatVersion(IntEnum):
    """The versions of the on-disk format, by name."""

    FOUNDING = 1


NEWEST_FORMAT = max(FormatVersion)


@dataclass(frozen=True, slots=True)
class DiskLabel:
    """A hot disk: its number, the directory it was given as, and the random id that is written there, too."""

    disk: DiskId
    path: str
    disk_id: bytes


@dataclass(frozen=True, slots=True)
class Superblock:
    """What is fixed for the life of a volume. Sizes are bytes; a directory splits when it has more than `split_entries`."""

    format_version: int
    volume_id: bytes
    created_ns: int
    shards: int
    segment_bytes: int
    pack_threshold_bytes: int
    split_entries: int
    journal_dir: str
    disks: tuple[DiskLabel, ...]


def encode_superblock(superblock: Superblock) -> bytes:
    """Return the content of a volume's superblock file."""
    if flaw := _flaw(superblock):
        raise InternalError(f"a superblock was not encoded: {flaw}")
    values = asdict(superblock)
    return _wrap(VOLUME_MAGIC, values.pop("format_version"), values)


def decode_superblock(data: bytes, path: str) -> Superblock:
    """Return the superblock that the file at `path` holds.

    Raises `CorruptSuperblock` if it is damaged, `SetupError` if the volume's format is newer than this program.
    """
    try:
        version, values = _unwrap(VOLUME_MAGIC, data, path)
        disks = tuple(DiskLabel(**disk) for disk in values.pop("disks"))
        superblock = Superblock(format_version=version, disks=disks, **values)
        if flaw := _flaw(superblock):
            raise ValueError(flaw)
    except _DAMAGE as error:
        raise CorruptSuperblock(f"the superblock {path} is damaged ({error}); run shardfs fsck --repair") from error
    return superblock


def encode_disk_label(volume_id: bytes, label: DiskLabel) -> bytes:
    """Return the content of the label file in a hot directory of the volume with this id."""
    return _wrap(DISK_MAGIC, NEWEST_FORMAT, asdict(label) | {"volume_id": volume_id})


def decode_disk_label(data: bytes, path: str) -> tuple[bytes, DiskLabel]:
    """Return volume id and label that the file at `path` holds.

    Raises `CorruptSuperblock` if it is damaged, `SetupError` if its format is newer than this program.
    """
    try:
        _, values = _unwrap(DISK_MAGIC, data, path)
        return values.pop("volume_id"), DiskLabel(**values)
    except _DAMAGE as error:
        raise CorruptSuperblock(f"the disk label {path} is damaged ({error}); run shardfs fsck --repair") from error


def _wrap(magic: bytes, version: int, values: dict[str, Any]) -> bytes:
    body: bytes = msgpack.packb(values, unicode_errors="surrogateescape")
    content = _HEADER.pack(magic, version, len(body)) + body
    return content + xxh3_64_digest(content)


def _unwrap(magic: bytes, data: bytes, path: str) -> tuple[FormatVersion, dict[str, Any]]:
    """Return version and map of an envelope; raises one of `_DAMAGE` if it is damaged, `SetupError` if it is newer."""
    if not data.startswith(magic):
        raise ValueError("it does not begin with the right magic bytes")
    content, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if xxh3_64_digest(content) != checksum:
        raise ValueError("its checksum does not match")
    _, version, length = _HEADER.unpack_from(content)
    if version > NEWEST_FORMAT:
        raise SetupError(f"the volume of {path} is of format {version}, this shardfs knows up to {NEWEST_FORMAT:d}: install a newer one")
    body = content[_HEADER.size :]
    if length != len(body):
        raise ValueError("its length does not match")
    return FormatVersion(version), msgpack.unpackb(body, unicode_errors="surrogateescape")


def _flaw(superblock: Superblock) -> str | None:
    """Return which invariant is broken, None if all hold."""
    ids = [superblock.volume_id, *(disk.disk_id for disk in superblock.disks)]
    numbers = [disk.disk for disk in superblock.disks]
    if any(len(one) != ID_BYTES for one in ids):
        return "an id does not have 16 bytes"
    if not 1 <= superblock.shards <= MAX_SHARDS:
        return f"{superblock.shards} shards are out of range"
    if not numbers or numbers != list(range(len(numbers))):
        return "its disks are not numbered 0, 1, 2 .."
    if not 0 < 2 * superblock.pack_threshold_bytes <= superblock.segment_bytes:
        return "a segment does not hold two of the largest packed files"
    return None
