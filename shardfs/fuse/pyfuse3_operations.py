"""The pyfuse3 adapter: turns the kernel's arguments into calls of `core`, and answers and errors back. Nothing else.

A handler that `core` answers at once never gives way to another task. Handlers raise nothing but `FUSEError`: any
other exception would end the session.
"""

import errno
import logging
import stat
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

import pyfuse3
from pyfuse3 import EntryAttributes, FileInfo, FUSEError, ReaddirToken, RequestContext, SetattrFields, StatvfsData

from shardfs.core.filesystem import FileSystem
from shardfs.core.interface import AttributeChanges, Attributes, Caller, DirectoryRow
from shardfs.core.loop import Done
from shardfs.core.turn import Blocked, Waiting
from shardfs.errors import CallerError, NoSpace, ShardfsError
from shardfs.fuse.errnos import errno_of
from shardfs.fuse.pyfuse3_loop import Readiness
from shardfs.ids import HandleId, Ino
from shardfs.limits import KERNEL_TIMEOUT_S

READDIR_ROWS = 64
"""How many rows of a listing are asked of `core` at a time; a reply takes as many as fit."""

_log = logging.getLogger(__name__)
_Arguments = TypeVarTuple("_Arguments")
_Answer = TypeVar("_Answer")


def fill_entry(attributes: Attributes) -> EntryAttributes:
    """Return the attributes as pyfuse3 takes them. Every reply with attributes comes through here: keep it cheap."""
    entry = EntryAttributes()
    entry.entry_timeout = KERNEL_TIMEOUT_S
    entry.attr_timeout = KERNEL_TIMEOUT_S
    entry.st_ino = attributes.ino
    entry.st_mode = attributes.mode
    entry.st_nlink = attributes.nlink
    entry.st_uid = attributes.uid
    entry.st_gid = attributes.gid
    entry.st_rdev = attributes.rdev
    entry.st_size = attributes.size
    entry.st_blocks = attributes.blocks
    entry.st_atime_ns = attributes.atime_ns
    entry.st_mtime_ns = attributes.mtime_ns
    entry.st_ctime_ns = attributes.ctime_ns
    return entry


def fill_row(row: DirectoryRow) -> EntryAttributes:
    """Return a row's attributes; those of a damaged inode are forgotten at once, so that whoever asks gets the error."""
    entry = fill_entry(row.attributes)
    if row.is_damaged:
        entry.entry_timeout = entry.attr_timeout = 0
    return entry


def negative_entry() -> EntryAttributes:
    """Return the answer "no such name", which the kernel keeps (node id 0)."""
    entry = EntryAttributes()
    entry.st_ino = 0
    entry.entry_timeout = KERNEL_TIMEOUT_S
    return entry


def caller_of(ctx: RequestContext) -> Caller:
    """Return who sent the request."""
    return Caller(ctx.uid, ctx.gid, ctx.pid, ctx.umask)


def changes_of(attr: EntryAttributes, fields: SetattrFields) -> AttributeChanges:
    """Return what a SETATTR wants to change."""
    return AttributeChanges(
        mode=stat.S_IMODE(attr.st_mode) if fields.update_mode else None,
        uid=attr.st_uid if fields.update_uid else None,
        gid=attr.st_gid if fields.update_gid else None,
        size=attr.st_size if fields.update_size else None,
        atime_ns=attr.st_atime_ns if fields.update_atime else None,
        mtime_ns=attr.st_mtime_ns if fields.update_mtime else None,
    )


