"""flock(2) and fcntl(2) locks between processes."""

import errno
import fcntl
import os
import signal
import struct
from pathlib import Path

from tests.posix.table import case, fails, in_child, opened, write

F_OFD_SETLK = 37


def _refused(path: Path, lock: int) -> None:
    with opened(path, os.O_RDWR) as fd, fails(errno.EWOULDBLOCK, errno.EACCES):
        fcntl.flock(fd, lock | fcntl.LOCK_NB)


def _granted(path: Path, lock: int) -> None:
    with opened(path, os.O_RDWR) as fd:
        fcntl.flock(fd, lock | fcntl.LOCK_NB)


@case
def flock_excludes_other_processes(path: Path) -> None:
    """An exclusive lock keeps others out until it is released; shared locks live together."""
    write(path / "f")
    with opened(path / "f", os.O_RDWR) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        in_child(lambda: _refused(path / "f", fcntl.LOCK_EX))
        in_child(lambda: _refused(path / "f", fcntl.LOCK_SH))
        fcntl.flock(fd, fcntl.LOCK_SH)
        in_child(lambda: _granted(path / "f", fcntl.LOCK_SH))
        in_child(lambda: _refused(path / "f", fcntl.LOCK_EX))
        fcntl.flock(fd, fcntl.LOCK_UN)
        in_child(lambda: _granted(path / "f", fcntl.LOCK_EX))


@case
def flock_goes_with_its_handle(path: Path) -> None:
    """Closing the last handle releases the lock, also when the process is killed."""
    write(path / "f")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        fcntl.flock(os.open(path / "f", os.O_RDWR), fcntl.LOCK_EX)
        os.write(writer, b"!")
        signal.pause()
    assert os.read(reader, 1) == b"!"
    _refused(path / "f", fcntl.LOCK_EX)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    _granted(path / "f", fcntl.LOCK_EX)
    os.close(reader)
    os.close(writer)


@case
def flock_counts_handles_not_processes(path: Path) -> None:
    """Two handles of one process exclude each other, a duplicate shares the lock."""
    write(path / "f")
    with opened(path / "f", os.O_RDWR) as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        _refused(path / "f", fcntl.LOCK_EX)
        second = os.dup(first)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(second)


@case
def ranges_are_locked_separately(path: Path) -> None:
    """fcntl locks of different ranges do not meet; overlapping ones of two processes exclude."""
    write(path / "f", bytes(100))
    with opened(path / "f", os.O_RDWR) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX, 10, 0)
        in_child(lambda: _lock_range(path / "f", 10, 10, True))
        in_child(lambda: _lock_range(path / "f", 10, 5, False))
        fcntl.lockf(fd, fcntl.LOCK_UN, 5, 5)
        in_child(lambda: _lock_range(path / "f", 5, 5, True))


def _lock_range(path: Path, length: int, start: int, granted: bool) -> None:
    with opened(path, os.O_RDWR) as fd:
        if granted:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
            return
        with fails(errno.EAGAIN, errno.EACCES):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)


@case
def the_holder_can_be_asked_for(path: Path) -> None:
    """F_GETLK names the process that holds the lock and its range."""
    write(path / "f", bytes(100))
    holder = os.getpid()
    with opened(path / "f", os.O_RDWR) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX, 7, 3)
        in_child(lambda: _ask(path / "f", holder))


def _ask(path: Path, holder: int) -> None:
    question = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with opened(path, os.O_RDWR) as fd:
        kind, _, start, length, pid = struct.unpack("hhqqixxxx", fcntl.fcntl(fd, fcntl.F_GETLK, question))
    assert (kind, start, length, pid) == (fcntl.F_WRLCK, 3, 7, holder)


@case
def record_locks_go_with_any_close(path: Path) -> None:
    """Closing any handle of the file in the process drops its record locks, as POSIX has it."""
    write(path / "f", bytes(10))
    with opened(path / "f", os.O_RDWR) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        in_child(lambda: _lock_range(path / "f", 0, 0, False))
        os.close(os.open(path / "f", os.O_RDONLY))
        in_child(lambda: _lock_range(path / "f", 0, 0, True))


@case
def open_file_description_locks(path: Path) -> None:
    """OFD locks exclude two handles of one process and end with the handle."""
    write(path / "f", bytes(10))
    request = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with opened(path / "f", os.O_RDWR) as second:
        with opened(path / "f", os.O_RDWR) as first:
            fcntl.fcntl(first, F_OFD_SETLK, request)
            with fails(errno.EAGAIN):
                fcntl.fcntl(second, F_OFD_SETLK, request)
        fcntl.fcntl(second, F_OFD_SETLK, request)


@case
def a_waiting_lock_is_granted(path: Path) -> None:
    """A process that waits for a lock gets it when the holder lets go."""
    write(path / "f")
    reader, writer = os.pipe()
    with opened(path / "f", os.O_RDWR) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        pid = os.fork()
        if pid == 0:
            own = os.open(path / "f", os.O_RDWR)
            os.write(writer, b"?")
            fcntl.flock(own, fcntl.LOCK_EX)
            os.write(writer, b"!")
            os._exit(0)
        assert os.read(reader, 1) == b"?"
        fcntl.flock(fd, fcntl.LOCK_UN)
        assert os.read(reader, 1) == b"!"
    assert os.waitpid(pid, 0)[1] == 0
    os.close(reader)
    os.close(writer)
