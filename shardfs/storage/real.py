"""The real disks: `Storage` and `BackingFile` on top of system calls.

Files are made with mode 0600 and directories with 0700: what a volume holds is reached through the mount, which
checks permissions, and never beside it.
"""

import ctypes
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from shardfs.errors import DeviceFailed, Exists, FileTooLarge, NoSpace, NotFound, ShardfsError
from shardfs.storage.files import BackingFile, Bytes, DiskSpace, FileStat

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NOT_CACHED = (errno.EAGAIN, errno.EOPNOTSUPP)


def translate(error: OSError, action: str, path: str) -> ShardfsError:
    """Return the error of ours that says what the operating system refused, and to which path."""
    if error.errno in _NO_SPACE:
        return NoSpace(f"cannot {action} {path}: the disk or the quota is full; make room on it")
    if error.errno == errno.ENOTDIR:
        return NotFound(f"cannot {action} {path}: it, or what it lies in, is not a directory")
    if error.errno == errno.ENOENT:
        return NotFound(f"cannot {action} {path}: it does not exist")
    if error.errno == errno.EEXIST:
        return Exists(f"cannot {action} {path}: it exists already")
    if error.errno == errno.EFBIG:
        return FileTooLarge(f"cannot {action} {path}: its disk holds no file of this size")
    return DeviceFailed(f"cannot {action} {path}: {error.strerror}; look for disk errors in the kernel log")


@contextmanager
def _translated(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translate(error, action, path) from error


class RealFile:
    """An open file on a real disk."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def pread(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from `offset`; fewer only at the end of the file."""
        try:
            data = os.pread(self._fd, size, offset)
            if len(data) == size or not data:
                return data
            return data + self.pread(size - len(data), offset + len(data))
        except OSError as error:
            raise translate(error, "read", self._path) from error

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        """Return the same as `pread` if the page cache has it all; None otherwise (RWF_NOWAIT, see preadv2(2))."""
        data = bytearray(size)
        try:
            got = os.preadv(self._fd, [data], offset, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in _NOT_CACHED:
                return None
            raise translate(error, "read", self._path) from error
        if got == size:
            return bytes(data)
        return bytes(data[:got]) if offset + got >= self.stat().size else None

    def pwrite(self, data: Bytes, offset: int) -> None:
        """Write all of `data` at `offset`."""
        try:
            written = os.pwrite(self._fd, data, offset)
            if written < len(data):
                self._pwrite_rest(memoryview(data)[written:], offset + written)
        except OSError as error:
            raise translate(error, "write to", self._path) from error

    def _pwrite_rest(self, rest: memoryview, offset: int) -> None:
        """A short write happens just before an error or at 2 GiB: going on tells which."""
        while rest:
            written = os.pwrite(self._fd, rest, offset)
            rest, offset = rest[written:], offset + written

    def sync(self) -> None:
        """Make the content, the size and the allocation durable (fdatasync)."""
        with _translated("sync", self._path):
            os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        """Set the size; bytes that come to be are zero."""
        with _translated("truncate", self._path):
            os.ftruncate(self._fd, size)

    def allocate(self, offset: int, size: int) -> None:
        """Reserve disk space for the range and extend the file over it."""
        with _translated("allocate space for", self._path):
            os.posix_fallocate(self._fd, offset, size)

    def stat(self) -> FileStat:
        """Return size, time and allocation."""
        with _translated("stat", self._path):
            found = os.fstat(self._fd)
        return FileStat(found.st_size, found.st_mtime_ns, found.st_blocks)

    def close(self) -> None:
        """Close the descriptor."""
        with _translated("close", self._path):
            os.close(self._fd)


class RealStorage:
    """The directories and files of this machine."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> BackingFile:
        """Open a file for reading and writing; `create` makes it if missing, with `exclusive` it must be missing."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0) | (os.O_EXCL if exclusive else 0)
        with _translated("open", path):
            return RealFile(os.open(path, flags, 0o600), path)

    def read_small(self, path: str) -> bytes:
        """Return the whole content of a small file."""
        with _translated("read", path), open(path, "rb") as file:
            return file.read()

    def replace_small(self, path: str, data: bytes) -> None:
        """Put `data` in the place of a small file's content: durable on return, and never half of it visible."""
        fresh = path + ".new"
        file = self.open(fresh, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            file.sync()
        finally:
            file.close()
        self.rename(fresh, path)
        self.sync_dir(os.path.dirname(path) or ".")

    def remove(self, path: str) -> None:
        """Remove a file; durable after `sync_dir` of its directory."""
        with _translated("remove", path):
            os.unlink(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file over whatever `new` was; durable after `sync_dir` of both directories."""
        with _translated("rename", old):
            os.rename(old, new)

    def make_dir(self, path: str) -> None:
        """Make a directory of mode 0700; fine if it exists. Durable after `sync_dir` of its parent."""
        with _translated("make directory", path):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        with _translated("list", path):
            return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        """Say whether there is anything at this path."""
        return os.path.lexists(path)

    def sync_dir(self, path: str) -> None:
        """Make the entries of this directory durable."""
        with _translated("sync", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def sync_disk(self, path: str) -> None:
        """Make everything durable on the disk that holds this path (syncfs(2), which Python does not offer)."""
        libc = ctypes.CDLL(None, use_errno=True)
        with _translated("sync the disk of", path):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if libc.syncfs(fd):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(fd)

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; fine if it is missing."""
        with _translated("remove", path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)

    def space(self, path: str) -> DiskSpace:
        """Return how full the disk is that holds this path."""
        with _translated("measure the disk of", path):
            found = os.statvfs(path)
        unit = found.f_frsize
        return DiskSpace(found.f_blocks * unit, found.f_bfree * unit, found.f_bavail * unit, found.f_fsid)

    def boot_id(self) -> bytes:
        """Return the kernel's random id of this boot (proc(5), /proc/sys/kernel/random/boot_id) as 16 bytes."""
        return uuid.UUID(self.read_small("/proc/sys/kernel/random/boot_id").decode().strip()).bytes
