"""`shardfs fsck`: its exit codes, and that it leaves what is in use alone. What it finds is tested with `shardfs.check`."""

import os
import signal

from shardfs.core.formatting import SUPERBLOCK
from shardfs.runtime.lock import last_state
from tests.cli.surroundings import Surroundings


def test_a_clean_volume(here: Surroundings) -> None:
    here.run("format", here.volume)
    for words in ([], ["--data"], ["--repair"]):
        ended = here.run("fsck", here.volume, *words)
        assert ended.returncode == 0 and f"shardfs: {here.volume} is clean (1 inodes, 0 entries" in ended.stdout


def test_errors_are_left_without_repair_and_gone_after_it(here: Surroundings) -> None:
    here.run("format", here.volume)
    (here.volume / SUPERBLOCK).write_bytes(b"rubbish")
    ended = here.run("fsck", here.volume)
    assert ended.returncode == 4 and "error: " in ended.stdout and "shardfs fsck --repair" in ended.stdout
    ended = here.run("fsck", here.volume, "--repair")
    assert ended.returncode == 1 and "repaired: " in ended.stdout
    assert here.run("fsck", here.volume).returncode == 0


def test_a_mounted_volume_cannot_be_checked(here: Surroundings) -> None:
    here.mount()
    with here.unchanged():
        here.assert_refused(here.run("fsck", here.volume), 8, "is already mounted at")


def test_what_is_no_volume_cannot_be_checked(here: Surroundings) -> None:
    with here.unchanged():
        here.assert_refused(here.run("fsck", here.volume), 8, "is not a shardfs volume")


def test_bad_usage(here: Surroundings) -> None:
    here.assert_refused(here.run("fsck"), 16, "Missing argument")
    here.assert_refused(here.run("fsck", here.volume, "--nonsense"), 16, "No such option")


def test_what_a_killed_mount_has_left_is_cleared_first(here: Surroundings) -> None:
    here.mount()
    state = last_state(str(here.volume))
    assert state is not None
    for process in state.processes:
        if process.role != "worker":
            os.kill(process.pid, signal.SIGKILL)
    assert here.run("fsck", here.volume).returncode == 0
    assert here.picture()[1:] == ([], [])
