"""The names of the reference model: inodes, directories, links, rename. See `shardfs.testing.model`."""

import itertools
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shardfs.core.interface import (
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    Attributes,
    Caller,
)
from shardfs.errors import (
    Exists,
    InvalidArgument,
    IsDirectory,
    NameTooLong,
    NotDirectory,
    NotEmpty,
    NotFound,
    NotPermitted,
)
from shardfs.ids import ROOT_INO, HandleId, Ino


@dataclass
class Node:
    """One inode. `lookups` is how often a caller was told of it and has not forgotten it."""

    ino: Ino
    mode: int
    uid: int
    gid: int
    nlink: int
    now_ns: int
    rdev: int = 0
    target: bytes = b""
    parent: Ino = ROOT_INO
    lookups: int = 0
    content: bytearray = field(default_factory=bytearray)
    entries: dict[bytes, Ino] = field(default_factory=dict)
    xattrs: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.atime_ns = self.mtime_ns = self.ctime_ns = self.now_ns

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    def attributes(self) -> Attributes:
        """Return what stat tells; `blocks` are left at 0, for the model stores nothing."""
        size = len(self.target) if stat.S_ISLNK(self.mode) else len(self.content)
        times = self.atime_ns, self.mtime_ns, self.ctime_ns
        return Attributes(self.ino, self.mode, self.nlink, self.uid, self.gid, self.rdev, size, 0, *times)

    def touch(self, now_ns: int) -> None:
        """Note that the content changed."""
        self.mtime_ns = self.ctime_ns = now_ns


@dataclass
class Handle:
    """An open file or directory."""

    ino: Ino
    writable: bool


