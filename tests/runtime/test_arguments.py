"""What goes through the command lines of the processes."""

import pytest

from shardfs.runtime.arguments import MountArguments, ServerArguments, SupervisorArguments, WorkerArguments, default_workers

ARGUMENTS = MountArguments(
    volume="/vol=1\udcff --x",
    volume_id="ab" * 16,
    mountpoint="/mnt/a b",
    options="ro,acl",
    transport="pyfuse3",
    profile="mixed",
    shards=5,
    workers=2,
    directory="/run/shardfs",
    oom_score_adj=-7,
)


def test_command_lines_read_back() -> None:
    supervisor = ARGUMENTS.for_supervisor(lock_fd=3, report_fd=4, server="12:345", restarts=2)
    server = ARGUMENTS.for_server(lock_fd=3, report_fd=4, supervisor="1:2")
    worker = ARGUMENTS.for_worker(1)
    assert SupervisorArguments.from_command_line(supervisor.to_command_line()) == supervisor
    assert ServerArguments.from_command_line(server.to_command_line()) == server
    assert WorkerArguments.from_command_line(worker.to_command_line()) == worker


def test_the_title_names_volume_and_mount_point() -> None:
    assert ARGUMENTS.to_command_line()[:3] == [f"--volume={ARGUMENTS.volume}", f"--volume_id={'ab' * 16}", "--mountpoint=/mnt/a b"]


def test_every_shard_has_one_worker() -> None:
    assert sorted(shard for shards in ARGUMENTS.assignment for shard in shards) == list(range(5))
    assert len(ARGUMENTS.assignment) == 2


@pytest.mark.parametrize(("shards", "cores", "expected"), [(16, 2, 2), (16, 64, 4), (1, 8, 1), (3, 8, 3)])
def test_workers_by_default(monkeypatch: pytest.MonkeyPatch, shards: int, cores: int, expected: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(cores)))
    assert default_workers(shards) == expected
