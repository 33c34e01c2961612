"""Processes: naming one so that a number used again never hits a stranger, watching it, starting one, settling in.

A process is named by pid and start time, and watched by pidfd.
"""

import logging
import os
import resource
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from shardfs.runtime.arguments import MountArguments

KILL_VARIABLE = "SHARDFS_KILL_AT"
"""What arms the points of `shardfs.observe.points`. A process that replaces a dead one is not armed again."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LOG_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"


@dataclass(frozen=True)
class ProcessName:
    """A process for good: `start_ticks` is its start in clock ticks after boot (field 22 of proc_pid_stat(5))."""

    pid: int
    start_ticks: int

    def text(self) -> str:
        """Return it as one word."""
        return f"{self.pid}:{self.start_ticks}"

    @classmethod
    def parse(cls, text: str) -> "ProcessName":
        """Read what `text` returned."""
        pid, _, start_ticks = text.partition(":")
        return cls(int(pid), int(start_ticks))

    @property
    def is_alive(self) -> bool:
        """Whether it runs; one that only waits to be reaped does not."""
        found = _read_stat(self.pid)
        return found is not None and found[1] == self.start_ticks and found[0] not in "ZX"

    @property
    def uptime_s(self) -> float:
        """How long ago it was started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.start_ticks / _TICKS_PER_S

    def open_pidfd(self) -> int | None:
        """Return a descriptor that becomes readable when it ends; None if nothing is left of it."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if name_process(self.pid) == self:
            return pidfd
        os.close(pidfd)
        return None


def _read_stat(pid: int) -> tuple[str, int] | None:
    """Return the state letter and the start time of a process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(") ")[2].split()  # the command's name before it may hold anything
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[19])


def name_process(pid: int) -> ProcessName | None:
    """Return the lasting name of the process that has this pid now."""
    found = _read_stat(pid)
    return None if found is None else ProcessName(pid, found[1])


def own_name() -> ProcessName:
    """Return the name of this process."""
    name = name_process(os.getpid())
    assert name is not None
    return name


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return 0


def send_signal(pidfd: int, number: signal.Signals) -> None:
    """Send a signal; nothing happens if the process has ended."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return


def wait_for_end(pidfds: list[int], timeout_s: float) -> bool:
    """Wait until all these processes have ended; False if that takes longer."""
    deadline_s = time.monotonic() + timeout_s
    poll = select.poll()
    waiting = set(pidfds)
    for pidfd in waiting:
        poll.register(pidfd, select.POLLIN)
    while waiting and (left_s := deadline_s - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(left_s * 1000):
            poll.unregister(pidfd)
            waiting.discard(pidfd)
    return not waiting


def spawn(
    module: str, arguments: MountArguments, fds: tuple[int, ...], *, stderr: int | None = None, again: bool = False
) -> "subprocess.Popen[bytes]":
    """Start a module of this package as a process of its own session, which runs the code that this one runs.

    It inherits `fds`. `again` says that it replaces one that died.
    """
    package_root = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package_root, environment.get("PYTHONPATH"))))
    if again:
        environment.pop(KILL_VARIABLE, None)
    command = [sys.executable, "-P", "-m", f"shardfs.runtime.{module}", *arguments.to_command_line()]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=fds,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


def prepare_process(name: str) -> None:
    """Prepare this process: its short name for ps (at most 15 bytes), its log on stderr, its limits."""
    os.umask(0o077)
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Path("/proc/self/comm").write_text(name)


def settle_in(name: str, oom_score_adj: int) -> None:
    """Prepare a process that was spawned by a supervisor or a server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor in the foreground
    prepare_process(name)
    set_oom_score_adj(oom_score_adj)


def oom_score_adj() -> int:
    """Return how this process stands with the kernel's memory killer."""
    return int(Path("/proc/self/oom_score_adj").read_text())


def set_oom_score_adj(value: int) -> None:
    """Tell the kernel's memory killer; lowering takes CAP_SYS_RESOURCE, and is left where that is missing."""
    try:
        Path("/proc/self/oom_score_adj").write_text(str(value))
    except PermissionError:
        logging.getLogger(__name__).debug("no permission to set oom_score_adj to %d", value)
