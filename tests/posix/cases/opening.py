"""open(2) and creat(2): flags, modes, handles."""

import errno
import os
import stat
from pathlib import Path

from tests.posix.table import case, fails, opened, write


@case
def create_makes_an_empty_file(path: Path) -> None:
    """A new file is empty, has one link, the mode asked for and the caller's owner."""
    with opened(path / "f", os.O_CREAT | os.O_WRONLY, 0o640):
        found = os.stat(path / "f")
    assert stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o640
    assert (found.st_size, found.st_nlink, found.st_uid, found.st_gid) == (0, 1, os.geteuid(), os.getegid())


@case
def create_keeps_an_existing_file(path: Path) -> None:
    """O_CREAT on an existing file opens it, and changes neither content nor mode."""
    write(path / "f", b"content", 0o600)
    with opened(path / "f", os.O_CREAT | os.O_RDWR, 0o777) as fd:
        assert os.read(fd, 100) == b"content"
    assert stat.S_IMODE(os.stat(path / "f").st_mode) == 0o600


@case
def exclusive_create(path: Path) -> None:
    """O_EXCL makes a new file and refuses every existing name, a dangling symlink included."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    os.close(os.open(path / "new", flags))
    write(path / "file")
    os.mkdir(path / "directory")
    os.symlink("nowhere", path / "dangling")
    for name in ("new", "file", "directory", "dangling"):
        with fails(errno.EEXIST):
            os.open(path / name, flags)
    assert not os.path.exists(path / "nowhere")


@case
def create_through_dangling_symlink(path: Path) -> None:
    """O_CREAT without O_EXCL makes the file that a dangling symlink points at."""
    os.symlink("target", path / "s")
    write(path / "s", b"x")
    assert (path / "target").read_bytes() == b"x"


@case
def read_only_create(path: Path) -> None:
    """A file may be created with a mode that its own handle exceeds."""
    with opened(path / "f", os.O_CREAT | os.O_RDWR, 0o000) as fd:
        assert os.write(fd, b"abc") == 3
        assert os.pread(fd, 9, 0) == b"abc"


@case
def handles_know_their_direction(path: Path) -> None:
    """Reading a write-only handle and writing a read-only one give EBADF."""
    write(path / "f", b"abc")
    with opened(path / "f", os.O_RDONLY) as fd, fails(errno.EBADF):
        os.write(fd, b"x")
    with opened(path / "f", os.O_WRONLY) as fd, fails(errno.EBADF):
        os.read(fd, 1)
    with opened(path / "f", os.O_RDONLY) as fd, fails(errno.EINVAL, errno.EBADF):
        os.ftruncate(fd, 0)
    assert (path / "f").read_bytes() == b"abc"


@case
def truncating_open(path: Path) -> None:
    """O_TRUNC empties a file, also one that another handle has open, and that handle sees it."""
    write(path / "f", b"x" * 10_000)
    with opened(path / "f", os.O_RDWR) as first:
        with opened(path / "f", os.O_WRONLY | os.O_TRUNC) as second:
            assert os.fstat(first).st_size == 0
            assert os.read(first, 10) == b""
            os.write(second, b"new")
        assert os.pread(first, 10, 0) == b"new"
    assert (path / "f").read_bytes() == b"new"


@case
def truncating_create_of_large_file(path: Path) -> None:
    """O_CREAT | O_TRUNC on a file of several MiB leaves nothing of the old content."""
    write(path / "f", b"x" * (3 << 20))
    write(path / "f", b"y" * 10)
    assert (path / "f").read_bytes() == b"y" * 10
    assert os.stat(path / "f").st_size == 10


@case
def directory_flags(path: Path) -> None:
    """Directories open for reading only; O_DIRECTORY refuses what is none; O_NOFOLLOW refuses symlinks."""
    os.mkdir(path / "d")
    write(path / "f")
    os.symlink("f", path / "s")
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_CREAT):
        with fails(errno.EISDIR):
            os.open(path / "d", flags)
    with fails(errno.ENOTDIR):
        os.open(path / "f", os.O_RDONLY | os.O_DIRECTORY)
    with fails(errno.ELOOP):
        os.open(path / "s", os.O_RDONLY | os.O_NOFOLLOW)
    with opened(path / "d", os.O_RDONLY | os.O_DIRECTORY) as fd, fails(errno.EISDIR):
        os.read(fd, 1)


@case
def path_handles(path: Path) -> None:
    """O_PATH names a file without opening it; relative calls work from a directory handle."""
    os.mkdir(path / "d")
    with opened(path / "d", os.O_PATH | os.O_DIRECTORY) as directory:
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
        os.rename(path / "d", path / "e")
        assert stat.S_ISREG(os.stat("f", dir_fd=directory).st_mode)
    with opened(path / "e" / "f", os.O_PATH) as fd, fails(errno.EBADF):
        os.read(fd, 1)


@case
def same_file_opened_twice(path: Path) -> None:
    """Two handles have their own offsets and see each other's writes at once."""
    write(path / "f", b"0123456789")
    with opened(path / "f", os.O_RDWR) as first, opened(path / "f", os.O_RDWR) as second:
        assert os.read(first, 4) == b"0123"
        assert os.read(second, 2) == b"01"
        os.write(first, b"XY")
        assert os.read(second, 8) == b"23XY6789"


