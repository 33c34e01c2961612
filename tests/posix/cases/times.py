"""Time stamps: what each operation changes, and exact nanoseconds."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.posix.table import OTHER, as_user, case, fails, let_clock_move, libc, opened, write

UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2


class Rule(NamedTuple):
    """One operation: which times of the file and of its directory it changes (`m`, `c`)."""

    name: str
    act: Callable[[Path], object]
    file: str
    directory: str


def _write_bytes(path: Path, data: bytes, flags: int = 0) -> None:
    with opened(path / "f", os.O_WRONLY | flags) as fd:
        os.write(fd, data)


def _failing(call: Callable[[], object]) -> None:
    try:
        call()
    except OSError:
        return
    raise AssertionError("should have failed")


def _rename_and_back(path: Path) -> None:
    os.rename(path / "f", path / "f2")
    os.rename(path / "f2", path / "f")


RULES = (
    Rule("write", lambda p: _write_bytes(p, b"xyz"), "mc", ""),
    Rule("append", lambda p: _write_bytes(p, b"xyz", os.O_APPEND), "mc", ""),
    Rule("write nothing", lambda p: _write_bytes(p, b""), "", ""),
    Rule("truncate down", lambda p: os.truncate(p / "f", 1), "mc", ""),
    Rule("truncate up", lambda p: os.truncate(p / "f", 10_000), "mc", ""),
    Rule("open with O_TRUNC", lambda p: _write_bytes(p, b"", os.O_TRUNC), "mc", ""),
    Rule("open and close", lambda p: _write_bytes(p, b""), "", ""),
    Rule("chmod", lambda p: os.chmod(p / "f", 0o600), "c", ""),
    Rule("chmod to the same", lambda p: os.chmod(p / "f", 0o644), "c", ""),
    Rule("chown", lambda p: os.chown(p / "f", 7, 8), "c", ""),
    Rule("link", lambda p: os.link(p / "f", p / "g"), "c", "mc"),
    Rule("unlink another link", lambda p: os.unlink(p / "h"), "c", "mc"),
    Rule("rename", _rename_and_back, "c", "mc"),
    Rule("setxattr", lambda p: os.setxattr(p / "f", "user.x", b"1"), "c", ""),
    Rule("removexattr", lambda p: os.removexattr(p / "f", "user.old"), "c", ""),
    Rule("create", lambda p: write(p / "new"), "", "mc"),
    Rule("mkdir", lambda p: os.mkdir(p / "new"), "", "mc"),
    Rule("symlink", lambda p: os.symlink("x", p / "new"), "", "mc"),
    Rule("mkfifo", lambda p: os.mkfifo(p / "new"), "", "mc"),
    Rule("unlink", lambda p: os.unlink(p / "other"), "", "mc"),
    Rule("rmdir", lambda p: os.rmdir(p / "sub"), "", "mc"),
    Rule("rename in the directory", lambda p: os.rename(p / "other", p / "third"), "", "mc"),
    Rule("stat", lambda p: os.stat(p / "f"), "", ""),
    Rule("failed create", lambda p: _failing(lambda: os.mkdir(p / "f")), "", ""),
    Rule("failed unlink", lambda p: _failing(lambda: os.unlink(p / "missing")), "", ""),
    Rule("failed rmdir", lambda p: _failing(lambda: os.rmdir(p / "f")), "", ""),
    Rule("failed truncate", lambda p: _failing(lambda: os.truncate(p / "f", -1)), "", ""),
    Rule("failed setxattr", lambda p: _failing(lambda: os.setxattr(p / "f", "user.x", b"", os.XATTR_REPLACE)), "", ""),
)


def _prepare(path: Path) -> None:
    write(path / "f", b"0123456789")
    write(path / "other")
    os.link(path / "f", path / "h")
    os.mkdir(path / "sub")
    os.setxattr(path / "f", "user.old", b"1")
    for target in (path / "f", path):
        os.utime(target, ns=(10**18, 10**18))


def _changed(before: os.stat_result, after: os.stat_result) -> str:
    marks = "m" if after.st_mtime_ns != before.st_mtime_ns else ""
    return marks + ("c" if after.st_ctime_ns != before.st_ctime_ns else "")


@case
def each_operation_changes_its_times(path: Path) -> None:
    """The table above holds for the file and for the directory; no change goes backwards."""
    for number, rule in enumerate(RULES):
        directory = path / str(number)
        os.mkdir(directory)
        _prepare(directory)
        let_clock_move()
        before = os.stat(directory / "f"), os.stat(directory)
        rule.act(directory)
        after = os.stat(directory / "f"), os.stat(directory)
        assert (_changed(before[0], after[0]), _changed(before[1], after[1])) == (rule.file, rule.directory), rule.name
        assert all(new.st_ctime_ns >= old.st_ctime_ns for old, new in zip(before, after, strict=True)), rule.name


@case
def renaming_between_directories_marks_both(path: Path) -> None:
    """Both parents and the moved file change."""
    for name in ("a", "b"):
        os.mkdir(path / name)
    write(path / "a" / "f")
    let_clock_move()
    before = [os.stat(path / name) for name in ("a", "b", "a/f")]
    os.rename(path / "a" / "f", path / "b" / "f")
    after = [os.stat(path / name) for name in ("a", "b", "b/f")]
    assert [_changed(*pair) for pair in zip(before, after, strict=True)] == ["mc", "mc", "c"]


@case
def a_new_entry_has_the_time_of_its_making(path: Path) -> None:
    """All three times are set, to about now and to about the directory's."""
    let_clock_move()
    start = os.stat(path).st_mtime_ns
    write(path / "f")
    os.mkdir(path / "d")
    for name in ("f", "d"):
        found = os.stat(path / name)
        assert found.st_mtime_ns == found.st_ctime_ns and found.st_mtime_ns > start
        assert abs(found.st_atime_ns - found.st_mtime_ns) < 10**9


