"""mkdir(2), rmdir(2), unlink(2) and how many entries a directory can take."""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from tests.posix.table import case, fails, write


@case
def make_and_remove(path: Path) -> None:
    """A new directory is empty, has the mode asked for, and can be removed."""
    os.mkdir(path / "d", 0o750)
    found = os.stat(path / "d")
    assert stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o750
    assert os.listdir(path / "d") == []
    os.rmdir(path / "d")
    assert os.listdir(path) == []


@case
def only_empty_directories_go(path: Path) -> None:
    """rmdir refuses a directory with any entry in it, and takes it once the last is gone."""
    os.mkdir(path / "d")
    kinds: tuple[tuple[Callable[[Path], None], Callable[[Path], None]], ...] = (
        (write, os.unlink),
        (os.mkdir, os.rmdir),
        (lambda p: os.symlink("x", p), os.unlink),
        (os.mkfifo, os.unlink),
    )
    for make, remove in kinds:
        make(path / "d" / "entry")
        with fails(errno.ENOTEMPTY):
            os.rmdir(path / "d")
        remove(path / "d" / "entry")
    os.rmdir(path / "d")


@case
def wrong_kind(path: Path) -> None:
    """unlink takes no directory, rmdir nothing else."""
    os.mkdir(path / "d")
    write(path / "f")
    os.symlink("d", path / "s")
    with fails(errno.EISDIR, errno.EPERM):
        os.unlink(path / "d")
    for name in ("f", "s"):
        with fails(errno.ENOTDIR):
            os.rmdir(path / name)
    for call in (os.unlink, os.rmdir):
        with fails(errno.ENOENT):
            call(path / "missing")
    assert sorted(os.listdir(path)) == ["d", "f", "s"]


@case
def names_can_be_reused(path: Path) -> None:
    """The same name can be a file, a directory and a symlink in turn, with a fresh inode and nothing left over."""
    for _ in range(5):
        write(path / "n", b"x" * 100)
        os.unlink(path / "n")
        os.mkdir(path / "n")
        assert os.stat(path / "n").st_nlink == 2 and os.listdir(path / "n") == []
        os.rmdir(path / "n")
        os.symlink("x", path / "n")
        os.unlink(path / "n")
    assert os.listdir(path) == []


@case
def many_entries(path: Path) -> None:
    """Thousands of entries in one directory are all found by name, by listing and by removal."""
    names = {f"entry-{number:05d}" for number in range(2500)}
    for name in names:
        os.close(os.open(path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    assert set(os.listdir(path)) == names
    gone = {name for name in names if name.endswith(("3", "7"))}
    for name in gone:
        os.unlink(path / name)
    assert set(os.listdir(path)) == names - gone
    for name in sorted(names)[:50]:
        assert os.path.exists(path / name) == (name not in gone)
    with fails(errno.ENOTEMPTY):
        os.rmdir(path)


@case
def a_tree_is_removed_whole(path: Path) -> None:
    """A nested tree of files, links and directories can be copied and removed recursively."""
    for outer in range(5):
        for inner in range(5):
            os.makedirs(path / "t" / f"{outer}" / f"{inner}")
            write(path / "t" / f"{outer}" / f"{inner}" / "f", b"%d" % inner)
            os.symlink("f", path / "t" / f"{outer}" / f"{inner}" / "s")
    shutil.copytree(path / "t", path / "u", symlinks=True)
    assert (path / "u" / "4" / "3" / "s").read_bytes() == b"3"
    shutil.rmtree(path / "t")
    shutil.rmtree(path / "u")
    assert os.listdir(path) == []


@case
def inode_numbers_are_distinct(path: Path) -> None:
    """Living files never share an inode number, however often others come and go."""
    for number in range(200):
        write(path / f"keep-{number}")
        write(path / "gone")
        os.unlink(path / "gone")
    numbers = {os.stat(path / name).st_ino for name in os.listdir(path)}
    assert len(numbers) == 200