class Pyfuse3Operations(pyfuse3.Operations):
    """One handler per kind of request."""

    supports_dot_lookup = False
    enable_writeback_cache = False

    def __init__(self, filesystem: FileSystem, readiness: Readiness, acl: bool, started: Callable[[], None]) -> None:
        """`started` is called when the kernel has greeted the session; it must not raise."""
        self._fs = filesystem
        self._count = filesystem.session.volume.counters.add
        self._readiness = readiness
        self._started = started
        self._negative = negative_entry()
        self.enable_acl = acl

    def init(self) -> None:
        """Take note that the kernel talks to us."""
        self._started()

    async def _call(self, operation: Callable[[*_Arguments], _Answer | Waiting], *arguments: *_Arguments) -> _Answer:
        """Call an operation of `core`, again as often as it is blocked, and return its answer."""
        self._count("request." + operation.__name__)
        try:
            while True:
                try:
                    answer = operation(*arguments)
                    break
                except Blocked as blocked:
                    await self._unblock(blocked)
            if isinstance(answer, Waiting):
                answered: _Answer = await self._readiness.outcome(answer.on_done)
                return answered
            return answer
        except Exception as error:
            raise FUSEError(_errno_for(operation, error)) from error

    async def _unblock(self, blocked: Blocked) -> None:
        """Let the work that blocks an operation be done; raises what it raises."""

        def begin(done: Done) -> None:
            blocked.begin(self._readiness.loop, lambda error: done(None, error))

        await self._readiness.outcome(begin)

    # Names and attributes

    async def lookup(self, parent_inode: int, name: bytes, ctx: RequestContext) -> EntryAttributes:
        """LOOKUP; a name that does not exist is an answer that the kernel keeps."""
        found = await self._call(self._fs.lookup, caller_of(ctx), Ino(parent_inode), name)
        return self._negative if found is None else fill_entry(found)

    def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:  # type: ignore[override]
        """FORGET and BATCH_FORGET: no reply, so no coroutine either (pyfuse3 awaits nothing when it gets None)."""
        try:
            self._fs.forget([(Ino(ino), count) for ino, count in inode_list])
        except Exception:
            _log.exception("forget failed")

    async def getattr(self, inode: int, ctx: RequestContext) -> EntryAttributes:
        """GETATTR."""
        return fill_entry(await self._call(self._fs.getattr, caller_of(ctx), Ino(inode)))

    async def setattr(
        self, inode: int, attr: EntryAttributes, fields: SetattrFields, fh: int | None, ctx: RequestContext
    ) -> EntryAttributes:
        """SETATTR."""
        handle = None if fh is None else HandleId(fh)
        changes = changes_of(attr, fields)
        return fill_entry(await self._call(self._fs.setattr, caller_of(ctx), Ino(inode), changes, handle))

    async def readlink(self, inode: int, ctx: RequestContext) -> bytes:
        """READLINK."""
        return await self._call(self._fs.readlink, caller_of(ctx), Ino(inode))

    async def mknod(self, parent_inode: int, name: bytes, mode: int, rdev: int, ctx: RequestContext) -> EntryAttributes:
        """MKNOD."""
        return fill_entry(await self._call(self._fs.mknod, caller_of(ctx), Ino(parent_inode), name, mode, rdev))

    async def mkdir(self, parent_inode: int, name: bytes, mode: int, ctx: RequestContext) -> EntryAttributes:
        """MKDIR."""
        return fill_entry(await self._call(self._fs.mkdir, caller_of(ctx), Ino(parent_inode), name, mode))

    async def unlink(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        """UNLINK."""
        await self._call(self._fs.unlink, caller_of(ctx), Ino(parent_inode), name)

    async def rmdir(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        """RMDIR."""
        await self._call(self._fs.rmdir, caller_of(ctx), Ino(parent_inode), name)

    async def symlink(self, parent_inode: int, name: bytes, target: bytes, ctx: RequestContext) -> EntryAttributes:
        """SYMLINK."""
        return fill_entry(await self._call(self._fs.symlink, caller_of(ctx), Ino(parent_inode), name, target))

    async def rename(
        self, parent_inode_old: int, name_old: bytes, parent_inode_new: int, name_new: bytes, flags: int, ctx: RequestContext
    ) -> None:
        """RENAME and RENAME2."""
        old, new = Ino(parent_inode_old), Ino(parent_inode_new)
        await self._call(self._fs.rename, caller_of(ctx), old, name_old, new, name_new, flags)

    async def link(self, inode: int, new_parent_inode: int, new_name: bytes, ctx: RequestContext) -> EntryAttributes:
        """LINK."""
        return fill_entry(await self._call(self._fs.link, caller_of(ctx), Ino(inode), Ino(new_parent_inode), new_name))

    # Open files

    async def open(self, inode: int, flags: int, ctx: RequestContext) -> FileInfo:
        """OPEN; the kernel keeps its pages of the file."""
        handle = await self._call(self._fs.open, caller_of(ctx), Ino(inode), flags)
        return FileInfo(fh=handle, keep_cache=True, direct_io=False)

    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        """CREATE."""
        attributes, handle = await self._call(self._fs.create, caller_of(ctx), Ino(parent_inode), name, mode, flags)
        return FileInfo(fh=handle, keep_cache=True, direct_io=False), fill_entry(attributes)

    async def read(self, fh: int, off: int, size: int) -> bytes:
        """READ."""
        return await self._call(self._fs.read, HandleId(fh), off, size)

    async def write(self, fh: int, off: int, buf: bytes) -> int:
        """WRITE."""
        return await self._call(self._fs.write, HandleId(fh), off, buf)

    async def flush(self, fh: int) -> None:
        """FLUSH: nothing is left to do at close, so the kernel is told never to ask again."""
        raise FUSEError(errno.ENOSYS)

    async def fsync(self, fh: int, datasync: bool) -> None:
        """FSYNC."""
        await self._call(self._fs.fsync, HandleId(fh), datasync)

    async def release(self, fh: int) -> None:
        """RELEASE."""
        await self._call(self._fs.release, HandleId(fh))

    # Directories

    async def opendir(self, inode: int, ctx: RequestContext) -> int:
        """OPENDIR."""
        return await self._call(self._fs.opendir, Ino(inode))

    async def readdir(self, fh: int, start_id: int, token: ReaddirToken) -> None:
        """READDIRPLUS: as many rows as fit, except that a group of equal offsets is never torn apart."""
        offset, opening_offset = start_id, None
        looked_up: list[Ino] = []
        while rows := await self._call(self._fs.readdir, HandleId(fh), offset, READDIR_ROWS):
            for row in rows:
                offset = row.next_offset
                if opening_offset is None:
                    opening_offset = offset
                torn = row.group_size > 1 and offset != opening_offset
                if torn or not pyfuse3.readdir_reply(token, row.name, fill_row(row), offset):
                    self._fs.note_lookups(looked_up)
                    return
                if row.name not in (b".", b".."):
                    looked_up.append(row.attributes.ino)
        self._fs.note_lookups(looked_up)

    async def releasedir(self, fh: int) -> None:
        """RELEASEDIR."""
        await self._call(self._fs.releasedir, HandleId(fh))

    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        """FSYNCDIR."""
        await self._call(self._fs.fsyncdir, HandleId(fh), datasync)

    # The whole file system, and extended attributes

    async def statfs(self, ctx: RequestContext) -> StatvfsData:
        """STATFS."""
        told = await self._call(self._fs.statfs)
        data = StatvfsData()
        data.f_bsize = data.f_frsize = told.block_bytes
        data.f_blocks, data.f_bfree, data.f_bavail = told.blocks, told.free, told.available
        data.f_files, data.f_ffree, data.f_favail = told.files, told.files_free, told.files_free
        data.f_namemax = told.name_max
        return data

    async def setxattr(self, inode: int, name: bytes, value: bytes, ctx: RequestContext) -> None:
        """SETXATTR; XATTR_CREATE and XATTR_REPLACE are pyfuse3's, which asks with getxattr first."""
        await self._call(self._fs.setxattr, caller_of(ctx), Ino(inode), name, value, 0)

    async def getxattr(self, inode: int, name: bytes, ctx: RequestContext) -> bytes:
        """GETXATTR; pyfuse3 answers the question for the size from it."""
        return await self._call(self._fs.getxattr, Ino(inode), name)

    async def listxattr(self, inode: int, ctx: RequestContext) -> list[bytes]:
        """LISTXATTR."""
        return await self._call(self._fs.listxattr, caller_of(ctx), Ino(inode))

    async def removexattr(self, inode: int, name: bytes, ctx: RequestContext) -> None:
        """REMOVEXATTR."""
        await self._call(self._fs.removexattr, caller_of(ctx), Ino(inode), name)


def _errno_for(operation: Callable[..., object], error: Exception) -> int:
    """Return the errno for what an operation raised, and log it unless it is an ordinary answer."""
    if not isinstance(error, ShardfsError):
        _log.error("%s failed by a bug in shardfs", operation.__name__, exc_info=error)
        return errno.EIO
    if not isinstance(error, CallerError | NoSpace):
        _log.error("%s failed: %s", operation.__name__, error)
    return errno_of(error)
