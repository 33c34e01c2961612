"""What happens when processes of a real mount die or are told to end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardfs.core.formatting import LOCK
from shardfs.runtime.lock import last_state
from shardfs.runtime.processes import oom_score_adj
from shardfs.runtime.state import MountState
from shardfs.testing.mounted import Mounted

PATIENCE_S = 30.0


def state_of(mount: Mounted) -> MountState | None:
    """Return what the state file tells."""
    return last_state(str(mount.volume))


def runtime_of(mount: Mounted) -> Path:
    """Return the runtime directory: that of the state file, which the lock names."""
    return Path((mount.volume / LOCK).read_text()).parent


def pids_of(mount: Mounted, role: str) -> list[int]:
    state = state_of(mount)
    return [process.pid for process in state.processes if process.role == role] if state else []


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    """Look again and again, for a bounded time."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.02)


def restarts(mount: Mounted, role: str) -> int:
    processes: list[dict[str, Any]] = mount.status()["processes"]
    return max(int(process["restarts"]) for process in processes if process["role"] == role)


def write_some(mount: Mounted, name: str) -> None:
    for number in range(20):
        (mount.path / f"{name}{number}").write_bytes(name.encode() * 1000)


def assert_some(mount: Mounted, *names: str) -> None:
    for name in names:
        for number in range(20):
            assert (mount.path / f"{name}{number}").read_bytes() == name.encode() * 1000


def test_a_dead_worker_is_started_again_and_counted(mount: Mounted) -> None:
    write_some(mount, "a")
    before = pids_of(mount, "worker")
    mount.kill(before[:1])
    wait_until("another worker", lambda: len(set(pids_of(mount, "worker")) - set(before)) == 1)
    write_some(mount, "b")
    wait_until("all is well", lambda: bool(mount.status()["healthy"]))
    assert restarts(mount, "worker") == 1 and restarts(mount, "server") == 0
    mount.remount()
    assert_some(mount, "a", "b")


def test_a_dead_supervisor_is_replaced_and_the_new_one_supervises(mount: Mounted) -> None:
    server = pids_of(mount, "server")
    for count in (1, 2):
        old = pids_of(mount, "supervisor")
        mount.kill(old)
        wait_until("another supervisor", lambda old=old: pids_of(mount, "supervisor") not in ([], old))  # type: ignore[misc]
        assert restarts(mount, "supervisor") == count and pids_of(mount, "server") == server
    workers = pids_of(mount, "worker")
    mount.kill(workers[:1])
    wait_until("another worker", lambda: len(set(pids_of(mount, "worker")) - set(workers)) == 1)
    write_some(mount, "a")
    mount.umount()
    assert state_of(mount) is None


def test_workers_that_died_with_the_supervisor_are_started_by_the_next(mount: Mounted) -> None:
    old = pids_of(mount, "supervisor") + pids_of(mount, "worker")
    mount.kill(old)
    wait_until("a whole set of others", lambda: len({*pids_of(mount, "supervisor"), *pids_of(mount, "worker")} - set(old)) == len(old))
    wait_until("all is well", lambda: bool(mount.status()["healthy"]))
    write_some(mount, "a")


@pytest.mark.log_errors
@pytest.mark.parametrize("adopted", [False, True], ids=["own supervisor", "adopted"])
def test_a_dead_server_ends_the_mount_cleanly_and_the_next_mount_recovers(mount: Mounted, adopted: bool) -> None:
    write_some(mount, "a")
    if adopted:
        old = pids_of(mount, "supervisor")
        mount.kill(old)
        wait_until("another supervisor", lambda: pids_of(mount, "supervisor") not in ([], old))
    mount.kill(pids_of(mount, "server"))
    mount.wait_for_end()
    assert not mount.path.joinpath("a0").exists(), "the mount point is an empty directory again"
    told = mount.command("shardfs-admin", "status", str(mount.volume))
    assert told.returncode == 1 and "has ended: its server (pid" in told.stderr and "`shardfs mount` recovers" in told.stderr
    assert "has ended: its server" in mount.log()
    mount.mount()
    assert_some(mount, "a")
    assert mount.status()["healthy"]


