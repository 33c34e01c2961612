"""The file system and the reference model side by side: every operation goes to both, and everything is compared.

Operations name inodes and handles by the model's numbers, wrapped in `Ref` and `Held`; `Twins` knows what they are
called in the file system.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from shardfs.core.filesystem import FileSystem
from shardfs.core.formatting import FormatOptions, format_volume
from shardfs.core.interface import Attributes, Caller, DirectoryRow
from shardfs.core.opening import OpenOptions, open_volume
from shardfs.errors import ShardfsError
from shardfs.ids import ROOT_INO, HandleId, Ino
from shardfs.limits import KIB
from shardfs.meta.inline import InlineWorkers
from shardfs.storage.real import RealStorage
from shardfs.testing.driver import drive
from shardfs.testing.loop import InlineLoop
from shardfs.testing.model import ModelFileSystem
from tests.core.checking import assert_clean

ROOT = Caller(0, 0, 1)
PACK_THRESHOLD_BYTES = 4 * KIB
START_NS = 4 * 10**18
"""The test's clock begins in 2096, so times of today come from the disk's own clock."""
TEST_MAX_NS = 3_600 * 10**9


class Ref(NamedTuple):
    """An inode, by the model's number."""

    ino: Ino


class Held(NamedTuple):
    """A handle, by the model's number."""

    handle: HandleId


class Outcome(NamedTuple):
    """What an operation answered: a result, or the class of its error."""

    result: Any
    error: type[ShardfsError] | None


FORMAT = FormatOptions(
    shards=4,
    pack_threshold_bytes=PACK_THRESHOLD_BYTES,
    segment_bytes=256 * KIB,
    split_entries=8,
    journal_segment_bytes=256 * KIB,
)
"""Tiny limits, so that a few operations reach every path."""


