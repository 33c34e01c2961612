"""The first half of a survey: inodes and entries, and whether they make one tree.

All inodes are read first. Then each entry is held against its directory and its inode, and counted in both. What can
only be told when all entries have been seen, `TreeFindings` concludes (in `shardfs.check.conclusions`).

Counts are those of the entries as they are, dangling and damaged ones included: a repair that adds or removes an entry
changes the counts by itself. An entry in a wrong place counts as if it were in its place, unless that is taken.
"""

from collections import defaultdict
from collections.abc import Callable

from shardfs.check.findings import Finding
from shardfs.check.name_findings import DuplicateEntry, EntryInWrongShard, WrongEntryKind
from shardfs.check.naming import Names
from shardfs.check.nodes import DIRECTORY, EntryAt, Folder, Node
from shardfs.check.volume_findings import InWrongShard, StrayKey
from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.format.values import decode_entry, decode_inode
from shardfs.ids import NO_RECORD, Ino, RecordId, ShardId, ino_shard
from shardfs.meta.view import View


def has_value(view: View, shard: ShardId, key: bytes) -> bool:
    """Say whether there is an intact value under a key."""
    try:
        return view.get(shard, key) is not None
    except CorruptValue:
        return False


class Tree:
    """What is known of inodes and entries so far."""

    def __init__(self, view: View, names: Names, report: Callable[[Finding], None]) -> None:
        self.view = view
        self.names = names
        self.report = report
        self.shards = len(view.shards)
        self.highest = 0
        """The highest sequence of an inode number."""
        self.nodes: dict[Ino, Node] = {}
        self.unreadable: set[Ino] = set()
        """Inodes with a damaged value."""
        self.owners: dict[RecordId, Ino] = {}
        """An inode that points to each record."""
        self.sharers: defaultdict[RecordId, list[Ino]] = defaultdict(list)
        """Further ones."""
        self.entries = 0
        self.dangling: defaultdict[Ino, list[EntryAt]] = defaultdict(list)
        """Entries of inodes that are missing or unreadable."""
        self.strays: defaultdict[Ino, list[EntryAt]] = defaultdict(list)
        """Entries in directories that are missing, unreadable, or no directories."""
        self.doubles: defaultdict[Ino, list[EntryAt]] = defaultdict(list)
        """All but the first of the entries of directories that have several."""
        self.unreadable_entries: dict[tuple[Ino, bytes], EntryAt] = {}
        """By directory and name."""

    def knows(self, ino: Ino) -> bool:
        """Say whether an inode exists, readable or not."""
        return ino in self.nodes or ino in self.unreadable

    def add_inode(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take in one inode."""
        try:
            ino = keys.parse_inode_key(key)
        except CorruptValue:
            self.report(StrayKey(shard, key))
            return
        if shard != ino_shard(ino) and not self.move_home(f"inode {ino}", shard, ino_shard(ino), key, value):
            return
        self.highest = max(self.highest, ino >> 8)
        try:
            inode = None if value is None else decode_inode(ino, value)
        except CorruptValue:
            inode = None
        if inode is None:
            self.unreadable.add(ino)
            return
        self.nodes[ino] = Folder(inode, self.shards) if inode.mode >> 12 == DIRECTORY else Node(inode)
        if inode.record != NO_RECORD and self.owners.setdefault(inode.record, ino) != ino:
            self.sharers[inode.record].append(ino)

    def move_home(self, what: str, shard: ShardId, home: ShardId, key: bytes, value: bytes | None) -> bool:
        """Report a key that lies in a wrong shard; return whether it counts, as it does after it has been moved."""
        if home >= self.shards or value is None:
            self.report(StrayKey(shard, key))
            return False
        is_duplicate = has_value(self.view, home, key)
        self.report(InWrongShard(what, shard, home, key, value, is_duplicate))
        return not is_duplicate

    def add_entry(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take in one entry; all inodes have been taken in before."""
        try:
            parent, h, name = keys.parse_entry_key(key)
        except CorruptValue:
            self.report(StrayKey(shard, key))
            return
        at = _entry_at(shard, key, value)
        directory = self.nodes.get(parent)
        if isinstance(directory, Folder):
            right_h = keys.name_hash(parent, name)
            right_shard = keys.split_shard(right_h, self.shards) if right_h < directory.split_below_h else directory.home
            if (h != right_h or shard != right_shard) and not self._move_entry(at, right_shard, right_h):
                return
            directory.found_children += 1
        else:
            self.strays[parent].append(at)
        self.entries += 1
        if at.ino:
            self._count_link(at, directory)
        elif directory is None or isinstance(directory, Folder):
            self.unreadable_entries[parent, name] = at

    def _move_entry(self, at: EntryAt, shard: ShardId, h: int) -> bool:
        """Report an entry in a wrong place; return whether it counts."""
        parent, name = at.parent, at.name
        where, key = self.names.entry(parent, name), keys.entry_key(parent, h, name)
        if at.ino and not has_value(self.view, shard, key):
            self.report(EntryInWrongShard(where, at, shard, key))
            return True
        self.report(DuplicateEntry(where, at))
        return False

    def _count_link(self, at: EntryAt, directory: Node | None) -> None:
        node = self.nodes.get(at.ino)
        kind = at.kind if node is None else node.kind
        if isinstance(directory, Folder):
            directory.found_folders += kind == DIRECTORY
        elif directory is not None:
            if node is not None:
                node.links += 1  # until the entry in what is no directory has been removed
            return
        if node is None:
            self.dangling[at.ino].append(at)
            return
        node.links += 1
        if kind != at.kind:
            self.report(WrongEntryKind(self.names.entry(at.parent, at.name), at, kind))
        if isinstance(node, Folder):
            if node.seat is None:
                node.seat = at
            else:
                self.doubles[at.ino].append(at)


def _entry_at(shard: ShardId, key: bytes, value: bytes | None) -> EntryAt:
    """Return an entry; inode 0 if its value is damaged."""
    try:
        ino, kind = (Ino(0), 0) if value is None else decode_entry(value)
    except CorruptValue:
        ino, kind = Ino(0), 0
    return EntryAt(shard, key, ino, kind)
