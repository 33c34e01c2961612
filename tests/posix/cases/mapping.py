"""mmap(2): private and shared, coherent with read and write."""

import errno
import faulthandler
import mmap
import os
import signal
from pathlib import Path

from tests.posix.table import case, fails, in_child, let_clock_move, opened, pattern, write

COPY_ON_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
SIZES_BYTES = (5_000, 300_000, 3 << 20)


@case
def shared_stores_reach_the_file(path: Path) -> None:
    """A store through a shared mapping is in the file after msync, and after munmap without it."""
    for size in SIZES_BYTES:
        write(path / "f", pattern(size))
        with opened(path / "f", os.O_RDWR) as fd, mmap.mmap(fd, size) as view:
            view[100:106] = b"synced"
            view.flush()
            assert os.pread(fd, 6, 100) == b"synced"
            view[size - 8 :] = b"unsynced"
        expected = bytearray(pattern(size))
        expected[100:106], expected[size - 8 :] = b"synced", b"unsynced"
        assert (path / "f").read_bytes() == expected, size


@case
def private_stores_stay_private(path: Path) -> None:
    """A private mapping reads the file and never changes it."""
    for size in SIZES_BYTES:
        write(path / "f", pattern(size))
        with opened(path / "f", os.O_RDONLY) as fd, mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE, prot=COPY_ON_WRITE) as view:
            assert view[:] == pattern(size)
            view[:3] = b"own"
        assert (path / "f").read_bytes() == pattern(size)


@case
def two_mappings_are_one_memory(path: Path) -> None:
    """Stores through one mapping are read through another at once, also in another process."""
    write(path / "f", bytes(8192))
    with opened(path / "f", os.O_RDWR) as fd, mmap.mmap(fd, 8192) as one, mmap.mmap(fd, 8192) as two:
        one[4000:4005] = b"first"
        assert two[4000:4005] == b"first"
        in_child(lambda: _store(path / "f", b"child"))
        assert one[:5] == two[:5] == b"child"


def _store(path: Path, data: bytes) -> None:
    with opened(path, os.O_RDWR) as fd, mmap.mmap(fd, 8192) as view:
        view[: len(data)] = data


@case
def mapping_and_calls_agree(path: Path) -> None:
    """write is seen by a mapping, a store by read, without any sync."""
    write(path / "f", bytes(10_000))
    with opened(path / "f", os.O_RDWR) as fd, mmap.mmap(fd, 10_000) as view:
        assert view[0] == 0
        os.pwrite(fd, b"written", 5000)
        assert view[5000:5007] == b"written"
        view[6000:6006] = b"stored"
        assert os.pread(fd, 6, 6000) == b"stored"


@case
def the_last_page_ends_in_zeros(path: Path) -> None:
    """Between the end of the file and the end of its page a mapping reads zeros, also after a cut."""
    write(path / "f", b"\xee" * 4096)
    os.truncate(path / "f", 100)
    with opened(path / "f", os.O_RDWR) as fd:
        with mmap.mmap(fd, 0) as view:
            assert view[:] == b"\xee" * 100
        os.ftruncate(fd, 4096)
        with mmap.mmap(fd, 4096) as view:
            assert view[:] == b"\xee" * 100 + bytes(3996)


@case
def stores_beyond_the_end_are_lost(path: Path) -> None:
    """What is stored in the last page beyond the end does not appear when the file grows."""
    write(path / "f", b"x" * 100)
    with opened(path / "f", os.O_RDWR) as fd:
        os.ftruncate(fd, 4096)
        with mmap.mmap(fd, 4096) as view:
            os.ftruncate(fd, 100)
            view[200:204] = b"lost"
            view.flush()
        os.ftruncate(fd, 4096)
    assert (path / "f").read_bytes() == b"x" * 100 + bytes(3996)


@case
def touching_pages_beyond_the_end_is_sigbus(path: Path) -> None:
    """A page wholly beyond the end kills the process that touches it, not the file system."""
    write(path / "f", b"x" * 3 * 4096)
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()  # this death is wanted and needs no report
        fd = os.open(path / "f", os.O_RDWR)
        view = mmap.mmap(fd, 3 * 4096)
        os.ftruncate(fd, 100)
        view[50]
        os._exit(view[2 * 4096])
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGBUS
    assert (path / "f").read_bytes() == b"x" * 100


@case
def a_mapping_outlives_handle_and_name(path: Path) -> None:
    """After close and unlink the mapping reads and writes on; after close alone the store reaches the file."""
    for size in SIZES_BYTES:
        write(path / "f", pattern(size))
        os.link(path / "f", path / "g")
        with opened(path / "f", os.O_RDWR) as fd:
            view = mmap.mmap(fd, size)
        os.unlink(path / "f")
        view[10:15] = b"later"
        assert view[:10] == pattern(size)[:10]
        view.close()
        assert (path / "g").read_bytes() == pattern(size)[:10] + b"later" + pattern(size)[15:]
        os.unlink(path / "g")


@case
def an_unlinked_mapping_works(path: Path) -> None:
    """The last name may go while the file is mapped."""
    write(path / "f", pattern(20_000))
    with opened(path / "f", os.O_RDWR) as fd:
        view = mmap.mmap(fd, 20_000)
    os.unlink(path / "f")
    view[:4] = b"gone"
    assert view[:] == b"gone" + pattern(20_000)[4:]
    view.close()


@case
def protection_follows_the_handle(path: Path) -> None:
    """A shared writable mapping of a read-only handle is EACCES, any of a write-only one too."""
    write(path / "f", b"x" * 4096)
    with opened(path / "f", os.O_RDONLY) as fd, fails(errno.EACCES):
        mmap.mmap(fd, 4096)
    with opened(path / "f", os.O_WRONLY) as fd, fails(errno.EACCES):
        mmap.mmap(fd, 4096, prot=mmap.PROT_READ)


@case
def stores_move_mtime(path: Path) -> None:
    """A store through a shared mapping changes mtime by the time it is synced."""
    write(path / "f", b"x" * 4096)
    os.utime(path / "f", ns=(1, 1))
    let_clock_move()
    with opened(path / "f", os.O_RDWR) as fd, mmap.mmap(fd, 4096) as view:
        view[:5] = b"store"
        view.flush()
        os.fsync(fd)
    assert os.stat(path / "f").st_mtime_ns > 1


@case
def a_growing_file_can_be_mapped_again(path: Path) -> None:
    """A file grown by writes and by truncate is mapped with its new length and content."""
    with opened(path / "f", os.O_RDWR | os.O_CREAT) as fd:
        for step in range(1, 6):
            os.pwrite(fd, bytes([step]) * 300_000, (step - 1) * 300_000)
            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as view:
                assert len(view) == step * 300_000
                assert view[0] == 1 and view[-1] == step
