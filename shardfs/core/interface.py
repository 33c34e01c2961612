"""The values that go in and out of the file system's operations."""

import stat
from dataclasses import dataclass
from typing import NamedTuple

from shardfs.ids import HandleId, Ino, RequestId


class Caller(NamedTuple):
    """Who sent a request; `umask` is already applied to the modes that come with it."""

    uid: int
    gid: int
    pid: int
    umask: int = 0
    request: RequestId = RequestId(0)


@dataclass(slots=True)
class Attributes:
    """What stat(2) tells of an inode. `blocks` are of 512 bytes."""

    ino: Ino
    mode: int
    nlink: int
    uid: int
    gid: int
    rdev: int
    size: int
    blocks: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int


@dataclass(slots=True)
class AttributeChanges:
    """What a setattr changes; None leaves a field as it is."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


class DirectoryRow(NamedTuple):
    """One row of a listing.

    `is_damaged`: the inode cannot be read, and of the attributes only number and kind are true.
    `next_offset` is where a listing goes on after it. Rows of one `group_size` > 1 share their offset: they have to
    be in the same reply, so the first of them must be the first row of a reply if not all fit behind others.
    """

    name: bytes
    next_offset: int
    attributes: Attributes
    group_size: int = 1
    is_damaged: bool = False


@dataclass(slots=True)
class OpenHandle:
    """An open file or directory."""

    handle: HandleId
    ino: Ino
    writable: bool = False


class Statfs(NamedTuple):
    """What statvfs(3) tells; blocks are of `block_bytes`."""

    block_bytes: int
    blocks: int
    free: int
    available: int
    files: int
    files_free: int
    name_max: int


RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
XATTR_CREATE = 1
XATTR_REPLACE = 2


def kind_of(mode: int) -> int:
    """Return the d_type of a file with this mode."""
    return stat.S_IFMT(mode) >> 12
