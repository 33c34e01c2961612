"""The adapter on a real mount of a file system in memory, which is served by a thread of the test."""

import errno
import logging
import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from shardfs.core.filesystem import FileSystem
from shardfs.core.interface import DirectoryRow
from shardfs.core.loop import EventLoop
from shardfs.core.turn import BlockedOnWaiting, BlockedOnWork, Waiting
from shardfs.errors import CorruptRecord, NoSpace
from shardfs.fuse.options import parse_options
from shardfs.fuse.pyfuse3_transport import SESSION_TASKS, Pyfuse3Transport
from shardfs.ids import HandleId
from tests.fuse.memory_filesystem import MemoryFileSystem


class Mount:
    """A mount, its file system, and the thread that serves it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fs = MemoryFileSystem()
        self.loop = EventLoop(io_threads=2)
        started = threading.Event()
        self.transport = Pyfuse3Transport(cast(FileSystem, self.fs), self.loop, started.set)
        self.transport.mount("/memory", str(path), parse_options("allow_other"))
        self.thread = threading.Thread(target=self.transport.serve, daemon=True)
        self.thread.start()
        assert started.wait(10)

    def end(self) -> None:
        self.loop.post(self.transport.stop)
        self.thread.join(10)
        if self.thread.is_alive():
            subprocess.run(["umount", "-f", "-l", self.path], check=True)  # so that no request of this process is left waiting
            raise AssertionError("the session does not end")
        self.transport.close()
        self.loop.close()


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    made = Mount(tmp_path)
    yield made
    made.end()


def test_files_directories_links_and_attributes(mount: Mount) -> None:
    file, directory = mount.path / "file", mount.path / "directory"
    file.write_bytes(b"content")
    directory.mkdir(0o750)
    (directory / "link").symlink_to("../file")
    os.link(file, directory / "again")
    os.rename(file, directory / "moved")
    os.utime(directory / "moved", ns=(1_000_000_001, 2_000_000_002))
    os.chmod(directory / "moved", 0o604)
    os.truncate(directory / "moved", 3)
    found = os.stat(directory / "again")
    assert (found.st_mtime_ns, found.st_nlink, found.st_size, stat.S_IMODE(found.st_mode)) == (2_000_000_002, 2, 3, 0o604)
    assert (directory / "link").readlink() == Path("../file") and (directory / "again").read_bytes() == b"con"
    assert sorted(os.listdir(directory)) == ["again", "link", "moved"]
    os.unlink(directory / "link")
    assert not (directory / "link").exists()


def test_modes_owners_and_the_umask_reach_core(mount: Mount) -> None:
    old = os.umask(0o027)
    try:
        os.close(os.open(mount.path / "file", os.O_CREAT | os.O_WRONLY, 0o666))
    finally:
        os.umask(old)
    _, mode, caller = next(entry for entry in mount.fs.log if entry[0] == "create")
    assert mode == stat.S_IFREG | 0o640
    assert (caller.uid, caller.gid, caller.pid, caller.umask) == (os.getuid(), os.getgid(), os.getpid(), 0o027)  # type: ignore[attr-defined]


def test_only_what_changes_is_set(mount: Mount) -> None:
    (mount.path / "file").touch()
    mount.fs.log.clear()
    os.chown(mount.path / "file", 5, -1)
    changes: Any = next(entry[1] for entry in mount.fs.log if entry[0] == "setattr")
    assert (changes.uid, changes.gid, changes.size, changes.atime_ns, changes.mtime_ns) == (5, None, None, None, None)


def test_the_kernel_answers_what_it_knows(mount: Mount) -> None:
    (mount.path / "file").write_bytes(b"x" * 8192)
    (mount.path / "file").read_bytes()
    mount.fs.calls.clear()
    for _ in range(10):
        assert os.stat(mount.path / "file").st_size == 8192
        assert (mount.path / "file").read_bytes() == b"x" * 8192
        assert not (mount.path / "missing").exists()
    assert mount.fs.calls["getattr"] <= 1 and mount.fs.calls["read"] <= 1
    assert mount.fs.calls["lookup"] == 1, "a name that does not exist is remembered"


def test_a_scan_needs_no_request_for_each_file(mount: Mount) -> None:
    for number in range(500):
        (mount.path / f"file{number:03}").touch()
    mount.fs.calls.clear()
    assert len([os.stat(entry.path) for entry in os.scandir(mount.path)]) == 500
    assert mount.fs.calls["getattr"] <= 1 and mount.fs.calls["lookup"] == 0


def test_looked_up_rows_are_counted_once_each(mount: Mount) -> None:
    for number in range(300):
        (mount.path / f"file{number:03}").touch()
    before = mount.fs.lookups.copy()
    os.listdir(mount.path)
    assert {mount.fs.lookups[ino] - before[ino] for ino in mount.fs.entries[1].values()} == {1}
    assert mount.fs.lookups[1] == before[1], "the dots are not looked up"


def test_a_group_of_equal_offsets_is_never_torn(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the group stands, all of its names are listed, once each."""
    offsets: list[int] = []
    readdir = mount.fs.readdir

    def noted(handle: HandleId, offset: int, limit: int) -> list[DirectoryRow]:
        offsets.append(offset)
        return readdir(handle, offset, limit)

    monkeypatch.setattr(mount.fs, "readdir", noted)
    (mount.path / "d").mkdir()
    names = [f"{number:03}".ljust(100, "x") for number in range(600)]
    for name in names:
        (mount.path / "d" / name).touch()
    for first in range(100, 400, 10):
        mount.fs.group_sizes.update({os.fsencode(name): 3 for name in names[first : first + 3]})
    assert sorted(os.listdir(mount.path / "d")) == names
    assert len(set(offsets)) > 30, "each of the 30 groups begins a reply of its own"


