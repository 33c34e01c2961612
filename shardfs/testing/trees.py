"""Pictures of directory trees, to compare one with another."""

import hashlib
import os
import stat
from typing import NamedTuple

STAMPED_BELOW_NS = 10**15
"""Times before this one (in 1970) were set by hand and are compared; later ones only count as `now`, and
so do those of fifos, which data that passes through them changes in the kernel only."""


class Picture(NamedTuple):
    """What one entry is. `links` names all paths of its inode in the tree; `content` is a digest or a symlink's target."""

    mode: int
    owner: tuple[int, int]
    nlink: int
    size: int
    mtime_ns: int
    content: str
    links: tuple[str, ...]
    xattrs: tuple[tuple[str, bytes], ...]


def picture(root: str) -> dict[str, Picture]:
    """Return a picture of everything below a directory by relative path."""
    paths = sorted(_walk(root, ""))
    by_inode: dict[int, list[str]] = {}
    for path in paths:
        by_inode.setdefault(os.lstat(os.path.join(root, path)).st_ino, []).append(path)
    return {path: _look(root, path, by_inode) for path in paths}


def _walk(root: str, below: str) -> list[str]:
    found = []
    for entry in os.scandir(os.path.join(root, below)):
        path = os.path.join(below, entry.name)
        found.append(path)
        if entry.is_dir(follow_symlinks=False):
            found.extend(_walk(root, path))
    return found


def _look(root: str, path: str, by_inode: dict[int, list[str]]) -> Picture:
    where = os.path.join(root, path)
    found = os.lstat(where)
    names = sorted(os.listxattr(where, follow_symlinks=False))
    return Picture(
        mode=found.st_mode,
        owner=(found.st_uid, found.st_gid),
        nlink=found.st_nlink,
        size=0 if stat.S_ISDIR(found.st_mode) else found.st_size,
        mtime_ns=found.st_mtime_ns if found.st_mtime_ns < STAMPED_BELOW_NS and not stat.S_ISFIFO(found.st_mode) else -1,
        content=_content(where, found.st_mode),
        links=tuple(by_inode[found.st_ino]),
        xattrs=tuple((name, os.getxattr(where, name, follow_symlinks=False)) for name in names),
    )


def _content(where: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return os.readlink(where)
    if not stat.S_ISREG(mode):
        return ""
    with open(where, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def differences(expected: dict[str, Picture], found: dict[str, Picture]) -> list[str]:
    """Return one line for each path that differs."""
    lines = [f"{path!r} is missing" for path in expected.keys() - found.keys()]
    lines += [f"{path!r} should not be there" for path in found.keys() - expected.keys()]
    for path in expected.keys() & found.keys():
        for field, right, wrong in zip(Picture._fields, expected[path], found[path], strict=True):
            if right != wrong:
                lines.append(f"{path!r}: {field} is {wrong!r}, should be {right!r}")
    return sorted(lines)
