"""The real storage: what it does to files, with which modes, and which of our errors each refusal becomes."""

import errno
import os
from pathlib import Path

import pytest

from shardfs.errors import DeviceFailed, Exists, NoSpace, NotFound, ShardfsError
from shardfs.storage.files import BackingFile, Storage
from shardfs.storage.real import RealStorage, translate


@pytest.fixture
def storage() -> Storage:
    return RealStorage()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file")


def mode(path: str) -> int:
    return os.stat(path).st_mode & 0o7777


def test_files_and_directories_are_closed_to_others(storage: Storage, path: str) -> None:
    before = os.umask(0)
    try:
        storage.open(path, create=True).close()
        storage.make_dir(path + ".d")
        storage.replace_small(path + ".small", b"x")
    finally:
        os.umask(before)
    assert [mode(path), mode(path + ".d"), mode(path + ".small")] == [0o600, 0o700, 0o600]


def test_written_bytes_are_read_back(storage: Storage, path: str) -> None:
    file = storage.open(path, create=True)
    file.pwrite(b"abcdef", 10)
    file.pwrite(bytearray(b"XY"), 12)
    file.pwrite(memoryview(b"Z"), 0)
    file.sync()
    assert file.pread(100, 9) == b"\0abXYef"
    assert file.pread(3, 0) == b"Z\0\0"
    assert file.pread(5, 100) == b""
    assert file.stat().size == 16
    assert os.fstat(file.fileno()).st_mtime_ns == file.stat().mtime_ns
    file.close()


def test_truncate_cuts_and_fills_with_zeros(storage: Storage, path: str) -> None:
    file = storage.open(path, create=True)
    file.pwrite(b"abcdef", 0)
    file.truncate(2)
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"
    file.close()


def test_allocate_extends_the_file_and_takes_blocks(storage: Storage, path: str) -> None:
    file = storage.open(path, create=True)
    file.allocate(0, 1 << 16)
    assert file.stat().size == 1 << 16
    assert file.stat().blocks * 512 >= 1 << 16
    assert file.pread(1 << 16, 0) == bytes(1 << 16)
    file.close()


def test_cached_read_gives_what_was_just_written(storage: Storage, path: str) -> None:
    file = storage.open(path, create=True)
    file.pwrite(b"abc", 0)
    assert file.pread_cached(2, 1) == b"bc"
    assert file.pread_cached(10, 1) == b"bc", "the end of the file is no miss"
    assert file.pread_cached(10, 3) == b""
    file.close()


@pytest.mark.parametrize("answer", [OSError(errno.EAGAIN, "again"), OSError(errno.EOPNOTSUPP, "no"), 2])
def test_cached_read_misses(storage: Storage, path: str, monkeypatch: pytest.MonkeyPatch, answer: int | OSError) -> None:
    file = storage.open(path, create=True)
    file.pwrite(b"abcdef", 0)

    def preadv(fd: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.pread_cached(6, 0) is None
    file.close()


def test_short_writes_go_on(storage: Storage, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = storage.open(path, create=True)
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: whole(fd, bytes(data)[:3], offset))
    file.pwrite(b"abcdefgh", 1)
    assert file.pread(20, 0) == b"\0abcdefgh"
    file.close()


def test_short_reads_go_on(storage: Storage, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = storage.open(path, create=True)
    file.pwrite(b"abcdefgh", 0)
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: whole(fd, min(size, 3), offset))
    assert file.pread(7, 1) == b"bcdefgh"
    file.close()


def test_a_full_disk_is_no_space(storage: Storage) -> None:
    file = storage.open("/dev/full")
    with pytest.raises(NoSpace, match="/dev/full"):
        file.pwrite(b"x", 0)
    file.close()


def test_missing_and_taken_paths(storage: Storage, path: str) -> None:
    for action in (storage.open, storage.read_small, storage.remove, storage.list_dir, storage.sync_dir, storage.space):
        with pytest.raises(NotFound, match=path):
            action(path)
    with pytest.raises(NotFound):
        storage.rename(path, path + ".new")
    storage.open(path, create=True, exclusive=True).close()
    with pytest.raises(Exists, match=path):
        storage.open(path, create=True, exclusive=True)
    with pytest.raises(Exists, match=path):
        storage.make_dir(path)
    storage.open(path, create=True).close()


def test_what_else_is_refused_is_a_failed_device(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(DeviceFailed, match=str(tmp_path)):
        storage.open(str(tmp_path))


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ENOSPC, NoSpace),
        (errno.EDQUOT, NoSpace),
        (errno.ENOENT, NotFound),
        (errno.ENOTDIR, NotFound),
        (errno.EEXIST, Exists),
        (errno.EIO, DeviceFailed),
        (errno.EROFS, DeviceFailed),
    ],
)
def test_every_errno_has_its_cause(number: int, cause: type[ShardfsError]) -> None:
    error = translate(OSError(number, os.strerror(number)), "write to", "/some/file")
    assert type(error) is cause
    assert str(error).startswith("cannot write to /some/file: ")


def test_every_method_of_a_file_names_it_when_it_fails(storage: Storage, path: str) -> None:
    file: BackingFile = storage.open(path, create=True)
    os.close(file.fileno())
    calls = (
        lambda: file.pread(1, 0),
        lambda: file.pread_cached(1, 0),
        lambda: file.pwrite(b"x", 0),
        file.sync,
        lambda: file.truncate(0),
        lambda: file.allocate(0, 1),
        file.stat,
        file.close,
    )
    for call in calls:
        with pytest.raises(DeviceFailed, match=path):
            call()


def test_small_files_are_replaced_as_a_whole(storage: Storage, path: str, tmp_path: Path) -> None:
    storage.replace_small(path, b"first, and longer")
    (tmp_path / "file.new").write_bytes(b"left of a crash, and longer than the second")
    storage.replace_small(path, b"second")
    assert storage.read_small(path) == b"second"
    assert storage.list_dir(str(tmp_path)) == ["file"]


def test_directories(storage: Storage, tmp_path: Path) -> None:
    directory = str(tmp_path / "d")
    storage.make_dir(directory)
    storage.make_dir(directory)
    for name in ("b", "a"):
        storage.open(f"{directory}/{name}", create=True).close()
    storage.rename(f"{directory}/a", f"{directory}/c")
    storage.sync_dir(directory)
    assert storage.list_dir(directory) == ["b", "c"]
    storage.remove(f"{directory}/b")
    assert not storage.exists(f"{directory}/b")
    assert storage.exists(f"{directory}/c")


def test_trees_are_removed(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").touch()
    storage.remove_tree(str(tmp_path / "d"))
    storage.remove_tree(str(tmp_path / "d"))
    assert storage.list_dir(str(tmp_path)) == []


def test_a_whole_disk_is_synced(storage: Storage, path: str, tmp_path: Path) -> None:
    storage.open(path, create=True).close()
    storage.sync_disk(str(tmp_path))
    with pytest.raises(NotFound, match=path):
        storage.sync_disk(path + ".missing")


def test_space_is_ordered(storage: Storage, tmp_path: Path) -> None:
    space = storage.space(str(tmp_path))
    assert 0 < space.available <= space.free < space.total


def test_the_boot_has_one_id(storage: Storage) -> None:
    assert len(storage.boot_id()) == 16
    assert storage.boot_id() == RealStorage().boot_id() != bytes(16)
