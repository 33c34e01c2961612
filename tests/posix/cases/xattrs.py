"""Extended attributes: user, trusted, security."""

import ctypes
import errno
import os
import struct
from pathlib import Path

from tests.posix.table import OTHER, USER, as_user, case, fails, in_child, libc, opened, write


@case
def set_get_list_remove(path: Path) -> None:
    """Values come back exactly, on files and directories, by path and by handle."""
    write(path / "f")
    os.mkdir(path / "d")
    for target in (path / "f", path / "d"):
        os.setxattr(target, "user.a", b"value")
        os.setxattr(target, "user.empty", b"")
        os.setxattr(target, "user.binary", bytes(range(256)))
        assert sorted(os.listxattr(target)) == ["user.a", "user.binary", "user.empty"]
        assert os.getxattr(target, "user.a") == b"value"
        assert os.getxattr(target, "user.empty") == b""
        assert os.getxattr(target, "user.binary") == bytes(range(256))
        os.setxattr(target, "user.a", b"replaced by something longer")
        with opened(target, os.O_RDONLY) as fd:
            assert os.getxattr(fd, "user.a") == b"replaced by something longer"
            os.removexattr(fd, "user.a")
        assert sorted(os.listxattr(target)) == ["user.binary", "user.empty"]


@case
def create_and_replace(path: Path) -> None:
    """XATTR_CREATE refuses what exists, XATTR_REPLACE what does not."""
    write(path / "f")
    with fails(errno.ENODATA):
        os.setxattr(path / "f", "user.a", b"1", os.XATTR_REPLACE)
    os.setxattr(path / "f", "user.a", b"2", os.XATTR_CREATE)
    with fails(errno.EEXIST):
        os.setxattr(path / "f", "user.a", b"3", os.XATTR_CREATE)
    assert os.getxattr(path / "f", "user.a") == b"2"
    os.setxattr(path / "f", "user.a", b"4", os.XATTR_REPLACE)
    assert os.getxattr(path / "f", "user.a") == b"4"


@case
def missing_attributes(path: Path) -> None:
    """ENODATA for an attribute, ENOENT for a file, an empty list for a file without."""
    write(path / "f")
    assert os.listxattr(path / "f") == []
    for call in (os.getxattr, os.removexattr):
        with fails(errno.ENODATA):
            call(path / "f", "user.missing")
        with fails(errno.ENOENT):
            call(path / "missing", "user.a")


@case
def limits_of_names_and_values(path: Path) -> None:
    """Names of 255 bytes fit, 256 are ERANGE, values above 64 KiB are E2BIG."""
    write(path / "f")
    longest = "user." + "n" * 250
    os.setxattr(path / "f", longest, b"x" * 1000)
    assert os.listxattr(path / "f") == [longest] and len(os.getxattr(path / "f", longest)) == 1000
    with fails(errno.ERANGE):
        os.setxattr(path / "f", longest + "n", b"x")
    with fails(errno.E2BIG):
        os.setxattr(path / "f", "user.big", b"x" * 65_537)
    with fails(errno.EINVAL, errno.EOPNOTSUPP):
        os.setxattr(path / "f", "user.", b"x")


@case
def a_buffer_too_small(path: Path) -> None:
    """A call with size 0 tells the size, a smaller buffer than needed is ERANGE, a larger one is fine."""
    write(path / "f")
    os.setxattr(path / "f", "user.a", b"12345")
    name, buffer = os.fsencode(path / "f"), ctypes.create_string_buffer(100)
    assert libc.getxattr(name, b"user.a", None, 0) == 5
    assert libc.getxattr(name, b"user.a", buffer, 4) == -1 and ctypes.get_errno() == errno.ERANGE
    assert libc.getxattr(name, b"user.a", buffer, 100) == 5 and buffer.raw[:5] == b"12345"
    assert libc.listxattr(name, None, 0) == 7
    assert libc.listxattr(name, buffer, 6) == -1 and ctypes.get_errno() == errno.ERANGE
    assert libc.listxattr(name, buffer, 7) == 7 and buffer.raw[:7] == b"user.a\0"


@case
def which_kinds_take_user_attributes(path: Path) -> None:
    """Only files and directories have user attributes; symlinks and fifos refuse them."""
    os.symlink("x", path / "s")
    os.mkfifo(path / "p")
    for name in ("s", "p"):
        with fails(errno.EPERM):
            os.setxattr(path / name, "user.a", b"", follow_symlinks=False)
        os.setxattr(path / name, "trusted.a", b"1", follow_symlinks=False)
        assert os.getxattr(path / name, "trusted.a", follow_symlinks=False) == b"1"