@case
def duplicated_handle_shares_offset(path: Path) -> None:
    """dup(2) shares offset and stays usable after the first is closed."""
    write(path / "f", b"0123456789")
    first = os.open(path / "f", os.O_RDONLY)
    second = os.dup(first)
    assert os.read(first, 4) == b"0123"
    os.close(first)
    assert os.read(second, 4) == b"4567"
    os.close(second)


@case
def trailing_slashes(path: Path) -> None:
    """A trailing slash demands a directory."""
    write(path / "f", b"x")
    os.mkdir(f"{path}/d/")
    assert os.path.isdir(path / "d")
    for call in (os.stat, os.unlink, os.readlink, lambda p: os.open(p, os.O_RDONLY), lambda p: os.truncate(p, 0)):
        with fails(errno.ENOTDIR):
            call(f"{path}/f/")
    with fails(errno.EISDIR):
        os.open(f"{path}/new/", os.O_CREAT | os.O_WRONLY)
    with fails(errno.ENOTDIR):
        os.rename(path / "f", f"{path}/g/")
    os.rename(f"{path}/d/", f"{path}/e/")
    os.rmdir(f"{path}/e/")
    assert os.listdir(path) == ["f"]


@case
def missing_things(path: Path) -> None:
    """What is not there gives ENOENT, a file in the middle of a path ENOTDIR."""
    write(path / "f")
    for name in ("missing", "missing/x", ""):
        with fails(errno.ENOENT):
            os.open(f"{path}/{name}" if name else "", os.O_RDONLY)
    with fails(errno.ENOENT):
        os.open(path / "missing" / "x", os.O_CREAT | os.O_WRONLY)
    with fails(errno.ENOTDIR):
        os.open(path / "f" / "x", os.O_CREAT | os.O_WRONLY)


@case
def status_flags_change_on_open_handle(path: Path) -> None:
    """O_APPEND set by fcntl(2) on an open handle sends the next write to the end."""
    import fcntl

    write(path / "f", b"abc")
    with opened(path / "f", os.O_RDWR) as fd:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
        os.write(fd, b"def")
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        os.pwrite(fd, b"X", 0)
    assert (path / "f").read_bytes() == b"Xbcdef"


@case
def executed_from_here(path: Path) -> None:
    """A script runs from the directory; without x bits it does not."""
    import subprocess

    write(path / "run", b"#!/bin/sh\necho ran\n", 0o755)
    assert subprocess.run([str(path / "run")], capture_output=True, check=True).stdout == b"ran\n"
    os.chmod(path / "run", 0o644)
    with fails(errno.EACCES):
        subprocess.run([str(path / "run")], check=True)
