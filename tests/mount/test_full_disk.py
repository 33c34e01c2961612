"""A disk that fills up under a mount: ENOSPC at write, nothing lost, and room again after removal, without a remount."""

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardfs.testing.mounted import Mounted

DISK_MIB = 256
FILE = b"0123456789abcdef" * 4096  # 64 KiB
ROOM_TIMEOUT_S = 30.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=755", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def full(small_disk: Path, make_volume: Callable[..., Mounted]) -> Iterator[Mounted]:
    """A mounted volume all of which lies on the small disk."""
    mounted = make_volume(on=small_disk)
    mounted.mount()
    yield mounted
    mounted.umount()
    mounted.assert_clean()


def fill(directory: Path) -> list[Path]:
    """Write small files until the disk is full; return those that were written whole."""
    written: list[Path] = []
    for number in range(DISK_MIB * 16):
        path = directory / f"{number:05d}"
        try:
            path.write_bytes(FILE)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            return written
        written.append(path)
    raise AssertionError("the disk never became full")


def wait_for_room(path: Path) -> None:
    """Wait until a write succeeds again: space comes back with the next commit."""
    deadline_s = time.monotonic() + ROOM_TIMEOUT_S
    while True:
        try:
            path.write_bytes(FILE)
            return
        except OSError as error:
            assert error.errno == errno.ENOSPC and time.monotonic() < deadline_s
            time.sleep(0.1)


def test_small_files_fill_the_disk_and_none_is_lost(full: Mounted) -> None:
    written = fill(full.path)
    assert len(written) > 400, "a good part of the disk is for files"
    # What statfs calls available is what one more small file could not get.
    assert os.statvfs(full.path).f_bavail * 4096 < 32 << 20
    assert all(path.read_bytes() == FILE for path in written)
    full.remount()
    assert all(path.read_bytes() == FILE for path in written)
    for path in written:
        path.unlink()
    wait_for_room(full.path / "again")


def test_a_large_file_gets_enospc_and_keeps_what_was_acknowledged(full: Mounted) -> None:
    path = full.path / "large"
    acknowledged = 0
    with open(path, "wb", buffering=0) as file, pytest.raises(OSError) as failure:
        while acknowledged < DISK_MIB << 20:
            acknowledged += file.write(FILE)
    assert failure.value.errno == errno.ENOSPC
    assert path.stat().st_size == acknowledged
    full.remount()
    assert path.read_bytes() == FILE * (acknowledged // len(FILE))
    path.unlink()
    wait_for_room(full.path / "again")


def test_a_full_disk_still_reads_renames_and_removes(full: Mounted) -> None:
    written = fill(full.path)
    written[0].rename(full.path / "renamed")
    assert (full.path / "renamed").read_bytes() == FILE
    assert len(list(full.path.iterdir())) >= len(written)
    written[1].unlink()
    assert not written[1].exists()
