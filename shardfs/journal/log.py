"""The journal that a server writes: append before the reply, sync in groups, recycle what the shards have.

Invariants:
- Operations have the LSNs ``1, 2, 3, ...`` without a gap. A failed append uses none: the next one writes over it.
- ``durable_lsn <= last_lsn``; a power loss keeps every operation up to `durable_lsn`.
- When a sync frame is written, every segment before the one that it is in is durable, and so is that one's name.
  `sync` takes the segment that is current when it begins, and stays with it if a rotation finishes it meanwhile: so
  it has a bounded number of files to sync, however fast operations come. Operations leave room for that one frame.
- The segment with the newest finished sync is never recycled: replay finds its end by that frame.

Threads: `append` is the loop thread's, `sync`, `prepare` and `recycle` are for I/O threads. `_lock` guards the current
segment, the finished ones and the LSNs; it is never held across a sync, but when a rotation finds no spare and has to
make one. `_sync_lock` lets one sync run at a time, `_upkeep_lock` one making or recycling of files, and `close` waits
for both. Order: `_upkeep_lock`, `_sync_lock`, `_lock`.

After a failed fdatasync the kernel may have dropped the bytes and reports the failure only once. So the journal
refuses everything from then on; the next start reads what is left.
"""

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from shardfs import limits
from shardfs.errors import DeviceFailed, Exists, InternalError, ShardfsError
from shardfs.format.frames import (
    HEADER_BLOCK_BYTES,
    SYNC_FRAME_BYTES,
    Change,
    FrameKind,
    JournalHeader,
    SyncMark,
    encode_frame,
    encode_operation,
    encode_sync,
    frame_size_bytes,
)
from shardfs.ids import Epoch, Lsn, RequestId
from shardfs.journal.replay import Replayed, ReplayedSegment
from shardfs.journal.segments import Segment, SparePool, segment_sequence
from shardfs.observe.counters import Counters
from shardfs.observe.points import reach
from shardfs.storage.files import BackingFile, Storage

_SALT_BITS = 64


def create_journal(storage: Storage, directory: str, volume_id: bytes, *, segment_bytes: int = limits.JOURNAL_SEGMENT_BYTES) -> None:
    """Make the directory and an empty journal in it, of epoch 0; durable on return.

    Raises Exists if there is a journal already.
    """
    storage.make_dir(directory)
    storage.sync_dir(os.path.dirname(directory) or ".")
    if any(segment_sequence(name) is not None for name in storage.list_dir(directory)):
        raise Exists(f"there is a journal in {directory} already; remove it, or name another directory")
    header = JournalHeader(volume_id, 1, Epoch(0), Lsn(1), 0, storage.boot_id(), secrets.randbits(_SALT_BITS))
    spares = SparePool(storage, directory, segment_bytes)
    spares.begin_durable(header, SyncMark(Lsn(0), Lsn(0))).file.close()
    spares.close()


