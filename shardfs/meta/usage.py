"""What the records of a volume take on its disks: counted from the record tables at mount, for `shardfs.data`.

A place belongs to one record; files that share content share the record.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shardfs.errors import CorruptValue, SetupError
from shardfs.format import keys
from shardfs.format.records import record_size_bytes
from shardfs.format.values import Place, SoloPlace, decode_record_entry, open_value
from shardfs.ids import Lsn, SegmentId, ShardId
from shardfs.meta.shard import Shard
from shardfs.meta.view import View


@dataclass(slots=True)
class SegmentUsage:
    """What is live in one segment: bytes with headers and padding, records, and the end of the last of them.

    After a removal `end_bytes` may be beyond the end of what is left, never before it.
    """

    live_bytes: int = 0
    records: int = 0
    end_bytes: int = 0


@dataclass(slots=True)
class Usage:
    """All places in use.

    `damaged` counts records whose place cannot be told: no segment is known to be without them. `applied` tells how
    far each shard was when it was counted, at the latest.
    """

    segments: dict[SegmentId, SegmentUsage] = field(default_factory=dict)
    solos: set[SoloPlace] = field(default_factory=set)
    damaged: int = 0
    applied: dict[ShardId, Lsn] = field(default_factory=dict)

    def add(self, place: Place | None) -> None:
        """Count a place in; None is that of a damaged record."""
        if place is None:
            self.damaged += 1
            return
        if isinstance(place, SoloPlace):
            self.solos.add(place)
            return
        segment, offset, length_bytes, _, name_bytes = place
        size_bytes = record_size_bytes(name_bytes, length_bytes)
        used = self.segments.get(segment)
        if used is None:
            used = self.segments[segment] = SegmentUsage()
        used.live_bytes += size_bytes
        used.records += 1
        if offset + size_bytes > used.end_bytes:
            used.end_bytes = offset + size_bytes

    def remove(self, place: Place | None) -> None:
        """Count a place out that was counted in."""
        if place is None:
            self.damaged -= 1
            return
        if isinstance(place, SoloPlace):
            self.solos.remove(place)
            return
        used = self.segments[place.segment]
        used.live_bytes -= record_size_bytes(place.name_bytes, place.length_bytes)
        used.records -= 1
        assert used.live_bytes >= 0 and used.records >= 0
        if not used.records:
            del self.segments[place.segment]

    def merge(self, other: "Usage") -> None:
        """Count in all that another one holds, which comes from other shards."""
        for segment, more in other.segments.items():
            used = self.segments.setdefault(segment, SegmentUsage())
            used.live_bytes += more.live_bytes
            used.records += more.records
            used.end_bytes = max(used.end_bytes, more.end_bytes)
        self.solos |= other.solos
        self.damaged += other.damaged
        self.applied |= other.applied


def shard_usage(shards: Iterable[Shard]) -> Usage:
    """Count what the record tables of these shards hold."""
    usage = Usage()
    for shard in shards:
        state = shard.state()
        usage.applied[shard.shard] = state.applied_lsn
        found = 0
        for key, stored in shard.walk(keys.RECORD_TABLE):
            found += 1
            try:
                usage.add(decode_record_entry(open_value(key, stored)).place)
            except CorruptValue:
                usage.add(None)
        for _ in range(state.records - found):  # keys that LMDB has lost without a trace
            usage.add(None)
    return usage


def collect_usage(view: View, stored: Usage) -> Usage:
    """Return `stored`, the usage of all shards, corrected by what the overlay says: the usage as it is now.

    Raises `SetupError` if a shard has moved on since it was counted: only a worker of an earlier mount can do that.
    """
    replaced: list[Place | None] = []
    added: list[Place | None] = []
    for shard in view.shards:
        for key, value in view.overlay.rows(shard.shard, keys.RECORD_TABLE, b""):
            replaced.extend(_stored_places(shard, key))
            if value is not None:
                added.append(decode_record_entry(value).place)
    for shard in view.shards:
        if shard.state().applied_lsn != stored.applied[shard.shard]:
            raise SetupError(f"a worker of an earlier mount was still at work on {shard.path}; mount again")
    for place in replaced:
        stored.remove(place)
    for place in added:
        stored.add(place)
    return stored


def _stored_places(shard: Shard, key: bytes) -> list[Place | None]:
    """Return the place that was counted for a key: none if the shard does not have it."""
    try:
        value = shard.get(key)
        return [] if value is None else [decode_record_entry(value).place]
    except CorruptValue:
        return [None]
