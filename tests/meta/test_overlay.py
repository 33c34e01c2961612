"""The overlay against a model that remembers every record: newest values, order, batches, and when a key may go."""

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfs.format import keys
from shardfs.ids import Ino, Lsn, RecordId, ShardId
from shardfs.limits import BATCH_MAX_BYTES
from shardfs.meta.batch import ShardBatch
from shardfs.meta.overlay import MISSING, Overlay
from tests.meta.helpers import DIRECTORY, entry

A, B = ShardId(0), ShardId(1)
KEY = keys.inode_key(Ino(256))
POOL = [
    *(entry(h, name)[0] for h in range(3, 9) for name in (b"a", b"b")),
    *(entry(h, b"a", parent=Ino(DIRECTORY + 256))[0] for h in range(3, 6)),
    *(keys.xattr_key(Ino(256 * number), b"user.%d" % number) for number in range(1, 4)),
    *(keys.orphan_key(Ino(256 * number)) for number in range(1, 4)),
    *(keys.inode_key(Ino(256 * number)) for number in range(1, 4)),
    keys.record_key(RecordId(256)),
]
PREFIXES = [keys.entry_prefix(DIRECTORY), keys.xattr_prefix(Ino(256)), *keys.TABLES, b"E\0", b"I\0\0\0"]

values = st.one_of(st.none(), st.binary(max_size=3))
changes = st.lists(st.tuples(st.sampled_from([A, B]), st.sampled_from(POOL), values), min_size=1, max_size=6)
steps = st.lists(st.one_of(changes, st.tuples(st.sampled_from([A, B]), st.integers(0, 40))), max_size=40)


def entries_after(overlay: Overlay, shard: ShardId, parent: Ino, after_h: int) -> Iterator[tuple[bytes, bytes | None]]:
    return overlay.rows(shard, keys.entry_prefix(parent), keys.entry_from(parent, after_h + 1))


class Model:
    """All records ever made, and how far each shard is."""

    def __init__(self) -> None:
        self.records: list[tuple[Lsn, ShardId, bytes, bytes | None]] = []
        self.applied = {A: Lsn(0), B: Lsn(0)}

    def pending(self, shard: ShardId) -> list[tuple[Lsn, ShardId, bytes, bytes | None]]:
        return [record for record in self.records if record[1] == shard and record[0] > self.applied[shard]]

    def newest(self, shard: ShardId) -> dict[bytes, bytes | None]:
        return {key: value for _, _, key, value in self.pending(shard)}

    def batch(self, shard: ShardId, through: Lsn, max_records: int) -> tuple[ShardBatch | None, int]:
        lsns = sorted({lsn for lsn, *_ in self.pending(shard) if lsn <= through})[:max_records]
        if not lsns:
            return None, 0
        made = {key: value for lsn, _, key, value in self.pending(shard) if lsn <= lsns[-1]}
        return ShardBatch(shard, lsns[-1], made), len(lsns)

    def batches(self, through: Lsn, max_records: int) -> list[ShardBatch]:
        waiting = sorted((shard for shard in (A, B) if self.pending(shard)), key=lambda shard: self.pending(shard)[0][0])
        made = []
        for shard in waiting:
            batch, records = self.batch(shard, through, max_records)
            max_records -= records
            if batch:
                made.append(batch)
        return made


def check(overlay: Overlay, model: Model, last: int) -> None:
    for shard in (A, B):
        newest = model.newest(shard)
        assert {key: overlay.get(shard, key) for key in POOL} == {key: newest.get(key, MISSING) for key in POOL}
        for prefix in PREFIXES:
            expected = sorted((key, value) for key, value in newest.items() if key.startswith(prefix))
            assert list(overlay.rows(shard, prefix, prefix)) == expected
        after = sorted((key, value) for key, value in newest.items() if key >= keys.entry_from(DIRECTORY, 6) and key[:9] == POOL[0][:9])
        assert list(entries_after(overlay, shard, DIRECTORY, 5)) == after
    pending = model.pending(A) + model.pending(B)
    assert len(overlay) == len(pending)
    assert overlay.held_bytes == sum(len(key) + len(value or b"") for _, _, key, value in pending)
    assert overlay.oldest_pending_lsn() == min((lsn for lsn, *_ in pending), default=None)
    for through, max_records in ((last, 99), (last - 2, 99), (last, 3)):
        assert overlay.take_batch([A, B], Lsn(through), max_records) == model.batches(Lsn(through), max_records)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_it_is_what_the_records_above_the_applied_lsn_say(script: list[object]) -> None:
    overlay, model, last = Overlay([Lsn(0), Lsn(0)]), Model(), 0
    for step in script:
        if isinstance(step, list):
            last += 1
            for shard, key, value in step:
                overlay.put(Lsn(last), shard, key, value)
                model.records.append((Lsn(last), shard, key, value))
        else:
            assert isinstance(step, tuple)
            shard, lsn = step[0], Lsn(min(step[1], last))
            overlay.applied(shard, lsn)
            model.applied[shard] = max(model.applied[shard], lsn)
        check(overlay, model, last)


