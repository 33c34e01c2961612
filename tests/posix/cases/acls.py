"""POSIX access control lists, through setfacl(1), getfacl(1) and the raw attribute."""

import errno
import os
import stat
import struct
import subprocess
from pathlib import Path

from tests.posix.table import OTHER, USER, acl_case, as_user, fails, umask, write

UNDEFINED_ID = 0xFFFF_FFFF


def _setfacl(*arguments: str | Path) -> None:
    subprocess.run(["setfacl", *map(str, arguments)], check=True, capture_output=True)


def _getfacl(path: Path) -> list[str]:
    output = subprocess.run(["getfacl", "-n", "-p", "-c", str(path)], check=True, capture_output=True, text=True).stdout
    return [line.split("\t")[0] for line in output.splitlines() if line]


def _read(path: Path, allowed: bool) -> None:
    if allowed:
        path.read_bytes()
        return
    with fails(errno.EACCES):
        path.read_bytes()


@acl_case
def a_named_user_gets_access(path: Path) -> None:
    """An entry for one user opens the file for him alone, and goes when it is removed."""
    write(path / "f", b"x", 0o600)
    _setfacl("-m", f"u:{USER}:r", path / "f")
    as_user(lambda: _read(path / "f", True), USER)
    as_user(lambda: _read(path / "f", False), OTHER)
    assert _getfacl(path / "f") == ["user::rw-", f"user:{USER}:r--", "group::---", "mask::r--", "other::---"]
    _setfacl("-x", f"u:{USER}", path / "f")
    as_user(lambda: _read(path / "f", False), USER)


@acl_case
def a_named_group_gets_access(path: Path) -> None:
    """An entry for a group counts for its members, also by a supplementary group."""
    write(path / "f", b"x", 0o600)
    _setfacl("-m", "g:41999:r", path / "f")
    as_user(lambda: _read(path / "f", True), USER, groups=(41_999,))
    as_user(lambda: _read(path / "f", False), USER)


@acl_case
def the_mask_limits(path: Path) -> None:
    """The group bits of the mode show the mask, and chmod changes the mask."""
    write(path / "f", b"x", 0o600)
    _setfacl("-m", f"u:{USER}:rw", path / "f")
    assert stat.S_IMODE(os.stat(path / "f").st_mode) == 0o660
    os.chmod(path / "f", 0o600)
    as_user(lambda: _read(path / "f", False), USER)
    assert "mask::---" in _getfacl(path / "f")
    os.chmod(path / "f", 0o640)
    as_user(lambda: _read(path / "f", True), USER)


@acl_case
def a_minimal_list_is_a_mode(path: Path) -> None:
    """Setting only the three base entries changes the mode and stores no list."""
    write(path / "f", b"", 0o600)
    _setfacl("-m", "u::rwx,g::rx,o::r", path / "f")
    assert stat.S_IMODE(os.stat(path / "f").st_mode) == 0o754
    with fails(errno.ENODATA):
        os.getxattr(path / "f", "system.posix_acl_access")


@acl_case
def a_default_list_is_inherited(path: Path) -> None:
    """New files and directories take the default list, cut by the mode asked for, and directories pass it on."""
    _setfacl("-d", "-m", f"u::rwx,g::r-x,o::---,u:{USER}:rwx", path)
    with umask(0):
        os.close(os.open(path / "f", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(path / "sub", 0o777)
    assert f"user:{USER}:rwx" in _getfacl(path / "f")
    assert stat.S_IMODE(os.stat(path / "f").st_mode) == 0o660
    assert f"default:user:{USER}:rwx" in _getfacl(path / "sub")
    assert not os.listxattr(path / "f").count("system.posix_acl_default")


@acl_case
def the_umask_yields_to_a_default_list(path: Path) -> None:
    """Below a default list the umask does not count."""
    _setfacl("-d", "-m", f"u::rwx,g::r-x,o::---,u:{USER}:rwx", path)
    with umask(0o077):
        os.close(os.open(path / "f", os.O_CREAT | os.O_WRONLY, 0o666))
    assert stat.S_IMODE(os.stat(path / "f").st_mode) == 0o660


@acl_case
def a_default_list_can_be_removed(path: Path) -> None:
    """Without it the umask counts again."""
    os.mkdir(path / "d")
    _setfacl("-d", "-m", f"u:{USER}:rwx", path / "d")
    _setfacl("-k", path / "d")
    with umask(0o022):
        os.close(os.open(path / "d" / "f", os.O_CREAT | os.O_WRONLY, 0o666))
    assert stat.S_IMODE(os.stat(path / "d" / "f").st_mode) == 0o644
    assert _getfacl(path / "d" / "f") == ["user::rw-", "group::r--", "other::r--"]


@acl_case
def broken_lists_are_refused(path: Path) -> None:
    """A list that is no valid list is EINVAL; a default list belongs on directories only."""
    write(path / "f")
    for value in (b"", b"\x02", struct.pack("<IHHI", 2, 1, 7, UNDEFINED_ID), struct.pack("<I", 99)):
        if value:
            with fails(errno.EINVAL, errno.EOPNOTSUPP):
                os.setxattr(path / "f", "system.posix_acl_access", value)
    valid = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 6, UNDEFINED_ID) for tag in (0x01, 0x04, 0x20))
    with fails(errno.EACCES):
        os.setxattr(path / "f", "system.posix_acl_default", valid)


@acl_case
def only_the_owner_sets_lists(path: Path) -> None:
    """Another user gets EPERM, the owner may."""
    write(path / "f", b"", 0o666)
    os.chown(path / "f", USER, USER)
    valid = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 6, UNDEFINED_ID) for tag in (0x01, 0x04, 0x20))

    def stranger() -> None:
        with fails(errno.EPERM):
            os.setxattr(path / "f", "system.posix_acl_access", valid)

    as_user(stranger, OTHER)
    as_user(lambda: os.setxattr(path / "f", "system.posix_acl_access", valid), USER)


@acl_case
def lists_follow_the_inode(path: Path) -> None:
    """Rename and link keep them, a copy with cp -a takes them along."""
    write(path / "f", b"x", 0o600)
    _setfacl("-m", f"u:{USER}:r", path / "f")
    os.rename(path / "f", path / "g")
    subprocess.run(["cp", "-a", str(path / "g"), str(path / "h")], check=True)
    assert _getfacl(path / "g") == _getfacl(path / "h")
    assert f"user:{USER}:r--" in _getfacl(path / "h")
