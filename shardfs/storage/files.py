"""What shardfs asks of the disks below it: protocols, so that tests can put a simulated disk in their place.

`RealStorage` (in `shardfs.storage.real`) is the real one. Every method raises `NoSpace` when the disk or a quota
is full, `NotFound` when a path does not exist, `Exists` when it must not and does, and `DeviceFailed` for
everything else that the operating system refuses; the message names the path. Paths are absolute or relative
strings as `open(2)` takes them. What was written is durable only after the sync that the method names.
"""

from typing import NamedTuple, Protocol

Bytes = bytes | bytearray | memoryview
"""What can be written."""


class FileStat(NamedTuple):
    """What the disk knows of a backing file: size in bytes, time of the last change, allocated 512-byte blocks."""

    size: int
    mtime_ns: int
    blocks: int


class DiskSpace(NamedTuple):
    """Bytes on a disk: all, free, and free for this user (`available` <= `free` <= `total`).

    `file_system` tells disks apart: two directories with the same number share their space. 0: it cannot be told.
    """

    total: int
    free: int
    available: int
    file_system: int = 0


class BackingFile(Protocol):
    """An open file on a disk. All methods may be called from any thread; offsets and sizes are in bytes."""

    def fileno(self) -> int:
        """Return the descriptor, for `mmap` or for handing it to the kernel."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from `offset`; fewer only at the end of the file."""

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        """Return the same as `pread` without touching the disk; None if not all of it is in the page cache."""

    def pwrite(self, data: Bytes, offset: int) -> None:
        """Write all of `data` at `offset`. After an error any part of it may have been written."""

    def sync(self) -> None:
        """Make the content, the size and the allocation durable (fdatasync)."""

    def truncate(self, size: int) -> None:
        """Set the size; bytes that come to be are zero."""

    def allocate(self, offset: int, size: int) -> None:
        """Reserve disk space for the range and extend the file over it; what was not written reads as zero."""

    def stat(self) -> FileStat:
        """Return size, time and allocation."""

    def close(self) -> None:
        """Close the descriptor; nothing else may be called afterwards."""


class Storage(Protocol):
    """The directories and files of the disks. All methods may be called from any thread."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> BackingFile:
        """Open a file for reading and writing; `create` makes it if missing, with `exclusive` it must be missing."""

    def read_small(self, path: str) -> bytes:
        """Return the whole content of a small file."""

    def replace_small(self, path: str, data: bytes) -> None:
        """Put `data` in the place of a small file's content: durable on return, and never half of it visible."""

    def remove(self, path: str) -> None:
        """Remove a file; durable after `sync_dir` of its directory."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file over whatever `new` was; durable after `sync_dir` of both directories."""

    def make_dir(self, path: str) -> None:
        """Make a directory of mode 0700; fine if it exists. Durable after `sync_dir` of its parent."""

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Say whether there is anything at this path."""

    def sync_dir(self, path: str) -> None:
        """Make the entries of this directory durable."""

    def sync_disk(self, path: str) -> None:
        """Make everything durable on the disk that holds this path."""

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; fine if it is missing."""

    def space(self, path: str) -> DiskSpace:
        """Return how full the disk is that holds this path."""

    def boot_id(self) -> bytes:
        """Return 16 bytes that name this boot of the machine: page cache and tmpfs live exactly as long."""
