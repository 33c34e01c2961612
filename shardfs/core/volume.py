"""An open volume: its parts, and what the operations share. Loop thread only.

Invariant: bytes are freed in the order of the journal, and only when the record that frees them is durable. Until then
a power loss could bring back the inode that points to them.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shardfs.core.inodes import InodeTable
from shardfs.core.loop import Loop
from shardfs.core.numbers import Numbers
from shardfs.data.cache import RecordCache
from shardfs.data.segments import SegmentStore
from shardfs.data.slots import SlotTable
from shardfs.data.solo import SoloStore
from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.format.superblock import Superblock
from shardfs.format.values import PackedPlace, Place, RecordEntry, SoloPlace, decode_record_entry
from shardfs.ids import Lsn, RecordId, record_shard
from shardfs.journal.log import Journal
from shardfs.meta.delivery import Delivery, WorkerLink
from shardfs.meta.overlay import Overlay
from shardfs.meta.view import View
from shardfs.observe.counters import Counters
from shardfs.storage.files import Storage

log = logging.getLogger(__name__)


@dataclass
class Volume:
    """What a mounted volume consists of."""

    path: str
    superblock: Superblock
    storage: Storage
    loop: Loop
    now_ns: Callable[[], int]
    counters: Counters
    journal: Journal
    overlay: Overlay
    view: View
    link: WorkerLink
    delivery: Delivery
    inodes: InodeTable
    numbers: Numbers
    slots: SlotTable
    segments: SegmentStore
    solos: SoloStore
    records: RecordCache
    inode_count: int
    """How many inodes exist."""
    background: int = 0
    """How many jobs of `in_background` have not ended."""
    _freed: deque[tuple[Lsn, Place]] = field(default_factory=deque)

    @property
    def shards(self) -> int:
        """How many shards the volume has."""
        return self.superblock.shards

    def record(self, record: RecordId) -> RecordEntry:
        """Return where a record is; raises `CorruptValue` if the record table does not know it."""
        value = self.view.get(record_shard(record), keys.record_key(record))
        if value is None:
            raise CorruptValue(f"record {record} is missing from the record table of {self.path}; run shardfs fsck")
        return decode_record_entry(value)

    def free_later(self, lsn: Lsn, places: Iterable[Place]) -> None:
        """Free these places when the journal is durable up to `lsn`."""
        self._freed.extend((lsn, place) for place in places)

    def free_durable(self, through: Lsn) -> None:
        """Free what records up to `through` have freed."""
        while self._freed and self._freed[0][0] <= through:
            place = self._freed.popleft()[1]
            if isinstance(place, PackedPlace):
                self.segments.drop_live(place)
            else:
                self.discard_solo(place)

    def discard_solo(self, place: SoloPlace) -> None:
        """Remove a backing file that nothing durable points to."""
        self.in_background(lambda: self.solos.discard(place), "a backing file could not be removed")

    def in_background(self, work: Callable[[], None], failure: str) -> None:
        """Run work on an I/O thread whose failure hurts nobody at once: it is logged, and tried again some time."""

        def done(_result: object, error: Exception | None) -> None:
            self.background -= 1
            if error is not None:
                log.error("%s: %s", failure, error)

        self.background += 1
        self.loop.run_blocking(work, done)
