"""A POSIX file system in memory, written to be obviously right: what `core` does is compared with it.

It has the verbs of `shardfs.core.filesystem.FileSystem`, raises the same errors in the order in which Linux finds
them, and keeps the same books on look-ups and handles. A file's content is one bytearray, a directory one dict.
"""

import os
import stat

from shardfs.core.interface import XATTR_CREATE, XATTR_REPLACE, AttributeChanges, Attributes, Caller
from shardfs.errors import (
    AttributeTooLarge,
    BadHandle,
    Exists,
    FileTooLarge,
    InvalidArgument,
    IsDirectory,
    NoAttribute,
    NotDirectory,
    NotSupported,
)
from shardfs.ids import HandleId, Ino
from shardfs.testing.model_tree import Handle, ModelTree, Node

CAPABILITY = b"security.capability"
CLASSES = (b"user.", b"trusted.", b"security.")


class ModelFileSystem(ModelTree):
    """The reference: attributes, content and extended attributes on top of the names."""

    # Attributes

    def getattr(self, _caller: Caller, ino: Ino) -> Attributes:
        """Return an inode's attributes."""
        return self.node(ino).attributes()

    def setattr(self, caller: Caller, ino: Ino, changes: AttributeChanges, handle: HandleId | None) -> Attributes:
        """Change attributes; a changed owner or size costs a file its setuid and setgid."""
        node = self.node(ino)
        if changes.size is not None:
            self._resize(caller, node, changes.size, handle)
        if changes.mode is not None:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(changes.mode)
        if changes.uid is not None or changes.gid is not None:
            node.uid = node.uid if changes.uid is None else changes.uid
            node.gid = node.gid if changes.gid is None else changes.gid
            if not node.is_directory:
                self._strip(node)
        node.atime_ns = node.atime_ns if changes.atime_ns is None else changes.atime_ns
        node.mtime_ns = node.mtime_ns if changes.mtime_ns is None else changes.mtime_ns
        if changes != AttributeChanges():
            node.ctime_ns = self.now_ns()
        return node.attributes()

    def _resize(self, caller: Caller, node: Node, size: int, handle: HandleId | None) -> None:
        if node.is_directory:
            raise IsDirectory(f"inode {node.ino}")
        if not stat.S_ISREG(node.mode):
            raise InvalidArgument(f"inode {node.ino}")
        if handle is not None and not self._handle(handle).writable:
            raise InvalidArgument(f"handle {handle}")
        if size > (1 << 63) - 1:
            raise FileTooLarge(f"{size} bytes")
        node.content = node.content[:size] + bytes(max(0, size - len(node.content)))
        node.touch(self.now_ns())
        self._drop_privileges(node, caller.uid)

    def _drop_privileges(self, node: Node, uid: int) -> None:
        if uid != 0:
            self._strip(node)

    def _strip(self, node: Node) -> None:
        node.mode &= ~stat.S_ISUID
        if node.mode & stat.S_IXGRP:
            node.mode &= ~stat.S_ISGID
        node.xattrs.pop(CAPABILITY, None)

    # Files

    def _handle(self, handle: HandleId) -> Handle:
        if handle not in self.handles:
            raise BadHandle(f"handle {handle}")
        return self.handles[handle]

    def _open(self, ino: Ino, writable: bool) -> HandleId:
        handle = HandleId(next(self._next_handle))
        self.handles[handle] = Handle(ino, writable)
        return handle

    def open(self, caller: Caller, ino: Ino, flags: int) -> HandleId:
        """Open a regular file; O_TRUNC empties it."""
        node = self.node(ino)
        if node.is_directory:
            raise IsDirectory(f"inode {ino}")
        if not stat.S_ISREG(node.mode):
            raise InvalidArgument(f"inode {ino}")
        if flags & os.O_TRUNC:
            self._resize(caller, node, 0, None)
        return self._open(ino, flags & os.O_ACCMODE != os.O_RDONLY)

    def create(self, caller: Caller, parent: Ino, name: bytes, mode: int, flags: int) -> tuple[Attributes, HandleId]:
        """Create a regular file and open it."""
        attributes = self.mknod(caller, parent, name, stat.S_IFREG | stat.S_IMODE(mode), 0)
        return attributes, self._open(attributes.ino, flags & os.O_ACCMODE != os.O_RDONLY)

    def read(self, handle: HandleId, offset: int, size: int) -> bytes:
        """Read up to `size` bytes."""
        return bytes(self.node(self._handle(handle).ino).content[offset : offset + size])

    def write(self, handle: HandleId, offset: int, data: bytes) -> int:
        """Write all of `data`, which is not empty."""
        opened = self._handle(handle)
        if not opened.writable:
            raise BadHandle(f"handle {handle}")
        if offset + len(data) > (1 << 63) - 1:
            raise FileTooLarge(f"{offset} + {len(data)} bytes")
        node = self.node(opened.ino)
        node.content.extend(bytes(max(0, offset - len(node.content))))
        node.content[offset : offset + len(data)] = data
        node.touch(self.now_ns())
        return len(data)

    def fsync(self, handle: HandleId, _datasync: bool) -> None:
        """Do nothing: the model never loses anything."""
        self._handle(handle)

    def release(self, handle: HandleId) -> None:
        """Close a handle; closing one that is closed does nothing."""
        opened = self.handles.pop(handle, None)
        if opened is not None:
            self._collect(opened.ino)

    # Directories

    def opendir(self, caller: Caller, ino: Ino) -> HandleId:
        """Open a directory."""
        if not self.node(ino).is_directory:
            raise NotDirectory(f"inode {ino}")
        return self._open(ino, writable=False)

    def listing(self, handle: HandleId) -> dict[bytes, Attributes]:
        """Return all rows of a directory; the order is not the model's to know. A removed one has none."""
        node = self.node(self._handle(handle).ino)
        if node.nlink == 0:
            return {}
        rows = {name: self.nodes[ino].attributes() for name, ino in node.entries.items()}
        return {b".": node.attributes(), b"..": self.nodes[node.parent].attributes(), **rows}

    fsyncdir = fsync
    releasedir = release

    # Extended attributes

    def _check_name(self, name: bytes) -> None:
        if not name.startswith(CLASSES):
            raise NotSupported(repr(name))
        if len(name) > 255:
            raise AttributeTooLarge(repr(name))

    def setxattr(self, _caller: Caller, ino: Ino, name: bytes, value: bytes, flags: int) -> None:
        """Set an extended attribute."""
        node = self.node(ino)
        self._check_name(name)
        if flags & XATTR_CREATE and name in node.xattrs:
            raise Exists(repr(name))
        if flags & XATTR_REPLACE and name not in node.xattrs:
            raise NoAttribute(repr(name))
        if len(value) > 65_536:
            raise AttributeTooLarge(f"{len(value)} bytes")
        node.xattrs[name] = value
        node.ctime_ns = self.now_ns()

    def getxattr(self, ino: Ino, name: bytes) -> bytes:
        """Return the value of an extended attribute."""
        node = self.node(ino)
        self._check_name(name)
        if name not in node.xattrs:
            raise NoAttribute(repr(name))
        return node.xattrs[name]

    def listxattr(self, caller: Caller, ino: Ino) -> list[bytes]:
        """Return the names of an inode's extended attributes; the trusted ones only to root."""
        return [name for name in self.node(ino).xattrs if caller.uid == 0 or not name.startswith(b"trusted.")]

    def removexattr(self, _caller: Caller, ino: Ino, name: bytes) -> None:
        """Remove an extended attribute."""
        self.getxattr(ino, name)
        del self.nodes[ino].xattrs[name]
        self.nodes[ino].ctime_ns = self.now_ns()
