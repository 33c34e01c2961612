"""Fifos, sockets and device nodes."""

import errno
import os
import socket
import stat
from pathlib import Path

from tests.posix.table import USER, as_user, case, fails, in_child, opened, write


@case
def every_kind_can_be_made(path: Path) -> None:
    """mknod makes files, fifos, sockets and devices with their numbers; a listing tells their kinds."""
    kinds = {
        "file": (stat.S_IFREG, 0),
        "fifo": (stat.S_IFIFO, 0),
        "socket": (stat.S_IFSOCK, 0),
        "char": (stat.S_IFCHR, os.makedev(1, 3)),
        "block": (stat.S_IFBLK, os.makedev(4095, 1_048_575)),
    }
    for name, (kind, device) in kinds.items():
        os.mknod(path / name, kind | 0o640, device)
    for name, (kind, device) in kinds.items():
        found = os.lstat(path / name)
        assert (stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)) == (kind, 0o640), name
        assert (found.st_rdev, found.st_nlink, found.st_size) == (device, 1, 0), name
        with fails(errno.EEXIST):
            os.mknod(path / name, stat.S_IFIFO | 0o640)


@case
def a_fifo_carries_data(path: Path) -> None:
    """Two processes meet at a fifo."""
    os.mkfifo(path / "fifo")
    pid = os.fork()
    if pid == 0:
        with opened(path / "fifo", os.O_WRONLY) as fd:
            os.write(fd, b"through the fifo")
        os._exit(0)
    with opened(path / "fifo", os.O_RDONLY) as fd:
        assert os.read(fd, 100) == b"through the fifo"
    assert os.waitpid(pid, 0)[1] == 0
    assert os.stat(path / "fifo").st_size == 0
    with fails(errno.ENXIO):
        os.open(path / "fifo", os.O_WRONLY | os.O_NONBLOCK)


@case
def a_socket_listens(path: Path) -> None:
    """A Unix socket bound here takes a connection and is a socket to stat."""
    where = os.open(path, os.O_PATH)
    name = f"/proc/self/fd/{where}/socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert stat.S_ISSOCK(os.stat(path / "socket").st_mode)
        in_child(lambda: _say_hello(name))
        connection, _ = server.accept()
        assert connection.recv(10) == b"hello"
        connection.close()
        with fails(errno.EADDRINUSE), socket.socket(socket.AF_UNIX) as second:
            second.bind(name)
    os.close(where)
    os.unlink(path / "socket")


def _say_hello(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(name)
        client.send(b"hello")


@case
def special_files_behave_as_entries(path: Path) -> None:
    """They can be renamed, linked, chmodded, given times and removed like files."""
    os.mkfifo(path / "a")
    os.link(path / "a", path / "b")
    os.rename(path / "a", path / "c")
    os.chmod(path / "c", 0o600)
    os.utime(path / "c", ns=(1, 2))
    found = os.stat(path / "b")
    assert (found.st_mode & 0o777, found.st_nlink, found.st_mtime_ns) == (0o600, 2, 2)
    with fails(errno.EINVAL):
        os.truncate(path / "b", 0)
    os.unlink(path / "b")
    os.unlink(path / "c")


@case
def only_root_makes_devices(path: Path) -> None:
    """A user may make fifos and sockets, but no devices."""
    os.chmod(path, 0o777)

    def work() -> None:
        os.mkfifo(path / "fifo")
        os.mknod(path / "socket", stat.S_IFSOCK | 0o600)
        with fails(errno.EPERM):
            os.mknod(path / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))

    as_user(work)
    assert os.stat(path / "fifo").st_uid == USER and sorted(os.listdir(path)) == ["fifo", "socket"]


@case
def mknod_makes_usable_files(path: Path) -> None:
    """A file from mknod can be opened and written at once."""
    os.mknod(path / "f", stat.S_IFREG | 0o600)
    write(path / "f", b"x")
    assert (path / "f").read_bytes() == b"x"
