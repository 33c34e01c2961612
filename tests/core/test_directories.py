"""Directories that grow: splitting, and listings that stay right in the middle of it."""

from collections.abc import Sequence

import pytest

from shardfs.core.directories import FAILED_RETRY_S
from shardfs.errors import NoSpace
from shardfs.format import keys
from shardfs.format.frames import Change
from shardfs.ids import ROOT_INO, Ino, Lsn, RequestId, ShardId
from tests.core.small_volume import ROOT, SmallVolume


def fill(small: SmallVolume, count: int, first: int = 0) -> Ino:
    found = small.stat(b"d") or small.call("mkdir", ROOT, ROOT_INO, b"d", 0o755)
    directory: Ino = found.ino
    for number in range(first, first + count):
        small.call("mknod", ROOT, directory, b"%05d" % number, 0o100644, 0)
    return directory


def begin_split(small: SmallVolume, directory: Ino) -> None:
    """Run what is posted up to the first step of the split."""
    while small.volume.inodes.get(directory).split_below_h == 0:
        small.loop.run_one()
    assert small.volume.inodes.get(directory).split_below_h < keys.HASH_END


def shards_used(small: SmallVolume, directory: Ino) -> set[ShardId]:
    prefix = keys.entry_prefix(directory)
    return {shard.shard for shard in small.volume.view.shards if small.volume.view.scan(shard.shard, prefix, 1)}


def test_a_small_directory_lives_in_its_home_shard(small: SmallVolume) -> None:
    directory = fill(small, 16)
    small.loop.run_ready()
    assert shards_used(small, directory) == {keys.home_shard(directory, 4)}


def test_a_grown_directory_spreads_over_all_shards(small: SmallVolume) -> None:
    directory = fill(small, 300)
    small.loop.run_ready()
    assert small.volume.inodes.get(directory).split_below_h == keys.HASH_END
    assert shards_used(small, directory) == {ShardId(shard) for shard in range(4)}
    assert sorted(small.names(directory)) == [b"%05d" % number for number in range(300)]


def test_a_listing_is_the_same_before_during_and_after_a_split(small: SmallVolume) -> None:
    directory = fill(small, 200)
    before = small.names(directory)
    marks = set()
    while (mark := small.volume.inodes.get(directory).split_below_h) < keys.HASH_END:
        marks.add(mark)
        assert small.names(directory) == before
        small.loop.run_one()
    assert len(marks) > 2, "the split took several steps"
    assert small.names(directory) == before


def test_entries_are_found_added_and_removed_during_a_split(small: SmallVolume) -> None:
    directory = fill(small, 200)
    begin_split(small, directory)
    fill(small, 100, first=200)
    for number in range(0, 300, 3):
        small.call("unlink", ROOT, directory, b"%05d" % number)
    expected = [b"%05d" % number for number in range(300) if number % 3]
    assert sorted(small.names(directory)) == expected
    small.loop.run_ready()
    assert sorted(small.names(directory)) == expected
    assert all(small.stat(name, directory) for name in expected)


def test_a_kill_in_the_middle_of_a_split_loses_nothing(small: SmallVolume) -> None:
    directory = fill(small, 200)
    begin_split(small, directory)
    small.reopen_as_after_a_kill()
    assert 0 < small.volume.inodes.get(directory).split_below_h < keys.HASH_END
    assert len(small.names(directory)) == 200
    fill(small, 1, first=200)  # the next entry goes on with the split
    small.loop.run_ready()
    assert small.volume.inodes.get(directory).split_below_h == keys.HASH_END
    assert sorted(small.names(directory)) == [b"%05d" % number for number in range(201)]


def test_names_of_equal_hash_are_one_group(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "name_hash", lambda _parent, name: 100 + len(name))
    directory: Ino = small.call("mkdir", ROOT, ROOT_INO, b"d", 0o755).ino
    for name in (b"a", b"b", b"c", b"xx", b"yyy", b"zzz"):
        small.call("mknod", ROOT, directory, name, 0o100644, 0)
    handle = small.call("opendir", directory)
    rows = small.call("readdir", handle, 2, 2)
    assert [(row.name, row.group_size) for row in rows] == [(b"a", 3), (b"b", 3), (b"c", 3)]
    rows = small.call("readdir", handle, rows[-1].next_offset, 10)
    assert [(row.name, row.group_size) for row in rows] == [(b"xx", 1), (b"yyy", 2), (b"zzz", 2)]


def test_any_offset_goes_on_where_it_says(small: SmallVolume) -> None:
    directory = fill(small, 40)
    handle = small.call("opendir", directory)
    everything = small.call("readdir", handle, 0, 1000)
    assert [row.name for row in everything[:2]] == [b".", b".."]
    for position, row in enumerate(everything):
        rest = small.call("readdir", handle, row.next_offset, 1000)
        assert [other.name for other in rest] == [other.name for other in everything[position + 1 :]]


def test_a_split_that_fails_is_tried_again(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    append = small.volume.journal.append

    def refuse_splits(request: RequestId, kind: str, changes: Sequence[Change]) -> Lsn:
        if kind == "split":
            raise NoSpace("no room for a segment")
        return append(request, kind, changes)

    monkeypatch.setattr(small.volume.journal, "append", refuse_splits)
    directory = fill(small, 200)
    small.loop.run_ready()
    assert small.volume.inodes.get(directory).split_below_h == 0
    monkeypatch.undo()
    small.loop.advance(FAILED_RETRY_S)
    assert small.volume.inodes.get(directory).split_below_h == keys.HASH_END
    assert len(small.names(directory)) == 200
