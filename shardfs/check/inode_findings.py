"""Findings about inodes: how they hang together with their entries, attributes and marks."""

from dataclasses import dataclass
from typing import ClassVar

from shardfs.check.findings import Finding
from shardfs.check.name_findings import inode_name
from shardfs.check.nodes import DIRECTORY, EntryAt
from shardfs.check.repairs import Repairs
from shardfs.format import keys
from shardfs.format.records import RecordHeader
from shardfs.format.values import Inode, RecordEntry
from shardfs.ids import Ino, RecordId, ShardId, ino_shard


@dataclass(frozen=True)
class UnreachableInode(Finding):
    """An inode has links, but no entry names it."""

    remedy: ClassVar[str] = "it gets a name in lost+found"
    where: str
    ino: Ino

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} has no name in any directory any more: it cannot be reached"

    def repair(self, repairs: Repairs) -> None:
        """Give it a name."""
        inode = repairs.inode(self.ino)
        if inode.mode >> 12 != DIRECTORY:
            inode.nlink = 1
        repairs.add_to_lost_found(inode, inode_name(self.ino))


@dataclass(frozen=True)
class WrongLinkCount(Finding):
    """An inode's link count is not the number of its entries; for a directory, not 2 and its subdirectories."""

    remedy: ClassVar[str] = "the count is corrected"
    where: str
    ino: Ino
    stored: int
    counted: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} says that it has {self.stored} links, but {self.counted} are there"

    def repair(self, repairs: Repairs) -> None:
        """Correct the count by the difference: other repairs may change it, too."""
        repairs.inode(self.ino).nlink += self.counted - self.stored


@dataclass(frozen=True)
class WrongChildCount(Finding):
    """A directory does not have as many entries as it says, so that it can be removed too early or never."""

    remedy: ClassVar[str] = "the count is corrected"
    where: str
    ino: Ino
    stored: int
    counted: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} says that it has {self.stored} entries, but {self.counted} are there"

    def repair(self, repairs: Repairs) -> None:
        """Correct the count by the difference: other repairs may change it, too."""
        repairs.inode(self.ino).children += self.counted - self.stored


@dataclass(frozen=True)
class LostFile(Finding):
    """A file's inode is missing or unreadable, but a record tells what is in the file and who owns it."""

    remedy: ClassVar[str] = "the file is put together again from its record"
    where: str
    names: tuple[EntryAt, ...]
    entry: RecordEntry
    header: RecordHeader

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} has lost its inode {self.header.ino}; its content of {self.header.length_bytes} bytes is still there"

    def repair(self, repairs: Repairs) -> None:
        """Make the inode anew."""
        header = self.header
        inode = Inode(header.ino, header.mode, header.uid, header.gid, nlink=len(self.names), size=header.length_bytes)
        inode.atime_ns = inode.mtime_ns = header.mtime_ns
        inode.ctime_ns = repairs.now_ns
        inode.blocks = -(-header.length_bytes // 512)
        inode.record = header.record
        inode.parent, inode.name = self.names[0].parent, self.names[0].name
        repairs.put_inode(inode)
        repairs.put_record(header.record, self.entry._replace(references=1))


@dataclass(frozen=True)
class UnreadableInode(Finding):
    """An inode's value is damaged, and nothing tells what it was."""

    remedy: ClassVar[str] = "the inode is removed; its content, if there is any, goes to lost+found"
    where: str
    ino: Ino

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} is damaged: what it was cannot be told, and it cannot be opened"

    def repair(self, repairs: Repairs) -> None:
        """Remove the inode; its names and its record are found, and dealt with, in the next round."""
        repairs.put(ino_shard(self.ino), keys.inode_key(self.ino), None)


@dataclass(frozen=True)
class StrayXattr(Finding):
    """An extended attribute is that of an inode which does not exist."""

    remedy: ClassVar[str] = "the attribute is removed"
    ino: Ino
    attribute: bytes

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the attribute {self.attribute!r} is that of inode {self.ino}, which does not exist"

    def repair(self, repairs: Repairs) -> None:
        """Remove the attribute."""
        repairs.put(ino_shard(self.ino), keys.xattr_key(self.ino, self.attribute), None)


