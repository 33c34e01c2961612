"""`shardfs umount`."""

import os
import subprocess

from tests.cli.surroundings import Surroundings


def test_when_it_returns_no_process_is_left(here: Surroundings) -> None:
    here.mount()
    (here.mountpoint / "file").write_bytes(b"x" * 100_000)
    ended = here.run("umount", here.mountpoint)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert here.picture()[1:] == ([], []) and [path.suffix for path in here.runtime.iterdir()] == [".log"]
    assert here.run("fsck", here.volume, "--data").returncode == 0


def test_a_mount_in_use_stays(here: Surroundings) -> None:
    here.mount()
    with open(here.mountpoint / "file", "wb") as file:
        ended = here.run("umount", here.mountpoint)
        here.assert_refused(ended, 1, f"{here.mountpoint} is in use: close the files", "fuser -vm")
        file.write(b"still")
    assert (here.mountpoint / "file").read_bytes() == b"still"
    assert here.run("status", here.mountpoint, program="shardfs-admin").returncode == 0


def test_what_is_no_mount(here: Surroundings) -> None:
    with here.unchanged():
        here.assert_refused(here.run("umount", here.mountpoint), 1, "is no mount point of shardfs; findmnt -t fuse.shardfs lists")
        here.assert_refused(here.run("umount", here.base / "missing"), 1, "is no mount point of shardfs")


def test_another_file_systems_mount_is_left_alone(here: Surroundings) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "other", here.mountpoint], check=True)
    with here.unchanged():
        here.assert_refused(here.run("umount", here.mountpoint), 1, "is no mount point of shardfs")


def test_the_mount_point_may_be_named_in_any_way(here: Surroundings) -> None:
    here.mount()
    os.symlink(here.mountpoint, here.base / "link")
    assert here.run("umount", f"{here.base}/link/.").returncode == 0
