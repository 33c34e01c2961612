"""Open files and directories: the handles that the kernel holds, and how many of them an inode has."""

import itertools
from collections import Counter

from shardfs.core.interface import OpenHandle
from shardfs.errors import BadHandle
from shardfs.ids import HandleId, Ino


class HandleTable:
    """Handles by number. Loop thread only."""

    def __init__(self) -> None:
        self._serial = itertools.count(1)
        self._handles: dict[HandleId, OpenHandle] = {}
        self._open: Counter[Ino] = Counter()
        self._writers: Counter[Ino] = Counter()

    def __len__(self) -> int:
        """Return how many handles are open."""
        return len(self._handles)

    def open(self, ino: Ino, *, writable: bool = False) -> HandleId:
        """Return a new handle of an inode."""
        handle = HandleId(next(self._serial))
        self._handles[handle] = OpenHandle(handle, ino, writable)
        self._open[ino] += 1
        self._writers[ino] += writable
        return handle

    def get(self, handle: HandleId) -> OpenHandle:
        """Return an open handle; raises `BadHandle`."""
        opened = self._handles.get(handle)
        if opened is None:
            raise BadHandle(f"handle {handle} is not open")
        return opened

    def close(self, handle: HandleId) -> OpenHandle | None:
        """Close a handle and return what it was; None if it was closed before."""
        opened = self._handles.pop(handle, None)
        if opened is not None:
            _decrement(self._open, opened.ino, 1)
            _decrement(self._writers, opened.ino, opened.writable)
        return opened

    def is_open(self, ino: Ino) -> bool:
        """Return whether an inode has open handles."""
        return ino in self._open

    def has_writers(self, ino: Ino) -> bool:
        """Return whether an inode has handles that may write."""
        return self._writers[ino] > 0


def _decrement(counts: Counter[Ino], ino: Ino, amount: int) -> None:
    counts[ino] -= amount
    if counts[ino] <= 0:
        del counts[ino]
