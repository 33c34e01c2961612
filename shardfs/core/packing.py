"""Packed files that are being written: their slots, and sealing them into records.

A packed file's content is an immutable record. To change it, the file gets a slot in shared memory, which holds the
whole content; writes and truncations change only the slot. *Sealing* appends the slot's content to a segment as a new
record, journals the inode that points to it, and gives the slot back.

Invariants:

- While a file has a slot, the slot holds its newest content, size and mtime; the inode holds what was sealed last.
- A slot is freed right after the record that replaces it is in the journal, in the same turn: so a slot that is found
  dirty after a crash is never older than the inode.
- `reserved[ino]` bytes are reserved in the segments: at least what sealing will append. So sealing never runs out of space.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from shardfs.core.transaction import Transaction
from shardfs.core.turn import BlockedOnWork
from shardfs.core.volume import Volume
from shardfs.data.slots import Slot
from shardfs.errors import CorruptionError, CorruptRecord, NoSpace, NotFound, ShardfsError
from shardfs.format.records import RECORD_OVERHEAD_BYTES, RecordHeader
from shardfs.format.values import Inode, PackedPlace
from shardfs.ids import NO_RECORD, Ino, Lsn, RecordId, ino_shard
from shardfs.limits import IDLE_SEAL_S
from shardfs.observe import points

log = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_SEALS = 64
"""How many idle files are sealed at a time: each takes the loop a while."""


def blocks_of(size: int) -> int:
    """Return how many 512-byte blocks stat(2) tells of packed content."""
    return (size + 511) >> 9


class Packer:
    """The packed files that have a slot, oldest first. Loop thread only."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._slots: dict[Ino, Slot] = {}
        self._reserved: dict[Ino, int] = {}

    def __len__(self) -> int:
        """Return how many files have a slot."""
        return len(self._slots)

    def slot(self, ino: Ino) -> Slot | None:
        """Return a file's slot, or None if it has none."""
        return self._slots.get(ino)

    def inos(self) -> list[Ino]:
        """Return the files that have a slot, oldest first."""
        return list(self._slots)

    def adopt(self, slot: Slot) -> None:
        """Take over a slot that was found dirty after a crash."""
        # The segments in which there was room for it are closed: it may take what data never takes otherwise.
        self._reserve(slot.ino, slot.size, from_kept=True)
        self._slots[slot.ino] = slot

    def payload(self, record: RecordId, place: PackedPlace, ino: Ino) -> bytes:
        """Return a record's content: from memory or the page cache, else raise `Blocked` and read it from the disk."""
        payload = self._volume.records.get(record)
        if payload is None:
            payload = self._volume.segments.read_cached(place)
        if payload is None:
            raise self._read_blocked(record, place, ino)
        return payload

    def _read_blocked(self, record: RecordId, place: PackedPlace, ino: Ino) -> BlockedOnWork:
        volume = self._volume

        def work() -> bytes | CorruptRecord:
            try:
                return volume.segments.read(place)
            except CorruptRecord as damage:
                return damage

        def absorb(result: bytes | CorruptRecord) -> None:
            if isinstance(result, bytes):
                volume.records.put(record, result)
            elif volume.inodes.get(ino).record == record:  # else it was replaced and freed while the job ran
                raise result

        volume.counters.add("segment.reads_blocked")
        return BlockedOnWork(work, absorb)

    def open_slot(self, inode: Inode) -> Slot:
        """Return the file's slot, taking one if need be and loading the content into it.

        Raises `NoSpace`, or `Blocked` if the content must be read from the disk first.
        """
        slot = self._slots.get(inode.ino)
        if slot is not None:
            return slot
        content = b""
        if inode.record != NO_RECORD:
            place = self._volume.record(inode.record).place
            assert isinstance(place, PackedPlace), "solo files have no slot"
            content = self.payload(inode.record, place, inode.ino)
        self._reserve(inode.ino, len(content))
        try:
            slot = self._slots[inode.ino] = self._take_slot(inode, content)
        except ShardfsError:
            self._volume.segments.release(self._reserved.pop(inode.ino))
            raise
        return slot

    def _take_slot(self, inode: Inode, content: bytes) -> Slot:
        def take() -> Slot | None:
            return self._volume.slots.take(inode.ino, len(content), inode.mtime_ns, inode.ctime_ns, content)

        slot = self._with_relief(inode.ino, take)
        while slot is None:  # all slots are in use
            if not self._seal_oldest(inode.ino):
                raise NoSpace(f"no slot in shared memory is left for inode {inode.ino}; close files that are being written")
            slot = take()
        return slot

    def write(self, inode: Inode, offset: int, data: bytes, now_ns: int) -> None:
        """Write into a file's slot. Raises `NoSpace` before anything has changed."""
        slot = self.open_slot(inode)
        self._reserve(inode.ino, max(slot.size, offset + len(data)))
        self._with_relief(inode.ino, lambda: slot.write(offset, data, now_ns))

    def truncate(self, inode: Inode, size: int, now_ns: int) -> None:
        """Set the size of a file's slot. Raises `NoSpace` before anything has changed."""
        slot = self.open_slot(inode)
        self._reserve(inode.ino, max(slot.size, size))
        self._with_relief(inode.ino, lambda: slot.truncate(size, now_ns))

    def _with_relief(self, ino: Ino, use_memory: Callable[[], T]) -> T:
        """Do what takes slot memory; while there is too little, seal the oldest slots of other files."""
        while self._volume.slots.over_budget and self._seal_oldest(ino):
            pass
        while True:
            try:
                return use_memory()
            except NoSpace:
                if not self._seal_oldest(ino):
                    raise

    def _seal_oldest(self, keep: Ino) -> bool:
        """Seal the slot that was taken first, but for the one to keep; return whether there was any."""
        self._volume.counters.add("slot.pressure")
        return any(ino != keep and self.seal_if_sound(ino) for ino in self.inos())

    def seal_idle(self, now_ns: int) -> None:
        """Seal some of the files that nobody has changed for a while: a slot outlives no power loss."""
        idle = [ino for ino, slot in self._slots.items() if now_ns - slot.ctime_ns > IDLE_SEAL_S * 10**9]
        for ino in idle[:IDLE_SEALS]:
            self.seal_if_sound(ino)

    def seal_if_sound(self, ino: Ino) -> bool:
        """Seal a slot, and return whether that was possible: where the inode is damaged, the content stays in the slot."""
        try:
            self.seal(ino)
        except (CorruptionError, NotFound) as damage:
            log.error("what was written to inode %d stays in memory: %s", ino, damage)
            return False
        return True

    def _reserve(self, ino: Ino, size: int, *, from_kept: bool = False) -> None:
        wanted = RECORD_OVERHEAD_BYTES + size
        more = wanted - self._reserved.get(ino, 0)
        if more > 0:
            self._volume.segments.reserve(more, from_kept=from_kept)
            self._reserved[ino] = wanted

    def seal(self, ino: Ino) -> None:
        """Append a slot's content to a segment as a new record and let the inode point to it."""
        slot = self._slots[ino]
        self._reserve(ino, slot.size)  # in case that an earlier try has failed halfway
        tx = Transaction(self._volume, "seal")
        inode = tx.inode(ino)
        tx.release_record(inode.record)
        inode.size, inode.mtime_ns, inode.ctime_ns = slot.size, slot.mtime_ns, max(inode.ctime_ns, slot.ctime_ns)
        inode.record, inode.blocks = NO_RECORD, blocks_of(slot.size)
        place = self._append(inode, slot, tx) if slot.size else None
        try:
            tx.commit()
        except ShardfsError:
            if place is not None:
                self._volume.segments.drop_live(place)
            raise
        points.reach("seal.before_free")
        self.discard(ino)

    def _append(self, inode: Inode, slot: Slot, tx: Transaction) -> PackedPlace:
        volume = self._volume
        inode.record = volume.numbers.new_record(ino_shard(inode.ino))
        volume.segments.release(self._reserved.pop(inode.ino))
        place = volume.segments.append(_header(inode, Lsn(volume.journal.last_lsn + 1)), slot.content())
        tx.add_record(inode.record, place)
        return place

    def discard(self, ino: Ino) -> None:
        """Give a slot back without sealing it: its content is elsewhere or of no use any more."""
        slot = self._slots.pop(ino, None)
        if slot is not None:
            self._volume.slots.free(slot)
            self._volume.segments.release(self._reserved.pop(ino, 0))


def _header(inode: Inode, lsn: Lsn) -> RecordHeader:
    return RecordHeader(
        inode.record, inode.ino, lsn, inode.parent, inode.name, inode.mode, inode.uid, inode.gid, inode.mtime_ns
    )
