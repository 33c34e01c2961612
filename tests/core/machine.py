"""Random operations for hypothesis: they go to the file system and to the model, and everything is compared."""

import os
import stat
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shardfs.core.interface import AttributeChanges, Caller
from shardfs.ids import ROOT_INO, Ino
from shardfs.testing.model_tree import Node
from tests.core.twins import PACK_THRESHOLD_BYTES, ROOT, Held, Ref, Twins

CALLERS = st.sampled_from((ROOT, Caller(1000, 1000, 2), Caller(1001, 1000, 3)))
NAMES = st.sampled_from([b"%c" % letter for letter in b"abcdefghijklmnopqrst"] + [b"\xff\xfe", b"n" * 255, b"n" * 256])
PICK = st.integers(0, 1 << 16)
MODES = st.sampled_from((0o644, 0o600, 0o755, 0o4755, 0o2755, 0o2644, 0o1777, 0o6711))
KINDS = st.sampled_from((0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR))
EDGES_BYTES = (PACK_THRESHOLD_BYTES - 1, PACK_THRESHOLD_BYTES, PACK_THRESHOLD_BYTES + 1, 3 * PACK_THRESHOLD_BYTES)
SIZES = st.one_of(
    st.integers(0, 300),
    st.sampled_from(EDGES_BYTES),
)
FLAGS = st.sampled_from((os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_TRUNC))
XATTRS = st.sampled_from(
    (b"user.a", b"user.b", b"trusted.t", b"security.capability", b"user." + b"n" * 250, b"user." + b"n" * 251, b"system.x")
)
VALUE_SIZES = st.sampled_from((0, 1, 20, 300, 65_536, 65_537))
TIMES = st.one_of(st.none(), st.integers(-(1 << 62), 1 << 62))


