"""Operations on open files."""

import os
import stat

from shardfs.core.attributes import AttributeOperations
from shardfs.core.interface import Attributes, Caller
from shardfs.core.namespace import NameOperations
from shardfs.core.reclaim import Reclaimer
from shardfs.core.session import Session
from shardfs.core.turn import Waiting
from shardfs.errors import BadHandle, InvalidArgument, IsDirectory
from shardfs.ids import HandleId, Ino


class FileOperations:
    """Open, read, write, sync and close. Loop thread only."""

    def __init__(self, session: Session, names: NameOperations, attributes: AttributeOperations, reclaimer: Reclaimer) -> None:
        self._session = session
        self._names = names
        self._attributes = attributes
        self._reclaimer = reclaimer

    def create(self, caller: Caller, parent: Ino, name: bytes, mode: int, flags: int) -> tuple[Attributes, HandleId]:
        """Create a regular file and open it."""
        inode = self._names.add(caller, parent, name, stat.S_IFREG | stat.S_IMODE(mode), "create")
        self._session.volume.inodes.note_lookup(inode.ino)
        return self._session.content.attributes(inode), self._open(inode.ino, flags)

    def open(self, caller: Caller, ino: Ino, flags: int) -> HandleId:
        """Open a regular file; O_TRUNC empties it."""
        session = self._session
        inode = session.inode(ino)
        if stat.S_ISDIR(inode.mode):
            raise IsDirectory(f"inode {ino} is a directory; opendir opens it")
        if not stat.S_ISREG(inode.mode):
            raise InvalidArgument(f"inode {ino} is not a regular file")
        if flags & os.O_TRUNC:
            session.admit(grows=False)
            session.content.truncate(inode, 0, session.now_ns())
            self._attributes.drop_privileges(ino, caller.uid)
            if not _is_writable(flags) and not session.handles.has_writers(ino):
                session.content.settle(ino)
        return self._open(ino, flags)

    def _open(self, ino: Ino, flags: int) -> HandleId:
        return self._session.handles.open(ino, writable=_is_writable(flags))

    def read(self, handle: HandleId, offset: int, size: int) -> bytes | Waiting:
        """Read up to `size` bytes; fewer only at the end of the file."""
        session = self._session
        # The kernel may read a page of a file that is open for writing only, before it writes a part of it.
        return session.content.read(session.inode(session.handles.get(handle).ino), offset, size)

    def write(self, handle: HandleId, offset: int, data: bytes) -> int:
        """Write all of `data`; it survives the death of any process, and a power loss once it is synced.

        The kernel takes setuid and setgid away by a setattr of its own, where the writer calls for it.
        """
        session = self._session
        opened = session.handles.get(handle)
        if not opened.writable:
            raise BadHandle(f"handle {handle} is not open for writing")
        if not data:
            return 0
        session.admit(grows=False)  # content reserves its own room
        session.content.write(session.inode(opened.ino), offset, data, session.now_ns())
        return len(data)

    def fsync(self, handle: HandleId, _datasync: bool) -> Waiting:
        """Make a file durable: its content, its attributes, and every operation before."""
        session = self._session
        session.content.prepare_sync(session.inode(session.handles.get(handle).ino))
        return session.commits.request()

    def fsyncdir(self, handle: HandleId, _datasync: bool) -> Waiting:
        """Make a directory durable, and every operation before."""
        self._session.handles.get(handle)
        return self._session.commits.request()

    def release(self, handle: HandleId) -> None:
        """Close a handle; closing one that is closed does nothing."""
        session = self._session
        opened = session.handles.close(handle)
        if opened is None:
            return
        ino = opened.ino
        if opened.writable and not session.handles.has_writers(ino):
            session.content.settle(ino, is_orphan=not session.inode(ino).nlink)
        if not session.handles.is_open(ino):
            session.content.close(ino)
            self._reclaimer.collect(ino)


def _is_writable(flags: int) -> bool:
    return flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
