"""The lock of a volume: whoever holds it owns the volume. The supervisor and the server of a mount hold it together.

It is a flock(2) on VOLUME/lock. Children inherit the descriptor, so it is held until the last holder has ended. The
file's content tells commands where to look: it is the path of the state file, and outlives a mount that was killed.
"""

import fcntl
import os
import time

from shardfs.core.formatting import LOCK, is_volume
from shardfs.errors import SetupError
from shardfs.fuse.mountinfo import mounts_of
from shardfs.runtime.state import MountState, read_state
from shardfs.storage.real import RealStorage

UNMOUNTING_S = 10.0
"""How long a command waits for a mount that is just ending."""
_RETRY_S = 0.05


def take_lock(volume: str) -> int:
    """Return the descriptor of the lock, for the caller to close.

    Waits for a mount that is just ending; raises `SetupError` if the volume is mounted or otherwise in use.
    """
    descriptor = _open_lock(volume)
    deadline_s = time.monotonic() + UNMOUNTING_S
    while not _try_lock(descriptor):
        if _is_served(volume) or time.monotonic() > deadline_s:
            os.close(descriptor)
            raise SetupError(_in_use(volume))
        time.sleep(_RETRY_S)
    return descriptor


def _open_lock(volume: str) -> int:
    path = os.path.join(volume, LOCK)
    make = os.O_CREAT if is_volume(RealStorage(), volume) else 0
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | make, 0o600)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SetupError(f"{volume} is not a shardfs volume; name the directory that was formatted") from error
    except OSError as error:
        raise SetupError(f"cannot open {path} ({error.strerror}); run this as the user that owns the volume") from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_served(volume: str) -> bool:
    """Return whether a mount of the volume is there to stay."""
    state = last_state(volume)
    server = state.with_role("server") if state else None
    return server is not None and server.process.is_alive and bool(mounts_of(volume))


def _in_use(volume: str) -> str:
    state = last_state(volume)
    holder = state.with_role("server") if state else None
    if state is None or holder is None:
        return f"the volume {volume} is in use by another command; wait until that has ended"
    where = state.mountpoint
    return f"the volume {volume} is already mounted at {where} by pid {holder.pid}; use it there, or run: shardfs umount {where}"


def tell_lock(descriptor: int, state_path: str) -> None:
    """Write into the held lock where the state of the mount is that it is held for."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, os.fsencode(state_path), 0)


def last_state(volume: str) -> MountState | None:
    """Return the state of the volume's latest mount; None if there was none, or it ended well."""
    try:
        with open(os.path.join(volume, LOCK), "rb") as file:
            state_path = os.fsdecode(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SetupError(f"cannot read the lock of {volume} ({error}); run this as the user that owns the volume") from error
    return read_state(state_path) if state_path else None
