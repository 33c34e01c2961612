"""Reading the kernel's mount table."""

from pathlib import Path

import pytest

from shardfs.fuse import mountinfo
from shardfs.fuse.mountinfo import Mount, mount_at, mount_holding, mounts_of, read_mounts

TABLE = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
42 27 0:39 / /mnt rw,relatime shared:7 - fuse.shardfs /vol,x\040y rw,user_id=0
43 27 0:40 / /mnt/in\134ner rw - fuse.shardfs /other rw
44 27 0:41 / /twice rw - tmpfs first rw
45 44 0:42 / /twice rw - tmpfs second rw
"""


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a table in the place of the kernel's."""
    (tmp_path / "mountinfo").write_bytes(TABLE)
    mounts = read_mounts(str(tmp_path / "mountinfo"))
    monkeypatch.setattr(mountinfo, "read_mounts", lambda: mounts)


def test_finds_the_mounts_of_a_volume_with_escapes_undone() -> None:
    assert mounts_of("/vol,x y") == [Mount("/mnt", "fuse.shardfs", "/vol,x y")]
    assert mounts_of("/dev/vda") == []


def test_finds_the_mount_on_top() -> None:
    found = mount_at("/twice")
    assert found is not None and found.source == "second"
    assert mount_at("/mnt/nothing") is None


HELD = [("/mnt/a/b", "/mnt"), ("/mntx", "/"), ("/mnt/in\\ner/a", "/mnt/in\\ner"), ("/mnt", "/mnt")]


@pytest.mark.parametrize(("path", "mountpoint"), HELD)
def test_finds_the_mount_that_holds_a_path(path: str, mountpoint: str) -> None:
    found = mount_holding(path)
    assert found is not None and found.mountpoint == mountpoint


def test_reads_the_kernels_table() -> None:
    assert any(mount.mountpoint == "/proc" and mount.fstype == "proc" for mount in read_mounts("/proc/self/mountinfo"))
