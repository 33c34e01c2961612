"""SIGKILL at any point of server and workers: what was acknowledged is there after the next mount, and fsck is clean."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shardfs.observe.points import POINTS
from shardfs.testing.mounted import Mounted
from shardfs.testing.recorder import read_record, verify

WRITERS = 2
OPERATIONS, LONG_OPERATIONS = 1_000, 4_000
DEATH_TIMEOUT_S = 30.0
THRESHOLD = "--pack-threshold=64K"
"""Small, so that files turn solo all the time."""

COUNTS = {
    "journal.before_append": (300, 12, 900),
    "journal.after_append": (301, 13, 901),
    "journal.after_rotate": (1,),
    "slot.after_data": (20, 1, 60),
    "slot.after_header": (21, 2, 61),
    "segment.after_append": (8, 1, 20),
    "seal.before_free": (9, 2, 21),
    "solo.after_create": (3, 1, 8),
    "commit.after_data_sync": (8, 4),
    "commit.after_journal_sync": (9, 5),
    "split.after_step": (3, 1, 20),
    "worker.before_apply": (2, 1),
    "worker.in_transaction": (3, 1),
    "worker.after_apply": (4, 1),
}
"""Which time the point is deadly: the first in every run, the others in long ones."""
PRELUDES = {"split.after_step": "directory", "journal.after_rotate": "journal"}


def record_in(directory: Path, record: Path, seed: int, count: int, prelude: str = "none") -> subprocess.Popen[bytes]:
    """Start a recorder."""
    words = [str(record), str(seed), str(count), prelude]
    return subprocess.Popen([sys.executable, "-P", "-m", "shardfs.testing.recorder", *words], cwd=directory)


class Recorders:
    """Some writers in directories of their own on one mount, with their records beside it."""

    def __init__(self, mounted: Mounted, elsewhere: Path) -> None:
        self._mounted = mounted
        self._elsewhere = elsewhere
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, seed: int, prelude: str = "none", count: int = OPERATIONS) -> None:
        """Let them work."""
        for number in range(WRITERS):
            directory = self._mounted.path / f"w{number}"
            directory.mkdir()
            chosen = prelude if number == 0 else "none"
            self._running.append(record_in(directory, self._elsewhere / f"record{number}", seed + number, count, chosen))

    def wait(self) -> None:
        """Wait until they have ended by themselves."""
        while self._running:
            assert self._running.pop().wait(DEATH_TIMEOUT_S) == 0

    def wait_for_operations(self, count: int) -> None:
        """Wait until the first has done so many."""
        deadline_s = time.monotonic() + DEATH_TIMEOUT_S
        record = self._elsewhere / "record0"
        while not record.exists() or record.read_bytes().count(b"\n") < 2 * count:
            assert time.monotonic() < deadline_s and self._running[0].poll() is None

    def verify(self) -> None:
        """Compare what is there with what they were told."""
        done = 0
        for number in range(WRITERS):
            plain = self._elsewhere / f"plain{number}"
            plain.mkdir()
            done += verify(self._elsewhere / f"record{number}", plain, self._mounted.path / f"w{number}")
        assert done, "nothing was acknowledged before the death"

    def kill(self) -> None:
        """End those that still run."""
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def recorders(make_volume: Callable[..., Mounted], open_tmp: Path) -> Iterator[tuple[Mounted, Recorders]]:
    """A volume that is not mounted yet, and writers for it."""
    mounted = make_volume(format_options=[THRESHOLD])
    made = Recorders(mounted, open_tmp)
    yield mounted, made
    made.kill()


def _short() -> list[tuple[str, int]]:
    return [(point, COUNTS[point][0]) for point in POINTS]


def _long() -> list[tuple[str, int]]:
    return [(point, count) for point in POINTS for count in COUNTS[point][1:]]


def _die_at(point: str, count: int, mounted: Mounted, recorders: Recorders, operations: int = OPERATIONS) -> None:
    mounted.mount(env={"SHARDFS_KILL_AT": f"{point}:{count}"})
    recorders.start(seed=count, prelude=PRELUDES.get(point, "none"), count=operations)
    if point.startswith("worker."):
        recorders.wait()
        _expect_restarted_worker(mounted)
        mounted.kill(mounted.pids())
    else:
        recorders.wait()
        mounted.wait_for_end(DEATH_TIMEOUT_S)
    mounted.mount()
    recorders.verify()


def _expect_restarted_worker(mounted: Mounted) -> None:
    deadline_s = time.monotonic() + DEATH_TIMEOUT_S
    while not any(process["role"] == "worker" and process["restarts"] for process in mounted.status()["processes"]):
        assert time.monotonic() < deadline_s, "no worker has died"


@pytest.mark.log_errors
@pytest.mark.parametrize(("point", "count"), _short())
def test_death_at_a_point(point: str, count: int, recorders: tuple[Mounted, Recorders]) -> None:
    _die_at(point, count, *recorders)


@pytest.mark.long
@pytest.mark.log_errors
@pytest.mark.parametrize(("point", "count"), _long())
def test_death_at_another_time(point: str, count: int, recorders: tuple[Mounted, Recorders]) -> None:
    _die_at(point, count, *recorders, LONG_OPERATIONS)


@pytest.mark.log_errors
@pytest.mark.parametrize("operations", [100, pytest.param(900, marks=pytest.mark.long), pytest.param(2_000, marks=pytest.mark.long)])
def test_all_processes_die_at_once(operations: int, recorders: tuple[Mounted, Recorders]) -> None:
    mounted, writers = recorders
    mounted.mount()
    writers.start(seed=7, count=LONG_OPERATIONS)
    writers.wait_for_operations(operations)
    mounted.kill(mounted.pids())
    writers.wait()
    mounted.mount()
    writers.verify()


@pytest.mark.log_errors
def test_the_server_dies(recorders: tuple[Mounted, Recorders]) -> None:
    """The death of the server ends the mount cleanly: nobody is left with a dead one."""
    mounted, writers = recorders
    mounted.mount()
    writers.start(seed=8)
    writers.wait_for_operations(300)
    mounted.kill([mounted.pid_of("server")])
    writers.wait()
    mounted.wait_for_end(DEATH_TIMEOUT_S)
    mounted.mount()
    writers.verify()


@pytest.mark.log_errors
def test_the_supervisor_dies(recorders: tuple[Mounted, Recorders]) -> None:
    """The mount goes on without a hitch, another supervisor takes over, and umount works as ever."""
    mounted, writers = recorders
    mounted.mount()
    writers.start(seed=9)
    writers.wait_for_operations(200)
    old = mounted.pid_of("supervisor")
    mounted.kill([old])
    deadline_s = time.monotonic() + DEATH_TIMEOUT_S
    while not (told := mounted.status())["healthy"] or mounted.pid_of("supervisor") == old:
        assert time.monotonic() < deadline_s, told
    writers.wait()
    writers.verify()
    mounted.umount()


@pytest.mark.log_errors
@pytest.mark.parametrize("point", ["journal.after_append", "seal.before_free", "commit.after_journal_sync"])
def test_recovery_itself_dies(point: str, make_volume: Callable[..., Mounted]) -> None:
    """A mount that is killed while it recovers leaves a volume that the next one recovers."""
    mounted = make_volume()
    mounted.mount()
    fd = os.open(mounted.path / "f", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"in a slot")
    mounted.kill(mounted.pids())
    with suppress(OSError):  # the dead mount may answer the close
        os.close(fd)
    failed = mounted.command("shardfs", "mount", str(mounted.volume), str(mounted.path), env={"SHARDFS_KILL_AT": f"{point}:1"})
    assert failed.returncode == 1 and failed.stderr.count("\n") == 1, failed
    mounted.wait_for_end(DEATH_TIMEOUT_S)
    mounted.mount()
    assert (mounted.path / "f").read_bytes() == b"in a slot"


def test_a_record_can_fail(open_tmp: Path) -> None:
    """The verification finds a lost operation, a lost byte and a wrong mode."""
    record = open_tmp / "record"
    (open_tmp / "found").mkdir()
    assert record_in(open_tmp / "found", record, 3, 300).wait() == 0
    assert len(read_record(record)[0]) == 300
    damages: tuple[Callable[[Path], object], ...] = (os.unlink, lambda path: path.write_bytes(b"x"), lambda path: path.chmod(0o111))
    for number, damage in enumerate(damages):
        (open_tmp / f"plain{number}").mkdir()
        victim = next(path for path in (open_tmp / "found").rglob("*") if path.is_file() and not path.is_symlink())
        damage(victim)
        with pytest.raises(AssertionError):
            verify(record, open_tmp / f"plain{number}", open_tmp / "found")