class CoreMachine(RuleBasedStateMachine):
    """One volume and its model. `directory` is set by the test that runs it."""

    directory: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins(self.directory)

    # Choosing

    def _any(self, pick: int) -> Ref:
        nodes = list(self.twins.model.nodes)
        return Ref(nodes[pick % len(nodes)])

    def _of(self, pick: int, is_directory: bool) -> Ref:
        """Choose a node of this sort, or now and then any."""
        nodes = self._all(is_directory)
        return Ref(nodes[pick % len(nodes)]) if nodes and pick % 10 else self._any(pick)

    def _all(self, is_directory: bool) -> list[Ino]:
        return [node.ino for node in self.twins.model.nodes.values() if node.is_directory == is_directory]

    def _directory(self, pick: int) -> Ref:
        """Choose a directory: the root half of the time, so that it grows."""
        return Ref(ROOT_INO) if pick % 2 else self._of(pick // 2, is_directory=True)

    def _name_in(self, directory: Ref, pick: int, name: bytes) -> bytes:
        """Choose an existing name most of the time."""
        names = list(self._node(directory).entries)
        return names[pick % len(names)] if names and pick % 8 else name

    def _node(self, ref: Ref) -> Node:
        return self.twins.model.nodes[ref.ino]

    def _handle(self, pick: int) -> Held | None:
        handles = list(self.twins.handles)
        return Held(handles[pick % len(handles)]) if handles else None

    # Names

    @rule(caller=CALLERS, where=PICK, name=NAMES, kind=KINDS, mode=MODES)
    def mknod(self, caller: Caller, where: int, name: bytes, kind: int, mode: int) -> None:
        self.twins.call("mknod", caller, self._directory(where), name, kind | mode, 0x103 if kind == stat.S_IFCHR else 0)

    @rule(caller=CALLERS, where=PICK, name=NAMES, mode=MODES, flags=FLAGS, data=st.binary(max_size=40), close=st.booleans())
    def create(self, caller: Caller, where: int, name: bytes, mode: int, flags: int, data: bytes, close: bool) -> None:
        made = self.twins.call("create", caller, self._directory(where), name, mode, flags & os.O_ACCMODE)
        if made.error is None:
            held = Held(made.result[1])
            if data:
                self.twins.call("write", held, 0, data)
            if close:
                self._release(held)

    @rule(caller=CALLERS, where=PICK, name=NAMES, mode=MODES)
    def mkdir(self, caller: Caller, where: int, name: bytes, mode: int) -> None:
        self.twins.call("mkdir", caller, self._directory(where), name, mode)

    @rule(caller=CALLERS, where=PICK, name=NAMES, length=st.sampled_from((1, 9, 255, 4095, 4096)))
    def symlink(self, caller: Caller, where: int, name: bytes, length: int) -> None:
        self.twins.call("symlink", caller, self._directory(where), name, b"t" * length)

    @rule(where=PICK, which=PICK, name=NAMES)
    def lookup(self, where: int, which: int, name: bytes) -> None:
        directory = self._directory(where)
        name = self._name_in(directory, which, name) if self._node(directory).is_directory else name
        self.twins.call("lookup", ROOT, directory, name)

    @rule(which=PICK)
    def readlink(self, which: int) -> None:
        self.twins.call("readlink", ROOT, self._any(which))

    @rule(which=PICK, where=PICK, name=NAMES)
    def link(self, which: int, where: int, name: bytes) -> None:
        self.twins.call("link", ROOT, self._of(which, is_directory=False), self._directory(where), name)

    @rule(where=PICK, which=PICK, name=NAMES)
    def unlink(self, where: int, which: int, name: bytes) -> None:
        directory = self._directory(where)
        self.twins.call("unlink", ROOT, directory, self._name_in(directory, which, name))

    @rule(where=PICK, which=PICK, name=NAMES)
    def rmdir(self, where: int, which: int, name: bytes) -> None:
        directory = self._directory(where)
        self.twins.call("rmdir", ROOT, directory, self._name_in(directory, which, name))

    @rule(one=PICK, which=PICK, name=NAMES, other=PICK, new_which=PICK, new_name=NAMES, flags=st.sampled_from((0, 0, 1, 2, 3, 4)))
    def rename(self, one: int, which: int, name: bytes, other: int, new_which: int, new_name: bytes, flags: int) -> None:
        old, new = self._directory(one), self._directory(other)
        name = self._name_in(old, which, name)
        new_name = self._name_in(new, new_which, new_name) if new_which % 3 else new_name
        self.twins.call("rename", ROOT, old, name, new, new_name, flags)

    @rule(which=PICK)
    def forget(self, which: int) -> None:
        ref = self._any(which)
        if self._node(ref).lookups:
            count = self._node(ref).lookups
            self.twins.core.forget([(self.twins.inos[ref.ino], count)])
            self.twins.model.forget([(ref.ino, count)])

    # Attributes

    @rule(caller=CALLERS, which=PICK, size=SIZES)
    def truncate(self, caller: Caller, which: int, size: int) -> None:
        self.twins.call("setattr", caller, self._of(which, is_directory=False), AttributeChanges(size=size), None)

    @rule(which=PICK, mode=MODES, uid=st.sampled_from((None, 7)), gid=st.sampled_from((None, 8)), times=st.tuples(TIMES, TIMES))
    def setattr(self, which: int, mode: int, uid: int | None, gid: int | None, times: tuple[int | None, int | None]) -> None:
        changes = AttributeChanges(mode if which % 3 else None, uid, gid, None, *times)
        self.twins.call("setattr", ROOT, self._any(which), changes, None)

    @rule(which=PICK, name=XATTRS, size=VALUE_SIZES, flags=st.sampled_from((0, 0, 1, 2)))
    def setxattr(self, which: int, name: bytes, size: int, flags: int) -> None:
        self.twins.call("setxattr", ROOT, self._any(which), name, bytes([which % 256]) * size, flags)

    @rule(caller=CALLERS, which=PICK, name=XATTRS)
    def read_xattrs(self, caller: Caller, which: int, name: bytes) -> None:
        self.twins.call("getxattr", self._any(which), name)
        self.twins.call("listxattr", caller, self._any(which))

    @rule(which=PICK, name=XATTRS)
    def removexattr(self, which: int, name: bytes) -> None:
        self.twins.call("removexattr", ROOT, self._any(which), name)

    # Files

    @rule(caller=CALLERS, which=PICK, flags=FLAGS)
    def open(self, caller: Caller, which: int, flags: int) -> None:
        self.twins.call("open", caller, self._of(which, is_directory=False), flags)

    @rule(which=PICK, offset=SIZES, size=SIZES, byte=st.integers(1, 255))
    def write(self, which: int, offset: int, size: int, byte: int) -> None:
        if held := self._handle(which):  # the kernel sends no empty writes
            self.twins.call("write", held, offset, bytes([byte]) * max(size, 1))

    @rule(which=PICK, offset=SIZES, size=SIZES)
    def read(self, which: int, offset: int, size: int) -> None:
        if held := self._handle(which):
            self.twins.call("read", held, offset, size)

    @rule(which=PICK, size=SIZES)
    def ftruncate(self, which: int, size: int) -> None:
        if held := self._handle(which):
            ref = Ref(self.twins.model.handles[held.handle].ino)
            self.twins.call("setattr", ROOT, ref, AttributeChanges(size=size), held)

    @rule(which=PICK, datasync=st.booleans())
    def fsync(self, which: int, datasync: bool) -> None:
        if held := self._handle(which):
            self.twins.call("fsync", held, datasync)

    @rule(which=PICK)
    def release(self, which: int) -> None:
        if held := self._handle(which):
            self._release(held)

    def _release(self, held: Held) -> None:
        self.twins.call("release", held)
        del self.twins.handles[held.handle]

    # Listings

    @rule(which=PICK, limit=st.integers(1, 7), start=PICK)
    def list_from_anywhere(self, which: int, limit: int, start: int) -> None:
        """From each offset that a listing told, the rest follows."""
        directories = self._all(is_directory=True)
        directory = Ref(directories[which % len(directories)])
        rows = self.twins.rows(directory.ino, limit)
        if rows:
            row = rows[start % len(rows)]
            rest = [name for name, offset, *_ in rows if offset > row.next_offset]
            assert [again.name for again in self.twins.rows(directory.ino, limit, row.next_offset)] == rest

    # Time, death, resurrection

    @rule(seconds=st.sampled_from((0.1, 1.0, 5.0)))
    def time_passes(self, seconds: float) -> None:
        self.twins.advance(seconds)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.twins.reopen(clean=clean)

    @invariant()
    def nothing_differs(self) -> None:
        self.twins.compare_all()

    def teardown(self) -> None:
        self.twins.finish()
