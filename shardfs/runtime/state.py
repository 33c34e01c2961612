"""The state file of a mount: what the supervisor knows, for commands and for a supervisor that takes over."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from shardfs.errors import SetupError
from shardfs.runtime.paths import RuntimePaths
from shardfs.runtime.processes import ProcessName

STATE_VERSION = 1


@dataclass(frozen=True)
class ProcessState:
    """One process: `index` counts the workers, `restarts` how often its like was started again during this mount."""

    role: str
    index: int
    pid: int
    start_ticks: int
    restarts: int

    @property
    def process(self) -> ProcessName:
        """Who it is."""
        return ProcessName(self.pid, self.start_ticks)


@dataclass(frozen=True)
class MountState:
    """A mount and its processes; after one that ended badly no processes, and the `failure` as a sentence.

    `directory` is the runtime directory. Pids mean nothing in another boot than `boot_id`.
    """

    volume: str
    volume_id: str
    mountpoint: str
    transport: str
    profile: str
    workers: int
    directory: str
    boot_id: str
    processes: tuple[ProcessState, ...] = ()
    failure: str = ""
    version: int = STATE_VERSION

    @property
    def paths(self) -> RuntimePaths:
        """The files where the processes of the mount meet."""
        return RuntimePaths(self.directory, self.volume_id)

    def with_role(self, role: str) -> ProcessState | None:
        """Return the first process of a role."""
        return next((process for process in self.processes if process.role == role), None)


def write_state(path: str, state: MountState) -> None:
    """Put the state in the place of the old one, whole."""
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(asdict(state), file, indent=1)
    os.rename(temporary, path)


def read_state(path: str) -> MountState | None:
    """Return the state, None if there is none from this boot; raises `SetupError` if it is not readable or of another version."""
    try:
        with open(path) as file:
            values = json.load(file)
        if values["version"] != STATE_VERSION:
            raise SetupError(f"{path} was written by another version of shardfs; use that version")
        processes = tuple(ProcessState(**process) for process in values.pop("processes"))
        state = MountState(**values, processes=processes)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"cannot read the state file {path} ({error}); remove it if nothing is mounted") from error
    return state if state.boot_id == boot_id() else None


def boot_id() -> str:
    """Return the kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
