"""The second half of a survey: records, where they are, and whose they are."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from shardfs.check.conclusions import Found
from shardfs.check.content_findings import (
    MissingBackingFile,
    MissingRecord,
    MissingSegment,
    OverlappingRecords,
    RecordOutsideSegment,
    ShortBackingFile,
    StaleRecord,
    UnreadableRecord,
    UnreferencedRecord,
    WrongReferenceCount,
)
from shardfs.check.disks import HotDisks, SegmentFile
from shardfs.check.findings import Finding
from shardfs.check.inode_findings import WrongSize
from shardfs.check.tree import Tree
from shardfs.check.volume_findings import DamagedSegmentHeader, StrayKey
from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.format.records import RECORD_ALIGN_BYTES, SEGMENT_HEADER_BYTES, RecordHeader, SegmentHeader, record_size_bytes
from shardfs.format.values import PackedPlace, Place, RecordEntry, SoloPlace, decode_record_entry
from shardfs.ids import Epoch, Ino, RecordId, SegmentId, ShardId, record_shard

NOBODY = Ino(0)


class Packed(NamedTuple):
    """A record in a segment, and the inode that it belongs to; `NOBODY` for none."""

    offset: int
    length_bytes: int
    checksum: int
    name_bytes: int
    record: RecordId
    ino: Ino

    @property
    def end(self) -> int:
        """Where the next record may begin."""
        return self.offset + record_size_bytes(self.name_bytes, self.length_bytes)

    def is_inside(self, file: SegmentFile) -> bool:
        """Say whether it lies where the file of its segment has records."""
        return self.offset >= SEGMENT_HEADER_BYTES and not self.offset % RECORD_ALIGN_BYTES and self.end <= file.size

    def place(self, segment: SegmentId) -> PackedPlace:
        """Return its place."""
        return PackedPlace(segment, *self[:4])


class Solo(NamedTuple):
    """A record that is a backing file, and the inode that it belongs to; `NOBODY` for none."""

    record: RecordId
    ino: Ino


class Loose(NamedTuple):
    """A record that belongs to no inode. `size` is None if nothing is left of its content."""

    entry: RecordEntry
    size: int | None
    header: RecordHeader | None


class Contents:
    """What is known of records so far. The `Tree` has taken in all inodes before."""

    def __init__(self, tree: Tree, disks: HotDisks, report: Callable[[Finding], None]) -> None:
        self._tree = tree
        self._disks = disks
        self._report = report
        self._segments: defaultdict[SegmentId, array[int]] = defaultdict(lambda: array("Q"))
        self._solos: defaultdict[SoloPlace, list[Solo]] = defaultdict(list)
        self._loose: dict[RecordId, Loose] = {}
        self._has_unreadable = False
        self.records = 0
        self.highest = 0
        """The highest sequence of a record id."""

    def add_record(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take in one record, and take it from its inode's account."""
        try:
            record = keys.parse_record_key(key)
        except CorruptValue:
            self._report(StrayKey(shard, key))
            return
        home = record_shard(record)
        if shard != home and not self._tree.move_home(f"record {record}", shard, home, key, value):
            return
        self.highest = max(self.highest, record >> 8)
        self.records += 1
        owner = self._tree.owners.pop(record, NOBODY)
        try:
            entry = None if value is None else decode_record_entry(value)
        except CorruptValue:
            entry = None
        if entry is None:
            self._has_unreadable = True
            self._report(UnreadableRecord(self._where(record, owner), record) if owner else StaleRecord(record))
            return
        self._note_place(record, entry.place, owner)
        if owner:
            self._check_owners(record, entry, [owner, *self._tree.sharers.get(record, ())])
        else:
            self._loose[record] = self._look_at(record, entry)

    def _where(self, record: RecordId, owner: Ino) -> str:
        return self._tree.names.inode(owner) if owner else f"record {record}"

    def _note_place(self, record: RecordId, place: Place, owner: Ino) -> None:
        if isinstance(place, SoloPlace):
            self._solos[place].append(Solo(record, owner))
        else:
            self._segments[place.segment].extend((*place[1:], record, owner))

    def _check_owners(self, record: RecordId, entry: RecordEntry, owners: list[Ino]) -> None:
        if len(owners) != entry.references:
            self._report(WrongReferenceCount(self._where(record, owners[0]), record, entry, len(owners)))
        if isinstance(entry.place, SoloPlace):
            return
        for ino in owners:
            size = self._tree.nodes[ino].size
            if size != entry.place.length_bytes:
                self._report(WrongSize(self._where(record, ino), ino, record, size, entry.place.length_bytes))

    def _look_at(self, record: RecordId, entry: RecordEntry) -> Loose:
        """Return what is left of a record without an owner."""
        place = entry.place
        if isinstance(place, SoloPlace):
            return Loose(entry, self._disks.backing_stat(place).size if place in self._disks.backing else None, None)
        header, payload = self._disks.read(place)
        is_its_own = header is not None and header.record == record
        return Loose(entry, None if payload is None else len(payload), header if is_its_own else None)

    def found(self) -> dict[Ino, Found]:
        """Return the newest intact records without an owner that name the inode which they belonged to."""
        found: dict[Ino, Found] = {}
        for _, loose in sorted(self._loose.items()):
            if loose.header is not None and loose.size is not None:
                found[loose.header.ino] = Found(loose.entry, loose.header)
        return found

    def conclude(self, claimed: set[Ino], writing: set[Ino]) -> None:
        """Report what is wrong, but for records of `claimed` inodes. A file being written may differ from its inode."""
        found = self.found()
        for record, loose in self._loose.items():
            if loose.size is None:
                self._report(StaleRecord(record))
            elif not (loose.header and loose.header.ino in claimed and found[loose.header.ino].header == loose.header):
                self._report(UnreferencedRecord(record, loose.entry, loose.size, loose.header))
        for record, owner in self._tree.owners.items():
            for ino in (owner, *self._tree.sharers.get(record, ())):
                self._report(MissingRecord(self._tree.names.inode(ino), ino, record))
        for segment in sorted(self._segments):
            self._check_segment(segment)
        for place, solos in self._solos.items():
            self._check_solo(place, [solo for solo in solos if not self._is_stale(solo.record)], writing)

    def _is_stale(self, record: RecordId) -> bool:
        loose = self._loose.get(record)
        return loose is not None and loose.size is None

    def packed(self) -> Iterator[tuple[SegmentId, SegmentFile, list[Packed]]]:
        """Yield the segments that exist, with the records that are inside of them, in order."""
        for segment in sorted(self._segments.keys() & self._disks.segments.keys()):
            file = self._disks.segments[segment]
            yield segment, file, [row for row in self._packed_in(segment) if row.is_inside(file)]

    def _packed_in(self, segment: SegmentId) -> list[Packed]:
        fields = iter(self._segments[segment])
        rows = zip(*[fields] * len(Packed._fields), strict=True)
        return sorted(packed for packed in map(Packed._make, rows) if not self._is_stale(packed.record))

    def _check_segment(self, segment: SegmentId) -> None:
        rows = self._packed_in(segment)
        file = self._disks.segments.get(segment)
        if file is None:
            for row in rows:
                self._report(MissingSegment(self._where(row.record, row.ino), segment))
            return
        header = self._disks.segment_header(segment)
        expected = SegmentHeader(file.disk, self._disks.superblock.volume_id, segment, header.epoch if header else Epoch(0))
        if header != expected:
            self._report(DamagedSegmentHeader(file.path, expected))
        self._check_rows(file, rows)

    def _check_rows(self, file: SegmentFile, rows: list[Packed]) -> None:
        furthest: Packed | None = None
        for row in rows:
            if not row.is_inside(file):
                self._report(RecordOutsideSegment(self._where(row.record, row.ino), file.path, row.offset))
            elif furthest is not None and row.offset < furthest.end:
                where, other = self._where(row.record, row.ino), self._where(furthest.record, furthest.ino)
                self._report(OverlappingRecords(where, other, f"byte {row.offset} of {file.path}"))
            if furthest is None or row.end > furthest.end:
                furthest = row

    def _check_solo(self, place: SoloPlace, solos: list[Solo], writing: set[Ino]) -> None:
        path = self._disks.backing_path(place)
        names = [self._where(*solo) for solo in solos]
        for other in names[1:]:
            self._report(OverlappingRecords(other, names[0], path))
        if place not in self._disks.backing:
            for name in names:
                self._report(MissingBackingFile(name, path))
            return
        found = self._disks.backing_stat(place)
        for name, (_, ino) in zip(names, solos, strict=True):
            if ino and ino not in writing and found.size < (size := self._tree.nodes[ino].size):
                self._report(ShortBackingFile(name, ino, place, size, found.size, found.blocks))

    def missing_backing(self, place: Place) -> bool:
        """Say whether a place is no backing file that exists."""
        return not isinstance(place, SoloPlace) or place not in self._disks.backing

    def unused_files(self) -> Iterator[str]:
        """Yield the files that hold nothing of a record; none while a record is unreadable, as they may be about it.

        Empty backing files are kept for new files.
        """
        if self._has_unreadable:
            return
        for segment, file in self._disks.segments.items():
            if segment not in self._segments:
                yield file.path
        for place in sorted(self._disks.backing - self._solos.keys()):
            if self._disks.backing_stat(place).size:
                yield self._disks.backing_path(place)
