"""What the records of a volume take on its disks: counted from the record tables at mount, for `shardfs.data`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.format.records import record_size_bytes
from shardfs.format.values import Place, SoloPlace, decode_record_entry, open_value
from shardfs.ids import SegmentId
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
    """All places in use. `damaged` counts records whose place cannot be told: no segment is known to be without them."""

    segments: dict[SegmentId, SegmentUsage] = field(default_factory=dict)
    solos: set[SoloPlace] = field(default_factory=set)
    damaged: int = 0

    def add(self, place: Place) -> None:
        """Count a place in."""
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

    def remove(self, place: Place) -> None:
        """Count a place out that was counted in."""
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


def shard_usage(shards: Iterable[Shard]) -> Usage:
    """Count what the record tables of these shards hold."""
    usage = Usage()
    for shard in shards:
        for key, stored in shard.walk(keys.RECORD_TABLE):
            try:
                usage.add(decode_record_entry(open_value(key, stored)).place)
            except CorruptValue:
                usage.damaged += 1
    return usage


def collect_usage(view: View, stored: Usage) -> Usage:
    """Return `stored`, the usage of all shards, corrected by what the overlay says: the usage as it is now.

    No shard may have applied anything since it was counted.
    """
    for shard in view.shards:
        for key, value in view.overlay.rows(shard.shard, keys.RECORD_TABLE, keys.RECORD_TABLE):
            old = shard.get(key)
            if old is not None:
                stored.remove(decode_record_entry(old).place)
            if value is not None:
                stored.add(decode_record_entry(value).place)
    return stored
