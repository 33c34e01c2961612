"""A volume mounted through the real commands, for tests and tools: start, kill, look inside, clean up.

Every process of a mount inherits ``SHARDFS_RUNTIME_DIR`` from the command that started it. That names them without
doubt: a test finds and kills its own processes and no others.
"""

import ctypes
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardfs.core.formatting import read_superblock
from shardfs.fuse.mountinfo import read_mounts
from shardfs.runtime.paths import DIRECTORY_VARIABLE, SHARED_MEMORY
from shardfs.storage.real import RealStorage

COMMAND_TIMEOUT_S = 120.0
END_TIMEOUT_S = 60.0
MNT_FORCE, MNT_DETACH = 1, 2
PROBLEM = re.compile(r"^(?:\S+ \S+ (?:ERROR|CRITICAL) .*|Traceback .*|\w*Error: .*|.*Fatal Python error.*)$", re.MULTILINE)

_BIN = Path(sys.executable).parent


class Mounted:
    """One volume below a directory of its own, mounted or not. `hot`: how many hot disks, 0 for the one inside the volume."""

    def __init__(self, base: Path, *, options: str = "allow_other", format_options: Iterable[str] = (), hot: int = 0) -> None:
        self.path = base / "mnt"
        self.volume = base / "volume"
        self._runtime = Path(tempfile.mkdtemp(prefix="sfs-", dir="/tmp"))  # short: it holds sockets
        self._options = options
        self._problems: list[str] = []
        self._log_seen = 0
        self.path.mkdir()
        self.disks = [base / f"disk{number}" for number in range(hot)]
        self.run("format", str(self.volume), *[f"--hot={disk}" for disk in self.disks], *format_options)
        self._volume_id = read_superblock(RealStorage(), str(self.volume)).volume_id.hex()

    # Commands

    def command(self, program: str, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run one of the two programs and return how it ended."""
        surroundings = {**os.environ, DIRECTORY_VARIABLE: str(self._runtime), **(env or {})}
        line = [str(_BIN / program), *words]
        return subprocess.run(line, env=surroundings, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)

    def run(self, *words: str, env: dict[str, str] | None = None) -> str:
        """Run a command of `shardfs` that must succeed; return what it printed."""
        ended = self.command("shardfs", *words, env=env)
        assert ended.returncode == 0, (
            f"shardfs {' '.join(words)} exited with {ended.returncode}: {ended.stdout}{ended.stderr}\n{self.log()}"
        )
        return ended.stdout

    def mount(self, *words: str, env: dict[str, str] | None = None) -> None:
        """Mount the volume; returns when it answers."""
        self._collect_problems()
        self._log_seen = 0  # each mount begins a new log
        self.run("mount", str(self.volume), str(self.path), "-o", self._options, *words, env=env)

    def umount(self) -> None:
        """Unmount; returns when everything is durable and no process is left."""
        self.run("umount", str(self.path))
        assert not self.is_mounted and not self.pids(), f"{self.pids()} are left after umount"

    def remount(self, *words: str) -> None:
        """Unmount and mount again."""
        self.umount()
        self.mount(*words)

    def fsck(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Check the volume, which must not be mounted."""
        return self.command("shardfs", "fsck", str(self.volume), *words)

    def assert_clean(self) -> None:
        """Assert that fsck finds nothing, with all content read."""
        ended = self.fsck("--data")
        assert ended.returncode == 0, f"fsck exited with {ended.returncode}: {ended.stdout}{ended.stderr}"

    def status(self) -> dict[str, Any]:
        """Return what `shardfs-admin status --json` tells."""
        ended = self.command("shardfs-admin", "status", "--json", str(self.path))
        assert ended.stdout, ended.stderr
        told: dict[str, Any] = json.loads(ended.stdout)
        return told

    def counters(self) -> dict[str, int]:
        """Return the mount's counters."""
        counters: dict[str, int] = self.status()["counters"]
        return counters

    # Processes

    @property
    def is_mounted(self) -> bool:
        """Whether the kernel still has the mount."""
        return any(mount.mountpoint == str(self.path) for mount in read_mounts())

    def pids(self) -> list[int]:
        """Return the living processes of this mount."""
        mark = f"{DIRECTORY_VARIABLE}={self._runtime}".encode()
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and mark in _environment(int(entry)).split(b"\0")]

    def pid_of(self, role: str) -> int:
        """Return the pid of the first process of a role."""
        pids: list[int] = [process["pid"] for process in self.status()["processes"] if process["role"] == role]
        return pids[0]

    def kill(self, pids: Iterable[int]) -> None:
        """Send SIGKILL to processes of this mount."""
        ours = set(self.pids())
        for pid in pids:
            assert pid in ours, f"{pid} is no process of this mount"
            os.kill(pid, signal.SIGKILL)

    def wait_for_end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Wait until no process of the mount lives and the kernel has let go of it."""
        deadline_s = time.monotonic() + timeout_s
        while (pids := self.pids()) or self.is_mounted:
            assert time.monotonic() < deadline_s, f"processes {pids} or the mount are still there after {timeout_s} s\n{self.log()}"
            _wait_for_any(pids)

    # Logs and the end

    def log(self) -> str:
        """Return what the processes have logged."""
        return "".join(path.read_text(errors="replace") for path in self._runtime.glob("*.log"))

    def problems(self) -> list[str]:
        """Return the lines of all logs that tell of errors, since the last call."""
        self._collect_problems()
        problems, self._problems = self._problems, []
        return problems

    def _collect_problems(self) -> None:
        text = self.log()
        self._problems += PROBLEM.findall(text[self._log_seen :])
        self._log_seen = len(text)

    def force_end(self) -> None:
        """End the mount without its help: requests that hang fail, processes are killed. For what has gone wrong."""
        if self.is_mounted:
            ctypes.CDLL(None).umount2(os.fsencode(self.path), MNT_FORCE)
            ctypes.CDLL(None).umount2(os.fsencode(self.path), MNT_DETACH)
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.wait_for_end()

    def remove_traces(self) -> None:
        """Remove what lies outside of the base directory."""
        for log in self._runtime.glob("*"):
            log.unlink()
        self._runtime.rmdir()
        for slots in Path(SHARED_MEMORY).glob(f"shardfs-{self._volume_id}*"):
            slots.unlink()


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _wait_for_any(pids: list[int]) -> None:
    """Wait until one of the processes ends, a fifth of a second at most."""
    poll = select.poll()
    fds = []
    for pid in pids:
        try:
            fds.append(os.pidfd_open(pid))
        except ProcessLookupError:
            continue
        poll.register(fds[-1], select.POLLIN)
    poll.poll(200)
    for fd in fds:
        os.close(fd)
