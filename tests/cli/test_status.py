"""`shardfs-admin status`."""

import json
import os
import signal

import pytest

from shardfs.cli.status import health_line
from shardfs.runtime.lock import last_state
from tests.cli.surroundings import Surroundings

HEAD = ["healthy", "mountpoint", "volume", "transport", "profile", "features", "processes"]


def test_the_head_of_the_json_is_as_promised(here: Surroundings) -> None:
    here.mount("-o", "acl", "--workers", "2")
    ended = here.run("status", here.mountpoint, "--json", program="shardfs-admin")
    told = json.loads(ended.stdout)
    assert ended.returncode == 0 and list(told)[: len(HEAD)] == HEAD
    assert [told[name] for name in HEAD[:5]] == [True, str(here.mountpoint), str(here.volume), "pyfuse3", "mixed"]
    assert told["features"]["acl"] is True and all(isinstance(value, bool) for value in told["features"].values())
    assert [process["role"] for process in told["processes"]] == ["supervisor", "server", "worker", "worker"]
    for process in told["processes"]:
        assert list(process) == ["role", "pid", "uptime_s", "restarts", "rss_bytes"] and process["rss_bytes"] > 0
    assert told["counters"] and told["journal"]["last_lsn"] >= told["journal"]["durable_lsn"]


def test_for_people_the_first_line_says_whether_all_is_well(here: Surroundings) -> None:
    here.mount()
    ended = here.run("status", here.volume, program="shardfs-admin")
    assert ended.stdout.splitlines()[0] == f"healthy: {here.volume} mounted at {here.mountpoint} (pyfuse3, mixed)"
    assert all(word in ended.stdout for word in ("supervisor", "server", "worker", "journal", "overlay"))


@pytest.mark.parametrize("target", ["mnt", "volume", "mnt/directory/file"])
def test_a_mount_has_many_names(here: Surroundings, target: str) -> None:
    here.mount()
    (here.mountpoint / "directory").mkdir()
    (here.mountpoint / "directory" / "file").touch()
    assert here.run("status", here.base / target, program="shardfs-admin").returncode == 0


@pytest.mark.parametrize("target", ["mnt", "volume", "missing", "file"])
def test_what_is_not_mounted(here: Surroundings, target: str) -> None:
    here.run("format", here.volume)
    (here.base / "file").touch()
    ended = here.run("status", here.base / target, program="shardfs-admin")
    here.assert_refused(ended, 1, f"{here.base / target} is no mounted shardfs volume", "mount the volume first")


def test_a_server_that_does_not_answer_is_not_healthy(here: Surroundings) -> None:
    here.mount()
    state = last_state(str(here.volume))
    server = state.with_role("server") if state else None
    assert server is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        ended = here.run("status", here.volume, "--json", program="shardfs-admin")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    told = json.loads(ended.stdout)
    assert ended.returncode == 1 and told["healthy"] is False and "does not answer" in told["error"]
    assert list(told)[: len(HEAD)] == HEAD and len(told["processes"]) >= 3


def test_the_first_line_says_what_is_wrong() -> None:
    status = {"healthy": False, "volume": "/v", "mountpoint": "/m", "transport": "pyfuse3", "profile": "mixed"}
    assert health_line(status).startswith("NOT HEALTHY: /v mounted at /m (pyfuse3, mixed): a process is missing")
    assert health_line(status | {"error": "no answer"}).endswith(": no answer")