@case
def unknown_namespaces(path: Path) -> None:
    """Names outside the known namespaces are EOPNOTSUPP."""
    write(path / "f")
    for name in ("nonsense", "os2.x", "system.nonsense"):
        with fails(errno.EOPNOTSUPP):
            os.setxattr(path / "f", name, b"")


@case
def trusted_is_for_root(path: Path) -> None:
    """A user neither sets nor sees trusted attributes."""
    write(path / "f", b"", 0o666)
    os.chmod(path / "f", 0o666)
    os.setxattr(path / "f", "trusted.secret", b"1")
    os.setxattr(path / "f", "user.open", b"1")

    def work() -> None:
        assert os.listxattr(path / "f") == ["user.open"]
        with fails(errno.ENODATA):
            os.getxattr(path / "f", "trusted.secret")
        with fails(errno.EPERM):
            os.setxattr(path / "f", "trusted.secret", b"2")

    as_user(work)
    assert os.getxattr(path / "f", "trusted.secret") == b"1"


@case
def security_attributes(path: Path) -> None:
    """Root keeps security attributes; capabilities are among them and go when a user writes the file."""
    write(path / "f", b"x")
    os.chmod(path / "f", 0o777)
    os.setxattr(path / "f", "security.shardfs", b"label")
    assert os.getxattr(path / "f", "security.shardfs") == b"label"
    capability = struct.pack("<5I", 0x0200_0001, 1 << 13, 0, 0, 0)
    os.setxattr(path / "f", "security.capability", capability)
    assert os.getxattr(path / "f", "security.capability") == capability

    def stranger() -> None:
        assert os.getxattr(path / "f", "security.shardfs") == b"label"
        with fails(errno.EPERM):
            os.setxattr(path / "f", "security.shardfs", b"mine")
        write(path / "f", b"new")

    as_user(stranger)
    with fails(errno.ENODATA):
        os.getxattr(path / "f", "security.capability")
    assert os.getxattr(path / "f", "security.shardfs") == b"label"


@case
def user_attributes_follow_the_mode(path: Path) -> None:
    """Reading needs r, setting needs w; in a sticky directory only its owner sets them on the directory."""
    write(path / "f", b"")
    os.setxattr(path / "f", "user.a", b"1")
    os.chmod(path, 0o1777)

    def reads_only() -> None:
        assert os.getxattr(path / "f", "user.a") == b"1"
        with fails(errno.EACCES):
            os.setxattr(path / "f", "user.a", b"2")
        with fails(errno.EPERM):
            os.setxattr(path, "user.a", b"2")

    def sees_nothing() -> None:
        with fails(errno.EACCES):
            os.getxattr(path / "f", "user.a")

    as_user(reads_only, OTHER)
    os.chmod(path / "f", 0o600)
    as_user(sees_nothing, OTHER)


@case
def attributes_belong_to_the_inode(path: Path) -> None:
    """They follow renames and links, and never come back with a new file of the name."""
    write(path / "f")
    os.setxattr(path / "f", "user.a", b"1")
    os.link(path / "f", path / "g")
    os.rename(path / "f", path / "h")
    assert os.getxattr(path / "g", "user.a") == os.getxattr(path / "h", "user.a") == b"1"
    os.unlink(path / "g")
    os.unlink(path / "h")
    write(path / "f")
    assert os.listxattr(path / "f") == []


@case
def many_attributes(path: Path) -> None:
    """Thirty attributes on one file are all listed, changed and removed."""
    write(path / "f")
    for number in range(30):
        os.setxattr(path / "f", f"user.{number}", b"%d" % number * 10)
    assert sorted(os.listxattr(path / "f")) == sorted(f"user.{number}" for number in range(30))
    for number in range(0, 30, 2):
        os.removexattr(path / "f", f"user.{number}")
    assert sorted(os.listxattr(path / "f")) == sorted(f"user.{number}" for number in range(1, 30, 2))
    assert os.getxattr(path / "f", "user.29") == b"29" * 10


@case
def another_process_sees_changes(path: Path) -> None:
    """A set or a removal is visible to a process that read the attribute before."""
    write(path / "f")
    for value in (b"1", b"22", b"333"):
        os.setxattr(path / "f", "user.a", value)
        in_child(lambda value=value: _expect_value(path / "f", value))  # type: ignore[misc]
    os.chown(path / "f", USER, USER)
    as_user(lambda: os.setxattr(path / "f", "user.a", b"by the owner"))
    assert os.getxattr(path / "f", "user.a") == b"by the owner"


def _expect_value(path: Path, value: bytes) -> None:
    assert os.getxattr(path, "user.a") == value
