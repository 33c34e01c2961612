"""A directory of a million entries, without a mount: nothing that is kept in memory grows with it."""

import pytest

from shardfs.format import keys
from shardfs.ids import ROOT_INO, Ino
from shardfs.limits import INODE_CACHE_ENTRIES, OVERLAY_MAX_KEYS
from tests.core.small_volume import ROOT, SmallVolume

COMMIT_EVERY = 5_000


def fill(small: SmallVolume, count: int) -> Ino:
    """Make a directory with so many empty files, with a commit now and then as on a mount."""
    directory: Ino = small.call("mkdir", ROOT, ROOT_INO, b"d", 0o755).ino
    for number in range(count):
        attributes = small.call("mknod", ROOT, directory, b"%08d" % number, 0o100644, 0)
        small.fs.forget([(attributes.ino, 1)])
        if number % COMMIT_EVERY == 0:
            small.loop.advance(1.1)
            assert len(small.volume.overlay) <= OVERLAY_MAX_KEYS
    small.loop.advance(1.1)
    return directory


def check(small: SmallVolume, directory: Ino, count: int) -> None:
    """Assert that a listing has every entry once, in order, and that look-ups find them."""
    handle, offset, seen = small.call("opendir", directory), 2, 0
    while rows := small.call("readdir", handle, offset, 200):
        offsets = [row.next_offset for row in rows]
        assert offsets == sorted(offsets) and offsets[0] > offset
        offset, seen = offsets[-1], seen + len(rows)
    small.call("releasedir", handle)
    assert seen == count
    assert small.volume.inodes.get(directory).split_below_h == keys.HASH_END
    assert len(small.volume.inodes) <= INODE_CACHE_ENTRIES
    for number in range(0, count, count // 100):
        assert small.stat(b"%08d" % number, directory) is not None


def test_a_directory_of_twenty_thousand_entries(small: SmallVolume) -> None:
    check(small, fill(small, 20_000), 20_000)


@pytest.mark.long
def test_a_directory_of_a_million_entries(small: SmallVolume) -> None:
    directory = fill(small, 1_000_000)
    check(small, directory, 1_000_000)
    small.reopen_as_after_a_kill()
    check(small, directory, 1_000_000)