@case
def times_are_kept_exactly(path: Path) -> None:
    """Every nanosecond, before 1970 and after 2038, on files, directories and symlinks."""
    write(path / "f")
    os.mkdir(path / "d")
    os.symlink("f", path / "s")
    for name in ("f", "d", "s"):
        for atime, mtime in ((0, 1), (1_234_567_890_123_456_789, 999_999_999), (-1_500_000_000, -1), (5 * 10**18, 2**32 * 10**9 + 7)):
            os.utime(path / name, ns=(atime, mtime), follow_symlinks=False)
            found = os.lstat(path / name)
            assert (found.st_atime_ns, found.st_mtime_ns) == (atime, mtime), name
    assert os.stat(path / "f").st_mtime_ns == 2**32 * 10**9 + 7


def _utimensat(path: Path, atime: tuple[int, int], mtime: tuple[int, int]) -> None:
    import ctypes

    values = (ctypes.c_long * 4)(*atime, *mtime)
    if libc.utimensat(-100, os.fsencode(path), values, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@case
def now_and_omit(path: Path) -> None:
    """UTIME_NOW sets the present, UTIME_OMIT leaves a time; two omits change nothing at all."""
    write(path / "f")
    os.utime(path / "f", ns=(111, 222))
    let_clock_move()
    _utimensat(path / "f", (0, UTIME_OMIT), (5, 6))
    found = os.stat(path / "f")
    assert (found.st_atime_ns, found.st_mtime_ns) == (111, 5_000_000_006)
    _utimensat(path / "f", (0, UTIME_NOW), (0, UTIME_OMIT))
    again = os.stat(path / "f")
    assert again.st_atime_ns > 10**18 and again.st_mtime_ns == 5_000_000_006
    let_clock_move()
    _utimensat(path / "f", (0, UTIME_OMIT), (0, UTIME_OMIT))
    assert os.stat(path / "f").st_ctime_ns == again.st_ctime_ns
    with fails(errno.EINVAL):
        _utimensat(path / "f", (0, 10**9), (0, 0))


@case
def times_set_on_a_written_file_stay(path: Path) -> None:
    """Times set between write and close survive the close, a sync and a later read."""
    for size in (100, 3 << 20):
        with opened(path / "f", os.O_RDWR | os.O_CREAT | os.O_TRUNC) as fd:
            os.write(fd, b"x" * size)
            os.utime(fd, ns=(123, 456))
            os.fsync(fd)
        (path / "f").read_bytes()
        assert os.stat(path / "f").st_mtime_ns == 456


@case
def close_does_not_change_times(path: Path) -> None:
    """mtime is that of the write, not of the close or the sync."""
    for size in (100, 3 << 20):
        with opened(path / "f", os.O_RDWR | os.O_CREAT | os.O_TRUNC) as fd:
            os.write(fd, b"x" * size)
            written = os.fstat(fd)
            let_clock_move()
            os.fsync(fd)
        let_clock_move()
        found = os.stat(path / "f")
        assert (found.st_mtime_ns, found.st_ctime_ns) == (written.st_mtime_ns, written.st_ctime_ns), size


@case
def who_may_set_times(path: Path) -> None:
    """Who can write may set the present; only the owner (or root) any other time."""
    os.chmod(path, 0o777)
    write(path / "writable")
    write(path / "closed")
    os.chmod(path / "writable", 0o666)

    def work() -> None:
        os.utime(path / "writable")
        with fails(errno.EPERM):
            os.utime(path / "writable", ns=(1, 1))
        with fails(errno.EACCES):
            os.utime(path / "closed")

    as_user(work, OTHER)


@case
def reading_moves_atime_at_most(path: Path) -> None:
    """Reading and listing never change mtime or ctime."""
    write(path / "f", b"x" * 100)
    os.mkdir(path / "d")
    let_clock_move()
    before = os.stat(path / "f"), os.stat(path / "d")
    (path / "f").read_bytes()
    os.listdir(path / "d")
    assert _changed(before[0], os.stat(path / "f")) == "" and _changed(before[1], os.stat(path / "d")) == ""
