"""The files on the hot disks: which segments and backing files there are, and reading records from segments."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from shardfs.data.segment_files import parse_segment_name, segments_directory
from shardfs.data.solo import parse_solo_name, solo_path, solo_root
from shardfs.errors import CorruptRecord
from shardfs.format.records import (
    SEGMENT_HEADER_BYTES,
    RecordHeader,
    SegmentHeader,
    decode_record_header,
    decode_segment_header,
    header_size_bytes,
    payload_checksum,
)
from shardfs.format.superblock import DiskLabel, Superblock
from shardfs.format.values import PackedPlace, SoloPlace
from shardfs.ids import DiskId, SegmentId
from shardfs.storage.files import BackingFile, FileStat, Storage

_GROUP = re.compile("[0-9a-f]{2}")


class SegmentFile(NamedTuple):
    """A segment as a file."""

    path: str
    disk: DiskId
    size: int


class ReadRecord(NamedTuple):
    """What a segment holds where a record should be; None for what is not intact."""

    header: RecordHeader | None
    payload: bytes | None


@dataclass
class HotDisks:
    """The files of all hot disks, as `find_files` has found them."""

    storage: Storage
    superblock: Superblock
    segments: dict[SegmentId, SegmentFile] = field(default_factory=dict)
    backing: set[SoloPlace] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    """Paths of what is no file of shardfs."""

    def backing_path(self, place: SoloPlace) -> str:
        """Return where a backing file is, or should be; on a disk that does not exist, for a place that cannot be."""
        disks = self.superblock.disks
        return solo_path(disks[place.disk].path if place.disk < len(disks) else f"disk {place.disk}", place.solo)

    def backing_stat(self, place: SoloPlace) -> FileStat:
        """Return size and allocation of a backing file that exists."""
        with opened(self.storage, self.backing_path(place)) as file:
            return file.stat()

    def segment_header(self, segment: SegmentId) -> SegmentHeader | None:
        """Return the header of a segment that exists; None if it is damaged."""
        with opened(self.storage, self.segments[segment].path) as file:
            try:
                return decode_segment_header(file.pread(SEGMENT_HEADER_BYTES, 0))
            except CorruptRecord:
                return None

    def read(self, place: PackedPlace) -> ReadRecord:
        """Return what is where a record should be, in a segment that may not exist."""
        found = self.segments.get(place.segment)
        if found is None:
            return ReadRecord(None, None)
        with opened(self.storage, found.path) as file:
            return read_record(file, place)


def find_files(storage: Storage, superblock: Superblock) -> HotDisks:
    """Look through the hot disks."""
    found = HotDisks(storage, superblock)
    for disk in superblock.disks:
        for name in _listed(storage, segments_directory(disk.path)):
            _add_segment(found, disk, name)
        for group in _listed(storage, solo_root(disk.path)):
            _add_group(found, disk, group)
    return found


def read_record(file: BackingFile, place: PackedPlace) -> ReadRecord:
    """Return what an open segment holds where a record should be."""
    payload_at = header_size_bytes(place.name_bytes)
    block = file.pread(payload_at + place.length_bytes, place.offset)
    payload = block[payload_at:]
    try:
        header = decode_record_header(block[:payload_at], place.segment)
    except CorruptRecord:
        header = None
    is_intact = len(payload) == place.length_bytes and payload_checksum(payload) == place.checksum
    return ReadRecord(header, payload if is_intact else None)


@contextmanager
def opened(storage: Storage, path: str) -> Iterator[BackingFile]:
    """Open a file for as long as the context lasts."""
    file = storage.open(path)
    try:
        yield file
    finally:
        file.close()


def _listed(storage: Storage, directory: str) -> list[str]:
    return storage.list_dir(directory) if storage.exists(directory) else []


def _add_segment(found: HotDisks, disk: DiskLabel, name: str) -> None:
    path = os.path.join(segments_directory(disk.path), name)
    segment = parse_segment_name(name)
    if segment is None:
        found.unknown.append(path)
        return
    with opened(found.storage, path) as file:
        found.segments[segment] = SegmentFile(path, disk.disk, file.stat().size)


def _add_group(found: HotDisks, disk: DiskLabel, group: str) -> None:
    directory = os.path.join(solo_root(disk.path), group)
    if not _GROUP.fullmatch(group):
        found.unknown.append(directory)
        return
    for name in found.storage.list_dir(directory):
        solo, path = parse_solo_name(name), os.path.join(directory, name)
        if solo is not None and solo_path(disk.path, solo) == path:
            found.backing.add(SoloPlace(disk.disk, solo))
        else:
            found.unknown.append(path)
