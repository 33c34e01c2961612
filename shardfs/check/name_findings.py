"""Findings about names: directory entries, and the tree that they make."""

from dataclasses import dataclass
from typing import ClassVar

from shardfs.check.findings import Finding
from shardfs.check.nodes import DIRECTORY, EntryAt
from shardfs.check.repairs import Repairs
from shardfs.format.values import Entry, Inode, encode_entry
from shardfs.ids import ROOT_INO, Ino, ShardId

REMADE_MODE = DIRECTORY << 12 | 0o755


def inode_name(ino: Ino) -> bytes:
    """Return what a lost inode is called in lost+found."""
    return b"inode-%d" % ino


@dataclass(frozen=True)
class DanglingEntry(Finding):
    """An entry names an inode that does not exist."""

    remedy: ClassVar[str] = "the name is removed"
    where: str
    at: EntryAt

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} names inode {self.at.ino}, which does not exist: the file cannot be opened"

    def repair(self, repairs: Repairs) -> None:
        """Remove the entry."""
        repairs.remove_entry(self.at)


@dataclass(frozen=True)
class EntryWithoutDirectory(Finding):
    """An entry is that of an inode which is no directory."""

    remedy: ClassVar[str] = "the name is removed, and its file goes to lost+found if it has no other"
    where: str
    at: EntryAt

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} is a name in something that is no directory: it cannot be reached"

    def repair(self, repairs: Repairs) -> None:
        """Remove the entry, which no directory counts."""
        repairs.put(self.at.shard, self.at.key, None)


@dataclass(frozen=True)
class EntryInWrongShard(Finding):
    """An entry lies where no look-up finds it: in another shard, or under another hash, than its name and directory say."""

    remedy: ClassVar[str] = "it is moved to its place"
    where: str
    at: EntryAt
    shard: ShardId
    key: bytes

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} lies in shard {self.at.shard} where no look-up finds it; its place is in shard {self.shard}"

    def repair(self, repairs: Repairs) -> None:
        """Move the entry."""
        repairs.put(self.at.shard, self.at.key, None)
        repairs.put(self.shard, self.key, encode_entry(Entry(self.at.ino, self.at.kind)))


@dataclass(frozen=True)
class DuplicateEntry(Finding):
    """An entry lies in a wrong shard, and in the right one there is an entry of that name."""

    remedy: ClassVar[str] = "the one that no look-up finds is removed, and its file goes to lost+found if it has no other name"
    where: str
    at: EntryAt

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} exists twice: once more in shard {self.at.shard}, where no look-up finds it, for inode {self.at.ino}"

    def repair(self, repairs: Repairs) -> None:
        """Remove the entry, which its directory does not count."""
        repairs.put(self.at.shard, self.at.key, None)


@dataclass(frozen=True)
class UnreadableEntry(Finding):
    """The value of an entry is damaged; `ino` is the inode that says this is its name, if one was found."""

    remedy: ClassVar[str] = "it is written anew if an inode says that this is its name, else the name is removed"
    where: str
    at: EntryAt
    """Its inode and kind are those of the inode that was found, else 0."""

    @property
    def message(self) -> str:
        """What is wrong."""
        found = f"inode {self.at.ino} says that it is its name" if self.at.ino else "no inode says that it is its name"
        return f"{self.where} is a damaged directory entry and cannot be opened; {found}"

    def repair(self, repairs: Repairs) -> None:
        """Write the entry anew, or remove it."""
        if self.at.ino:
            repairs.put(self.at.shard, self.at.key, encode_entry(Entry(self.at.ino, self.at.kind)))
        else:
            repairs.remove_entry(self.at)


@dataclass(frozen=True)
class WrongEntryKind(Finding):
    """An entry gives its inode another kind than the inode has."""

    remedy: ClassVar[str] = "the entry is corrected"
    where: str
    at: EntryAt
    actual_kind: int

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} is listed with file type {self.at.kind}, but its inode {self.at.ino} is of type {self.actual_kind}"

    def repair(self, repairs: Repairs) -> None:
        """Give the entry the kind of the inode."""
        repairs.put(self.at.shard, self.at.key, encode_entry(Entry(self.at.ino, self.actual_kind)))


@dataclass(frozen=True)
class DirectoryWithTwoNames(Finding):
    """A directory has more than one entry, or the root has one; `at` is the one that is not its place."""

    remedy: ClassVar[str] = "the name that the directory does not know is removed"
    where: str
    at: EntryAt

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"{self.where} is a second name of the directory with inode {self.at.ino}, which can have only one"

    def repair(self, repairs: Repairs) -> None:
        """Remove the further entry."""
        repairs.remove_entry(self.at)


@dataclass(frozen=True)
class DirectoryCycle(Finding):
    """Directories contain each other and cannot be reached; `at` is the entry of one of them."""

    remedy: ClassVar[str] = "one of them is moved to lost+found"
    at: EntryAt

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the directory with inode {self.at.ino} lies below itself: nothing in it can be reached"

    def repair(self, repairs: Repairs) -> None:
        """Take the directory out of the cycle."""
        repairs.remove_entry(self.at)
        repairs.add_to_lost_found(repairs.inode(self.at.ino), inode_name(self.at.ino))


@dataclass(frozen=True)
class WrongParent(Finding):
    """A directory says that it has another place than its entry says."""

    remedy: ClassVar[str] = "the directory is told its place"
    where: str
    ino: Ino
    said: tuple[Ino, bytes]
    parent: Ino
    name: bytes

    @property
    def message(self) -> str:
        """What is wrong."""
        parent, name = self.said
        return f"{self.where} is the directory with inode {self.ino}, which says that it is {name!r} in directory {parent}"

    def repair(self, repairs: Repairs) -> None:
        """Set parent and name."""
        inode = repairs.inode(self.ino)
        inode.parent, inode.name = self.parent, self.name


@dataclass(frozen=True)
class LostDirectory(Finding):
    """A directory's inode is missing or unreadable, but it has entries, or it is the root."""

    remedy: ClassVar[str] = "it is made anew, in its place if that is known, else in lost+found; owner and mode are lost"
    ino: Ino
    children: int
    folders: int
    at: EntryAt | None

    @property
    def message(self) -> str:
        """What is wrong."""
        what = "the root directory" if self.ino == ROOT_INO else f"the directory with inode {self.ino}"
        return f"{what} is missing or unreadable, and with it the way to its {self.children} entries"

    def repair(self, repairs: Repairs) -> None:
        """Make the directory anew."""
        inode = Inode(self.ino, REMADE_MODE, nlink=2 + self.folders, children=self.children)
        inode.atime_ns = inode.mtime_ns = inode.ctime_ns = repairs.now_ns
        if self.ino == ROOT_INO:
            inode.parent = ROOT_INO
        elif self.at is not None:
            inode.parent, inode.name = self.at.parent, self.at.name
        repairs.put_inode(inode)
        if self.ino != ROOT_INO and self.at is None:
            repairs.add_to_lost_found(inode, inode_name(self.ino))
