"""The files of segments, of which more may exist than a process can hold open.

Invariant: a pinned file stays open; of those that nobody has pinned, at most `IDLE_FILES` are open, and the one used
longest ago is closed first.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from shardfs.ids import DiskId, SegmentId
from shardfs.storage.files import BackingFile, Storage

IDLE_FILES = 256
_NAME = re.compile("seg-([0-9a-f]{16})")


@dataclass(eq=False, slots=True)
class Segment:
    """One segment: where its file is, how much of it is used, how many of its records are live."""

    segment: SegmentId
    disk: DiskId
    path: str
    size_bytes: int
    used_bytes: int
    records: int = 0
    file: BackingFile | None = None
    pins: int = 0

    @property
    def left_bytes(self) -> int:
        """How much of it is not used."""
        return self.size_bytes - self.used_bytes

    def opened(self) -> BackingFile:
        """Return the file, which the caller has pinned."""
        assert self.file, f"{self.path} is not open"
        return self.file


def segments_directory(disk_path: str) -> str:
    """Return the directory of a disk's segments."""
    return f"{disk_path}/segments"


def segment_name(segment: SegmentId) -> str:
    """Return the name of a segment's file."""
    return f"seg-{segment:016x}"


def parse_segment_name(name: str) -> SegmentId | None:
    """Return which segment a file of this name is; None if it is none."""
    match = _NAME.fullmatch(name)
    return SegmentId(int(match[1], 16)) if match else None


class SegmentFiles:
    """Opens, pins and closes the files of segments. Any thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = Lock()
        self._idle: OrderedDict[Segment, None] = OrderedDict()

    def pin(self, segment: Segment) -> BackingFile:
        """Return the open file, which stays open until `unpin`; raises `NotFound` if it is gone."""
        while not (file := self.pin_open(segment)):
            self._offer(segment, self._storage.open(segment.path))
        return file

    def pin_open(self, segment: Segment) -> BackingFile | None:
        """Return the same as `pin` if the file is open already; None otherwise."""
        with self._lock:
            if segment.file:
                segment.pins += 1
                self._idle.pop(segment, None)
            return segment.file

    def unpin(self, segment: Segment) -> None:
        """Let go of a file."""
        with self._lock:
            segment.pins -= 1
            assert segment.pins >= 0, f"{segment.path} was not pinned"
            if not segment.pins:
                self._idle[segment] = None
            surplus = self._pop_surplus()
        if surplus:
            surplus.close()

    @contextmanager
    def pinned(self, segment: Segment) -> Iterator[BackingFile]:
        """Pin a file for as long as the context lasts."""
        file = self.pin(segment)
        try:
            yield file
        finally:
            self.unpin(segment)

    def detach(self, segment: Segment) -> bool:
        """Close a file for good, so that it can be renamed or removed; False, and nothing done, while it is pinned."""
        with self._lock:
            if segment.pins:
                return False
            self._idle.pop(segment, None)
            file, segment.file = segment.file, None
        if file:
            file.close()
        return True

    def close(self, segments: Iterable[Segment]) -> None:
        """Close the files of these segments, pinned or not."""
        with self._lock:
            self._idle.clear()
            for segment in segments:
                if segment.file:
                    segment.file.close()
                    segment.file = None

    def _offer(self, segment: Segment, file: BackingFile) -> None:
        """Make this the segment's open file, unless another thread was faster."""
        with self._lock:
            if not segment.file:
                segment.file = file
                self._idle[segment] = None
                return
        file.close()

    def _pop_surplus(self) -> BackingFile | None:
        if len(self._idle) <= IDLE_FILES:
            return None
        segment, _ = self._idle.popitem(last=False)
        file, segment.file = segment.file, None
        return file
