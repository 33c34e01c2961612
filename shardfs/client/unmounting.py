"""Unmounting, and waiting until everything is durable and no process is left."""

import os
import time

from shardfs.errors import SetupError
from shardfs.fuse.mountinfo import mount_at
from shardfs.fuse.mountpoints import unmount
from shardfs.runtime.leftovers import clear_leftovers
from shardfs.runtime.lock import last_state, take_lock
from shardfs.runtime.processes import wait_for_end
from shardfs.runtime.state import MountState

END_S = 240.0
"""How long the processes of a mount may take to end; the supervisor kills a server that takes longer than its own limit."""


def unmount_and_wait(target: str) -> None:
    """Unmount what is mounted at a path, and return when all is over.

    Raises `SetupError` if it is no mount of ours, is in use, or did not end well.
    """
    mountpoint = os.path.realpath(target)
    mount = mount_at(mountpoint)
    if mount is None or not mount.is_shardfs:
        raise SetupError(f"{target} is no mount point of shardfs; findmnt -t fuse.shardfs lists those that are")
    state = last_state(mount.source)
    server = state.with_role("server") if state else None
    if state is None or server is None or not server.process.is_alive:
        _clear_dead(mount.source)
        raise SetupError(f"the mount at {target} was dead and is now detached; `shardfs mount` recovers the volume {mount.source}")
    unmount(mountpoint)
    _wait(state)
    after = last_state(mount.source)
    if after is not None and after.failure:
        raise SetupError(after.failure)


def _clear_dead(volume: str) -> None:
    lock_fd = take_lock(volume)
    try:
        clear_leftovers(volume)
    finally:
        os.close(lock_fd)


def _wait(state: MountState) -> None:
    """Wait for the processes of a mount, also for those that take the place of others meanwhile."""
    deadline_s = time.monotonic() + END_S
    current: MountState | None = state
    while current is not None and current.processes:
        pidfds = [pidfd for process in current.processes if (pidfd := process.process.open_pidfd()) is not None]
        ended = wait_for_end(pidfds, deadline_s - time.monotonic())
        for pidfd in pidfds:
            os.close(pidfd)
        if not ended:
            raise SetupError(f"{state.mountpoint} is unmounted, but its processes do not end; see {state.paths.log}")
        latest = last_state(state.volume)
        current = latest if latest != current else None
