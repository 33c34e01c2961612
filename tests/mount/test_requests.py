"""What the kernel answers by itself: the requests that never come are counted, for root and for a user who owns nothing."""

import fcntl
import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardfs.testing.mounted import Mounted
from tests.posix.table import OTHER, as_user, opened, write

FILES = 200
SCANNED = 10_000

Act = Callable[[], None]
Who = Callable[[Act], None]


ROUNDS = 4
"""The kernel may take a page back at any time (reclaim), so one of the repetitions must get by without the server, not each."""


def _as_root(act: Act) -> None:
    act()


def _as_stranger(act: Act) -> None:
    as_user(act, OTHER)


@pytest.fixture(params=[_as_root, _as_stranger], ids=["root", "stranger"])
def who(request: pytest.FixtureRequest) -> Who:
    """Who works on the mount."""
    chosen: Who = request.param
    return chosen


def requests(mounted: Mounted, act: Act, who: Who) -> Counter[str]:
    """Return how many requests of each kind reach the server while somebody does something."""
    before = Counter(mounted.counters())
    who(act)
    after = Counter(mounted.counters())
    after.subtract(before)
    return Counter({name.removeprefix("request."): count for name, count in after.items() if name.startswith("request.") and count})


def _files(directory: Path) -> list[Path]:
    return [directory / "sub" / f"{number:04}" for number in range(FILES)]


@pytest.fixture
def filled(shared_dir: Path) -> Iterator[Path]:
    """A directory of small files that anyone may read."""
    (shared_dir / "sub").mkdir(mode=0o755)
    for path in _files(shared_dir):
        write(path, b"x" * 8192)
    yield shared_dir


def test_a_repeated_read_sends_no_read(filled: Path, shared_mount: Mounted, who: Who) -> None:
    def read_all() -> None:
        for path in _files(filled):
            assert len(path.read_bytes()) == 8192

    rounds = [requests(shared_mount, read_all, who) for _ in range(ROUNDS)]
    assert all(each["open"] == FILES for each in rounds)
    assert any(again["read"] == again["lookup"] == 0 for again in rounds[1:]), rounds


def test_a_repeated_map_sends_no_read(filled: Path, shared_mount: Mounted, who: Who) -> None:
    def map_all() -> None:
        for path in _files(filled):
            with opened(path, os.O_RDONLY) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as view:
                assert view[4096] == ord("x")

    rounds = [requests(shared_mount, map_all, who) for _ in range(ROUNDS)]
    assert any(again["read"] == 0 for again in rounds[1:]), rounds


def test_a_repeated_stat_is_answered_by_the_kernel(filled: Path, shared_mount: Mounted, who: Who) -> None:
    def stat_all() -> None:
        for path in _files(filled):
            assert os.stat(path).st_size == 8192
            assert os.access(path, os.R_OK)

    requests(shared_mount, stat_all, who)
    assert not requests(shared_mount, stat_all, who)


def test_a_missing_name_is_asked_for_once(filled: Path, shared_mount: Mounted, who: Who) -> None:
    def look() -> None:
        for number in range(FILES):
            assert not os.path.exists(filled / f"missing-{number}")

    assert requests(shared_mount, look, who)["lookup"] == FILES
    assert not requests(shared_mount, look, who)


def test_a_scan_sends_no_getattr(mount: Mounted, who: Who) -> None:
    """10,000 files listed with all their attributes by a kernel that has never seen them."""
    directory = mount.path / "scanned"
    directory.mkdir()
    for number in range(SCANNED):
        os.mknod(directory / f"{number:05}", 0o644)
    mount.remount()

    def scan() -> None:
        with os.scandir(directory) as entries:
            assert sum(entry.stat(follow_symlinks=False).st_nlink for entry in entries) == SCANNED

    sent = requests(mount, scan, who)
    assert sent["getattr"] <= 3, sent  # the root, the directory
    assert sent["lookup"] <= 3 and sent["getxattr"] == 0, sent
    assert sent["readdir"] < SCANNED / 10, sent


def test_locks_are_the_kernels(shared_dir: Path, shared_mount: Mounted) -> None:
    """The kernel keeps locks of both kinds in its own table, and taking them sends nothing."""
    write(shared_dir / "f", b"x")
    with opened(shared_dir / "f", os.O_RDWR) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        fcntl.lockf(fd, fcntl.LOCK_EX, 10)
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        inode = str(os.fstat(fd).st_ino)
        assert {words[1] for words in held if words[5].endswith(f":{inode}")} == {"FLOCK", "POSIX"}

        def lock() -> None:
            for _ in range(100):
                fcntl.flock(fd, fcntl.LOCK_SH)
                fcntl.lockf(fd, fcntl.LOCK_UN, 10)

        assert not requests(shared_mount, lock, _as_root)


def test_sync_sends_nothing(shared_dir: Path, shared_mount: Mounted) -> None:
    (shared_dir / "file").write_bytes(b"data")
    before = shared_mount.counters().get("request.fsync", 0)
    os.sync()
    assert shared_mount.counters().get("request.fsync", 0) == before
