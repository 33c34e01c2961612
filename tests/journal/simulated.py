"""A disk in memory that can lose power, fail, and stop the process at any of its calls.

The fault model: what was written and not synced is, page by page, kept, dropped or half of it kept; of the names that
were changed since the last `sync_dir` the first few changes are kept. Synced bytes and names are always kept. After a
sync that failed, the bytes can still be read but are taken for written, and a power loss drops them. The death of a
process loses nothing, but the call in which it dies may have written a part.
"""

import os
import random
from collections.abc import Callable

from shardfs.errors import Exists, NotFound, ShardfsError
from shardfs.storage.files import Bytes, DiskSpace, FileStat

PAGE_BYTES = 512


class Stopped(BaseException):
    """The process dies in this call; no handler of errors may stop that."""


class Node:
    """A file: its bytes as a process sees them, those on the disk, and the pages in which they differ."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()

    def write(self, data: Bytes, offset: int) -> None:
        end = offset + len(data)
        self.cached.extend(bytes(max(0, end - len(self.cached))))
        self.cached[offset:end] = data
        self.dirty.update(range(offset // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1))

    def settle(self, page: int, content: bytes) -> None:
        """Put one page on the disk."""
        start = page * PAGE_BYTES
        self.durable.extend(bytes(max(0, start + len(content) - len(self.durable))))
        self.durable[start : start + len(content)] = content

    def page(self, page: int) -> bytes:
        return bytes(self.cached[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])

    def lose_power(self, share_of: Callable[[], int]) -> None:
        for page in sorted(self.dirty):
            share = share_of()
            if share:
                self.settle(page, self.page(page)[:share])
        self.cached = bytearray(self.durable)
        self.dirty = set()


class SimulatedDisk:
    """A `Storage` in memory.

    `stop_in` calls from now the process dies. `refusals` are errors that the next calls of a method raise, in order.
    `during_sync` is called in the middle of every sync, as another thread could be at work then.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.stop_in: int | None = None
        self.refusals: dict[str, list[ShardfsError]] = {}
        self.during_sync: Callable[[], object] = lambda: None
        self._boot = 1
        self._names: dict[str, Node] = {}
        self._durable_names: dict[str, Node] = {}
        self._changes: list[tuple[str, Node | None, str | None]] = []

    def lose_power(self, *, names: int | None = None, share: int | None = None) -> None:
        """Begin another boot with what the disk has kept.

        Of what was not synced that is the first `names` changes of names, and `share` bytes of each page; random if None.
        """
        names = self.rng.randint(0, len(self._changes)) if names is None else names
        for path, node, old in self._changes[:names]:
            _change(self._durable_names, path, node, old)
        self._changes = []
        for node in {id(node): node for node in self._durable_names.values()}.values():
            node.lose_power(lambda: self.rng.choice((0, PAGE_BYTES // 2, PAGE_BYTES)) if share is None else share)
        self._names = dict(self._durable_names)
        self._boot += 1
        self.stop_in = None

    def content(self, path: str) -> bytearray:
        """The bytes of a file as a process sees them, to look at or to damage."""
        return self._names[path].cached

    def call(self, method: str) -> None:
        """Every call that changes something comes through here first."""
        if self.stop_in is not None:
            self.stop_in -= 1
            if self.stop_in < 0:
                raise Stopped
        if self.refusals.get(method):
            raise self.refusals[method].pop(0)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> "SimulatedFile":
        if exclusive and path in self._names:
            raise Exists(path)
        if path not in self._names:
            if not create:
                raise NotFound(path)
            self.call("create")
            self._note(path, Node(), None)
        return SimulatedFile(self, self._names[path])

    def read_small(self, path: str) -> bytes:
        return bytes(self._names[path].cached)

    def replace_small(self, path: str, data: bytes) -> None:
        raise NotImplementedError("the journal has no small files")

    def remove(self, path: str) -> None:
        self.call("remove")
        self._note(path, None, None)

    def rename(self, old: str, new: str) -> None:
        self.call("rename")
        self._note(new, self._names[old], old)

    def make_dir(self, path: str) -> None:
        self.call("make_dir")

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.path.basename(name) for name in self._names if os.path.dirname(name) == path)

    def exists(self, path: str) -> bool:
        return path in self._names

    def sync_dir(self, path: str) -> None:
        self.call("sync_dir")
        taken, self._changes = self._changes, []
        try:
            self.during_sync()
        except BaseException:
            self._changes = taken + self._changes
            raise
        for change in taken:
            _change(self._durable_names, *change)

    def sync_disk(self, path: str) -> None:
        raise NotImplementedError("the journal syncs its own files")

    def remove_tree(self, path: str) -> None:
        raise NotImplementedError("the journal removes its own files")

    def space(self, path: str) -> DiskSpace:
        return DiskSpace(1 << 40, 1 << 39, 1 << 39)

    def boot_id(self) -> bytes:
        return self._boot.to_bytes(16, "little")

    def _note(self, path: str, node: Node | None, old: str | None) -> None:
        _change(self._names, path, node, old)
        self._changes.append((path, node, old))


def _change(names: dict[str, Node], path: str, node: Node | None, old: str | None) -> None:
    if old is not None:
        names.pop(old, None)
    if node is None:
        names.pop(path, None)
    else:
        names[path] = node


class SimulatedFile:
    """A `BackingFile` of a `SimulatedDisk`."""

    def __init__(self, disk: SimulatedDisk, node: Node) -> None:
        self._disk = disk
        self._node = node

    def fileno(self) -> int:
        raise NotImplementedError("a simulated file has no descriptor")

    def pread(self, size: int, offset: int) -> bytes:
        return bytes(self._node.cached[offset : offset + size])

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        return self.pread(size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        try:
            self._disk.call("pwrite")
        except (Stopped, ShardfsError):
            part = self._disk.rng.randint(0, len(data))
            if part:
                self._node.write(bytes(data)[:part], offset)
            raise
        self._node.write(data, offset)

    def sync(self) -> None:
        node = self._node
        try:
            self._disk.call("sync")
        except ShardfsError:
            node.dirty = set()
            raise
        taken = {page: node.page(page) for page in sorted(node.dirty)}
        node.dirty = set()
        try:
            self._disk.during_sync()
        except BaseException:
            node.dirty |= set(taken)
            raise
        for page, content in taken.items():
            node.settle(page, content)

    def truncate(self, size: int) -> None:
        raise NotImplementedError("the journal does not truncate")

    def allocate(self, offset: int, size: int) -> None:
        raise NotImplementedError("the journal writes zeros instead")

    def stat(self) -> FileStat:
        return FileStat(len(self._node.cached), 0, len(self._node.cached) // 512)

    def close(self) -> None:
        """There is nothing to close."""
