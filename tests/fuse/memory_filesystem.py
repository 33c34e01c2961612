"""A file system in memory with the methods of `core`, small enough to see through: what the adapter is tested against."""

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace

from shardfs.core.interface import AttributeChanges, Attributes, Caller, DirectoryRow, Statfs
from shardfs.core.turn import Waiting
from shardfs.errors import Exists, NoAttribute, NotFound
from shardfs.ids import HandleId, Ino
from shardfs.observe.counters import Counters


class MemoryFileSystem:
    """Files, directories and attributes in dictionaries. `calls` counts the calls of each method."""

    def __init__(self) -> None:
        self.session = SimpleNamespace(volume=SimpleNamespace(counters=Counters()))
        self.calls: Counter[str] = Counter()
        self.log: list[tuple[object, ...]] = []
        self.attributes: dict[int, Attributes] = {}
        self.entries: dict[int, dict[bytes, int]] = {}
        self.content: dict[int, bytearray] = {}
        self.xattrs: dict[tuple[int, bytes], bytes] = {}
        self.lookups: Counter[int] = Counter()
        self.group_sizes: dict[bytes, int] = {}
        self._new(stat.S_IFDIR | 0o755, 0, 0)

    def _new(self, mode: int, uid: int, gid: int) -> Attributes:
        now_ns = time.time_ns()
        ino = Ino(len(self.attributes) + 1)
        made = Attributes(ino, mode, 2 if stat.S_ISDIR(mode) else 1, uid, gid, 0, 0, 0, now_ns, now_ns, now_ns)
        self.attributes[ino] = made
        if stat.S_ISDIR(mode):
            self.entries[ino] = {}
        else:
            self.content[ino] = bytearray()
        return made

    def _add(self, caller: Caller, parent: Ino, name: bytes, mode: int) -> Attributes:
        if name in self.entries[parent]:
            raise Exists(f"{name!r} exists")
        made = self._new(mode, caller.uid, caller.gid)
        self.entries[parent][name] = made.ino
        self.lookups[made.ino] += 1
        return made

    def lookup(self, caller: Caller, parent: Ino, name: bytes) -> Attributes | None:
        self.calls["lookup"] += 1
        ino = self.entries[parent].get(name)
        if ino is None:
            return None
        self.lookups[ino] += 1
        return self.attributes[ino]

    def forget(self, forgotten: Iterable[tuple[Ino, int]]) -> None:
        self.calls["forget"] += 1
        for ino, count in forgotten:
            self.lookups[ino] -= count

    def getattr(self, caller: Caller, ino: Ino) -> Attributes:
        self.calls["getattr"] += 1
        return self.attributes[ino]

    def setattr(self, caller: Caller, ino: Ino, changes: AttributeChanges, handle: HandleId | None) -> Attributes:
        self.calls["setattr"] += 1
        self.log.append(("setattr", changes))
        it = self.attributes[ino]
        if changes.mode is not None:
            it.mode = stat.S_IFMT(it.mode) | changes.mode
        it.uid = it.uid if changes.uid is None else changes.uid
        it.gid = it.gid if changes.gid is None else changes.gid
        if changes.size is not None:
            content = self.content[ino]
            content[changes.size :] = bytes(max(0, changes.size - len(content)))
            it.size = changes.size
        it.atime_ns = it.atime_ns if changes.atime_ns is None else changes.atime_ns
        it.mtime_ns = it.mtime_ns if changes.mtime_ns is None else changes.mtime_ns
        return it

    def readlink(self, caller: Caller, ino: Ino) -> bytes:
        return bytes(self.content[ino])

    def mknod(self, caller: Caller, parent: Ino, name: bytes, mode: int, rdev: int) -> Attributes:
        made = self._add(caller, parent, name, mode)
        made.rdev = rdev
        return made

    def mkdir(self, caller: Caller, parent: Ino, name: bytes, mode: int) -> Attributes:
        return self._add(caller, parent, name, mode)

    def unlink(self, caller: Caller, parent: Ino, name: bytes) -> None:
        self.attributes[self.entries[parent].pop(name)].nlink -= 1

    def rmdir(self, caller: Caller, parent: Ino, name: bytes) -> None:
        del self.entries[parent][name]

    def symlink(self, caller: Caller, parent: Ino, name: bytes, target: bytes) -> Attributes:
        made = self._add(caller, parent, name, stat.S_IFLNK | 0o777)
        self.content[made.ino] += target
        made.size = len(target)
        return made

    def rename(self, caller: Caller, parent: Ino, name: bytes, new_parent: Ino, new_name: bytes, flags: int) -> None:
        self.log.append(("rename", flags))
        self.entries[new_parent][new_name] = self.entries[parent].pop(name)

    def link(self, caller: Caller, ino: Ino, new_parent: Ino, new_name: bytes) -> Attributes:
        self.entries[new_parent][new_name] = ino
        self.lookups[ino] += 1
        self.attributes[ino].nlink += 1
        return self.attributes[ino]

    def open(self, caller: Caller, ino: Ino, flags: int) -> HandleId:
        self.calls["open"] += 1
        if flags & os.O_TRUNC:
            self.content[ino].clear()
            self.attributes[ino].size = 0
        return HandleId(ino)

    def create(self, caller: Caller, parent: Ino, name: bytes, mode: int, flags: int) -> tuple[Attributes, HandleId]:
        self.log.append(("create", mode, caller))
        made = self._add(caller, parent, name, mode)
        return made, HandleId(made.ino)

    def read(self, handle: HandleId, offset: int, size: int) -> bytes:
        self.calls["read"] += 1
        return bytes(self.content[handle][offset : offset + size])

    def write(self, handle: HandleId, offset: int, data: bytes) -> int:
        self.calls["write"] += 1
        content = self.content[handle]
        content += bytes(max(0, offset - len(content)))
        content[offset : offset + len(data)] = data
        self.attributes[Ino(handle)].size = len(content)
        return len(data)

    def fsync(self, handle: HandleId, datasync: bool) -> Waiting:
        return Waiting.done()

    def release(self, handle: HandleId) -> None:
        self.calls["release"] += 1

    def opendir(self, ino: Ino) -> HandleId:
        return HandleId(ino)

    def readdir(self, handle: HandleId, offset: int, limit: int) -> list[DirectoryRow]:
        self.calls["readdir"] += 1
        rows = [(b".", 1, Ino(handle), 1), (b"..", 2, Ino(handle), 1)]
        position = 2
        group_left = 0
        for name, ino in self.entries[handle].items():
            group = self.group_sizes.get(name, 1)
            group_left = group_left or group
            position += group_left == group
            rows.append((name, position, Ino(ino), group))
            group_left -= 1
        kept = [row for row in rows if row[1] > offset][:limit]
        return [DirectoryRow(name, next_offset, self.attributes[ino], group) for name, next_offset, ino, group in kept]

    def note_lookups(self, inos: Iterable[Ino]) -> None:
        for ino in inos:
            self.lookups[ino] += 1

    def releasedir(self, handle: HandleId) -> None:
        self.calls["releasedir"] += 1

    def fsyncdir(self, handle: HandleId, datasync: bool) -> Waiting:
        return Waiting.done()

    def statfs(self) -> Statfs:
        return Statfs(4096, 1000, 500, 400, 300, 200, 255)

    def setxattr(self, caller: Caller, ino: Ino, name: bytes, value: bytes, flags: int) -> None:
        self.xattrs[ino, name] = value

    def getxattr(self, ino: Ino, name: bytes) -> bytes:
        self.calls["getxattr"] += 1
        self.log.append(("getxattr", name))
        if (ino, name) not in self.xattrs:
            raise NoAttribute(f"{name!r} is not set")
        return self.xattrs[ino, name]

    def listxattr(self, caller: Caller, ino: Ino) -> list[bytes]:
        return [name for owner, name in self.xattrs if owner == ino]

    def removexattr(self, caller: Caller, ino: Ino, name: bytes) -> None:
        if self.xattrs.pop((ino, name), None) is None:
            raise NotFound(f"{name!r} is not set")
