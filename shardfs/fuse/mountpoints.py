"""Mount points: what has to be right before a mount, and taking mounts away."""

import ctypes
import errno
import os
import shutil
import subprocess

from shardfs.errors import SetupError
from shardfs.fuse.mountinfo import mount_at, mounts_of
from shardfs.fuse.options import MountOptions

FUSE_DEVICE = "/dev/fuse"
DEVICE_VARIABLE = "SHARDFS_FUSE_DEVICE"
"""Environment variable that names another device to look for, so that its absence can be tested."""

_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
_FUSERMOUNT = "fusermount3"
_FUSE_CONF = "/etc/fuse.conf"


def check_device() -> None:
    """Raise `SetupError` unless this process may open the FUSE device."""
    device = os.environ.get(DEVICE_VARIABLE, FUSE_DEVICE)
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError as error:
        raise SetupError(f"no permission to open {device}: ask an administrator for access to it") from error
    except OSError as error:
        advice = "load the kernel's module with `modprobe fuse`, or give the device to this container"
        raise SetupError(f"cannot open {device} ({error.strerror}): {advice}") from error


def check_helper(options: MountOptions) -> None:
    """Raise `SetupError` unless an ordinary user has what it takes to mount with these options; root needs nothing."""
    if os.geteuid() == 0:
        return
    if shutil.which(_FUSERMOUNT) is None:
        raise SetupError(f"{_FUSERMOUNT} is needed to mount as an ordinary user: install the package fuse3")
    if options.allow_other and not _allows_other():
        raise SetupError(f"the option allow_other needs a line user_allow_other in {_FUSE_CONF}: ask an administrator to add it")


def _allows_other() -> bool:
    try:
        with open(_FUSE_CONF) as conf:
            return any(line.strip() == "user_allow_other" for line in conf)
    except OSError:
        return False


def check_mountpoint(mountpoint: str, volume: str, *, nonempty: bool = False) -> None:
    """Raise `SetupError` unless the volume (both are absolute paths without links) can be mounted there.

    A directory with something in it is refused, but for `nonempty`: often that was written while the mount was gone,
    by programs that took the directory for it, and the mount would hide it.
    """
    if mounted := mount_at(mountpoint):
        raise SetupError(f"the mount point {mountpoint} is busy: {mounted.source} is mounted there; unmount it or choose another one")
    try:
        with os.scandir(mountpoint) as entries:
            found = next(entries, None)
    except FileNotFoundError as error:
        raise SetupError(f"the mount point {mountpoint} does not exist: create it with mkdir") from error
    except NotADirectoryError as error:
        raise SetupError(f"the mount point {mountpoint} is not a directory: choose a directory") from error
    except OSError as error:
        raise SetupError(f"the mount point {mountpoint} cannot be used: {error.strerror}") from error
    if not os.access(mountpoint, os.W_OK):
        raise SetupError(f"no permission to mount at {mountpoint}: choose a directory that you may write to")
    shared = os.path.commonpath([mountpoint, volume])
    if shared == volume:
        raise SetupError(f"the mount point {mountpoint} lies inside the volume {volume}: choose a directory outside of it")
    if shared == mountpoint:
        raise SetupError(f"the volume {volume} lies inside the mount point {mountpoint}: choose another mount point")
    if found is not None and not nonempty:
        raise SetupError(
            f"the mount point {mountpoint} is not empty, a mount would hide {found.name!r}, perhaps written while the volume"
            " was not mounted: move it away, or mount over it with -o nonempty"
        )


def unmount(mountpoint: str) -> None:
    """Unmount; raises `SetupError` if it is in use or not permitted."""
    _take_away(mountpoint, lazy=False)


def detach_dead(volume: str) -> list[str]:
    """Detach the mounts of a volume that no server serves any more, and return where they were."""
    mountpoints = [mount.mountpoint for mount in mounts_of(volume)]
    for mountpoint in mountpoints:
        _take_away(mountpoint, lazy=True)
    return mountpoints


def _take_away(mountpoint: str, lazy: bool) -> None:
    if os.geteuid() == 0:
        _umount2(mountpoint, lazy)
        return
    command = [_FUSERMOUNT, "-u", *(["-z"] if lazy else []), "--", mountpoint]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().removeprefix(f"{_FUSERMOUNT}: ")
        raise SetupError(_busy(mountpoint) if "busy" in reason.lower() else f"cannot unmount {mountpoint}: {reason}")


def _umount2(mountpoint: str, lazy: bool) -> None:
    """Call umount2(2), which the standard library lacks."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if lazy else 0)
    if libc.umount2(os.fsencode(mountpoint), flags) != 0:
        code = ctypes.get_errno()
        raise SetupError(_busy(mountpoint) if code == errno.EBUSY else f"cannot unmount {mountpoint}: {os.strerror(code)}")


def _busy(mountpoint: str) -> str:
    return f"{mountpoint} is in use: close the files and leave the directories in it (`fuser -vm {mountpoint}` tells whose), then try again"
