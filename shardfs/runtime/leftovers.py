"""What a killed mount leaves behind: workers without a server, and a dead mount."""

import os
import signal

from shardfs.errors import SetupError
from shardfs.fuse.mountpoints import detach_dead
from shardfs.runtime.lock import last_state
from shardfs.runtime.processes import send_signal, wait_for_end

_END_S = 10.0


def clear_leftovers(volume: str) -> None:
    """End and detach what the latest mount of this volume has left. The caller holds the lock, so no server lives."""
    state = last_state(volume)
    pidfds = [pidfd for left in (state.processes if state else ()) if (pidfd := left.process.open_pidfd()) is not None]
    for pidfd in pidfds:
        send_signal(pidfd, signal.SIGKILL)
    ended = wait_for_end(pidfds, _END_S)
    for pidfd in pidfds:
        os.close(pidfd)
    if not ended:
        raise SetupError(f"processes of the last mount of {volume} do not end; wait until their disk answers, and try again")
    detach_dead(volume)
