"""The view is overlay and shards together: every key is found, and a listing misses and repeats nothing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfs.format import keys
from shardfs.format.values import Entry, Inode, decode_entry
from shardfs.ids import Ino, Lsn, ShardId
from shardfs.meta.delivery import Delivery
from shardfs.meta.inline import InlineWorkers
from shardfs.meta.overlay import Overlay
from shardfs.meta.shard import Shard
from shardfs.meta.view import View
from tests.meta.helpers import DIRECTORY, applied_lsns, create_shards, entry, opened

SHARDS = 3
STEP_H = keys.HASH_END // 8
HASHES = [3, 4, STEP_H, STEP_H * 2 + 1, STEP_H * 3, STEP_H * 5, STEP_H * 7, keys.HASH_END - 1]
"""In all shards' ranges, with names of equal h in each."""


class Directory:
    """A directory whose entries are put, removed, moved by a split and applied, beside a plain dict of what it holds."""

    def __init__(self, shards: list[Shard]) -> None:
        self.overlay = Overlay(applied_lsns(shards))
        self.view = View(shards, self.overlay)
        self.delivery = Delivery(self.overlay, InlineWorkers(shards))
        self.inode = Inode(DIRECTORY, 0o40755)
        self.held: dict[bytes, bytes] = {}
        self.last = Lsn(0)

    def record(self, *changes: tuple[ShardId, bytes, bytes | None]) -> None:
        self.last = Lsn(self.last + 1)
        for change in changes:
            self.overlay.put(self.last, *change)

    def shard_of(self, h: int, below_h: int) -> ShardId:
        return keys.entry_shard(DIRECTORY, below_h, h, SHARDS)

    def put(self, h: int, name: bytes, number: int) -> None:
        key, value = entry(h, name, number)
        self.held[key] = value
        self.record((self.shard_of(h, self.inode.split_below_h), key, value))

    def remove(self, h: int, name: bytes) -> None:
        key = entry(h, name)[0]
        self.held.pop(key, None)
        self.record((self.shard_of(h, self.inode.split_below_h), key, None))

    def split_to(self, below_h: int) -> None:
        moves: list[tuple[ShardId, bytes, bytes | None]] = []
        for key, value in self.held.items():
            _, h, _ = keys.parse_entry_key(key)
            old, new = self.shard_of(h, self.inode.split_below_h), self.shard_of(h, below_h)
            if old != new:
                moves += [(old, key, None), (new, key, value)]
        self.inode.split_below_h = below_h
        if moves:
            self.record(*moves)

    def rows(self) -> list[tuple[int, bytes, Entry]]:
        parsed = [(*keys.parse_entry_key(key)[1:], decode_entry(value)) for key, value in sorted(self.held.items())]
        return [(h, name, found) for h, name, found in parsed]

    def listed(self, limit: int) -> list[tuple[int, bytes, Entry]]:
        rows: list[tuple[int, bytes, Entry]] = []
        while page := self.view.list_entries(self.inode, rows[-1][0] if rows else 0, limit):
            assert len(page) <= limit or page[limit - 1][0] == page[-1][0], "only a group of equal h goes beyond the limit"
            rows += page
        return rows


names = st.sampled_from([b"a", b"b", b"c"])
hashes = st.sampled_from(HASHES)
steps = st.one_of(
    st.tuples(st.just("put"), hashes, names, st.integers(1, 9)),
    st.tuples(st.just("remove"), hashes, names),
    st.tuples(st.just("split"), st.integers(0, 8)),
    st.tuples(st.just("apply"), st.integers(0, 5)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25), st.integers(1, 5))
def test_a_listing_has_what_is_there_in_order(script: list[tuple[object, ...]], limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        create_shards(Path(folder), SHARDS)
        with opened(Path(folder), SHARDS) as shards:
            directory = Directory(shards)
            for verb, *arguments in script:
                run_step(directory, verb, arguments)
                assert directory.listed(limit) == directory.rows()
            assert directory.listed(100) == directory.rows()
            assert_gets(directory)


def run_step(directory: Directory, verb: object, arguments: list[object]) -> None:
    if verb == "put":
        directory.put(*arguments)  # type: ignore[arg-type]
    elif verb == "remove":
        directory.remove(*arguments)  # type: ignore[arg-type]
    elif verb == "split":
        assert isinstance(arguments[0], int)
        directory.split_to(max(directory.inode.split_below_h, STEP_H * arguments[0]))
    else:
        assert isinstance(arguments[0], int)
        directory.delivery.pump(Lsn(max(0, directory.last - arguments[0])))


def assert_gets(directory: Directory) -> None:
    for h in HASHES:
        for name in (b"a", b"b", b"c"):
            shard, key = directory.shard_of(h, directory.inode.split_below_h), entry(h, name)[0]
            assert directory.view.get(shard, key) == directory.held.get(key)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    create_shards(tmp_path, SHARDS)
    with opened(tmp_path, SHARDS) as shards:
        yield Directory(shards)


def test_names_of_equal_h_come_in_one_page(directory: Directory) -> None:
    for name in (b"a", b"b", b"c"):
        directory.put(STEP_H, name, 1)
    directory.put(3, b"first", 1)
    directory.put(STEP_H + 1, b"last", 1)
    directory.delivery.pump(Lsn(2))  # one of them is in the shard, the others in the overlay
    assert [len(directory.view.list_entries(directory.inode, 0, limit)) for limit in (1, 2, 3, 4, 5)] == [1, 4, 4, 4, 5]
    assert [name for _, name, _ in directory.view.list_entries(directory.inode, STEP_H, 1)] == [b"last"]


def test_pages_go_on_across_shards(directory: Directory) -> None:
    directory.split_to(keys.HASH_END)
    for number in range(100):
        directory.put(3 + number * (keys.HASH_END // 101), b"n", 1)
    directory.delivery.pump(directory.last)
    assert min(shard.state().entries for shard in directory.view.shards) > 20
    assert directory.listed(7) == directory.rows()


def test_a_page_behind_many_tombstones(directory: Directory) -> None:
    for h in range(3, 203):
        directory.put(h, b"n", 1)
    directory.delivery.pump(directory.last)
    for h in range(3, 200):
        directory.remove(h, b"n")
    assert [h for h, _, _ in directory.view.list_entries(directory.inode, 0, 2)] == [200, 201]


def test_scan_merges_and_goes_on_after_a_key(directory: Directory) -> None:
    shard, ino = ShardId(1), Ino(256 + 1)
    attributes = [keys.xattr_key(ino, b"user.%d" % number) for number in range(9)]
    directory.record(*((shard, key, b"old") for key in attributes))
    directory.delivery.pump(directory.last)
    directory.record((shard, attributes[2], None), (shard, attributes[4], b"new"), (shard, keys.xattr_key(Ino(512 + 1), b"user.a"), b"x"))
    expected = [(key, b"new" if key == attributes[4] else b"old") for key in attributes if key != attributes[2]]
    view, prefix = directory.view, keys.xattr_prefix(ino)
    assert view.scan(shard, prefix, 99) == expected
    assert view.scan(shard, prefix, 3) == expected[:3]
    assert view.scan(shard, prefix, 99, after=attributes[3]) == expected[3:]
    assert view.scan(shard, prefix, 99, after=attributes[8]) == []