class Twins:
    """A fresh volume, in a new directory, and a fresh model."""

    def __init__(self, directory: Path) -> None:
        self._directory = Path(tempfile.mkdtemp(dir=directory))
        self._clock_ns = START_NS
        format_volume(RealStorage(), str(self.volume), START_NS, FORMAT)
        self.model = ModelFileSystem(lambda: self._clock_ns)
        self.inos: dict[Ino, Ino] = {ROOT_INO: ROOT_INO}
        self.handles: dict[HandleId, HandleId] = {}
        self._open()

    @property
    def volume(self) -> Path:
        """Where the volume lies."""
        return self._directory / "volume"

    def _open(self) -> None:
        self.loop = InlineLoop()
        options = OpenOptions(
            str(self._directory / "slots"),
            readonly_shards=False,
            slot_budget_bytes=16 * KIB,
            overlay_max_keys=200,
            journal_segment_bytes=256 * KIB,
        )
        self.core: FileSystem = open_volume(RealStorage(), str(self.volume), self.loop, InlineWorkers, lambda: self._clock_ns, options)

    # Operations

    def call(self, verb: str, *arguments: object) -> Outcome:
        """Do the same on both sides, assert that they answer the same, and return the model's answer."""
        self._clock_ns += 1_000
        model_arguments = [argument[0] if isinstance(argument, Ref | Held) else argument for argument in arguments]
        expected = _outcome(lambda: getattr(self.model, verb)(*model_arguments))
        core_arguments = [self._translate(argument) for argument in arguments]
        found = _outcome(lambda: drive(self.loop, getattr(self.core, verb), *core_arguments))
        assert found.error == expected.error, f"{verb}{arguments}: expected {expected}, got {found}"
        self._compare(verb, expected.result, found.result)
        return expected

    def _translate(self, argument: object) -> object:
        if isinstance(argument, Ref):
            return self.inos[argument.ino]
        return self.handles[argument.handle] if isinstance(argument, Held) else argument

    def _compare(self, verb: str, expected: Any, found: Any) -> None:
        if verb == "create" and expected is not None:
            self._compare_attributes(expected[0], found[0])
            self.handles[expected[1]] = found[1]
        elif verb in ("open", "opendir") and expected is not None:
            self.handles[expected] = found
        elif isinstance(expected, Attributes):
            self._compare_attributes(expected, found)
        elif verb == "listxattr" and expected is not None:
            assert sorted(expected) == sorted(found)
        else:
            assert expected == found, f"{verb}: expected {expected!r}, got {found!r}"

    def _compare_attributes(self, expected: Attributes, found: Attributes) -> None:
        assert found.ino == self.inos.setdefault(expected.ino, found.ino)
        assert _comparable(expected) == _comparable(found), f"expected {expected}, got {found}"

    # Life and death

    def advance(self, seconds: float) -> None:
        """Let time pass: commits, deliveries to the shards, splits."""
        self._clock_ns += int(seconds * 1e9)
        self.loop.advance(seconds)

    def reopen(self, *, clean: bool) -> None:
        """End the mount, cleanly or as SIGKILL does, and begin another in the same boot."""
        if clean:
            self.core.shutdown()
        else:
            self.core.abandon()
        self.model.restart()
        self.inos = {ino: known for ino, known in self.inos.items() if ino in self.model.nodes}
        self.handles.clear()
        self._open()
        if not clean:
            self._take_times_of_the_disk()

    def _take_times_of_the_disk(self) -> None:
        """Accept the times of large files that were open for writing: a crash leaves them with the disk's own clock."""
        for ino, node in self.model.nodes.items():
            found = drive(self.loop, self.core.getattr, ROOT, self.inos[ino])
            if stat.S_ISREG(node.mode) and 0 < time.time_ns() - found.mtime_ns < TEST_MAX_NS:
                node.mtime_ns, node.ctime_ns = found.mtime_ns, found.ctime_ns

    def finish(self) -> None:
        """Shut down in order; whatever comes of it, leave nothing open and nothing on the disk."""
        try:
            self.core.shutdown()
            assert_clean(self.volume)
        finally:
            for shard in self.core.session.volume.view.shards:
                shard.close()
            shutil.rmtree(self._directory)

    # Comparing all there is

    def compare_all(self) -> None:
        """Assert that every inode has the same attributes, content, entries and extended attributes on both sides."""
        for ino, node in self.model.nodes.items():
            self._compare_attributes(node.attributes(), drive(self.loop, self.core.getattr, ROOT, self.inos[ino]))
            assert sorted(drive(self.loop, self.core.listxattr, ROOT, self.inos[ino])) == sorted(node.xattrs)
            for name, value in node.xattrs.items():
                assert drive(self.loop, self.core.getxattr, self.inos[ino], name) == value
            if node.is_directory:
                self._compare_listing(ino)
            elif stat.S_ISREG(node.mode):
                assert self._content(self.inos[ino]) == node.content
        used = self.core.statfs()
        assert used.files - used.files_free == len(self.model.nodes)

    def _content(self, ino: Ino) -> bytes:
        handle = drive(self.loop, self.core.open, ROOT, ino, os.O_RDONLY)
        content = drive(self.loop, self.core.read, handle, 0, 1 << 30)
        drive(self.loop, self.core.release, handle)
        return content

    def rows(self, ino: Ino, limit: int, offset: int = 0) -> list[DirectoryRow]:
        """List a directory of the file system from an offset to its end."""
        handle = drive(self.loop, self.core.opendir, self.inos[ino])
        rows: list[DirectoryRow] = []
        while step := drive(self.loop, self.core.readdir, handle, rows[-1].next_offset if rows else offset, limit):
            rows.extend(step)
        drive(self.loop, self.core.releasedir, handle)
        return rows

    def _compare_listing(self, ino: Ino) -> None:
        node = self.model.nodes[ino]
        rows = self.rows(ino, 5)
        expected = dict(node.entries) | ({b".": ino, b"..": node.parent} if node.nlink else {})
        assert {row.name: row.attributes.ino for row in rows} == {name: self.inos[child] for name, child in expected.items()}
        assert len(rows) == len(expected)
        offsets = [row.next_offset for row in rows]
        assert offsets == sorted(offsets)


def _comparable(attributes: Attributes) -> tuple[int, ...]:
    a = attributes
    return a.mode, a.nlink, a.uid, a.gid, a.rdev, a.size, a.atime_ns, a.mtime_ns, a.ctime_ns


def _outcome(operation: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(operation(), None)
    except ShardfsError as error:
        return Outcome(None, type(error))
