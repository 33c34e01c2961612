"""Which segments there are, and the disk space in them: open ones, spares, dead ones, and how new ones are made.

Each hot disk has one open segment, to which records are appended, and spares, which have their name, header and disk
space already. A segment that a record does not fit into is closed for good. One that is closed and holds no live record
is dead: it becomes a spare under a new number, or is removed.

Invariants:
- A segment's number is higher than any that the disks or the record tables knew before it was made.
- `usable_bytes` is the sum over open and spare segments of what is left in them, less one record of the largest size
  each. Records of that many bytes fit in: as long as some of them wait, one segment has room for the largest.
- A dead segment is touched only when nobody has it pinned: readers pin, and so does what has yet to be synced.

`open_for`, `gain` and `count_append` belong to the loop thread, `reclaim` and `refill` to any. The lock guards the tables
and is never held during I/O.
"""

import logging
from collections import deque
from contextlib import suppress
from threading import Lock

from shardfs.data.disks import Disks, no_room
from shardfs.data.segment_files import Segment, SegmentFiles, segment_name, segments_directory
from shardfs.data.unsynced import Unsynced
from shardfs.errors import DeviceFailed, NoSpace, NotFound, ShardfsError
from shardfs.format.records import SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header, record_size_bytes
from shardfs.ids import DiskId, Epoch, SegmentId
from shardfs.limits import NAME_MAX_BYTES
from shardfs.observe.counters import Counters
from shardfs.storage.files import Storage

log = logging.getLogger(__name__)

SPARES_PER_DISK = 2
"""A dead segment becomes a spare only while its disk has fewer."""
_PAGE_BYTES = 4096