@pytest.mark.parametrize("roles", [("supervisor", "server", "worker"), ("supervisor", "server")], ids=["all", "all but the workers"])
def test_after_the_death_of_all_the_next_mount_recovers_by_itself(mount: Mounted, roles: tuple[str, ...]) -> None:
    write_some(mount, "a")
    mount.kill([pid for role in roles for pid in pids_of(mount, role)])
    assert mount.is_mounted, "nobody is left to take the dead mount away"
    mount.mount()
    assert_some(mount, "a")
    assert len(pids_of(mount, "worker")) == sum(b"runtime.worker" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in mount.pids())


def test_umount_clears_a_dead_mount_and_says_so(mount: Mounted) -> None:
    mount.kill(pids_of(mount, "supervisor") + pids_of(mount, "server"))
    ended = mount.command("shardfs", "umount", str(mount.path))
    assert ended.returncode == 1 and "was dead and is now detached; `shardfs mount` recovers the volume" in ended.stderr
    assert not mount.is_mounted and not mount.pids()


@pytest.mark.parametrize("role", ["supervisor", "server"])
def test_sigterm_is_a_clean_unmount(mount: Mounted, role: str) -> None:
    write_some(mount, "a")
    os.kill(pids_of(mount, role)[0], signal.SIGTERM)
    mount.wait_for_end()
    assert "is unmounted and durable" in mount.log() and [path.suffix for path in runtime_of(mount).iterdir()] == [".log"]
    mount.assert_clean()
    mount.mount()
    assert_some(mount, "a")


def test_sigterm_unmounts_even_while_files_are_open(mount: Mounted) -> None:
    fd = os.open(mount.path / "open", os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"content")
    os.kill(pids_of(mount, "server")[0], signal.SIGTERM)
    mount.wait_for_end()
    with pytest.raises(OSError, match=r"not connected|abort"):
        os.write(fd, b"late")
    with pytest.raises(OSError, match=r"not connected|abort"):
        os.close(fd)
    mount.mount()
    assert (mount.path / "open").read_bytes() == b"content"


@pytest.mark.parametrize("command", [["umount"], ["umount", "-l"], ["fusermount3", "-u"]], ids=" ".join)
def test_an_unmount_from_outside_ends_everything_cleanly(mount: Mounted, command: list[str]) -> None:
    write_some(mount, "a")
    subprocess.run([*command, mount.path], check=True)
    mount.mount()
    assert_some(mount, "a")
    mount.umount()
    assert "is unmounted and durable" in mount.log()


def best_oom_score_adj() -> int:
    """Return what a process here gets that wants to be spared by the memory killer; not every sandbox lets root have it."""
    source = "from shardfs.runtime.processes import set_oom_score_adj as s, oom_score_adj as o; s(-1000); print(o())"
    return int(subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout)


def test_the_processes_are_set_up_as_they_should(mount: Mounted) -> None:
    state = state_of(mount)
    assert state is not None
    for process in state.processes:
        root = Path(f"/proc/{process.pid}")
        assert (root / "comm").read_text().strip() == f"shardfs-{process.role}"[:14]
        assert f"--volume={mount.volume}".encode() in (root / "cmdline").read_bytes().split(b"\0")
        assert (root / "cwd").readlink() == Path("/")
        assert os.getsid(process.pid) == process.pid
        assert int((root / "oom_score_adj").read_text()) == (best_oom_score_adj() if process.role == "supervisor" else oom_score_adj())
        limit = next(line.split() for line in (root / "limits").read_text().splitlines() if line.startswith("Max open files"))
        assert limit[3] == limit[4]
    for path in runtime_of(mount).iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
