"""Reading directories: complete, stable, from any place."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.posix.table import case, libc, opened, write

SYS_GETDENTS64 = 217
KINDS = {stat.S_IFREG: 8, stat.S_IFDIR: 4, stat.S_IFLNK: 10, stat.S_IFIFO: 1, stat.S_IFSOCK: 12, stat.S_IFCHR: 2}


class Row(NamedTuple):
    """One entry as the kernel gives it."""

    ino: int
    offset: int
    kind: int
    name: bytes


def rows(fd: int, buffer_bytes: int = 32_768) -> Iterator[Row]:
    """Read a directory handle from where it stands to its end, in buffers of this size."""
    buffer = ctypes.create_string_buffer(buffer_bytes)
    while (filled := libc.syscall(SYS_GETDENTS64, fd, buffer, buffer_bytes)) > 0:
        place = 0
        while place < filled:
            ino, offset, length, kind = struct.unpack_from("=QqHB", buffer, place)
            yield Row(ino, offset, kind, buffer.raw[place + 19 : place + length].split(b"\0")[0])
            place += length
    assert filled == 0, os.strerror(ctypes.get_errno())


def _names(fd: int, buffer_bytes: int = 32_768) -> list[bytes]:
    return [row.name for row in rows(fd, buffer_bytes)]


def _fill(path: Path, count: int, prefix: str = "stays") -> set[bytes]:
    names = {f"{prefix}-{number:04d}" for number in range(count)}
    for name in names:
        os.close(os.open(path / name, os.O_CREAT | os.O_WRONLY))
    return {name.encode() for name in names}


@case
def rows_tell_name_inode_and_kind(path: Path) -> None:
    """Each entry appears once with its inode and kind; dot and dot-dot are there, too."""
    write(path / "file")
    os.mkdir(path / "dir")
    os.symlink("x", path / "link")
    os.mkfifo(path / "fifo")
    os.mknod(path / "sock", stat.S_IFSOCK | 0o600)
    os.mknod(path / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with opened(path, os.O_RDONLY) as fd:
        found = list(rows(fd))
    assert sorted(row.name for row in found) == sorted([b".", b"..", b"file", b"dir", b"link", b"fifo", b"sock", b"null"])
    for row in found:
        entry = os.lstat(os.fsencode(path) + b"/" + row.name)
        assert row.kind == KINDS[stat.S_IFMT(entry.st_mode)]
        if row.name != b"..":
            assert row.ino == entry.st_ino


@case
def an_empty_directory(path: Path) -> None:
    """It has its two dots only, and reads empty again after rewinding."""
    os.mkdir(path / "d")
    with opened(path / "d", os.O_RDONLY) as fd:
        for _ in range(2):
            assert sorted(_names(fd)) == [b".", b".."]
            os.lseek(fd, 0, os.SEEK_SET)


@case
def any_buffer_size_gives_the_same(path: Path) -> None:
    """Small and large buffers list the same entries in the same order."""
    names = _fill(path, 300)
    lists = []
    for size in (300, 1000, 4096, 65_536):
        with opened(path, os.O_RDONLY) as fd:
            lists.append(_names(fd, size))
    assert all(found == lists[0] for found in lists)
    assert set(lists[0]) - {b".", b".."} == names and len(lists[0]) == 302


@case
def every_offset_can_be_returned_to(path: Path) -> None:
    """After seeking to the offset of any entry the rest of the list follows, backwards and forwards."""
    _fill(path, 150)
    with opened(path, os.O_RDONLY) as fd:
        found = list(rows(fd))
        for index in [*range(0, len(found) - 1, 7), 100, 3, 0, 60]:
            os.lseek(fd, found[index].offset, os.SEEK_SET)
            assert [row.name for row in rows(fd)] == [row.name for row in found[index + 1 :]], index


@case
def offsets_hold_over_handles_and_changes(path: Path) -> None:
    """An offset means the same to another handle, after entries before and behind it came and went."""
    _fill(path, 200)
    with opened(path, os.O_RDONLY) as fd:
        found = list(rows(fd))
    for row in found[::5]:
        if row.name not in (b".", b".."):
            os.unlink(os.fsencode(path) + b"/" + row.name)
    _fill(path, 50, "new")
    middle = found[100]
    expected = {row.name for row in found[101:]} - {row.name for row in found[::5]} - {b".", b".."}
    with opened(path, os.O_RDONLY) as fd:
        os.lseek(fd, middle.offset, os.SEEK_SET)
        rest = [row.name for row in rows(fd)]
    assert expected <= set(rest) and len(rest) == len(set(rest))
    assert {name for name in rest if name.startswith(b"stays")} == expected


@case
def a_scan_survives_changes(path: Path) -> None:
    """Entries that exist all the time appear exactly once while others come and go between the reads."""
    steady = _fill(path, 400)
    doomed = sorted(_fill(path, 200, "doomed"))
    seen: list[bytes] = []
    with opened(path, os.O_RDONLY) as fd:
        for step, row in enumerate(rows(fd, 600)):
            seen.append(row.name)
            write(path / f"new-{step}")
            if doomed:
                os.unlink(os.fsencode(path) + b"/" + doomed.pop())
    assert sorted(name for name in seen if name in steady) == sorted(steady)
    assert len(seen) == len(set(seen))


@case
def removing_while_reading_removes_all(path: Path) -> None:
    """The loop of rm -r: each entry is removed as it is read, nothing is missed."""
    names = _fill(path, 500)
    with opened(path, os.O_RDONLY) as fd:
        for row in rows(fd, 512):
            if row.name not in (b".", b".."):
                os.unlink(os.fsencode(path) + b"/" + row.name)
                names.discard(row.name)
    assert not names and os.listdir(path) == []


@case
def rewinding_sees_new_entries(path: Path) -> None:
    """After a seek to 0 the list is that of now."""
    _fill(path, 10)
    with opened(path, os.O_RDONLY) as fd:
        first = set(_names(fd))
        write(path / "later")
        os.unlink(path / "stays-0003")
        os.lseek(fd, 0, os.SEEK_SET)
        second = set(_names(fd))
    assert second - first == {b"later"} and first - second == {b"stays-0003"}


@case
def renaming_during_a_scan_shows_one_name(path: Path) -> None:
    """A file that is renamed meanwhile may appear under either name; the others appear once."""
    steady = _fill(path, 100)
    write(path / "mover-0")
    seen: list[bytes] = []
    with opened(path, os.O_RDONLY) as fd:
        for step, row in enumerate(rows(fd, 400)):
            seen.append(row.name)
            os.rename(path / f"mover-{step}", path / f"mover-{step + 1}")
    assert sorted(name for name in seen if name in steady) == sorted(steady)


@case
def telldir_and_seekdir(path: Path) -> None:
    """The C library's places lead back to the same entries."""
    _fill(path, 60)
    libc.opendir.restype = libc.readdir64.restype = ctypes.c_void_p
    libc.telldir.restype = ctypes.c_long
    stream = ctypes.c_void_p(libc.opendir(os.fsencode(path)))
    places, names = [], []
    while True:
        place = libc.telldir(stream)
        entry = libc.readdir64(stream)
        if not entry:
            break
        places.append(place)
        names.append(ctypes.string_at(entry + 19))
    for index in (30, 5, 61, 0, 44):
        libc.seekdir(stream, ctypes.c_long(places[index]))
        assert ctypes.string_at(libc.readdir64(stream) + 19) == names[index]
    libc.closedir(stream)
    assert len(names) == 62


@case
def two_scans_do_not_disturb_each_other(path: Path) -> None:
    """Interleaved reads of two handles give two complete lists."""
    names = _fill(path, 100) | {b".", b".."}
    with opened(path, os.O_RDONLY) as one, opened(path, os.O_RDONLY) as two:
        pairs = list(zip(rows(one, 300), rows(two, 400), strict=True))
    assert {row.name for row, _ in pairs} == {row.name for _, row in pairs} == names


@case
def a_listing_agrees_with_stat(path: Path) -> None:
    """scandir's attributes, which may come with the listing, are those of stat, also after changes."""
    for number in range(50):
        write(path / str(number), b"x" * number)
    for round_number in range(2):
        for entry in os.scandir(path):
            found = os.stat(entry.path)
            assert found.st_ino == entry.inode() and found.st_size == int(entry.name) + round_number
            with opened(entry.path, os.O_WRONLY | os.O_APPEND) as fd:
                os.write(fd, b"+")
