"""The processes below a supervisor: its own children, and those that it took over from one that died."""

import os
import subprocess
from dataclasses import dataclass

from shardfs.runtime.processes import ProcessName, name_process
from shardfs.runtime.state import ProcessState

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
STEADY_S = 30.0
"""A process that lived this long was well: the next delay starts from the beginning."""


@dataclass
class Child:
    """A running process. `popen` is there for the supervisor's own children, which have to be reaped."""

    role: str
    index: int
    process: ProcessName
    pidfd: int
    restarts: int
    popen: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def own(cls, role: str, index: int, popen: "subprocess.Popen[bytes]", restarts: int) -> "Child":
        """Return the child that was just spawned; until it is reaped, its pid cannot name another."""
        process = name_process(popen.pid)
        assert process is not None
        return cls(role, index, process, os.pidfd_open(popen.pid), restarts, popen)

    @classmethod
    def adopted(cls, state: ProcessState) -> "Child | None":
        """Return another supervisor's child; None if it has ended."""
        pidfd = state.process.open_pidfd()
        return None if pidfd is None else cls(state.role, state.index, state.process, pidfd, state.restarts)

    @property
    def state(self) -> ProcessState:
        """The process as the state file has it."""
        return ProcessState(self.role, self.index, self.process.pid, self.process.start_ticks, self.restarts)

    def reap(self) -> str:
        """Take note of its end; return how it ended, as far as that can be known, "" if it ended well."""
        os.close(self.pidfd)
        if self.popen is None:
            return "how is not known"
        code = self.popen.wait()
        return "" if code == 0 else f"signal {-code}" if code < 0 else f"exit code {code}"


class Backoff:
    """How long to wait before a process is started again: twice as long each time, up to a limit."""

    def __init__(self) -> None:
        self._delay_s = FIRST_DELAY_S

    def next_delay_s(self, lived_s: float) -> float:
        """Return the delay after one that lived this long."""
        if lived_s >= STEADY_S:
            self._delay_s = FIRST_DELAY_S
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, LONGEST_DELAY_S)
        return delay_s
