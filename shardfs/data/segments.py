"""Segments: extent files of a fixed size, allocated beforehand, which hold the records of packed files.

Files are ``segments/seg-<16 hex digits>`` on each disk; `shardfs.data.segment_space` tells how they come and go.

Invariants:
- Nothing is written behind `used_bytes` of a segment but the next record, and nothing before it ever again. A server
  appends only to segments that it made itself: one that is stuck in a write, though killed, cannot reach them.
- `reserved <= usable`, so that everything reserved can be appended.
- A record counts as live from its append to `drop_live`.
- A payload is returned only if it matches the checksum in its place.

`reserve`, `release`, `append`, `drop_live`, `read_cached`, `free_bytes` and `close` belong to the loop thread; `read`,
`sync` and `refill` to any.
"""

import logging
from collections.abc import Sequence

from shardfs.data.disks import Disks
from shardfs.data.segment_files import Segment, SegmentFiles, parse_segment_name, segment_name
from shardfs.data.segment_space import SegmentSpace
from shardfs.data.unsynced import Unsynced
from shardfs.errors import CorruptRecord, NotFound
from shardfs.format.records import RecordHeader, encode_record_header, header_size_bytes, payload_checksum, record_size_bytes
from shardfs.format.values import PackedPlace
from shardfs.ids import DiskId, Epoch, SegmentId
from shardfs.meta.usage import Usage
from shardfs.observe.counters import Counters
from shardfs.observe.points import reach
from shardfs.storage.files import Storage

log = logging.getLogger(__name__)


