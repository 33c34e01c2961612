"""The table of POSIX cases and the few tools that its functions share.

A case is a function that takes an empty directory, works in it, and asserts. It knows nothing of what holds the
directory, so the same function proves that it is right on a local file system and that the mount agrees.
"""

import ctypes
import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

USER, OTHER = 41_001, 41_002
"""Two users (and groups of the same numbers) that own nothing on the machine."""
CLOCK_REALTIME_COARSE = 5

libc = ctypes.CDLL(None, use_errno=True)


class Case(NamedTuple):
    """One row of the table."""

    name: str
    run: Callable[[Path], None]
    acl: bool


Call = Callable[[], object]
CASES: list[Case] = []


def case(run: Callable[[Path], None]) -> Callable[[Path], None]:
    """Enter a function into the table."""
    return _enter(run, acl=False)


def acl_case(run: Callable[[Path], None]) -> Callable[[Path], None]:
    """Enter a function that needs a directory with POSIX ACLs."""
    return _enter(run, acl=True)


def _enter(run: Callable[[Path], None], acl: bool) -> Callable[[Path], None]:
    group = run.__module__.rpartition(".")[2]
    CASES.append(Case(f"{group}.{run.__name__}", run, acl))
    return run


@contextmanager
def fails(*expected: int) -> Iterator[None]:
    """Assert that the body raises an OSError with one of these errnos."""
    try:
        yield
    except OSError as error:
        wanted = " or ".join(os.strerror(number) for number in expected)
        assert error.errno in expected, f"expected {wanted}, got: {error}"
    else:
        raise AssertionError(f"expected {[os.strerror(number) for number in expected]}, but it succeeded")


def write(path: Path | str | bytes, data: bytes = b"", mode: int = 0o644) -> None:
    """Create or replace a file with this content."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


@contextmanager
def opened(path: Path | str | bytes, flags: int, mode: int = 0o644) -> Iterator[int]:
    """Open a descriptor for the body."""
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Work with this umask in the body."""
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def in_child(work: Callable[[], None]) -> None:
    """Run the work in a forked process; its failed assertion becomes one here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child_main(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        report = answer.read()
    _, status = os.waitpid(pid, 0)
    assert report or status == 0, f"the child died with wait status {status}"
    assert report == pickle.dumps(None), pickle.loads(report)


def _child_main(work: Callable[[], None], writer: int) -> None:
    report = None
    try:
        work()
    except BaseException:
        report = traceback.format_exc()
    os.write(writer, pickle.dumps(report))
    os._exit(0)


def as_user(work: Callable[[], None], uid: int = USER, gid: int | None = None, groups: tuple[int, ...] = ()) -> None:
    """Run the work in a child process as this user, with this primary group (default: the same number)."""

    def drop_and_work() -> None:
        os.setgroups(groups)
        os.setresgid(*(uid if gid is None else gid,) * 3)
        os.setresuid(uid, uid, uid)
        work()

    in_child(drop_and_work)


def let_clock_move() -> None:
    """Return when a new time stamp of the kernel must differ from every one given before."""
    start = time.clock_gettime_ns(time.CLOCK_REALTIME)
    while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= start:
        os.sched_yield()


def tree(root: Path) -> list[str]:
    """Return the names below a directory, sorted."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def pattern(size_bytes: int, seed: int = 1) -> bytes:
    """Return bytes in which every 8-byte word tells its own place."""
    words = b"".join((seed << 40 | index).to_bytes(8, "big") for index in range(size_bytes // 8 + 1))
    return words[:size_bytes]
