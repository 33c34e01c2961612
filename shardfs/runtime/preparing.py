"""What is done before a mount's processes start: every check that can fail, so that a refused mount changes nothing."""

import contextlib
import os
import time
from dataclasses import dataclass

from shardfs.core.formatting import FormatOptions, check_disks, format_volume, is_volume, read_settings, read_superblock, remove_content
from shardfs.errors import SetupError, UsageError
from shardfs.format.superblock import Superblock
from shardfs.fuse.mountpoints import check_device, check_helper, check_mountpoint
from shardfs.fuse.options import parse_options
from shardfs.ids import MAX_SHARDS
from shardfs.runtime.arguments import MountArguments, default_workers
from shardfs.runtime.leftovers import clear_leftovers
from shardfs.runtime.lock import take_lock, tell_lock
from shardfs.runtime.paths import prepare_paths
from shardfs.runtime.processes import oom_score_adj
from shardfs.storage.real import RealStorage

TRANSPORT = "pyfuse3"
PROFILE = "mixed"


@dataclass(frozen=True)
class MountRequest:
    """What somebody wants mounted. Paths as they were given; `workers` 0 leaves the number to the settings."""

    volume: str
    mountpoint: str
    options: str = ""
    transport: str = "auto"
    profile: str = PROFILE
    workers: int = 0


@dataclass(frozen=True)
class Prepared:
    """A mount that may start. The lock is held through `lock_fd`; `formatted` and `made` tell what was new at the volume."""

    arguments: MountArguments
    lock_fd: int
    formatted: bool
    made: bool

    def undo(self) -> None:
        """Remove a volume that was formatted for this mount, and let go of the lock."""
        if self.formatted:
            remove_content(RealStorage(), self.arguments.volume, keep_directory=not self.made)
            with contextlib.suppress(FileNotFoundError):  # the server did not come so far
                os.unlink(self.arguments.paths.slots)
        os.close(self.lock_fd)


def prepare(request: MountRequest) -> Prepared:
    """Check everything, format a volume where there is nothing yet, and take its lock. Raises `SetupError` or `UsageError`."""
    volume, mountpoint = os.path.realpath(request.volume), os.path.realpath(request.mountpoint)
    _check_request(request)
    check_device()
    check_helper(parse_options(request.options))
    made = not os.path.lexists(volume)
    formatted = _is_fresh(volume)
    if formatted:
        check_mountpoint(mountpoint, volume, nonempty=parse_options(request.options).nonempty)
        format_volume(RealStorage(), volume, time.time_ns(), FormatOptions(owner=(os.geteuid(), os.getegid())))
    try:
        arguments, lock_fd = _take_volume(request, volume, mountpoint)
    except BaseException:
        if formatted:
            remove_content(RealStorage(), volume, keep_directory=not made)
        raise
    return Prepared(arguments, lock_fd, formatted, made)


def _take_volume(request: MountRequest, volume: str, mountpoint: str) -> tuple[MountArguments, int]:
    """Return everything that the mount's processes need to know, and the lock, held for them."""
    lock_fd = take_lock(volume)
    try:
        arguments = _arguments(request, volume, mountpoint)
        clear_leftovers(volume)
        check_mountpoint(mountpoint, volume, nonempty=arguments.mount_options.nonempty)
        tell_lock(lock_fd, arguments.paths.state)
    except BaseException:
        os.close(lock_fd)
        raise
    return arguments, lock_fd


def _check_request(request: MountRequest) -> None:
    parse_options(request.options)
    if request.transport not in ("auto", TRANSPORT):
        raise UsageError(f"the transport {request.transport!r} is not available in this version; use auto or {TRANSPORT}")
    if request.profile != PROFILE:
        raise UsageError(f"the profile {request.profile!r} is not available in this version; use {PROFILE}")
    if not 0 <= request.workers <= MAX_SHARDS:
        raise UsageError(f"--workers {request.workers} is out of range; give a number from 1 to {MAX_SHARDS}")


def _is_fresh(volume: str) -> bool:
    """Return whether there is nothing at the volume's path yet; raises `SetupError` if there is something else."""
    try:
        content = os.listdir(volume)
    except FileNotFoundError:
        parent = os.path.dirname(volume)
        if not os.access(parent, os.W_OK | os.X_OK):
            raise SetupError(f"cannot make the volume {volume}: {parent} is missing or not writable; choose another place") from None
        return True
    except OSError as error:
        raise SetupError(f"the volume {volume} cannot be used ({error.strerror}); name a directory of your own") from error
    if not os.access(volume, os.W_OK):
        raise SetupError(f"no permission to write to the volume {volume}; run this as the user that owns it")
    if content and not is_volume(RealStorage(), volume):
        raise SetupError(f"{volume} is neither empty nor a shardfs volume; name an empty or new directory")
    return not content


def _arguments(request: MountRequest, volume: str, mountpoint: str) -> MountArguments:
    storage = RealStorage()
    superblock = read_superblock(storage, volume)
    check_disks(storage, superblock)
    _check_overlap(superblock, volume, mountpoint)
    return MountArguments(
        volume=volume,
        volume_id=superblock.volume_id.hex(),
        mountpoint=mountpoint,
        options=parse_options(request.options).text(),
        transport=TRANSPORT,
        profile=PROFILE,
        shards=superblock.shards,
        workers=_workers(request, volume, superblock),
        directory=prepare_paths(superblock.volume_id).directory,
        oom_score_adj=oom_score_adj(),
    )


def _check_overlap(superblock: Superblock, volume: str, mountpoint: str) -> None:
    """Refuse to mount over the volume's directories outside of it: the server, which works there, would wait for itself."""
    for place in map(os.path.realpath, (superblock.journal_dir, *(disk.path for disk in superblock.disks))):
        is_outside = os.path.commonpath([place, volume]) != volume
        if is_outside and os.path.commonpath([mountpoint, place]) in (mountpoint, place):
            raise SetupError(f"the mount point {mountpoint} and {place}, a directory of this volume, overlap: choose another mount point")


def _workers(request: MountRequest, volume: str, superblock: Superblock) -> int:
    wanted = request.workers or read_settings(RealStorage(), volume).workers
    return min(wanted or default_workers(superblock.shards), superblock.shards)
