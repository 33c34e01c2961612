"""What hangs on inodes beside their entries and records: attributes, the marks of orphans and of open files, notes."""

from collections import Counter
from collections.abc import Callable

from shardfs.check.findings import Finding
from shardfs.check.inode_findings import StrayWritingMark, StrayXattr, UnreadableMark, UnreadableXattr, WrongXattrFlag
from shardfs.check.naming import find_inode
from shardfs.check.tree import Tree
from shardfs.check.volume_findings import StrayKey
from shardfs.core import acl
from shardfs.core.numbers import SEQUENCE_KEY, SEQUENCE_SHARD, decode_bound
from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.format.values import InodeFlag, Place, decode_record_entry
from shardfs.ids import NO_RECORD, Ino, ShardId, ino_shard, record_shard
from shardfs.meta.shard import STATE_KEY

ACLS = (acl.ACCESS, acl.DEFAULT)


class Marks:
    """What is known of attributes, marks and notes so far. The `Tree` has taken in all inodes before."""

    def __init__(self, tree: Tree, report: Callable[[Finding], None]) -> None:
        self._tree = tree
        self._report = report
        self._missing_flags: Counter[Ino] = Counter()
        self.orphans: set[Ino] = set()
        """Inodes that are marked as unlinked but not yet freed."""
        self.writing: set[Ino] = set()
        """Inodes that are marked as open for write."""
        self.bound: int | None = None
        """The bound of inode and record numbers."""

    def add_xattr(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take in one attribute."""
        try:
            ino, name = keys.parse_xattr_key(key)
        except CorruptValue:
            self._report(StrayKey(shard, key))
            return
        home = ino_shard(ino)
        if shard != home and not self._tree.move_home(f"attribute {name!r} of inode {ino}", shard, home, key, value):
            return
        if not self._tree.knows(ino):
            self._report(StrayXattr(ino, name))
        elif value is None:
            self._report(UnreadableXattr(self._tree.names.inode(ino), ino, name))
        elif (node := self._tree.nodes.get(ino)) is not None:
            needed = InodeFlag.HAS_XATTR | (InodeFlag.HAS_ACL if name in ACLS else 0)
            if missing := needed & ~node.flags:
                self._missing_flags[ino] |= missing

    def add_orphan(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take in the mark of an orphan."""
        self._add_mark(shard, key, value, keys.parse_orphan_key, self.orphans)

    def add_writing(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take in the mark of a file that is open for write."""
        self._add_mark(shard, key, value, keys.parse_writing_key, self.writing)

    def _add_mark(self, shard: ShardId, key: bytes, value: bytes | None, parse: Callable[[bytes], Ino], marked: set[Ino]) -> None:
        try:
            ino = parse(key)
        except CorruptValue:
            self._report(StrayKey(shard, key))
            return
        home = ino_shard(ino)
        if shard != home and not self._tree.move_home(f"a mark of inode {ino}", shard, home, key, value):
            return
        if value != b"":
            self._report(UnreadableMark(shard, key))
        marked.add(ino)

    def add_note(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take in what a shard notes about itself or the volume."""
        if key == SEQUENCE_KEY and shard == SEQUENCE_SHARD:
            self.bound = _bound(value)
        elif key != STATE_KEY:
            self._report(StrayKey(shard, key))

    def conclude(self, is_missing: Callable[[Place], bool]) -> None:
        """Report what is wrong; `is_missing` says whether a place is no backing file that exists."""
        for ino, missing in self._missing_flags.items():
            self._report(WrongXattrFlag(self._tree.names.inode(ino), ino, missing))
        for ino in sorted(self.writing):
            place = self._place(ino)
            if ino not in self._tree.unreadable and (place is None or is_missing(place)):
                self._report(StrayWritingMark(self._tree.names.inode(ino), ino))

    def _place(self, ino: Ino) -> Place | None:
        """Return where the content of an inode is; None if there is none, or that cannot be told."""
        view = self._tree.view
        inode = find_inode(view, ino)
        if inode is None or inode.record == NO_RECORD or record_shard(inode.record) >= len(view.shards):
            return None
        try:
            value = view.get(record_shard(inode.record), keys.record_key(inode.record))
            return None if value is None else decode_record_entry(value).place
        except CorruptValue:
            return None


def _bound(value: bytes | None) -> int | None:
    try:
        return None if value is None else decode_bound(value)
    except CorruptValue:
        return None
