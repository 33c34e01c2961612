"""Finding a mount by its mount point, its volume or a path on it, and asking how it is."""

import os
from typing import Any

from shardfs.client.control import ask
from shardfs.errors import SetupError
from shardfs.fuse.mountinfo import mount_holding
from shardfs.runtime.lock import last_state
from shardfs.runtime.state import MountState
from shardfs.runtime.status import describe_process


def volume_of(target: str) -> str:
    """Return the volume that is mounted where this path is; else the path itself, which then should be a volume."""
    path = os.path.realpath(target)
    mount = mount_holding(path)
    return mount.source if mount and mount.is_shardfs else path


def find_mount(target: str) -> MountState:
    """Return the state of a mount; raises `SetupError` if nothing is mounted, with the reason if it ended badly."""
    state = last_state(volume_of(target))
    if state is None:
        raise SetupError(f"{target} is no mounted shardfs volume and no path on one; name a mount point, or mount the volume first")
    if state.failure:
        raise SetupError(state.failure)
    return state


def mount_status(state: MountState) -> dict[str, Any]:
    """Return what the mount tells of itself; if it does not answer, what its state file tells, and why as `error`."""
    try:
        answer: dict[str, Any] = ask(state.paths.control, "status")
    except SetupError as error:
        return {
            "healthy": False,
            "mountpoint": state.mountpoint,
            "volume": state.volume,
            "transport": state.transport,
            "profile": state.profile,
            "features": {},
            "processes": [describe_process(process) for process in state.processes],
            "error": str(error),
        }
    return answer
