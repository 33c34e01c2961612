"""The files of a journal: segments by sequence, and the spares that segments are made from and turn into.

A segment is a file ``j-<sequence, 16 hex digits>``, a spare is ``spare-<number>``. Both have the same size, and their
space on the disk is taken (zeros were written and synced) before anything counts on them: a journal that has a spare
does not run into a full disk.

Invariant: a file is called ``j-...`` only after the header of that segment was written to it, and a file that was
recycled is used again only after its new name is durable. So after the death of a process every segment has its
header, and after a power loss at most those lack it that no finished sync reached.
"""

import itertools
import os
from collections import deque
from collections.abc import Iterable
from typing import Final

from shardfs.errors import ShardfsError
from shardfs.format.frames import JournalHeader, SyncMark, encode_journal_header, encode_sync
from shardfs.storage.files import BackingFile, Storage

MAX_SPARES: Final = 8
_ZEROS: Final = bytes(1 << 20)
_SEGMENT_PREFIX: Final = "j-"
_SPARE_PREFIX: Final = "spare-"


def segment_name(sequence: int) -> str:
    """Return the file name of a segment."""
    return f"{_SEGMENT_PREFIX}{sequence:016x}"


def segment_sequence(name: str) -> int | None:
    """Return the sequence in a segment's file name; None if the name is not a segment's."""
    digits = name.removeprefix(_SEGMENT_PREFIX)
    if name != _SEGMENT_PREFIX + digits or len(digits) != 16 or not set(digits) <= set("0123456789abcdef"):
        return None
    return int(digits, 16)


class Segment:
    """An open segment: its frames end at `end`; `synced` once all of a finished one is durable."""

    __slots__ = ("end", "file", "header", "path", "synced")

    def __init__(self, path: str, file: BackingFile, header: JournalHeader, end: int, *, synced: bool) -> None:
        self.path = path
        self.file = file
        self.header = header
        self.end = end
        self.synced = synced


class SparePool:
    """Makes segments out of spares and spares out of segments. Any thread may call any method."""

    def __init__(self, storage: Storage, directory: str, segment_bytes: int) -> None:
        """Take over the spares that lie in the directory."""
        self.storage = storage
        self.directory = directory
        self.segment_bytes = segment_bytes
        self._spares: deque[tuple[str, BackingFile]] = deque()
        self._is_closed = False
        tails = [name.removeprefix(_SPARE_PREFIX) for name in storage.list_dir(directory) if name.startswith(_SPARE_PREFIX)]
        numbers = [int(tail) for tail in tails if tail.isdecimal()]
        self._numbers = itertools.count(max(numbers, default=0) + 1)
        for number in numbers:
            path = self._spare_path(number)
            self._keep(path, storage.open(path))

    def __len__(self) -> int:
        return len(self._spares)

    def prepare(self) -> None:
        """Make a spare if there is none. Takes tens of milliseconds, so it is no work for the loop thread."""
        if not self._spares and not self._is_closed:
            self._spares.append(self._make())

    def begin(self, header: JournalHeader) -> Segment:
        """Make a spare the segment of this header. Nothing of it is durable yet; on an error nothing has changed."""
        return self._begin(header, encode_journal_header(header), durable=False)

    def begin_durable(self, header: JournalHeader, mark: SyncMark) -> Segment:
        """Make a spare the segment of this header, with a first sync frame, all of it durable."""
        segment = self._begin(header, encode_journal_header(header) + encode_sync(header, mark), durable=True)
        self.storage.sync_dir(self.directory)
        return segment

    def _begin(self, header: JournalHeader, content: bytes, *, durable: bool) -> Segment:
        spare, file = self._take()
        path = os.path.join(self.directory, segment_name(header.sequence))
        try:
            file.pwrite(content, 0)
            if durable:
                file.sync()
            self.storage.rename(spare, path)
        except ShardfsError:
            self._spares.append((spare, file))
            raise
        return Segment(path, file, header, len(content), synced=False)

    def recycle(self, segments: Iterable[tuple[str, BackingFile]]) -> None:
        """Turn segments, oldest first, into spares; durable on return."""
        freed = []
        for path, file in segments:
            spare = self._spare_path(next(self._numbers))
            self.storage.rename(path, spare)
            freed.append((spare, file))
        if freed:
            self.storage.sync_dir(self.directory)
        for spare, file in freed:
            self._keep(spare, file)

    def close(self) -> None:
        """Close the files of the spares, and make no more."""
        self._is_closed = True
        while self._spares:
            self._spares.popleft()[1].close()

    def _keep(self, path: str, file: BackingFile) -> None:
        """Keep a spare if it is wanted; one of another size is left from other settings or a crash while made."""
        if len(self._spares) < MAX_SPARES and file.stat().size == self.segment_bytes:
            self._spares.append((path, file))
        else:
            file.close()
            self.storage.remove(path)

    def _take(self) -> tuple[str, BackingFile]:
        try:
            return self._spares.popleft()
        except IndexError:
            return self._make()

    def _make(self) -> tuple[str, BackingFile]:
        path = self._spare_path(next(self._numbers))
        file = self.storage.open(path, create=True, exclusive=True)
        try:
            for offset in range(0, self.segment_bytes, len(_ZEROS)):
                file.pwrite(_ZEROS[: self.segment_bytes - offset], offset)
            file.sync()
        except ShardfsError:
            file.close()
            self.storage.remove(path)
            raise
        return path, file

    def _spare_path(self, number: int) -> str:
        return os.path.join(self.directory, f"{_SPARE_PREFIX}{number}")
