"""A volume with small limits that is open without a mount, and a storage that tells what was synced when."""

import os
from pathlib import Path
from typing import Any

from shardfs.core.filesystem import FileSystem
from shardfs.core.formatting import FormatOptions, format_volume
from shardfs.core.interface import Attributes, Caller
from shardfs.core.opening import OpenOptions, open_volume
from shardfs.ids import ROOT_INO, HandleId, Ino
from shardfs.limits import KIB, MIB, OVERLAY_MAX_KEYS, SLOT_BUDGET_BYTES
from shardfs.meta.inline import InlineWorkers
from shardfs.storage.files import BackingFile
from shardfs.storage.real import RealStorage
from shardfs.testing.driver import drive
from shardfs.testing.loop import InlineLoop

ROOT = Caller(0, 0, 1)
PACK_THRESHOLD_BYTES = 16 * KIB
START_NS = 1_700_000_000_000_000_000
FORMAT = FormatOptions(
    shards=4, pack_threshold_bytes=PACK_THRESHOLD_BYTES, segment_bytes=1 * MIB, split_entries=16, journal_segment_bytes=MIB // 2
)


class TracedFile:
    """A backing file that notes its syncs and writes, by the name of its directory."""

    def __init__(self, file: BackingFile, kind: str, trace: list[str]) -> None:
        self._file = file
        self._kind = kind
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        """Sync, and note it."""
        self._file.sync()
        self._trace.append(f"sync {self._kind}")


class TracedStorage(RealStorage):
    """Real files; `trace` lists their syncs in order, such as ``sync segments``."""

    def __init__(self) -> None:
        self.trace: list[str] = []

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> Any:
        """Open a file whose syncs are noted."""
        parts = Path(path).parts
        kind = next((kind for kind in ("journal", "segments", "solo") if kind in parts), "other")
        return TracedFile(super().open(path, create=create, exclusive=exclusive), kind, self.trace)


class SmallVolume:
    """One volume in a directory, opened, and opened again at will."""

    def __init__(self, directory: Path, *, slot_budget_bytes: int = SLOT_BUDGET_BYTES, overlay_max_keys: int = OVERLAY_MAX_KEYS) -> None:
        self.directory = directory
        self.path = str(directory / "volume")
        self.storage = TracedStorage()
        self._options = OpenOptions(
            str(directory / "slots"),
            readonly_shards=False,
            slot_budget_bytes=slot_budget_bytes,
            overlay_max_keys=overlay_max_keys,
            journal_segment_bytes=MIB // 2,
        )
        format_volume(self.storage, self.path, START_NS, FORMAT)
        self.now_ns = START_NS
        self.open()

    def open(self) -> None:
        """Open the volume, which recovers it."""
        self.loop = InlineLoop()
        self.fs: FileSystem = open_volume(self.storage, self.path, self.loop, InlineWorkers, self._tick, self._options)
        self.volume = self.fs.session.volume

    def _tick(self) -> int:
        self.now_ns += 1000
        return self.now_ns

    def reopen_as_after_a_kill(self) -> None:
        """Drop everything that a killed server loses, and open again in the same boot."""
        self.fs.abandon()
        self.open()

    def call(self, verb: str, *arguments: object) -> Any:
        """Call an operation and wait for its answer."""
        return drive(self.loop, getattr(self.fs, verb), *arguments)

    def begin(self, name: bytes, content: bytes = b"", parent: Ino = ROOT_INO) -> tuple[Ino, HandleId]:
        """Create a file, write its content in one write, and leave it open."""
        attributes, handle = self.call("create", ROOT, parent, name, 0o644, os.O_RDWR)
        if content:
            self.call("write", handle, 0, content)
        return attributes.ino, handle

    def add(self, name: bytes, content: bytes = b"", parent: Ino = ROOT_INO) -> Ino:
        """Create a file with this content and close it."""
        ino, handle = self.begin(name, content, parent)
        self.call("release", handle)
        return ino

    def stat(self, name: bytes, parent: Ino = ROOT_INO) -> Attributes | None:
        """Return the attributes of a name, None if there is none."""
        found: Attributes | None = self.call("lookup", ROOT, parent, name)
        return found

    def read(self, name: bytes, parent: Ino = ROOT_INO) -> bytes:
        """Return the content of a file."""
        found = self.stat(name, parent)
        assert found is not None, f"{name!r} is missing"
        handle = self.call("open", ROOT, found.ino, os.O_RDONLY)
        content: bytes = self.call("read", handle, 0, found.size + 1)
        self.call("release", handle)
        return content

    def names(self, directory: Ino, page: int = 7) -> list[bytes]:
        """Return the names in a directory, in the order of the listing, without the dots."""
        handle, offset = self.call("opendir", directory), 2
        names: list[bytes] = []
        while rows := self.call("readdir", handle, offset, page):
            names.extend(row.name for row in rows)
            offset = rows[-1].next_offset
        self.call("releasedir", handle)
        return names

    def close(self) -> None:
        """Unmount cleanly, whatever a test has left."""
        if not self.fs.session.is_closed:
            self.fs.shutdown()
