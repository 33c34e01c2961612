"""What of the segments is not durable yet, and making it so.

Invariants:
- A segment in here is pinned, so that it stays open, and is not recycled, until its sync.
- `sync` never returns before an earlier one has made durable what it took over: it waits for it.
- The lock over the tables is never held during I/O.
"""

import os
from threading import Lock

from shardfs.data.segment_files import Segment, SegmentFiles
from shardfs.errors import DeviceFailed, ShardfsError
from shardfs.observe.counters import Counters
from shardfs.storage.files import Storage


class Unsynced:
    """Segments with unsynced bytes and directories with unsynced names. Any thread."""

    def __init__(self, storage: Storage, files: SegmentFiles, counters: Counters) -> None:
        self._storage = storage
        self._files = files
        self._counters = counters
        self._lock = Lock()
        self._sync_lock = Lock()
        self._segments: set[Segment] = set()
        self._directories: set[str] = set()
        self._broken = ""

    @property
    def has_names(self) -> bool:
        """Whether there is a name that is not durable."""
        return bool(self._directories)

    def add(self, segment: Segment) -> None:
        """Let the next sync include the bytes of a segment, which is open."""
        with self._lock:
            if segment not in self._segments:
                self._segments.add(segment)
                self._files.pin_open(segment)

    def add_name(self, segment: Segment) -> None:
        """Let the next sync include the name of a segment."""
        with self._lock:
            self._directories.add(os.path.dirname(segment.path))

    def sync(self) -> None:
        """Make durable what was added before this call.

        Raises `DeviceFailed` for good after one failure: a second fdatasync would say that all is well, though the kernel
        has dropped what it could not write.
        """
        with self._sync_lock:
            if self._broken:
                raise DeviceFailed(f"packed files cannot be made durable since a sync failed ({self._broken}); mount again")
            with self._lock:
                segments, self._segments = self._segments, set()
                directories, self._directories = self._directories, set()
            try:
                self._sync_all(segments, directories)
            except ShardfsError as error:
                self._broken = str(error)
                raise
            finally:
                for segment in segments:
                    self._files.unpin(segment)

    def _sync_all(self, segments: set[Segment], directories: set[str]) -> None:
        for directory in sorted(directories):
            self._storage.sync_dir(directory)
        for segment in sorted(segments, key=lambda segment: segment.segment):
            segment.opened().sync()
        self._counters.add("segment.syncs", len(segments))
