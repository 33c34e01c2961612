"""Which error wins when a call is wrong in more than one way."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from tests.posix.table import USER, as_user, case, fails, tree, write

Call = Callable[[Path], object]

ROWS: tuple[tuple[str, Call, int], ...] = (
    ("mkdir over a file", lambda p: os.mkdir(p / "f"), errno.EEXIST),
    ("mkdir over a directory", lambda p: os.mkdir(p / "d"), errno.EEXIST),
    ("mkdir over a dangling symlink", lambda p: os.mkdir(p / "s"), errno.EEXIST),
    ("mkdir below a file", lambda p: os.mkdir(p / "f" / "x"), errno.ENOTDIR),
    ("mkdir below nothing", lambda p: os.mkdir(p / "missing" / "x"), errno.ENOENT),
    ("mkfifo over a file", lambda p: os.mkfifo(p / "f"), errno.EEXIST),
    ("symlink over a file", lambda p: os.symlink("x", p / "f"), errno.EEXIST),
    ("link over a directory", lambda p: os.link(p / "f", p / "d"), errno.EEXIST),
    ("link of a missing file over an existing one", lambda p: os.link(p / "missing", p / "f"), errno.ENOENT),
    ("link of a directory over an existing name", lambda p: os.link(p / "d", p / "f"), errno.EEXIST),
    ("rmdir of a full directory", lambda p: os.rmdir(p / "d"), errno.ENOTEMPTY),
    ("rmdir of a file", lambda p: os.rmdir(p / "f"), errno.ENOTDIR),
    ("rmdir below a file", lambda p: os.rmdir(p / "f" / "x"), errno.ENOTDIR),
    ("unlink of a directory", lambda p: os.unlink(p / "d"), errno.EISDIR),
    ("unlink below a file", lambda p: os.unlink(p / "f" / "x"), errno.ENOTDIR),
    ("rename of a missing name over a directory", lambda p: os.rename(p / "missing", p / "d"), errno.ENOENT),
    ("rename of a file over a full directory", lambda p: os.rename(p / "f", p / "d"), errno.EISDIR),
    ("rename of a directory over a file", lambda p: os.rename(p / "e", p / "f"), errno.ENOTDIR),
    ("rename of a directory over a full one", lambda p: os.rename(p / "e", p / "d"), errno.ENOTEMPTY),
    ("rename of a directory below itself", lambda p: os.rename(p / "d", p / "d" / "x" / "y"), errno.EINVAL),
    ("rename of a directory over its parent", lambda p: os.rename(p / "d" / "x", p / "d"), errno.ENOTEMPTY),
    ("open of a directory for writing", lambda p: os.open(p / "d", os.O_WRONLY), errno.EISDIR),
    ("exclusive create over a directory", lambda p: os.open(p / "d", os.O_CREAT | os.O_EXCL | os.O_WRONLY), errno.EEXIST),
    ("create below a file", lambda p: os.open(p / "f" / "x", os.O_CREAT | os.O_WRONLY), errno.ENOTDIR),
    ("open of a dangling symlink", lambda p: os.open(p / "s", os.O_RDONLY), errno.ENOENT),
    ("truncate of a directory", lambda p: os.truncate(p / "d", 0), errno.EISDIR),
    ("listing of a file", lambda p: os.listdir(p / "f"), errno.ENOTDIR),
    ("readlink of a directory", lambda p: os.readlink(p / "d"), errno.EINVAL),
    ("chdir into a file", lambda p: os.chdir(p / "f"), errno.ENOTDIR),
)


@case
def one_error_for_each(path: Path) -> None:
    """Every row of the table gives its errno and changes nothing."""
    write(path / "f")
    os.makedirs(path / "d" / "x")
    os.mkdir(path / "e")
    os.symlink("nowhere", path / "s")
    before = tree(path)
    for name, call, number in ROWS:
        try:
            with fails(number):
                call(path)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
    assert tree(path) == before


@case
def existence_is_told_before_permission(path: Path) -> None:
    """In a directory that a user may not write: EEXIST for what is there, EACCES for what is not."""
    write(path / "f")
    os.mkdir(path / "d")
    os.chmod(path, 0o755)

    def work() -> None:
        with fails(errno.EEXIST):
            os.mkdir(path / "d")
        with fails(errno.EACCES):
            os.mkdir(path / "new")
        with fails(errno.ENOENT):
            os.unlink(path / "missing")
        with fails(errno.EACCES):
            os.unlink(path / "f")
        with fails(errno.EEXIST):
            os.open(path / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY)

    as_user(work, USER)


@case
def search_permission_comes_first(path: Path) -> None:
    """Below a directory that cannot be searched everything is EACCES, also what does not exist."""
    os.mkdir(path / "d", 0o700)

    def work() -> None:
        for call in (os.stat, os.unlink, os.rmdir, os.mkdir):
            with fails(errno.EACCES):
                call(path / "d" / "missing")

    as_user(work, USER)
