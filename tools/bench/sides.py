"""Where rows run: a plain directory, a mount that is already there, or a new shardfs volume mounted for the run."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from shardfs.client.mounts import find_mount, mount_status
from shardfs.errors import SetupError
from shardfs.fuse.mountinfo import mount_holding

COMMANDS = Path(sys.executable).parent
SETTLE_STEP_S, SETTLE_STEPS = 0.05, 100
IDLE_SHARE = 0.04
"""A server that uses less of a core than this is idle."""


class ServerUse(NamedTuple):
    """What a server did up to now: requests that it answered, and CPU seconds of all its threads."""

    requests: int
    cpu_s: float

    def since(self, earlier: "ServerUse") -> "ServerUse":
        """Return what was done after `earlier`."""
        return ServerUse(self.requests - earlier.requests, self.cpu_s - earlier.cpu_s)


class Side:
    """A plain directory, and what every other place can do."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    def server_use(self) -> ServerUse | None:
        """Return what the server did so far; None where there is none to ask."""
        return None

    def settle(self) -> None:
        """Return when a server has done what earlier operations left to it, such as forgetting dropped inodes."""

    def restart(self) -> None:
        """Make a server forget what it keeps in its memory, where that is possible."""


class MountedSide(Side):
    """A folder of a mount of shardfs."""

    def __init__(self, mountpoint: Path, folder: Path) -> None:
        super().__init__("shardfs", folder)
        self.mountpoint = mountpoint

    def server_use(self) -> ServerUse | None:
        """Ask the mount for its status, then the kernel for the server's CPU time."""
        counters = self._status()["counters"]
        requests = sum(count for name, count in counters.items() if name.startswith("request."))
        return ServerUse(requests, cpu_seconds(self._server()))

    def settle(self) -> None:
        """Wait until the server is idle, for a few seconds at most."""
        server, used_s = self._server(), 0.0
        for _ in range(SETTLE_STEPS):
            earlier_s, used_s = used_s, cpu_seconds(server)
            if used_s - earlier_s < IDLE_SHARE * SETTLE_STEP_S:
                return
            time.sleep(SETTLE_STEP_S)

    def _status(self) -> dict[str, Any]:
        return mount_status(find_mount(str(self.mountpoint)))

    def _server(self) -> int:
        """Return the server's pid."""
        return next(int(process["pid"]) for process in self._status()["processes"] if process["role"] == "server")


class OwnVolume(MountedSide):
    """A new volume, mounted for the run: it can be mounted anew, which makes the server cold."""

    def __init__(self, home: Path) -> None:
        self.volume = home / "volume"
        super().__init__(home / "mount", home / "mount")

    def mount(self) -> None:
        """Mount the volume; the first time this formats it."""
        self.mountpoint.mkdir(parents=True, exist_ok=True)
        run_command("shardfs", "mount", str(self.volume), str(self.mountpoint))

    def unmount(self) -> None:
        """Unmount; returns when all is durable."""
        run_command("shardfs", "umount", str(self.mountpoint))

    def restart(self) -> None:
        """Unmount and mount."""
        self.unmount()
        self.mount()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, all its threads; the clock's number is MAKE_PROCESS_CPUCLOCK of Linux."""
    return time.clock_gettime(~pid << 3 | 2)


def run_command(name: str, *arguments: str) -> str:
    """Run one of shardfs's commands; return what it printed. Raises `SetupError` with its message."""
    done = subprocess.run([COMMANDS / name, *arguments], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SetupError(f"{name} {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def target_side(target: str, home: Path) -> Iterator[Side]:
    """Return the side that is measured: `shardfs` makes a volume in `home`, anything else is a folder or mount point."""
    if target != "shardfs":
        yield existing_side(Path(target).resolve())
        return
    side = OwnVolume(home)
    side.mount()
    try:
        yield side
    finally:
        side.unmount()


def existing_side(folder: Path) -> Side:
    """Return the side for a folder that is already there."""
    if not folder.is_dir():
        raise SetupError(f"{folder} is no directory: name a mount point, or `shardfs` for a new volume")
    mount = mount_holding(str(folder))
    return MountedSide(Path(mount.mountpoint), folder) if mount and mount.is_shardfs else Side("target", folder)


@contextmanager
def fresh_home(parent: Path) -> Iterator[Path]:
    """Return a new folder in `parent`, removed in the end."""
    home = parent / f"shardfs-bench.{time.time_ns():x}"
    home.mkdir(parents=True)
    try:
        yield home
    finally:
        shutil.rmtree(home)