def test_blocked_work_is_done_elsewhere_and_then_the_operation_runs_again(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    (mount.path / "file").touch()
    threads: list[int] = []
    warm: list[bytes] = []

    def work() -> bytes:
        threads.append(threading.get_ident())
        return b"cold data"

    def read(_handle: HandleId, _offset: int, _size: int) -> bytes:
        if not warm:
            raise BlockedOnWork(work, warm.append)
        return warm[0]

    monkeypatch.setattr(mount.fs, "read", read)
    os.truncate(mount.path / "file", 9)
    assert (mount.path / "file").read_bytes() == b"cold data"
    assert threads and threads[0] not in (threading.get_ident(), mount.thread.ident)


def test_a_waiting_operation_lets_others_pass(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    monkeypatch.setattr(mount.fs, "fsync", lambda _handle, _datasync: waiting)
    with open(mount.path / "file", "wb") as file:
        syncing = threading.Thread(target=os.fsync, args=(file.fileno(),))
        syncing.start()
        (mount.path / "other").touch()
        assert syncing.is_alive()
        mount.loop.post(lambda: waiting.resolve(None, None))
        syncing.join(10)
    assert not syncing.is_alive()


def test_more_operations_wait_than_there_are_session_tasks(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    begun = threading.Semaphore(0)

    def fsync(_handle: HandleId, _datasync: bool) -> Waiting:
        begun.release()
        return waiting

    monkeypatch.setattr(mount.fs, "fsync", fsync)
    fds = [os.open(mount.path / f"file{number}", os.O_CREAT | os.O_WRONLY) for number in range(SESSION_TASKS + 16)]
    syncing = [threading.Thread(target=os.fsync, args=(fd,)) for fd in fds]
    for thread in syncing:
        thread.start()
    all_busy = all([begun.acquire(timeout=10) for _ in range(SESSION_TASKS)])
    mount.loop.post(lambda: waiting.resolve(None, None))
    for thread, fd in zip(syncing, fds, strict=True):
        thread.join(10)
        os.close(fd)
    assert all_busy
    assert not any(thread.is_alive() for thread in syncing)


@pytest.mark.parametrize("how", ["raised", "waited for", "work", "blocked"])
def test_errors_become_errnos(mount: Mount, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    error = NoSpace("the disk is full")
    failed = Waiting()
    failed.resolve(None, error)

    def work() -> None:
        raise error

    def write(_handle: HandleId, _offset: int, _data: bytes) -> Waiting:
        if how == "raised":
            raise error
        if how == "work":
            raise BlockedOnWork(work, lambda _result: None)
        if how == "blocked":
            raise BlockedOnWaiting(failed)
        return failed

    monkeypatch.setattr(mount.fs, "write", write)
    fd = os.open(mount.path / "file", os.O_CREAT | os.O_WRONLY)
    try:
        with pytest.raises(OSError) as caught:
            os.write(fd, b"x")
    finally:
        os.close(fd)
    assert caught.value.errno == errno.ENOSPC


def test_a_bug_is_logged_with_its_traceback_and_the_mount_lives(
    mount: Mount, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def statfs() -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(mount.fs, "statfs", statfs)
    with pytest.raises(OSError) as caught:
        os.statvfs(mount.path)
    assert caught.value.errno == errno.EIO
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert record.exc_info is not None and "statfs" in record.message
    (mount.path / "still").touch()


def test_corruption_is_logged_with_its_message(mount: Mount, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def readlink(_caller: object, _ino: object) -> None:
        raise CorruptRecord("the record of /a/b does not match its checksum")

    (mount.path / "link").symlink_to("target")
    monkeypatch.setattr(mount.fs, "readlink", readlink)
    with pytest.raises(OSError):
        os.readlink(mount.path / "link")
    assert "the record of /a/b does not match" in caplog.text


def test_an_ordinary_refusal_is_not_logged(mount: Mount, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OSError) as caught:
        os.getxattr(mount.path, "user.none")
    assert caught.value.errno == errno.ENODATA and not caplog.records


def test_extended_attributes(mount: Mount) -> None:
    os.setxattr(mount.path, "user.a", b"1", os.XATTR_CREATE)
    with pytest.raises(FileExistsError):
        os.setxattr(mount.path, "user.a", b"2", os.XATTR_CREATE)
    os.setxattr(mount.path, "user.a", b"2", os.XATTR_REPLACE)
    assert os.getxattr(mount.path, "user.a") == b"2" and os.listxattr(mount.path) == ["user.a"]
    os.removexattr(mount.path, "user.a")
    assert os.listxattr(mount.path) == []


def test_statfs(mount: Mount) -> None:
    found = os.statvfs(mount.path)
    assert (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree, found.f_namemax) == (1000, 500, 400, 300, 200, 255)


def test_an_unmount_from_outside_ends_the_session(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    (tmp_path / "file").touch()
    subprocess.run(["umount", tmp_path], check=True)
    mount.thread.join(10)
    assert not mount.thread.is_alive() and not (tmp_path / "file").exists()
    mount.transport.close()
    mount.loop.close()
