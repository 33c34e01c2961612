"""statfs(2) and sizes at the edge."""

import errno
import os
import resource
import signal
from pathlib import Path

from tests.posix.table import case, fails, in_child, opened, write


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bfree * found.f_frsize


@case
def statfs_is_plausible(path: Path) -> None:
    """Free is at most all, available at most free, names have 255 bytes, block sizes are powers of two."""
    found = os.statvfs(path)
    assert 0 < found.f_bavail <= found.f_bfree < found.f_blocks
    assert found.f_namemax == 255
    assert found.f_frsize & (found.f_frsize - 1) == 0 and 512 <= found.f_frsize <= 1 << 20
    assert 0 < found.f_ffree <= found.f_files
    with opened(path, os.O_RDONLY) as fd:
        assert os.fstatvfs(fd).f_blocks == found.f_blocks


@case
def written_bytes_leave_the_free_ones(path: Path) -> None:
    """A synced file of 64 MiB lowers the free bytes by about that."""
    size = 64 << 20
    changes = []
    for attempt in range(3):
        before = _free_bytes(path)
        with opened(path / f"f{attempt}", os.O_WRONLY | os.O_CREAT) as fd:
            for _ in range(size >> 20):
                os.write(fd, b"x" * (1 << 20))
            os.fsync(fd)
        changes.append(before - _free_bytes(path))
    assert any(size * 0.9 <= change <= size * 1.3 for change in changes), changes


@case
def blocks_tell_what_a_file_takes(path: Path) -> None:
    """A written file has at least the blocks of its bytes, an empty one none or few."""
    write(path / "empty")
    with opened(path / "full", os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b"x" * (2 << 20))
        os.fsync(fd)
    assert os.stat(path / "empty").st_blocks <= 8
    assert (2 << 20) * 0.9 <= os.stat(path / "full").st_blocks * 512 <= (2 << 20) * 1.5


@case
def the_process_limit_counts(path: Path) -> None:
    """RLIMIT_FSIZE cuts a write short and gives EFBIG beyond."""

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        with opened(path / "f", os.O_WRONLY | os.O_CREAT) as fd:
            assert os.write(fd, b"x" * 9000) == 5000
            with fails(errno.EFBIG):
                os.write(fd, b"x")
            with fails(errno.EFBIG):
                os.ftruncate(fd, 5001)

    in_child(work)
    assert os.stat(path / "f").st_size == 5000


@case
def many_open_files(path: Path) -> None:
    """Several hundred files can be open at once, each with its own content."""
    handles = [os.open(path / str(number), os.O_RDWR | os.O_CREAT) for number in range(400)]
    for number, fd in enumerate(handles):
        os.write(fd, b"%d" % number)
    for number, fd in enumerate(handles):
        assert os.pread(fd, 10, 0) == b"%d" % number
        os.close(fd)
    assert len(os.listdir(path)) == 400