def test_replay_skips_what_a_shard_has_applied() -> None:
    overlay = Overlay([Lsn(5), Lsn(3)])
    for lsn in range(1, 7):
        for shard in (A, B):
            overlay.put(Lsn(lsn), shard, KEY, b"%d" % lsn)
    assert len(overlay) == 1 + 3 and overlay.oldest_pending_lsn() == 4
    assert overlay.take_batch([A], Lsn(6)) == [ShardBatch(A, Lsn(6), {KEY: b"6"})]


def test_a_key_stays_until_its_newest_record_is_applied() -> None:
    overlay = Overlay([Lsn(0)])
    overlay.put(Lsn(1), A, KEY, b"old")
    overlay.put(Lsn(2), A, KEY, b"new")
    overlay.applied(A, Lsn(1))
    assert overlay.get(A, KEY) == b"new" and len(overlay) == 1
    overlay.applied(A, Lsn(2))
    assert overlay.get(A, KEY) is MISSING and len(overlay) == 0 == overlay.held_bytes


def test_a_name_that_comes_back_is_listed_once() -> None:
    overlay = Overlay([Lsn(0)])
    for lsn in range(1, 6):
        overlay.put(Lsn(lsn), A, *entry(lsn + 3, b"n"))
    listed = list(entries_after(overlay, A, DIRECTORY, 0))
    overlay.applied(A, Lsn(1))
    overlay.put(Lsn(6), A, *entry(4, b"n"))
    assert list(entries_after(overlay, A, DIRECTORY, 0)) == listed


def test_nothing_is_left_of_what_was_applied() -> None:
    overlay = Overlay([Lsn(0)])
    for lsn in range(1, 100):
        overlay.put(Lsn(lsn), A, POOL[lsn % len(POOL)], b"v")
        if lsn % 7 == 0:
            overlay.applied(A, Lsn(lsn - 3))
    overlay.applied(A, Lsn(99))
    held = overlay._shards[A]
    assert not (held.values or held.lsns or held.pending or held.groups)


def test_a_batch_holds_no_value_from_after_its_end() -> None:
    """A shard must never get what is not durable: the newest value of a key may be too new."""
    overlay = Overlay([Lsn(0)])
    overlay.put(Lsn(1), A, KEY, b"durable")
    overlay.put(Lsn(2), A, KEY, b"not yet")
    assert overlay.take_batch([A], Lsn(1)) == [ShardBatch(A, Lsn(1), {KEY: b"durable"})]


def test_a_batch_is_taken_again_until_it_is_applied() -> None:
    overlay = Overlay([Lsn(0)])
    overlay.put(Lsn(1), A, KEY, b"v")
    assert overlay.take_batch([A], Lsn(1)) == overlay.take_batch([A], Lsn(1)) != []
    overlay.applied(A, Lsn(1))
    assert overlay.take_batch([A], Lsn(1)) == []


def test_a_batch_ends_after_so_many_bytes_but_never_inside_of_a_record() -> None:
    overlay = Overlay([Lsn(0), Lsn(0)])
    large = bytes(BATCH_MAX_BYTES // 2)
    for lsn in (1, 2, 3):
        for number in (1, 2):
            overlay.put(Lsn(lsn), A, keys.inode_key(Ino(number << 8)), large)
    overlay.put(Lsn(4), B, KEY, b"v")
    assert [(part.shard, part.through, len(part.changes)) for part in overlay.take_batch([A, B], Lsn(4))] == [(A, 1, 2)]


def test_the_shard_that_waits_longest_comes_first() -> None:
    overlay = Overlay([Lsn(0), Lsn(0)])
    overlay.put(Lsn(1), B, KEY, b"v")
    overlay.put(Lsn(2), A, KEY, b"v")
    assert [part.shard for part in overlay.take_batch([A, B], Lsn(2))] == [B, A]
    assert [part.shard for part in overlay.take_batch([A, B], Lsn(2), max_records=1)] == [B]


@pytest.mark.parametrize("added_between", [1, 20, 3000])
def test_listing_a_directory_that_grows(added_between: int) -> None:
    """Few new names are put into the sorted list one by one, many are sorted in; the listing is the same."""
    overlay = Overlay([Lsn(0)])
    made = 0
    for _ in range(5):
        for _ in range(added_between):
            made += 1
            overlay.put(Lsn(made), A, *entry(made * 7919 % 100_003 + 3, b"n"))
        overlay.put(Lsn(made + 1), A, *entry(made * 7919 % 100_003 + 3, b"n"))  # once more: no new name
        made += 1
        listed = [key for key, _ in entries_after(overlay, A, DIRECTORY, 0)]
        assert listed == sorted(set(listed)) and len(listed) == made - made // (added_between + 1)
        assert [key for key, _ in islice(entries_after(overlay, A, DIRECTORY, 500), 3)] == [
            key for key in listed if key > entry(501, b"")[0]
        ][:3]
