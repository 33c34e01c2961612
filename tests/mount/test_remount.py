"""What is there before an unmount is there after the next mount, to the last nanosecond."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from shardfs.testing.mounted import Mounted
from shardfs.testing.operations import Generator, Hands, told
from shardfs.testing.trees import differences, picture
from tests.posix.table import opened, pattern


def test_random_trees_survive_remounts(mount: Mounted) -> None:
    generator, hands = Generator(42), Hands(str(mount.path))
    for _ in range(3):
        for _ in range(500):
            operation = generator.next()
            generator.learn(operation, hands.perform(operation))
        hands.close()
        before = picture(str(mount.path))
        mount.remount()
        assert not differences(before, picture(str(mount.path)))


def test_every_attribute_survives(mount: Mounted) -> None:
    """Times, owners, modes, device numbers, targets and extended attributes of 64 KiB."""
    os.mknod(mount.path / "device", stat.S_IFBLK | 0o640, os.makedev(259, 70_000))
    os.symlink("t" * 4095, mount.path / "link")
    os.mkdir(mount.path / "directory", 0o1777)
    (mount.path / "file").write_bytes(pattern(5_000))
    os.setxattr(mount.path / "file", "user.large", pattern(65_536))
    os.chown(mount.path / "file", 12, 2**32 - 2)
    os.chmod(mount.path / "file", 0o6755)
    for name in os.listdir(mount.path):
        os.utime(mount.path / name, ns=(-(10**18) + 1, 4 * 10**18 + 3), follow_symlinks=False)
    before = {name: os.lstat(mount.path / name) for name in os.listdir(mount.path)}
    mount.remount()
    after = {name: os.lstat(mount.path / name) for name in os.listdir(mount.path)}
    assert {name: _all_of(found) for name, found in after.items()} == {name: _all_of(found) for name, found in before.items()}
    assert all(found.st_mtime_ns == 4 * 10**18 + 3 for found in after.values())
    assert os.getxattr(mount.path / "file", "user.large") == pattern(65_536)
    assert (mount.path / "file").read_bytes() == pattern(5_000)
    assert os.readlink(mount.path / "link") == "t" * 4095


def _all_of(found: os.stat_result) -> tuple[int, ...]:
    times = found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns
    return (found.st_ino, found.st_nlink, *told(found), *times, found.st_blocks)


def test_files_of_all_sizes_survive_on_several_disks(make_volume: Callable[..., Mounted], open_tmp: Path) -> None:
    """Packed and solo files, spread over three hot disks, read back cold."""
    mounted = make_volume(hot=3)
    mounted.mount()
    sizes = [0, 1, 4096, 100_000, 1 << 20, (1 << 20) + 1, 5 << 20] * 3
    for number, size in enumerate(sizes):
        (mounted.path / str(number)).write_bytes(pattern(size, number))
    mounted.remount()
    for number, size in enumerate(sizes):
        assert (mounted.path / str(number)).read_bytes() == pattern(size, number)
    used = [sum(path.stat().st_size for path in disk.rglob("*") if path.parent.parent.name == "solo") for disk in mounted.disks]
    assert all(used), f"large files lie on some disks only: {used}"


def inodes_in_use(mount: Mounted) -> int:
    """Return how many inodes there are; the free ones depend on what else fills the disk."""
    told = os.statvfs(mount.path)
    return told.f_files - told.f_ffree


def test_unlinked_open_files_are_freed(mount: Mounted) -> None:
    """What was unlinked while open is gone after the next mount."""
    used = inodes_in_use(mount)
    with opened(mount.path / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, pattern(3 << 20))
        os.unlink(mount.path / "f")
        assert os.pread(fd, 8, 0) == pattern(8)
    mount.remount()
    assert os.listdir(mount.path) == []
    assert inodes_in_use(mount) == used
