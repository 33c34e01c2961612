"""Findings about a volume as a whole: superblock, labels, journal, shards, numbers, and the files on its disks."""

from dataclasses import dataclass
from typing import ClassVar

from shardfs.check.findings import Finding, Severity
from shardfs.check.repairs import Repairs
from shardfs.format.records import SegmentHeader, encode_segment_header
from shardfs.ids import ShardId
from shardfs.storage.files import Storage


@dataclass(frozen=True)
class NotCleanlyUnmounted(Finding):
    """The last mount was not ended by an unmount, or the volume was only formatted yet."""

    severity: ClassVar[Severity] = Severity.INFO
    pending: int
    """Changes that the journal holds and the shards lack."""
    has_slots: bool
    """Whether there is a slot table, which an unmount removes."""

    @property
    def message(self) -> str:
        """What is the case."""
        slots = "files that were being written wait in memory; " if self.has_slots else ""
        return f"{slots}{self.pending} changes are in the journal but not yet in the shards; the next mount recovers all by itself"


@dataclass(frozen=True)
class DamagedFile(Finding):
    """The superblock, its copy, or the label of a disk is missing or damaged, and its content is known from elsewhere."""

    remedy: ClassVar[str] = "it is written anew"
    path: str
    problem: str
    content: bytes

    def repair(self, repairs: Repairs) -> None:
        """Write the file anew."""
        repairs.file_repairs.append(lambda storage: storage.replace_small(self.path, self.content))


@dataclass(frozen=True)
class DamagedSuperblock(DamagedFile):
    """The superblock or its copy is not what it was; the other one is intact."""

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the superblock {self.path} {self.problem}; the volume has an intact one beside it"


@dataclass(frozen=True)
class DamagedLabel(DamagedFile):
    """The label of a hot disk is damaged."""

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the label of a hot disk, {self.path}, {self.problem}"


@dataclass(frozen=True)
class DamagedJournal(Finding):
    """The journal is damaged where it must not be: nothing else can be told, and a mount would refuse the volume."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the journal is damaged, and nothing behind it was checked: {self.problem}"


@dataclass(frozen=True)
class DamagedShard(Finding):
    """A metadata shard is missing, cut short or damaged as a file."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"a metadata shard is damaged, and what needs it cannot be checked: {self.problem}"


@dataclass(frozen=True)
class WrongShardCounts(Finding):
    """A shard does not hold as many keys as it has counted."""

    remedy: ClassVar[str] = "they are counted anew"
    shard: ShardId
    table: str
    stored: int
    counted: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"metadata shard {self.shard} has counted {self.stored} {self.table}, but holds {self.counted}"

    def repair(self, repairs: Repairs) -> None:
        """Count anew, when everything else is done."""
        repairs.recounts.add(self.shard)


@dataclass(frozen=True)
class InWrongShard(Finding):
    """An inode, record, attribute or mark lies in another shard than its number says, where nothing finds it."""

    remedy: ClassVar[str] = "it is moved to its shard, or removed if that has one of its own"
    what: str
    shard: ShardId
    home: ShardId
    key: bytes
    value: bytes
    is_duplicate: bool

    @property
    def message(self) -> str:
        """What is wrong."""
        twice = ", which has one of its own" if self.is_duplicate else ""
        return f"{self.what} lies in shard {self.shard} where nothing finds it; its place is shard {self.home}{twice}"

    def repair(self, repairs: Repairs) -> None:
        """Move or remove it."""
        repairs.put(self.shard, self.key, None)
        if not self.is_duplicate:
            repairs.put(self.home, self.key, self.value)


@dataclass(frozen=True)
class StrayKey(Finding):
    """A shard holds a key that nothing looks up."""

    remedy: ClassVar[str] = "it is removed"
    shard: ShardId
    key: bytes

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"metadata shard {self.shard} holds the key {self.key!r}, which is of no use to anything"

    def repair(self, repairs: Repairs) -> None:
        """Remove it."""
        repairs.put(self.shard, self.key, None)


@dataclass(frozen=True)
class WrongSequenceBound(Finding):
    """The bound of inode and record numbers is unreadable, or not above all numbers: one would be given out twice."""

    remedy: ClassVar[str] = "it is raised above all numbers"
    bound: int | None
    highest: int

    @property
    def message(self) -> str:
        """What is wrong."""
        said = "is missing or unreadable" if self.bound is None else f"is {self.bound}"
        return f"the bound of inode and record numbers {said}, but numbers up to {self.highest} are in use: they could be given out again"

    def repair(self, repairs: Repairs) -> None:
        """Raise it."""
        repairs.raise_bound()


@dataclass(frozen=True)
class DamagedSegmentHeader(Finding):
    """The first block of a segment is damaged; its records are not concerned."""

    remedy: ClassVar[str] = "it is written anew"
    path: str
    header: SegmentHeader

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the header of the segment {self.path} is damaged or another's; its records are read all the same"

    def repair(self, repairs: Repairs) -> None:
        """Write it anew."""
        repairs.file_repairs.append(self._write)

    def _write(self, storage: Storage) -> None:
        file = storage.open(self.path)
        try:
            file.pwrite(encode_segment_header(self.header), 0)
            file.sync()
        finally:
            file.close()


@dataclass(frozen=True)
class UnknownFile(Finding):
    """A hot disk has a file among its own that nothing refers to."""

    severity: ClassVar[Severity] = Severity.INFO
    path: str
    is_ours: bool

    @property
    def message(self) -> str:
        """What is the case."""
        if self.is_ours:
            return f"nothing refers to {self.path}; the next mount removes it or uses it again"
        return f"{self.path} is no file of shardfs; it is left alone"