@dataclass(frozen=True)
class UnreadableXattr(Finding):
    """The value of an extended attribute is damaged."""

    remedy: ClassVar[str] = "the attribute is removed; set it again"
    where: str
    ino: Ino
    attribute: bytes

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the attribute {self.attribute!r} of {self.where} is damaged: its value is lost"

    def repair(self, repairs: Repairs) -> None:
        """Remove the attribute."""
        repairs.put(ino_shard(self.ino), keys.xattr_key(self.ino, self.attribute), None)


@dataclass(frozen=True)
class WrongXattrFlag(Finding):
    """An inode has attributes or an ACL and does not say so, so that nobody looks for them."""

    remedy: ClassVar[str] = "the inode is told"
    where: str
    ino: Ino
    missing: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} has extended attributes that it does not know of (flags {self.missing:#x}): they are not seen"

    def repair(self, repairs: Repairs) -> None:
        """Set the flags."""
        repairs.inode(self.ino).flags |= self.missing


@dataclass(frozen=True)
class OrphanWithoutInode(Finding):
    """An inode that does not exist is marked as unlinked but not yet freed."""

    remedy: ClassVar[str] = "the mark is removed"
    ino: Ino

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"inode {self.ino} is marked as unlinked, but does not exist"

    def repair(self, repairs: Repairs) -> None:
        """Remove the mark."""
        repairs.put(ino_shard(self.ino), keys.orphan_key(self.ino), None)


@dataclass(frozen=True)
class OrphanWithLinks(Finding):
    """An inode that has links is marked as unlinked: the next mount would delete it."""

    remedy: ClassVar[str] = "the mark is removed"
    where: str
    ino: Ino

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} is marked as unlinked, but it has names or links"

    def repair(self, repairs: Repairs) -> None:
        """Remove the mark."""
        repairs.put(ino_shard(self.ino), keys.orphan_key(self.ino), None)


@dataclass(frozen=True)
class UnmarkedOrphan(Finding):
    """An inode was unlinked, but nothing says that it has to be freed."""

    remedy: ClassVar[str] = "it is marked, and so freed by the next mount"
    ino: Ino

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"inode {self.ino} was unlinked, but is not marked so: its space would never be freed"

    def repair(self, repairs: Repairs) -> None:
        """Mark it."""
        repairs.put(ino_shard(self.ino), keys.orphan_key(self.ino), b"")


@dataclass(frozen=True)
class StrayWritingMark(Finding):
    """Something is marked as a large file that is open for write, and is none."""

    remedy: ClassVar[str] = "the mark is removed"
    where: str
    ino: Ino

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} is marked as open for write, but has no backing file"

    def repair(self, repairs: Repairs) -> None:
        """Remove the mark."""
        repairs.put(ino_shard(self.ino), keys.writing_key(self.ino), None)


@dataclass(frozen=True)
class UnreadableMark(Finding):
    """A mark that needs no value has a damaged one."""

    remedy: ClassVar[str] = "the mark is written anew"
    shard: ShardId
    key: bytes

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the mark {self.key!r} in shard {self.shard} is damaged"

    def repair(self, repairs: Repairs) -> None:
        """Write it anew."""
        repairs.put(self.shard, self.key, b"")


@dataclass(frozen=True)
class WrongSize(Finding):
    """The size of a packed file is not that of its content."""

    remedy: ClassVar[str] = "the size is corrected"
    where: str
    ino: Ino
    record: RecordId
    stored: int
    actual: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} says that it has {self.stored} bytes, but its content has {self.actual}"

    def repair(self, repairs: Repairs) -> None:
        """Correct the size."""
        inode = repairs.inode(self.ino)
        inode.size, inode.blocks = self.actual, -(-self.actual // 512)
