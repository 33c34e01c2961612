"""One look at a whole volume: every inode, entry, record, attribute and mark, and the files on the disks.

The shards are read twice, first the inodes and then everything, so that each entry and record can be held against what
it belongs to as it comes. Memory grows with the number of files, by a few hundred bytes for each.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from shardfs.check.conclusions import Conclusions
from shardfs.check.contents import Contents
from shardfs.check.disks import find_files
from shardfs.check.findings import Finding
from shardfs.check.marks import Marks
from shardfs.check.naming import Names
from shardfs.check.opened import Opened
from shardfs.check.payloads import check_pages, check_payloads
from shardfs.check.tree import Tree
from shardfs.check.volume_findings import NotCleanlyUnmounted, StrayKey, UnknownFile, WrongSequenceBound, WrongShardCounts
from shardfs.core.numbers import FIRST_SEQUENCE
from shardfs.format import keys
from shardfs.ids import ShardId
from shardfs.meta.shard import COUNTED_TABLES, Shard

_TABLE_NAMES = ("inodes", "entries", "records", "attributes", "orphans")
_AddRow = Callable[[ShardId, bytes, bytes | None], None]


@dataclass(frozen=True)
class Seen:
    """What a survey has seen. From the sequence number `next_sequence` on none is in use."""

    findings: list[Finding]
    inodes: int
    entries: int
    records: int
    next_sequence: int


class Survey:
    """Looks at an open volume, once."""

    def __init__(self, volume: Opened, *, has_slots: bool) -> None:
        """`has_slots` says whether there is a slot table of this volume, which an unmount removes."""
        self._volume = volume
        self._has_slots = has_slots
        self._findings: list[Finding] = []
        report = self._findings.append
        self._names = Names(volume.view)
        self._disks = find_files(volume.storage, volume.superblock)
        self._tree = Tree(volume.view, self._names, report)
        self._contents = Contents(self._tree, self._disks, report)
        self._marks = Marks(self._tree, report)

    def run(self, *, data: bool) -> Seen:
        """Look at everything; with `data`, also read all that has a checksum. Raises `CorruptShard`."""
        self._read()
        tree, contents, marks = self._tree, self._contents, self._marks
        conclusions = Conclusions(tree, marks.orphans, contents.found())
        self._findings.extend(conclusions.findings())
        contents.conclude(conclusions.claimed, marks.writing)
        marks.conclude(contents.missing_backing)
        next_sequence = self._check_bound()
        self._check_rest()
        if data:
            self._findings.extend(check_pages(self._volume.shards))
            self._findings.extend(check_payloads(self._volume.storage, contents, self._names))
        return Seen(self._findings, len(tree.nodes), tree.entries, contents.records, next_sequence)

    def _read(self) -> None:
        for shard in self._volume.shards:
            for key, value in self._volume.inodes(shard):
                self._tree.add_inode(shard.shard, key, value)
        for shard in self._volume.shards:
            self._read_shard(shard)

    def _read_shard(self, shard: Shard) -> None:
        tables: dict[bytes, _AddRow] = {
            keys.ENTRY_TABLE: self._tree.add_entry,
            keys.RECORD_TABLE: self._contents.add_record,
            keys.XATTR_TABLE: self._marks.add_xattr,
            keys.ORPHAN_TABLE: self._marks.add_orphan,
            keys.WRITING_TABLE: self._marks.add_writing,
            keys.META_TABLE: self._marks.add_note,
        }
        counts: Counter[int] = Counter()
        for key, value in self._volume.rows(shard, counts):
            add = tables.get(key[:1])
            if add is None:
                self._findings.append(StrayKey(shard.shard, key))
            else:
                add(shard.shard, key, value)
        for table, name, stored in zip(COUNTED_TABLES, _TABLE_NAMES, shard.state()[1:], strict=True):
            if counts[table[0]] != stored:
                self._findings.append(WrongShardCounts(shard.shard, name, stored, counts[table[0]]))

    def _check_bound(self) -> int:
        """Return a number from which on none is in use."""
        highest, bound = max(self._tree.highest, self._contents.highest), self._marks.bound
        if bound is None or bound <= highest:
            self._findings.append(WrongSequenceBound(bound, highest))
        return max(highest + 1, bound or 0, FIRST_SEQUENCE)

    def _check_rest(self) -> None:
        if self._has_slots or self._volume.pending:
            self._findings.append(NotCleanlyUnmounted(self._volume.pending, self._has_slots))
        else:
            self._findings.extend(UnknownFile(path, is_ours=True) for path in self._contents.unused_files())
        self._findings.extend(UnknownFile(path, is_ours=False) for path in self._disks.unknown)