class Journal:
    """The journal of a running server; `Journal.start` makes one."""

    def __init__(self, finished: list[Segment], current: Segment, spares: SparePool, after: Replayed, counters: Counters) -> None:
        self.last_lsn = after.last_lsn
        """The LSN of the newest operation."""
        self.durable_lsn = after.synced_lsn
        """Operations up to this LSN survive a power loss."""
        self._finished = finished
        self._current = current
        self._synced_sequence = current.header.sequence
        self._spares = spares
        self._counters = counters
        room_bytes = spares.segment_bytes - HEADER_BLOCK_BYTES - 2 * SYNC_FRAME_BYTES
        self._frame_max_bytes = min(limits.JOURNAL_FRAME_MAX_BYTES, room_bytes)
        self._failure: ShardfsError | None = None
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._upkeep_lock = threading.Lock()

    @classmethod
    def start(
        cls,
        storage: Storage,
        directory: str,
        volume_id: bytes,
        after: Replayed,
        epoch: Epoch,
        counters: Counters,
        *,
        segment_bytes: int = limits.JOURNAL_SEGMENT_BYTES,
    ) -> "Journal":
        """Begin a new segment, and epoch, behind what was replayed; durable on return.

        What was replayed and not synced is still not durable together with its data: `durable_lsn` says so.
        """
        assert epoch > after.last_epoch, "an epoch is never used twice"
        finished = [_reopen(storage, segment, rewrite=after.same_boot) for segment in after.chain]
        header = JournalHeader(
            volume_id=volume_id,
            sequence=after.last_sequence + 1,
            epoch=epoch,
            first_lsn=Lsn(after.last_lsn + 1),
            previous_sequence=after.chain[-1].header.sequence if after.chain else 0,
            boot_id=storage.boot_id(),
            salt=secrets.randbits(_SALT_BITS),
        )
        spares = SparePool(storage, directory, segment_bytes)
        current = spares.begin_durable(header, SyncMark(after.synced_lsn, after.synced_lsn))
        spares.recycle([(path, storage.open(path)) for path in after.stale])
        spares.prepare()
        return cls(finished, current, spares, after, counters)

    @property
    def segments(self) -> int:
        """How many segments hold operations that are not recycled yet, the current one included."""
        return len(self._finished) + 1

    @property
    def size_bytes(self) -> int:
        """What the journal takes on its disk, spares included."""
        return (self.segments + len(self._spares)) * self._spares.segment_bytes

    def append(self, request: RequestId, kind: str, changes: Sequence[Change]) -> Lsn:
        """Write one operation and return its LSN.

        On return it survives the death of this process. Raises NoSpace or DeviceFailed, and then nothing was appended.
        """
        reach("journal.before_append")
        payload = encode_operation(request, kind, changes)
        size_bytes = frame_size_bytes(len(payload))
        if size_bytes > self._frame_max_bytes:
            raise InternalError(f"operation {kind} makes a journal frame of {size_bytes} bytes, {self._frame_max_bytes} are allowed")
        with self._lock:
            self._make_room(size_bytes)
            lsn = Lsn(self.last_lsn + 1)
            _write(self._current, encode_frame(self._current.header, FrameKind.OPERATION, lsn, payload))
            self.last_lsn = lsn
        self._counters.add("journal.appends")
        self._counters.add("journal.bytes", size_bytes)
        reach("journal.after_append")
        return lsn

    def sync(self, through: Lsn) -> None:
        """Make all operations up to `through` durable. Their data must be durable already.

        Raises DeviceFailed if a disk fails, after which the journal refuses everything; NoSpace or DeviceFailed if only
        the sync frame could not be written, after which the journal goes on.
        """
        with self._sync_lock:
            assert through <= self.last_lsn
            if through <= self.durable_lsn:
                return
            segment = self._write_sync(SyncMark(through, self.durable_lsn))
            self._durably(segment.file.sync)
            with self._lock:
                self.durable_lsn = through
                self._synced_sequence = segment.header.sequence
        self._counters.add("journal.syncs")

    def prepare(self) -> None:
        """Make a spare segment if there is none, so that the next rotation is quick. Raises NoSpace, DeviceFailed."""
        with self._upkeep_lock:
            self._spares.prepare()

    def recycle(self, below: Lsn) -> None:
        """Free the segments of which every operation has an LSN < `below`; those must be durable in the shards."""
        assert below <= self.durable_lsn + 1
        freed = []
        with self._upkeep_lock:
            with self._lock:
                while self._finished and self._is_free(below):
                    freed.append(self._finished.pop(0))
            self._spares.recycle([(segment.path, segment.file) for segment in freed])

    def close(self) -> None:
        """Close all files. Afterwards a late `prepare` or `recycle` does nothing; nothing else may be called."""
        with self._upkeep_lock, self._sync_lock, self._lock:
            for segment in (*self._finished, self._current):
                segment.file.close()
            self._finished.clear()
            self._spares.close()

    def _is_free(self, below: Lsn) -> bool:
        """Whether the oldest finished segment can go: what follows it begins at or before `below`."""
        oldest, following = self._finished[0], (*self._finished, self._current)[1]
        return following.header.first_lsn <= below and oldest.header.sequence < self._synced_sequence

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise DeviceFailed(f"the journal is closed since a sync failed: {self._failure}") from self._failure

    def _make_room(self, size_bytes: int) -> None:
        """Begin a new segment if this and a sync frame do not fit into the current one. Needs `_lock`."""
        self._check_usable()
        current = self._current
        if current.end + size_bytes + SYNC_FRAME_BYTES <= self._spares.segment_bytes:
            return
        header = replace(
            current.header,
            sequence=current.header.sequence + 1,
            first_lsn=Lsn(self.last_lsn + 1),
            previous_sequence=current.header.sequence,
            salt=secrets.randbits(_SALT_BITS),
        )
        self._current = self._spares.begin(header)
        self._finished.append(current)
        self._counters.add("journal.rotations")
        reach("journal.after_rotate")

    def _write_sync(self, mark: SyncMark) -> Segment:
        """Write a sync frame once all before its segment is durable; return the segment. Needs `_sync_lock`."""
        with self._lock:
            self._make_room(SYNC_FRAME_BYTES)
            segment = self._current
            unsynced = [finished for finished in self._finished if not finished.synced]
        if unsynced:
            self._durably(lambda: self._spares.storage.sync_dir(self._spares.directory))
        for finished in unsynced:
            self._durably(finished.file.sync)
            finished.synced = True
        with self._lock:
            _write(segment, encode_sync(segment.header, mark))
        return segment

    def _durably(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except ShardfsError as error:
            self._failure = error
            raise DeviceFailed(f"the journal could not be synced and takes nothing more: {error}") from error


def _write(segment: Segment, frame: bytes) -> None:
    """Write a frame for which there is room. After an error the next frame takes its place. Needs `Journal._lock`."""
    segment.file.pwrite(frame, segment.end)
    segment.end += len(frame)


def _reopen(storage: Storage, segment: ReplayedSegment, *, rewrite: bool) -> Segment:
    """Open a segment of an earlier epoch and make it durable.

    In the same boot its bytes may be in the page cache only, and if a sync failed before, the kernel takes them for
    written: so they are written again.
    """
    file: BackingFile = storage.open(segment.path)
    if rewrite:
        file.pwrite(file.pread(file.stat().size, 0), 0)
    file.sync()
    return Segment(segment.path, file, segment.header, file.stat().size, synced=True)
