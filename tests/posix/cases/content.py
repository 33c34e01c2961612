"""What is in a file: reads, writes, holes, truncation, appends, copies, syncs, unlinked files."""

import errno
import os
import shutil
from pathlib import Path

from tests.posix.table import case, fails, in_child, opened, pattern, write

SIZES_BYTES = (0, 1, 511, 4095, 4096, 4097, 131_072, 131_073, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20)


@case
def every_size_reads_back(path: Path) -> None:
    """Files of many sizes, around page, request and packing borders, hold what was written."""
    for size in SIZES_BYTES:
        write(path / str(size), pattern(size))
    for size in SIZES_BYTES:
        assert (path / str(size)).read_bytes() == pattern(size)
        assert os.stat(path / str(size)).st_size == size


@case
def overwriting_the_middle(path: Path) -> None:
    """A write into a closed file changes just its bytes."""
    for size in SIZES_BYTES[2:]:
        write(path / "f", pattern(size))
        middle = size // 2
        with opened(path / "f", os.O_WRONLY) as fd:
            assert os.pwrite(fd, b"MIDDLE", middle) == 6
        expected = bytearray(pattern(size))
        expected[middle : middle + 6] = b"MIDDLE"
        assert (path / "f").read_bytes() == expected, size


@case
def rewriting_again_and_again(path: Path) -> None:
    """Each version of a file that is rewritten many times replaces the one before completely."""
    for round_number in range(30):
        size = (round_number * 7919) % 20_000
        write(path / "f", pattern(size, round_number))
        assert (path / "f").read_bytes() == pattern(size, round_number)


@case
def reads_at_and_beyond_the_end(path: Path) -> None:
    """A read across the end is short, one beyond it empty."""
    write(path / "f", b"0123456789")
    with opened(path / "f", os.O_RDONLY) as fd:
        assert os.pread(fd, 100, 7) == b"789"
        assert os.pread(fd, 100, 10) == os.pread(fd, 100, 1 << 40) == b""


@case
def a_hole_reads_as_zeros(path: Path) -> None:
    """Writing beyond the end leaves zeros between, in small and large files."""
    for gap in (1, 4096, 100_000, 5 << 20):
        write(path / "f", b"head")
        with opened(path / "f", os.O_WRONLY) as fd:
            os.pwrite(fd, b"tail", 4 + gap)
        assert (path / "f").read_bytes() == b"head" + bytes(gap) + b"tail", gap


