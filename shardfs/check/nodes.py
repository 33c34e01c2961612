"""What a survey remembers of each inode while it reads the entries: little, as there may be many millions."""

import stat
from typing import NamedTuple

from shardfs.format import keys
from shardfs.format.values import Inode
from shardfs.ids import Ino, ShardId

DIRECTORY = stat.S_IFDIR >> 12
"""The kind (d_type) of a directory."""


class EntryAt(NamedTuple):
    """A directory entry and where it is stored."""

    shard: ShardId
    key: bytes
    ino: Ino
    kind: int

    @property
    def parent(self) -> Ino:
        """The directory."""
        return keys.parse_entry_key(self.key)[0]

    @property
    def name(self) -> bytes:
        """The name in the directory."""
        return keys.parse_entry_key(self.key)[2]


class Node:
    """An inode: what it says of itself, and `links`, the entries that were found to point to it."""

    __slots__ = ("flags", "kind", "links", "nlink", "size")

    def __init__(self, inode: Inode) -> None:
        self.kind = inode.mode >> 12
        self.nlink = inode.nlink
        self.size = inode.size
        self.flags = inode.flags
        self.links = 0


class Folder(Node):
    """A directory: also where it says it is, and what was found in it.

    `seat` is the entry that counts as its place; `is_placed` says that following the seats upward was looked at.
    """

    __slots__ = ("children", "found_children", "found_folders", "home", "is_placed", "name", "parent", "seat", "split_below_h")

    def __init__(self, inode: Inode, shards: int) -> None:
        super().__init__(inode)
        self.children = inode.children
        self.split_below_h = inode.split_below_h
        self.parent = inode.parent
        self.name = inode.name
        self.home = keys.home_shard(inode.ino, shards)
        self.found_children = 0
        self.found_folders = 0
        self.seat: EntryAt | None = None
        self.is_placed = False
