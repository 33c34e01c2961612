"""What is in the journal but not yet in the shards: newest values by key, and the changes that the workers still need.

Invariants, for each shard:

- `pending` holds the changes of every journal record above the shard's applied LSN, grouped by LSN, ascending.
- `values` holds the newest value of each key in `pending`, and nothing else; a key goes when the newest record that
  wrote it is applied, never before.
- A group is a prefix of keys that is listed in order: a directory's entries, an inode's attributes, the orphans. Its
  `Group` names every key of it in `values`, and perhaps keys that have left; a listing skips those.

A value of None is a tombstone: the key is deleted, whatever the shard still says. Loop thread only.
"""

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

from shardfs.format import keys
from shardfs.ids import Ino, Lsn, ShardId
from shardfs.limits import BATCH_MAX_BYTES, BATCH_MAX_RECORDS
from shardfs.meta.batch import ShardBatch

_GROUP_BYTES = len(keys.entry_prefix(Ino(0)))
_FEW_KEYS = 256
"""So many new keys are put into a sorted list one by one, which moves what lies behind each; more are sorted in."""
_LISTED_TABLES = {
    keys.ENTRY_TABLE[0]: _GROUP_BYTES,
    keys.XATTR_TABLE[0]: _GROUP_BYTES,
    keys.ORPHAN_TABLE[0]: len(keys.ORPHAN_TABLE),
}
"""First byte of the keys of a table that is listed in groups, and the length of its groups' prefixes."""


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""The overlay says nothing about a key: ask the shard."""


class Group:
    """The keys of one group: a sorted list, and what was added since it was last looked at."""

    __slots__ = ("_added", "_sorted", "drops")

    def __init__(self) -> None:
        self._sorted: list[bytes] = []
        self._added: list[bytes] = []
        self.drops = 0
        """How many keys have gone since `keep` was last called."""

    def __len__(self) -> int:
        """Return the number of keys, with those that have gone and those added twice."""
        return len(self._sorted) + len(self._added)

    def add(self, key: bytes) -> None:
        """Add a key; it may be there already."""
        self._added.append(key)

    def keys_from(self, first_key: bytes) -> Iterator[bytes]:
        """Return the keys from `first_key` on, in order."""
        self._merge()
        ordered = self._sorted
        for index in range(bisect_left(ordered, first_key), len(ordered)):
            yield ordered[index]

    def keep(self, live: dict[bytes, bytes | None]) -> None:
        """Forget the keys that have gone."""
        self._merge()
        self._sorted = [key for key in self._sorted if key in live]
        self.drops = 0

    def _merge(self) -> None:
        fresh = sorted(set(self._added))
        self._added.clear()
        if self._sorted:
            fresh = [key for key in fresh if not self._has(key)]
        if len(fresh) <= _FEW_KEYS:
            for key in fresh:
                insort(self._sorted, key)
        else:
            self._sorted.extend(fresh)
            self._sorted.sort()  # two ascending runs: one pass

    def _has(self, key: bytes) -> bool:
        index = bisect_left(self._sorted, key)
        return index < len(self._sorted) and self._sorted[index] == key


class _Record:
    """What one journal record changes in one shard."""

    __slots__ = ("changes", "lsn", "size_bytes")

    def __init__(self, lsn: Lsn) -> None:
        self.lsn = lsn
        self.changes: list[tuple[bytes, bytes | None]] = []
        self.size_bytes = 0


class _Held:
    """The overlay of one shard."""

    __slots__ = ("applied_lsn", "groups", "lsns", "pending", "values")

    def __init__(self, applied_lsn: Lsn) -> None:
        self.applied_lsn = applied_lsn
        self.values: dict[bytes, bytes | None] = {}
        self.lsns: dict[bytes, Lsn] = {}
        self.pending: deque[_Record] = deque()
        self.groups: defaultdict[bytes, Group] = defaultdict(Group)


class Overlay:
    """Newest values by shard and key, and what the shards still have to apply."""

    def __init__(self, applied: Sequence[Lsn]) -> None:
        """Begin empty; `applied` is the LSN that each shard has reached."""
        self._shards = [_Held(lsn) for lsn in applied]
        self._values = [held.values for held in self._shards]
        self._changes = 0
        self.held_bytes = 0
        """Keys and values of all pending changes."""

    def __len__(self) -> int:
        """Return the number of pending changes: several of one key count each, since each takes memory."""
        return self._changes

    def put(self, lsn: Lsn, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Take one change of a journal record; LSNs ascend. Nothing happens if the shard has applied that record."""
        held = self._shards[shard]
        if lsn <= held.applied_lsn:
            return
        pending = held.pending
        if not pending or pending[-1].lsn != lsn:
            assert not pending or pending[-1].lsn < lsn, "journal records arrive in order"
            pending.append(_Record(lsn))
        if key not in held.values and (prefix_bytes := _LISTED_TABLES.get(key[0])):
            held.groups[key[:prefix_bytes]].add(key)
        held.values[key] = value
        held.lsns[key] = lsn
        size_bytes = len(key) if value is None else len(key) + len(value)
        pending[-1].changes.append((key, value))
        pending[-1].size_bytes += size_bytes
        self.held_bytes += size_bytes
        self._changes += 1

    def get(self, shard: ShardId, key: bytes) -> bytes | Missing | None:
        """Return the newest value, None for a deleted key, `MISSING` if the shard is to be asked."""
        return self._values[shard].get(key, MISSING)

    def rows(self, shard: ShardId, prefix: bytes, first_key: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """Return keys from `first_key` on that begin with `prefix`, and their values, tombstones included, in order.

        Cheap if `prefix` is that of a group; else it looks at every key of the shard. No change may be made while the
        iterator is in use.
        """
        held = self._shards[shard]
        values = held.values
        if _LISTED_TABLES.get(prefix[0]) == len(prefix):
            group = held.groups.get(prefix)
            ordered: Iterable[bytes] = group.keys_from(first_key) if group else ()
        else:
            ordered = sorted(key for key in values if key >= first_key and key.startswith(prefix))
        for key in ordered:
            value = values.get(key, MISSING)
            if value is not MISSING:
                yield key, value

    def take_batch(self, shards: Iterable[ShardId], through: Lsn, max_records: int = BATCH_MAX_RECORDS) -> list[ShardBatch]:
        """Return what these shards have to apply next, of records up to `through`; empty if there is nothing.

        Nothing is removed: what a shard does not apply is in its next batch again. A batch ends after `max_records`
        records or `BATCH_MAX_BYTES`, never inside of a record; shards that wait longest come first.
        """
        waiting = [shard for shard in shards if self._shards[shard].pending]
        waiting.sort(key=lambda shard: self._shards[shard].pending[0].lsn)
        batches, left_bytes = [], BATCH_MAX_BYTES
        for shard in waiting:
            batch, records, size_bytes = _collect(shard, self._shards[shard], through, max_records, left_bytes)
            max_records -= records
            left_bytes -= size_bytes
            if records:
                batches.append(batch)
        return batches

    def applied(self, shard: ShardId, lsn: Lsn) -> None:
        """Note that a shard has committed all its records up to `lsn`: drop what it now says itself."""
        held = self._shards[shard]
        held.applied_lsn = max(lsn, held.applied_lsn)
        pending = held.pending
        while pending and pending[0].lsn <= lsn:
            record = pending.popleft()
            self._changes -= len(record.changes)
            self.held_bytes -= record.size_bytes
            for key, _ in record.changes:
                if held.lsns.get(key, lsn + 1) <= lsn:
                    _drop(held, key)

    def oldest_pending_lsn(self) -> Lsn | None:
        """Return the oldest journal record that some shard has not applied, None if there is none."""
        return min((held.pending[0].lsn for held in self._shards if held.pending), default=None)


def _drop(held: _Held, key: bytes) -> None:
    """Let a key go, and now and then clear its group of the keys that have gone."""
    del held.values[key]
    del held.lsns[key]
    prefix_bytes = _LISTED_TABLES.get(key[0])
    if not prefix_bytes:
        return
    prefix = key[:prefix_bytes]
    group = held.groups[prefix]
    group.drops += 1
    if group.drops * 2 >= len(group):
        group.keep(held.values)
        if not len(group):
            del held.groups[prefix]


def _collect(shard: ShardId, held: _Held, through: Lsn, max_records: int, max_bytes: int) -> tuple[ShardBatch, int, int]:
    """Return a batch of whole records, how many they are and the size of their changes."""
    changes: dict[bytes, bytes | None] = {}
    last, records, size_bytes = held.applied_lsn, 0, 0
    for record in held.pending:
        if record.lsn > through or records >= max_records or size_bytes >= max_bytes:
            break
        changes.update(record.changes)
        last, records = record.lsn, records + 1
        size_bytes += record.size_bytes
    return ShardBatch(shard, last, changes), records, size_bytes