class SegmentStore:
    """The records of packed files, on all hot disks; made by `open`."""

    def __init__(
        self, storage: Storage, disks: Disks, files: SegmentFiles, unsynced: Unsynced, space: SegmentSpace, counters: Counters
    ) -> None:
        self._storage = storage
        self._disks = disks
        self._files = files
        self._unsynced = unsynced
        self._space = space
        self._counters = counters
        self._reserved_bytes = 0

    @classmethod
    def open(
        cls,
        storage: Storage,
        disks: Sequence[tuple[DiskId, str]],
        volume_id: bytes,
        segment_bytes: int,
        pack_threshold_bytes: int,
        epoch: Epoch,
        usage: Usage,
        counters: Counters,
    ) -> "SegmentStore":
        """Find the segments on all disks, and lay in spares.

        What replay brought must be durable before: a segment that `usage` does not name is removed, and one that it
        names is cut off behind its last live record. With damage in the record tables everything is left as it is.
        """
        places = Disks(storage, disks)
        files = SegmentFiles(storage)
        unsynced = Unsynced(storage, files, counters)
        space = SegmentSpace(storage, places, files, unsynced, volume_id, epoch, segment_bytes, pack_threshold_bytes, counters)
        store = cls(storage, places, files, unsynced, space, counters)
        store._find_all(usage)
        space.refill()
        return store

    def reserve(self, size_bytes: int, *, from_kept: bool = False) -> None:
        """Promise room for records to come: `RECORD_OVERHEAD_BYTES` for each and the bytes of its payload.

        Raises `NoSpace` if no disk has room for another segment; then nothing is reserved. `from_kept` counts as room what
        data never takes otherwise: for content that an earlier server had reserved room for.
        """
        while self._reserved_bytes + size_bytes > self._space.usable_bytes:
            self._space.gain(from_kept=from_kept)
        self._reserved_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Give back what was reserved, when its record is appended or will never be."""
        self._reserved_bytes -= size_bytes
        assert self._reserved_bytes >= 0, "released more than was reserved"

    def append(self, header: RecordHeader, payload: bytes | memoryview) -> PackedPlace:
        """Append a record, of a payload up to the pack threshold, and return its place, which counts as live.

        The payload's length and checksum in the header are set here. Raises `NoSpace` if nothing was reserved for it and
        there is no room, and `DeviceFailed`; then nothing has changed.
        """
        size_bytes = record_size_bytes(len(header.name), len(payload))
        segment = self._space.open_for(size_bytes)
        checksum = payload_checksum(payload)
        head = encode_record_header(header._replace(length_bytes=len(payload), payload_checksum=checksum), segment.segment)
        offset = segment.used_bytes
        segment.opened().pwrite(b"".join((head, payload, bytes(size_bytes - len(head) - len(payload)))), offset)
        reach("segment.after_append")
        self._unsynced.add(segment)
        self._space.count_append(segment, size_bytes)
        self._counters.add("segment.appends")
        self._counters.add("segment.bytes", size_bytes)
        return PackedPlace(segment.segment, offset, len(payload), checksum, len(header.name))

    def drop_live(self, place: PackedPlace) -> None:
        """Count a record out: its freeing is durable, or it never came into the journal."""
        segment = self._space.segments.get(place.segment)
        if segment is None:
            log.warning("a record is freed in segment %s, which is on no disk", segment_name(place.segment))
        else:
            self._space.count_drop(segment)

    def read_cached(self, place: PackedPlace) -> bytes | None:
        """Return a record's payload if that takes no wait for the disk, else None; raises `CorruptRecord`."""
        segment = self._segment_of(place)
        file = self._files.pin_open(segment)
        if file is None:
            return None
        try:
            payload = file.pread_cached(place.length_bytes, place.offset + header_size_bytes(place.name_bytes))
        finally:
            self._files.unpin(segment)
        return None if payload is None else self._verified(segment, place, payload)

    def read(self, place: PackedPlace) -> bytes:
        """Return a record's payload; raises `CorruptRecord`, also if the record was freed in the meantime, and `DeviceFailed`."""
        segment = self._segment_of(place)
        try:
            with self._files.pinned(segment) as file:
                payload = file.pread(place.length_bytes, place.offset + header_size_bytes(place.name_bytes))
        except NotFound as error:
            raise CorruptRecord(f"the segment {segment.path} is gone; run shardfs fsck") from error
        return self._verified(segment, place, payload)

    def sync(self) -> None:
        """Make durable every record whose `append` returned before this call.

        Raises `DeviceFailed`, and after one failure always.
        """
        self._unsynced.sync()

    def refill(self) -> None:
        """Recycle or remove dead segments, look how full the disks are, and keep a spare on each that has room."""
        self._space.reclaim()
        self._disks.refresh()
        self._space.refill()
        if self._unsynced.has_names:
            self.sync()

    def free_bytes(self) -> int:
        """Return what records can still take of the disk space that is allocated already, unless it is reserved."""
        return max(0, self._space.usable_bytes - self._reserved_bytes)

    def close(self) -> None:
        """Give back the disk space that nothing is in, and close all files; without syncing anything."""
        self._space.give_back()
        self._files.close(list(self._space.segments.values()))

    def _find_all(self, usage: Usage) -> None:
        """Take over the segments of all disks."""
        self._space.last = max(usage.segments, default=0)
        for disk in self._disks:
            directory = self._space.directory(disk)
            if not self._storage.exists(directory):
                self._storage.make_dir(directory)
                self._storage.sync_dir(self._disks.path(disk))
            for name in self._storage.list_dir(directory):
                number = parse_segment_name(name)
                if number is None:
                    log.warning("%s/%s is no segment; it is left alone", directory, name)
                else:
                    self._take_over(disk, number, usage)
        for number in sorted(usage.segments.keys() - self._space.segments.keys()):
            log.error("segment %s is on no disk: its %d files cannot be read", segment_name(number), usage.segments[number].records)

    def _take_over(self, disk: DiskId, number: SegmentId, usage: Usage) -> None:
        space = self._space
        space.last = max(space.last, number)
        used = usage.segments.get(number)
        segment = Segment(number, disk, space.path(disk, number), 0, 0, used.records if used else 0)
        if usage.damaged:
            segment.records += 1  # a record that cannot be told may be here: the segment never dies
        elif used:
            self._trim(segment, used.end_bytes)
        else:
            self._storage.remove(segment.path)
            self._counters.add("segment.removed")
            return
        space.segments[number] = segment

    def _trim(self, segment: Segment, end_bytes: int) -> None:
        """Cut off what an earlier server allocated and did not use, or whose records nothing refers to."""
        with self._files.pinned(segment) as file:
            size_bytes = file.stat().size
            if size_bytes > end_bytes:
                file.truncate(end_bytes)
            elif size_bytes < end_bytes:
                log.error("%s has lost its end, from byte %d on, and the files there; run shardfs fsck", segment.path, size_bytes)

    def _segment_of(self, place: PackedPlace) -> Segment:
        segment = self._space.segments.get(place.segment)
        if segment is None:
            raise CorruptRecord(f"the segment {segment_name(place.segment)} is on no hot disk; run shardfs fsck")
        return segment

    def _verified(self, segment: Segment, place: PackedPlace, payload: bytes) -> bytes:
        if len(payload) != place.length_bytes or payload_checksum(payload) != place.checksum:
            self._counters.add("segment.corrupt")
            raise CorruptRecord(f"the record at byte {place.offset} of {segment.path} does not match its checksum; restore the file")
        return payload
