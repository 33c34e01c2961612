"""What the metadata is now: the overlay where it says something, else the shards. Every read of the server goes here.

A value leaves the overlay only after its shard has committed it, and each read of a shard begins a new transaction:
so a key that is in the overlay or in the shard is always found. Loop thread only.

Listing a directory goes by ascending h through the parts that hold its entries: below `split_below_h` the split shards,
each with its range of h, and from there on the home shard. Within a part, the rows of overlay and shard are merged.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from shardfs.format import keys
from shardfs.format.values import Entry, Inode, decode_entry
from shardfs.ids import Ino, ShardId
from shardfs.meta.overlay import MISSING, Overlay
from shardfs.meta.shard import Shard

_KEYS_PER_SCAN = 256
_Rows = Iterator[tuple[bytes, bytes]]


class _Part(NamedTuple):
    """A shard that holds the entries of a directory with ``first_h <= h < end_h``."""

    shard: ShardId
    first_h: int
    end_h: int


class View:
    """Reads through the overlay; `shards` are the volume's, by number."""

    def __init__(self, shards: Sequence[Shard], overlay: Overlay) -> None:
        self.shards = shards
        self.overlay = overlay
        self._held = overlay.get
        self._stored = [shard.get for shard in shards]

    def get(self, shard: ShardId, key: bytes) -> bytes | None:
        """Return the value of a key, None if there is none; raises `CorruptValue` or `CorruptShard`."""
        value = self._held(shard, key)
        return self._stored[shard](key) if value is MISSING else value

    def scan(self, shard: ShardId, prefix: bytes, limit: int, after: bytes = b"") -> list[tuple[bytes, bytes]]:
        """Return up to `limit` keys of a shard that begin with `prefix` and come after `after`, and their values."""
        first_key = max(prefix, after + b"\0") if after else prefix
        return list(islice(self._rows(shard, prefix, first_key, limit), limit))

    def scan_keys(self, shard: ShardId, prefix: bytes) -> Iterator[bytes]:
        """Return all keys of a shard that begin with `prefix`, in order; what goes while the iterator is in use may be missing."""
        after = b""
        while rows := self.scan(shard, prefix, _KEYS_PER_SCAN, after):
            after = rows[-1][0]
            yield from (key for key, _ in rows)

    def list_entries(self, directory: Inode, after_h: int, limit: int) -> list[tuple[int, bytes, Entry]]:
        """Return h, name and entry of a directory's next entries with h > `after_h`, by ascending h.

        They are `limit` (at least 1) or the few more that have the same h as the last of these: whoever goes on after
        the last h misses none. Fewer than `limit` are all that is left.
        """
        listed: list[tuple[int, bytes, Entry]] = []
        for part in _parts(directory, after_h + 1, len(self.shards)):
            for key, value in self._part_rows(directory.ino, part, limit - len(listed)):
                _, h, name = keys.parse_entry_key(key)
                if len(listed) >= limit and h != listed[-1][0]:
                    return listed
                listed.append((h, name, decode_entry(value)))
            if len(listed) >= limit:
                return listed  # one h lies in one part
        return listed

    def _part_rows(self, parent: Ino, part: _Part, wanted: int) -> _Rows:
        end_key = keys.entry_from(parent, part.end_h)
        for row in self._rows(part.shard, keys.entry_prefix(parent), keys.entry_from(parent, part.first_h), wanted + 1):
            if row[0] >= end_key:
                return
            yield row

    def _rows(self, shard: ShardId, prefix: bytes, first_key: bytes, chunk: int) -> _Rows:
        """Return what overlay and shard say together, in order and without tombstones; reads `chunk` keys at a time."""
        stored = self._stored_rows(shard, prefix, first_key, chunk)
        held = self.overlay.rows(shard, prefix, first_key)
        return _merge(stored, held)

    def _stored_rows(self, shard: ShardId, prefix: bytes, first_key: bytes, chunk: int) -> _Rows:
        while True:
            rows = self.shards[shard].scan(first_key, prefix, chunk)
            yield from rows
            if len(rows) < chunk:
                return
            first_key = rows[-1][0] + b"\0"


def _merge(stored: _Rows, held: Iterator[tuple[bytes, bytes | None]]) -> _Rows:
    """Merge two ascending iterators; for a key in both, what is held counts, and None is a tombstone."""
    row = next(stored, None)
    for key, value in held:
        while row is not None and row[0] < key:
            yield row
            row = next(stored, None)
        if row is not None and row[0] == key:
            row = next(stored, None)
        if value is not None:
            yield key, value
    if row is not None:
        yield row
        yield from stored


def _parts(directory: Inode, first_h: int, shards: int) -> Iterator[_Part]:
    """Return the parts of a directory that hold entries with h >= `first_h`, by ascending h."""
    below_h = directory.split_below_h
    while first_h < below_h:
        shard = keys.split_shard(first_h, shards)
        end_h = min(below_h, -(-((shard + 1) << keys.HASH_BITS) // shards))
        yield _Part(shard, first_h, end_h)
        first_h = end_h
    if first_h < keys.HASH_END:
        yield _Part(keys.home_shard(directory.ino, shards), first_h, keys.HASH_END)