@case
def holes_take_no_room(path: Path) -> None:
    """A sparse file of 1 GiB takes far less on the disk, and its hole can be filled."""
    with opened(path / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.pwrite(fd, b"end", (1 << 30) - 3)
        os.fsync(fd)
        found = os.fstat(fd)
        assert found.st_size == 1 << 30 and found.st_blocks * 512 < 64 << 20
        os.pwrite(fd, b"middle", 1 << 29)
        assert os.pread(fd, 8, (1 << 29) - 1) == b"\0middle\0"


@case
def beyond_four_gigabytes(path: Path) -> None:
    """Offsets and sizes beyond 32 bits are kept exactly."""
    place = (4 << 30) + 12_345
    with opened(path / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.pwrite(fd, b"low", 12_345)
        os.pwrite(fd, b"high", place)
        assert os.fstat(fd).st_size == place + 4
        assert os.pread(fd, 4, place) == b"high" and os.pread(fd, 3, 12_345) == b"low"
        os.ftruncate(fd, place + 2)
        assert os.pread(fd, 10, place - 1) == b"\0hi"
        os.ftruncate(fd, 9 << 30)
    assert os.stat(path / "f").st_size == 9 << 30


@case
def truncation_never_exposes_old_bytes(path: Path) -> None:
    """After a cut, growing again by truncate, write or mapping shows zeros where the old bytes were."""
    for size in (100, 4096, 10_000, 1 << 20, 3 << 20):
        for cut in (0, 1, size // 2, size - 1):
            write(path / "f", b"\xee" * size)
            os.truncate(path / "f", cut)
            os.truncate(path / "f", size + 10)
            assert (path / "f").read_bytes() == b"\xee" * cut + bytes(size + 10 - cut), (size, cut)
            os.truncate(path / "f", cut)
            with opened(path / "f", os.O_WRONLY) as fd:
                os.pwrite(fd, b"z", size)
            assert (path / "f").read_bytes() == b"\xee" * cut + bytes(size - cut) + b"z", (size, cut)


@case
def truncation_of_an_open_file(path: Path) -> None:
    """ftruncate in the middle of writes, through one handle, is seen by the other."""
    with opened(path / "f", os.O_RDWR | os.O_CREAT) as first, opened(path / "f", os.O_RDWR) as second:
        os.write(first, b"\xee" * 9000)
        os.ftruncate(second, 5000)
        assert os.fstat(first).st_size == 5000
        os.ftruncate(first, 6000)
        assert os.pread(second, 2000, 4500) == b"\xee" * 500 + bytes(1000)
        os.write(first, b"at 9000")
        assert os.pread(second, 4000, 5900) == bytes(3100) + b"at 9000"


@case
def truncation_growing_through_all_sizes(path: Path) -> None:
    """A file that grows by truncate from empty to several MiB is all zeros."""
    write(path / "f")
    for size in (1, 5000, 1 << 20, (1 << 20) + 1, 4 << 20):
        os.truncate(path / "f", size)
        assert (path / "f").read_bytes() == bytes(size)


@case
def bad_sizes(path: Path) -> None:
    """A negative size is EINVAL, a directory EISDIR, a missing file ENOENT."""
    write(path / "f", b"abc")
    with fails(errno.EINVAL):
        os.truncate(path / "f", -1)
    with fails(errno.EISDIR):
        os.truncate(path, 0)
    with fails(errno.ENOENT):
        os.truncate(path / "missing", 0)


@case
def append_ignores_the_offset(path: Path) -> None:
    """With O_APPEND every write lands at the end as it is then, pwrite included."""
    write(path / "f", b"abc")
    with opened(path / "f", os.O_RDWR | os.O_APPEND) as appender, opened(path / "f", os.O_WRONLY) as writer:
        os.lseek(appender, 0, os.SEEK_SET)
        os.write(appender, b"def")
        os.pwrite(writer, b"ghi", 6)
        os.pwrite(appender, b"jkl", 0)
    assert (path / "f").read_bytes() == b"abcdefghijkl"


@case
def appenders_do_not_tear_lines(path: Path) -> None:
    """Four processes append at once: every line is whole and each process's lines are in order."""
    children = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            with opened(path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND) as fd:
                for line in range(150):
                    os.write(fd, f"{number} {line} {'x' * (line % 50)}\n".encode())
            os._exit(0)
        children.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    lines = [line.split() for line in (path / "log").read_text().splitlines()]
    for number in range(4):
        assert [int(line[1]) for line in lines if line[0] == str(number)] == list(range(150))
    assert all(len("".join(line[2:])) == int(line[1]) % 50 for line in lines)


@case
def unlinked_file_lives_while_open(path: Path) -> None:
    """An unlinked file can be read, written, cut and grown until its last handle goes; the name is free at once."""
    for size in (10, 3 << 20):
        write(path / "f", pattern(size))
        first, second = os.open(path / "f", os.O_RDWR), os.open(path / "f", os.O_RDONLY)
        os.unlink(path / "f")
        write(path / "f", b"another")
        assert os.fstat(first).st_nlink == 0 and os.fstat(first).st_size == size
        assert os.pread(second, size, 0) == pattern(size)
        os.pwrite(first, b"more", size)
        os.close(first)
        assert os.pread(second, 10, size - 2) == pattern(size)[-2:] + b"more"
        os.close(second)
        assert (path / "f").read_bytes() == b"another"


@case
def unlinked_file_keeps_its_attributes(path: Path) -> None:
    """fchmod, futimens, ftruncate and fsync work on a file without a name; it cannot be linked again."""
    with opened(path / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.unlink(path / "f")
        os.fchmod(fd, 0o600)
        os.utime(fd, ns=(5, 7))
        os.fsync(fd)
        found = os.fstat(fd)
        assert (found.st_mode & 0o777, found.st_mtime_ns, found.st_nlink) == (0o600, 7, 0)
        with fails(errno.ENOENT, errno.EXDEV):
            os.link(f"/proc/self/fd/{fd}", path / "again", follow_symlinks=True)


@case
def syncs_succeed(path: Path) -> None:
    """fsync and fdatasync work on files by any handle, on directories, and with O_SYNC and O_DSYNC."""
    for flags in (os.O_WRONLY, os.O_WRONLY | os.O_SYNC, os.O_WRONLY | os.O_DSYNC):
        with opened(path / "f", flags | os.O_CREAT) as fd:
            os.write(fd, b"data")
            os.fsync(fd)
            os.fdatasync(fd)
    for target in (path / "f", path):
        with opened(target, os.O_RDONLY) as fd:
            os.fsync(fd)
            os.fdatasync(fd)
    assert (path / "f").read_bytes() == b"data"


@case
def vectors_and_positions(path: Path) -> None:
    """pwritev and preadv scatter and gather; SEEK_END is the size; a negative place is EINVAL."""
    with opened(path / "f", os.O_RDWR | os.O_CREAT) as fd:
        assert os.pwritev(fd, [b"abc", b"", b"defg"], 2) == 7
        parts = [bytearray(3), bytearray(10)]
        assert os.preadv(fd, parts, 1) == 8
        assert parts[0] == b"\0ab" and parts[1][:5] == b"cdefg"
        assert os.lseek(fd, 0, os.SEEK_END) == 9
        with fails(errno.EINVAL):
            os.lseek(fd, -1, os.SEEK_SET)


@case
def data_and_holes_can_be_sought(path: Path) -> None:
    """SEEK_DATA finds data or the same place, SEEK_HOLE the end at the latest, both ENXIO beyond the end."""
    write(path / "f", b"x" * 8192)
    with opened(path / "f", os.O_RDONLY) as fd:
        assert os.lseek(fd, 0, os.SEEK_DATA) == 0
        assert os.lseek(fd, 0, os.SEEK_HOLE) == 8192
        for whence in (os.SEEK_DATA, os.SEEK_HOLE):
            with fails(errno.ENXIO):
                os.lseek(fd, 9000, whence)


@case
def preallocation_reads_as_zeros(path: Path) -> None:
    """posix_fallocate makes the file as long as asked and keeps what is there."""
    write(path / "f", b"abc")
    with opened(path / "f", os.O_RDWR) as fd:
        os.posix_fallocate(fd, 0, 50_000)
    assert (path / "f").read_bytes() == b"abc" + bytes(49_997)


@case
def copies_in_the_kernel(path: Path) -> None:
    """sendfile, copy_file_range and splice-like copies move exact bytes within and across files."""
    data = pattern(2_500_000)
    write(path / "a", data)
    with opened(path / "a", os.O_RDONLY) as source, opened(path / "b", os.O_RDWR | os.O_CREAT) as target:
        copied = 0
        while step := os.copy_file_range(source, target, len(data), copied, copied):
            copied += step
    with opened(path / "a", os.O_RDONLY) as source, opened(path / "c", os.O_RDWR | os.O_CREAT) as target:
        copied = 0
        while step := os.sendfile(target, source, copied, len(data)):
            copied += step
    shutil.copy2(path / "a", path / "d")
    assert all((path / name).read_bytes() == data for name in "bcd")
    assert os.stat(path / "d").st_mtime_ns == os.stat(path / "a").st_mtime_ns


@case
def direct_io(path: Path) -> None:
    """O_DIRECT reads and writes agree with buffered ones on the same file, small and large."""
    import mmap

    for blocks in (1, 16, 1024):
        block = mmap.mmap(-1, 4096 * blocks)
        block.write(pattern(4096 * blocks))
        with opened(path / "f", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT) as fd:
            assert os.pwrite(fd, block, 0) == len(block)
            assert (path / "f").read_bytes() == block[:]
            with opened(path / "f", os.O_WRONLY) as plain:
                os.pwrite(plain, b"plain", 100)
            answer = mmap.mmap(-1, 4096 * blocks)
            assert os.preadv(fd, [answer], 0) == len(block)
            assert answer[100:105] == b"plain" and answer[105:] == block[105:]


@case
def writes_of_a_dead_process_stay(path: Path) -> None:
    """What a process wrote before it was killed, without closing, is in the file."""
    import signal

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        fd = os.open(path / "f", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"last words")
        os.write(writer, b"!")
        signal.pause()
    assert os.read(reader, 1) == b"!"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)
    assert (path / "f").read_bytes() == b"last words"


@case
def a_forked_handle_works_in_the_child(path: Path) -> None:
    """A handle inherited over fork shares its offset with the parent's."""
    with opened(path / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b"parent ")
        in_child(lambda: _write_exactly(fd, b"child "))
        os.write(fd, b"parent")
    assert (path / "f").read_bytes() == b"parent child parent"


def _write_exactly(fd: int, data: bytes) -> None:
    assert os.write(fd, data) == len(data)
