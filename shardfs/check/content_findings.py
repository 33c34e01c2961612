"""Findings about content: records, and the segments and backing files that they are in."""

import os
from dataclasses import dataclass
from typing import ClassVar

from shardfs.check.findings import Finding
from shardfs.check.repairs import Repairs
from shardfs.format import keys
from shardfs.format.records import RecordHeader
from shardfs.format.values import Inode, RecordEntry, SoloPlace
from shardfs.ids import Ino, RecordId, SegmentId, record_shard

SAVED_MODE = 0o100600
_RESTORE = "restore the file from a copy, or remove it"


@dataclass(frozen=True)
class MissingRecord(Finding):
    """An inode points to a record that does not exist."""

    where: str
    ino: Ino
    record: RecordId

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the content of {self.where} is lost: its record {self.record} does not exist; {_RESTORE}"


@dataclass(frozen=True)
class UnreadableRecord(Finding):
    """The value of a record is damaged: where the content is cannot be told."""

    where: str
    record: RecordId

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the content of {self.where} cannot be found: its record {self.record} is damaged; {_RESTORE}"


@dataclass(frozen=True)
class UnreferencedRecord(Finding):
    """A record belongs to no inode, and its content is there."""

    remedy: ClassVar[str] = "the content becomes a file in lost+found"
    record: RecordId
    entry: RecordEntry
    size: int
    header: RecordHeader | None
    """What the record tells of its file; None for a backing file, or if it is damaged."""

    @property
    def message(self) -> str:
        """What is wrong."""
        belonged = f", of a file that was called {self.header.name!r}," if self.header else ""
        return f"record {self.record} with {self.size} bytes{belonged} belongs to no file"

    def repair(self, repairs: Repairs) -> None:
        """Make a file of it."""
        header = self.header
        mode, uid, gid, mtime_ns = (header.mode, header.uid, header.gid, header.mtime_ns) if header else (SAVED_MODE, 0, 0, repairs.now_ns)
        inode = Inode(repairs.new_ino(record_shard(self.record)), mode, uid, gid, size=self.size, record=self.record)
        inode.atime_ns = inode.mtime_ns = mtime_ns
        inode.blocks = -(-self.size // 512)
        repairs.put_record(self.record, self.entry._replace(references=1))
        name = b"record-%d" % self.record
        repairs.add_to_lost_found(inode, name + b"-" + header.name if header else name)


@dataclass(frozen=True)
class StaleRecord(Finding):
    """A record belongs to no inode, and its content is gone."""

    remedy: ClassVar[str] = "the record is removed"
    record: RecordId

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"record {self.record} belongs to no file, and nothing is left of its content"

    def repair(self, repairs: Repairs) -> None:
        """Remove it."""
        repairs.put(record_shard(self.record), keys.record_key(self.record), None)


@dataclass(frozen=True)
class WrongReferenceCount(Finding):
    """Not as many inodes point to a record as it says: its content would be freed too early or never."""

    remedy: ClassVar[str] = "the count is corrected"
    where: str
    record: RecordId
    entry: RecordEntry
    counted: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the content of {self.where} says that {self.entry.references} files have it, but {self.counted} are there"

    def repair(self, repairs: Repairs) -> None:
        """Correct the count."""
        repairs.put_record(self.record, self.entry._replace(references=self.counted))


@dataclass(frozen=True)
class OverlappingRecords(Finding):
    """Two records lie in the same bytes of a segment, or in the same backing file: one of them at most is intact."""

    where: str
    other: str
    place: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} and {self.other} have their content in the same place, {self.place}: one of them at most is intact"


@dataclass(frozen=True)
class RecordOutsideSegment(Finding):
    """A record lies, or ends, where its segment has no records."""

    where: str
    path: str
    offset: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the content of {self.where} should be at byte {self.offset} of {self.path}, which is not that long; {_RESTORE}"


@dataclass(frozen=True)
class MissingSegment(Finding):
    """A record lies in a segment that is on no disk."""

    where: str
    segment: SegmentId

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the content of {self.where} is lost: segment {self.segment:016x} is on no hot disk; bring it back, or {_RESTORE}"


@dataclass(frozen=True)
class MissingBackingFile(Finding):
    """A large file's backing file is not there."""

    where: str
    path: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the content of {self.where} is lost: {self.path} does not exist; bring it back, or {_RESTORE}"


@dataclass(frozen=True)
class ShortBackingFile(Finding):
    """A large file's backing file is shorter than the file."""

    remedy: ClassVar[str] = "the file is cut off where its content ends"
    where: str
    ino: Ino
    place: SoloPlace
    size: int
    actual: int
    blocks: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} has lost its end: of {self.size} bytes {self.actual} are there, and the rest reads as zeros"

    def repair(self, repairs: Repairs) -> None:
        """Set the size to what is there."""
        inode = repairs.inode(self.ino)
        inode.size, inode.blocks = self.actual, self.blocks


@dataclass(frozen=True)
class RecordHeaderMismatch(Finding):
    """A record's header in its segment is damaged or another's; the content itself is intact."""

    where: str
    path: str
    offset: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return (
            f"the header of {self.where} at byte {self.offset} of {os.path.basename(self.path)} is damaged; the content is intact:"
            " copy the file and put the copy in its place"
        )


@dataclass(frozen=True)
class DamagedPayload(Finding):
    """A packed file's content does not match its checksum."""

    where: str
    path: str
    offset: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the content of {self.where} is damaged, at byte {self.offset} of {self.path}; {_RESTORE}"
