"""What has to be right before a mount, and taking mounts away."""

import os
from pathlib import Path

import pytest

from shardfs.errors import SetupError
from shardfs.fuse.mountpoints import DEVICE_VARIABLE, check_device, check_helper, check_mountpoint, detach_dead, unmount
from shardfs.fuse.options import parse_options


def test_the_device_is_there() -> None:
    check_device()


def test_a_missing_device_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(DEVICE_VARIABLE, str(tmp_path / "fuse"))
    with pytest.raises(SetupError, match=r"cannot open .*fuse .*modprobe fuse"):
        check_device()


def test_a_good_mount_point(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    check_mountpoint(str(tmp_path / "m"), str(tmp_path / "v"))


def test_a_missing_mount_point(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="does not exist: create it with mkdir"):
        check_mountpoint(str(tmp_path / "m"), str(tmp_path / "v"))


def test_a_file_as_mount_point(tmp_path: Path) -> None:
    (tmp_path / "m").touch()
    with pytest.raises(SetupError, match="is not a directory: choose a directory"):
        check_mountpoint(str(tmp_path / "m"), str(tmp_path / "v"))


def test_a_busy_mount_point(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the mount point /proc is busy: proc is mounted there; unmount it"):
        check_mountpoint("/proc", str(tmp_path))


def test_a_mount_point_inside_the_volume(tmp_path: Path) -> None:
    (tmp_path / "v" / "m").mkdir(parents=True)
    with pytest.raises(SetupError, match="lies inside the volume"):
        check_mountpoint(str(tmp_path / "v" / "m"), str(tmp_path / "v"))


@pytest.mark.parametrize("volume", ["m", "m/deep/v"])
def test_a_volume_inside_the_mount_point(tmp_path: Path, volume: str) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(SetupError, match="lies inside"):
        check_mountpoint(str(tmp_path / "m"), str(tmp_path / volume))


def test_root_needs_no_helper() -> None:
    assert os.geteuid() == 0
    check_helper(parse_options("allow_other"))


def test_a_user_needs_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SetupError, match=r"fusermount3 is needed .* install the package fuse3"):
        check_helper(parse_options(""))


def test_unmounting_what_is_no_mount(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"cannot unmount {tmp_path}: Invalid argument"):
        unmount(str(tmp_path))


def test_a_volume_without_mounts_has_none_to_detach(tmp_path: Path) -> None:
    assert detach_dead(str(tmp_path)) == []


def test_a_directory_with_something_in_it_is_refused_unless_asked_for(tmp_path: Path) -> None:
    """What was saved while the mount was gone must not vanish under the next one."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.pt").touch()
    with pytest.raises(SetupError, match=r"not empty.*model\.pt.*-o nonempty"):
        check_mountpoint(str(tmp_path / "m"), str(tmp_path / "v"))
    check_mountpoint(str(tmp_path / "m"), str(tmp_path / "v"), nonempty=True)
