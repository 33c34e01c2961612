"""What the processes of a mount are told: dataclasses that go through a command line, so that ps shows them."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from shardfs.fuse.options import MountOptions, parse_options
from shardfs.ids import ShardId
from shardfs.meta.delivery import assign_shards
from shardfs.runtime.paths import RuntimePaths


@dataclass(frozen=True, kw_only=True)
class MountArguments:
    """What is the same for all processes of a mount.

    `volume_id` is in hex, `options` as after ``-o``, `directory` the runtime directory, `oom_score_adj` what the
    kernel's memory killer is told of every process but the supervisor (proc_pid_oom_score_adj(5)).
    """

    volume: str
    volume_id: str
    mountpoint: str
    options: str
    transport: str
    profile: str
    shards: int
    workers: int
    directory: str
    oom_score_adj: int

    @property
    def paths(self) -> RuntimePaths:
        """The files where the processes meet."""
        return RuntimePaths(self.directory, self.volume_id)

    @property
    def mount_options(self) -> MountOptions:
        """The options, parsed."""
        return parse_options(self.options)

    @property
    def assignment(self) -> list[list[ShardId]]:
        """The shards of each worker."""
        return assign_shards(self.shards, self.workers)

    def for_supervisor(self, *, lock_fd: int, report_fd: int = -1, server: str = "", restarts: int = 0) -> "SupervisorArguments":
        """Return these with what a supervisor needs in addition."""
        return SupervisorArguments(**self._common(), lock_fd=lock_fd, report_fd=report_fd, server=server, restarts=restarts)

    def for_server(self, *, lock_fd: int, report_fd: int, supervisor: str) -> "ServerArguments":
        """Return these with what a server needs in addition."""
        return ServerArguments(**self._common(), lock_fd=lock_fd, report_fd=report_fd, supervisor=supervisor)

    def for_worker(self, index: int) -> "WorkerArguments":
        """Return these with what a worker needs in addition."""
        return WorkerArguments(**self._common(), index=index)

    def _common(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(MountArguments)}

    def to_command_line(self) -> list[str]:
        """Return the arguments as ``--name=value``."""
        return [f"--{name}={value}" for name, value in asdict(self).items()]

    @classmethod
    def from_command_line(cls, words: Sequence[str]) -> Self:
        """Read what `to_command_line` returned."""
        given: dict[str, Any] = dict(word.removeprefix("--").split("=", 1) for word in words)
        return cls(**given | {field.name: int(given[field.name]) for field in fields(cls) if field.type is int})


@dataclass(frozen=True, kw_only=True)
class SupervisorArguments(MountArguments):
    """`report_fd` is where to say how the start went, -1 for nowhere; `server` names a running one to take over."""

    lock_fd: int
    report_fd: int
    server: str
    restarts: int


@dataclass(frozen=True, kw_only=True)
class ServerArguments(MountArguments):
    """`report_fd` is where to say how the start went; `supervisor` names the process that started this one."""

    lock_fd: int
    report_fd: int
    supervisor: str


@dataclass(frozen=True, kw_only=True)
class WorkerArguments(MountArguments):
    """`index` is the worker's number."""

    index: int


def default_workers(shards: int, most: int = 4) -> int:
    """Return how many workers a mount has if nobody says: one for each core, up to a limit."""
    return max(1, min(len(os.sched_getaffinity(0)), shards, most))