class ModelTree:
    """Inodes and names. `now_ns` tells the time to stamp on changes."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.nodes: dict[Ino, Node] = {ROOT_INO: Node(ROOT_INO, stat.S_IFDIR | 0o755, 0, 0, 2, now_ns())}
        self.handles: dict[HandleId, Handle] = {}
        self._next_ino = itertools.count(2)
        self._next_handle = itertools.count(1)

    # Finding things

    def node(self, ino: Ino) -> Node:
        """Return an inode; raises `NotFound`."""
        if ino not in self.nodes:
            raise NotFound(f"inode {ino}")
        return self.nodes[ino]

    def directory(self, ino: Ino) -> Node:
        """Return a directory; raises `NotDirectory`."""
        node = self.node(ino)
        if not node.is_directory:
            raise NotDirectory(f"inode {ino}")
        return node

    def _find(self, directory: Node, name: bytes) -> Node | None:
        if len(name) > 255:
            raise NameTooLong(repr(name))
        return self.nodes[directory.entries[name]] if name in directory.entries else None

    def _get(self, directory: Node, name: bytes) -> Node:
        node = self._find(directory, name)
        if node is None:
            raise NotFound(repr(name))
        return node

    def _free_place(self, parent: Ino, name: bytes) -> Node:
        directory = self.directory(parent)
        if directory.nlink == 0:
            raise NotFound(f"directory {parent} was removed")
        if self._find(directory, name) is not None:
            raise Exists(repr(name))
        return directory

    def _tell(self, node: Node) -> Attributes:
        node.lookups += 1
        return node.attributes()

    def lookup(self, _caller: Caller, parent: Ino, name: bytes) -> Attributes | None:
        """Return the attributes of an entry's inode, None without one."""
        node = self._find(self.directory(parent), name)
        return None if node is None else self._tell(node)

    def forget(self, forgotten: Iterable[tuple[Ino, int]]) -> None:
        """Take back look-ups."""
        for ino, count in forgotten:
            self.nodes[ino].lookups -= count
            self._collect(ino)

    def _collect(self, ino: Ino) -> None:
        node = self.nodes[ino]
        is_open = any(handle.ino == ino for handle in self.handles.values())
        if node.nlink == 0 and node.lookups == 0 and not is_open:
            del self.nodes[ino]

    def restart(self) -> None:
        """Forget every look-up and handle, as the end of a mount does."""
        self.handles.clear()
        for ino in list(self.nodes):
            self.nodes[ino].lookups = 0
            self._collect(ino)

    # Making and removing names

    def _add(self, caller: Caller, parent: Ino, name: bytes, mode: int) -> Node:
        directory = self._free_place(parent, name)
        gid = directory.gid if directory.mode & stat.S_ISGID else caller.gid
        if directory.mode & stat.S_ISGID and stat.S_ISDIR(mode):
            mode |= stat.S_ISGID
        links = 2 if stat.S_ISDIR(mode) else 1
        node = Node(Ino(next(self._next_ino)), mode, caller.uid, gid, links, self.now_ns(), parent=parent)
        self.nodes[node.ino] = node
        directory.entries[name] = node.ino
        directory.nlink += node.is_directory
        directory.touch(self.now_ns())
        return node

    def mknod(self, caller: Caller, parent: Ino, name: bytes, mode: int, rdev: int) -> Attributes:
        """Create a regular file, fifo, socket or device node."""
        node = self._add(caller, parent, name, mode if stat.S_IFMT(mode) else mode | stat.S_IFREG)
        node.rdev = rdev
        return self._tell(node)

    def mkdir(self, caller: Caller, parent: Ino, name: bytes, mode: int) -> Attributes:
        """Create a directory."""
        return self._tell(self._add(caller, parent, name, stat.S_IFDIR | stat.S_IMODE(mode)))

    def symlink(self, caller: Caller, parent: Ino, name: bytes, target: bytes) -> Attributes:
        """Create a symlink."""
        if len(target) > 4095:
            raise NameTooLong("target")
        node = self._add(caller, parent, name, stat.S_IFLNK | 0o777)
        node.target = target
        return self._tell(node)

    def readlink(self, _caller: Caller, ino: Ino) -> bytes:
        """Return a symlink's target."""
        node = self.node(ino)
        if not stat.S_ISLNK(node.mode):
            raise InvalidArgument(f"inode {ino}")
        return node.target

    def link(self, _caller: Caller, ino: Ino, new_parent: Ino, new_name: bytes) -> Attributes:
        """Give an inode one more name."""
        node = self.node(ino)
        if node.is_directory:
            raise NotPermitted(f"inode {ino}")
        directory = self._free_place(new_parent, new_name)
        if node.nlink == 0:
            raise NotFound(f"inode {ino} was unlinked")
        node.nlink += 1
        node.ctime_ns = self.now_ns()
        directory.entries[new_name] = ino
        directory.touch(self.now_ns())
        return self._tell(node)

    def unlink(self, _caller: Caller, parent: Ino, name: bytes) -> None:
        """Remove the entry of anything but a directory."""
        directory = self.directory(parent)
        node = self._get(directory, name)
        if node.is_directory:
            raise IsDirectory(repr(name))
        del directory.entries[name]
        directory.touch(self.now_ns())
        self._drop(node)

    def rmdir(self, _caller: Caller, parent: Ino, name: bytes) -> None:
        """Remove an empty directory."""
        directory = self.directory(parent)
        node = self._get(directory, name)
        if not node.is_directory:
            raise NotDirectory(repr(name))
        if node.entries:
            raise NotEmpty(repr(name))
        del directory.entries[name]
        directory.nlink -= 1
        directory.touch(self.now_ns())
        self._drop(node)

    def _drop(self, node: Node) -> None:
        node.nlink = 0 if node.is_directory else node.nlink - 1
        node.ctime_ns = self.now_ns()
        self._collect(node.ino)

    # Rename

    def rename(self, _caller: Caller, parent: Ino, name: bytes, new_parent: Ino, new_name: bytes, flags: int) -> None:
        """Move an entry, or exchange two."""
        if flags not in (0, RENAME_NOREPLACE, RENAME_EXCHANGE):
            raise InvalidArgument(f"flags {flags}")
        old, new = self.directory(parent), self.directory(new_parent)
        source = self._get(old, name)
        if new.nlink == 0:
            raise NotFound(f"directory {new_parent} was removed")
        target = self._find(new, new_name)
        if target is not None and flags == RENAME_NOREPLACE:
            raise Exists(repr(new_name))
        if target is None and flags == RENAME_EXCHANGE:
            raise NotFound(repr(new_name))
        self._refuse_loop(source, new_parent)
        if flags == RENAME_EXCHANGE and target is not None:
            self._refuse_loop(target, parent)
        if target is not source:
            self._exchange_or_move((old, name, source), (new, new_name, target), flags)

    def _exchange_or_move(self, source: tuple[Node, bytes, Node], target: tuple[Node, bytes, Node | None], flags: int) -> None:
        (old, name, moved), (new, new_name, other) = source, target
        if other is not None and flags != RENAME_EXCHANGE:
            self._check_replaceable(moved, other)
        self._take_away(old, name, moved)
        if other is not None:
            self._take_away(new, new_name, other)
        self._put(new, new_name, moved)
        if other is not None and flags == RENAME_EXCHANGE:
            self._put(old, name, other)
        elif other is not None:
            self._drop(other)

    def _check_replaceable(self, source: Node, target: Node) -> None:
        """Raise unless a rename may put one in the place of the other."""
        if source.is_directory and not target.is_directory:
            raise NotDirectory(f"inode {target.ino}")
        if target.is_directory and not source.is_directory:
            raise IsDirectory(f"inode {target.ino}")
        if target.entries:
            raise NotEmpty(f"inode {target.ino}")

    def _refuse_loop(self, moved: Node, new_parent: Ino) -> None:
        while moved.is_directory and new_parent != ROOT_INO:
            if new_parent == moved.ino:
                raise InvalidArgument(f"inode {moved.ino} below itself")
            new_parent = self.nodes[new_parent].parent

    def _take_away(self, directory: Node, name: bytes, node: Node) -> None:
        del directory.entries[name]
        directory.nlink -= node.is_directory
        directory.touch(self.now_ns())

    def _put(self, directory: Node, name: bytes, node: Node) -> None:
        directory.entries[name] = node.ino
        directory.nlink += node.is_directory
        directory.touch(self.now_ns())
        node.parent = directory.ino
        node.ctime_ns = self.now_ns()