class SegmentSpace:
    """All segments of all hot disks, and where the next record goes."""

    def __init__(
        self,
        storage: Storage,
        disks: Disks,
        files: SegmentFiles,
        unsynced: Unsynced,
        volume_id: bytes,
        epoch: Epoch,
        segment_bytes: int,
        pack_threshold_bytes: int,
        counters: Counters,
    ) -> None:
        self.largest_bytes = record_size_bytes(NAME_MAX_BYTES, pack_threshold_bytes)
        assert SEGMENT_HEADER_BYTES + self.largest_bytes < segment_bytes, "a segment holds more than one record"
        self.segments: dict[SegmentId, Segment] = {}
        self.usable_bytes = 0
        self.last = 0
        self._storage = storage
        self._disks = disks
        self._files = files
        self._unsynced = unsynced
        self._volume_id = volume_id
        self._epoch = epoch
        self._segment_bytes = segment_bytes
        self._counters = counters
        self._lock = Lock()
        self._open: dict[DiskId, Segment] = {}
        self._spares: dict[DiskId, deque[Segment]] = {disk: deque() for disk in disks}
        self._dead: list[Segment] = []

    def directory(self, disk: DiskId) -> str:
        """Return the directory of a disk's segments."""
        return segments_directory(self._disks.path(disk))

    def path(self, disk: DiskId, segment: SegmentId) -> str:
        """Return the file of a segment."""
        return f"{self.directory(disk)}/{segment_name(segment)}"

    def open_for(self, size_bytes: int) -> Segment:
        """Return a segment with room for a record, on the disk whose turn it is if that can be; raises `NoSpace`."""
        assert size_bytes <= self.largest_bytes, f"a record of {size_bytes} bytes is beyond the pack threshold"
        while True:
            for disk in (self._disks.choose(), *self._disks):
                segment = self._open.get(disk)
                if segment and segment.left_bytes >= size_bytes:
                    return segment
                if self._spares[disk]:
                    return self._roll(disk)
            self.gain()

    def count_append(self, segment: Segment, size_bytes: int) -> None:
        """Count a record in that was appended."""
        with self._lock:
            usable_bytes = self._usable(segment)
            segment.used_bytes += size_bytes
            segment.records += 1
            self.usable_bytes += self._usable(segment) - usable_bytes

    def count_drop(self, segment: Segment) -> None:
        """Count a record out."""
        with self._lock:
            segment.records -= 1
            assert segment.records >= 0, f"{segment.path} has fewer records than were freed"
            if not segment.records and self._open.get(segment.disk) is not segment:
                self._dead.append(segment)

    def gain(self, *, from_kept: bool = False) -> None:
        """Get more room, from dead segments or from a disk.

        Raises `NoSpace` if no disk has any, `DeviceFailed` if one fails that may have some.
        `from_kept` allows to take from what stays free on a disk otherwise.
        """
        usable_bytes = self.usable_bytes
        self.reclaim()
        if self.usable_bytes > usable_bytes:
            return
        failed: ShardfsError | None = None
        for disk in self._disks.by_room():
            try:
                self._allocate(disk, from_kept=from_kept)
                return
            except NoSpace as error:
                log.debug("no further segment on disk %d: %s", disk, error)
            except (NotFound, DeviceFailed) as error:
                log.error("no further segment on disk %d, the other disks are tried: %s", disk, error)
                failed = error
        if failed is not None:
            raise DeviceFailed(f"a hot disk has gone: {failed}; bring it back") from failed
        raise no_room(map(self._disks.path, self._disks))

    def reclaim(self) -> None:
        """Turn dead segments into spares, or remove them; those that are pinned wait for another time."""
        with self._lock:
            dead, self._dead = self._dead, []
        for segment in dead:
            if not self._files.detach(segment):
                with self._lock:
                    self._dead.append(segment)
                continue
            with self._lock:
                del self.segments[segment.segment]
            try:
                self._recycle(segment)
            except ShardfsError as error:
                log.warning("%s is not in use any more but keeps its disk space until the next mount: %s", segment.path, error)

    def refill(self) -> None:
        """Have a spare on each disk that has plenty of room."""
        for disk, spares in self._spares.items():
            if not spares and self._disks.room_bytes(disk) >= 2 * self._segment_bytes:
                with suppress(NoSpace):  # whoever needs the room will be told by `gain`
                    self._allocate(disk)

    def give_back(self) -> None:
        """Return to the disks what is allocated and not used; nothing can be appended afterwards."""
        spares = [segment for spares in self._spares.values() for segment in list(spares)]
        for segment in (*self._open.values(), *spares, *self._dead):
            try:
                if segment.records:
                    segment.opened().truncate(segment.used_bytes)
                else:
                    self._storage.remove(segment.path)
            except ShardfsError as error:
                log.warning("%s keeps more space than it needs until the next mount: %s", segment.path, error)

    def _roll(self, disk: DiskId) -> Segment:
        """Close a disk's open segment and open a spare."""
        with self._lock:
            full = self._open.get(disk)
            segment = self._open[disk] = self._spares[disk].popleft()
            if full and not full.records:
                self._dead.append(full)
        if full:
            self._files.unpin(full)
        return segment

    def _usable(self, segment: Segment) -> int:
        return max(0, segment.left_bytes - self.largest_bytes)

    def _allocate(self, disk: DiskId, *, from_kept: bool = False) -> None:
        """Add a spare, smaller than others if the disk is nearly full; raises `NoSpace`."""
        room_bytes = self._disks.room_bytes(disk, with_kept=from_kept) // _PAGE_BYTES * _PAGE_BYTES
        size_bytes = min(self._segment_bytes, room_bytes)
        if size_bytes < min(self._segment_bytes, SEGMENT_HEADER_BYTES + 2 * self.largest_bytes):
            raise no_room([self._disks.path(disk)])
        self._make_spare(disk, size_bytes, recycled=None)
        self._counters.add("segment.allocated")

    def _recycle(self, segment: Segment) -> None:
        if segment.size_bytes == self._segment_bytes and len(self._spares[segment.disk]) < SPARES_PER_DISK:
            self._make_spare(segment.disk, segment.size_bytes, recycled=segment.path)
            self._counters.add("segment.recycled")
        else:
            self._storage.remove(segment.path)
            self._counters.add("segment.removed")

    def _make_spare(self, disk: DiskId, size_bytes: int, recycled: str | None) -> None:
        """Add a spare of this size, in a new file or in that of a dead segment."""
        with self._lock:
            self.last += 1
            number = SegmentId(self.last)
        path = self.path(disk, number)
        if recycled:
            self._storage.rename(recycled, path)
        file = self._storage.open(path, create=not recycled, exclusive=not recycled)
        try:
            file.allocate(0, size_bytes)
            file.pwrite(encode_segment_header(SegmentHeader(disk, self._volume_id, number, self._epoch)), 0)
        except ShardfsError:
            file.close()
            self._storage.remove(path)
            raise
        # Pinned as long as it is a spare or open.
        segment = Segment(number, disk, path, size_bytes, SEGMENT_HEADER_BYTES, file=file, pins=1)
        self._unsynced.add(segment)
        self._unsynced.add_name(segment)
        with self._lock:
            self.segments[number] = segment
            self._spares[disk].append(segment)
            self.usable_bytes += self._usable(segment)
