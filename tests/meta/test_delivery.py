"""Delivery: what is durable reaches every worker once, a shard that fails waits for its turn, the others go on."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from shardfs.errors import NoSpace, ShardfsError, WorkerLost
from shardfs.format import keys
from shardfs.ids import Ino, Lsn, ShardId
from shardfs.limits import BATCH_MAX_BYTES
from shardfs.meta.batch import Outcome, ShardBatch
from shardfs.meta.delivery import RETRY_MAX_S, RETRY_MIN_S, Delivery, assign_shards
from shardfs.meta.inline import InlineWorkers
from shardfs.meta.overlay import Overlay
from shardfs.meta.usage import Usage
from tests.meta.helpers import applied_lsns, create_shards, opened

A, B, C = ShardId(0), ShardId(1), ShardId(2)
KEY = keys.inode_key(Ino(256))


class Workers:
    """Two workers, of shards 0 and 2 and of shard 1, that answer when the test says so."""

    def __init__(self) -> None:
        self.assignment: Sequence[Sequence[ShardId]] = assign_shards(3, 2)
        self.sent: dict[int, tuple[list[ShardBatch], Callable[[Outcome], None]]] = {}
        self.is_closed = False

    def send(self, worker: int, batch: list[ShardBatch], done: Callable[[Outcome], None]) -> None:
        assert worker not in self.sent, "one batch at a time"
        self.sent[worker] = batch, done

    def answer(self, worker: int, failed: dict[ShardId, ShardfsError] | None = None) -> None:
        batch, done = self.sent.pop(worker)
        failed = failed or {}
        done(Outcome({part.shard: part.through for part in batch if part.shard not in failed}, failed))

    def through(self) -> dict[int, list[tuple[ShardId, Lsn]]]:
        return {worker: [(part.shard, part.through) for part in batch] for worker, (batch, _) in self.sent.items()}

    def usage(self, timeout_s: float) -> Usage:
        return Usage()

    def close(self) -> None:
        self.is_closed = True


class Bench:
    """A delivery to `Workers` at a time that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.overlay = Overlay([Lsn(0)] * 3)
        self.workers = Workers()
        self.delivery = Delivery(self.overlay, self.workers, lambda: self.now_s)

    def put(self, lsn: int, *shards: ShardId) -> None:
        for shard in shards:
            self.overlay.put(Lsn(lsn), shard, KEY, b"%d" % lsn)

    def tick(self, delay_s: float, durable: int) -> None:
        self.now_s += delay_s
        self.delivery.pump(Lsn(durable))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_shards_are_spread_evenly() -> None:
    assert assign_shards(5, 2) == [[0, 2, 4], [1, 3]]
    assert assign_shards(2, 4) == [[0], [1]]


def test_only_durable_records_are_sent(bench: Bench) -> None:
    bench.put(1, A, B)
    bench.put(2, A)
    bench.delivery.pump(Lsn(1))
    assert bench.workers.through() == {0: [(A, 1)], 1: [(B, 1)]}


def test_what_was_durable_once_stays_durable(bench: Bench) -> None:
    bench.put(1, A)
    bench.delivery.pump(Lsn(1))
    bench.put(2, A)
    bench.delivery.pump(Lsn(2))
    bench.delivery.pump(Lsn(1))
    bench.workers.answer(0)
    assert bench.workers.through() == {0: [(A, 2)]}


def test_a_worker_gets_the_next_batch_when_it_has_answered(bench: Bench) -> None:
    bench.put(1, A)
    bench.delivery.pump(Lsn(1))
    bench.put(2, A, C)
    bench.delivery.pump(Lsn(2))
    assert bench.workers.through() == {0: [(A, 1)]}
    bench.workers.answer(0)
    assert bench.workers.through() == {0: [(A, 2), (C, 2)]}
    bench.workers.answer(0)
    assert len(bench.overlay) == 0 and not bench.workers.sent


def test_callbacks_come_when_the_overlay_has_shrunk(bench: Bench) -> None:
    oldest: list[Lsn | None] = []
    bench.delivery.on_applied(lambda: oldest.append(bench.overlay.oldest_pending_lsn()))
    bench.put(1, A)
    bench.put(2, B)
    bench.delivery.pump(Lsn(2))
    bench.workers.answer(0)
    bench.workers.answer(1)
    assert oldest == [2, None]


def test_a_failed_shard_is_tried_again_later_and_later(bench: Bench) -> None:
    bench.put(1, A)
    bench.delivery.pump(Lsn(1))
    delay_s = RETRY_MIN_S
    for _ in range(10):
        bench.workers.answer(0, {A: NoSpace("full")})
        assert str(bench.delivery.failures[A]) == "full"
        bench.tick(delay_s * 0.99, 1)
        assert not bench.workers.sent
        bench.tick(delay_s * 0.02, 1)
        assert bench.workers.through() == {0: [(A, 1)]}
        delay_s = min(delay_s * 2, RETRY_MAX_S)
    assert delay_s == RETRY_MAX_S
    bench.workers.answer(0)
    assert bench.delivery.failures == {} and len(bench.overlay) == 0


def test_a_failed_shard_does_not_stop_the_others(bench: Bench) -> None:
    bench.put(1, A, C)
    bench.delivery.pump(Lsn(1))
    bench.workers.answer(0, {A: NoSpace("full")})
    bench.put(2, A, C)
    bench.delivery.pump(Lsn(2))
    assert bench.workers.through() == {0: [(C, 2)]}
    bench.workers.answer(0)
    assert bench.overlay.oldest_pending_lsn() == 1
    bench.tick(RETRY_MIN_S, 2)
    assert bench.workers.sent[0][0] == [ShardBatch(A, Lsn(2), {KEY: b"2"})]


def test_a_cause_is_logged_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.put(1, A, C)
    bench.delivery.pump(Lsn(1))
    for _ in range(3):
        lost = WorkerLost("worker 0 is gone")
        bench.workers.answer(0, {A: lost, C: lost})
        bench.tick(RETRY_MAX_S, 1)
    bench.workers.answer(0, {A: NoSpace("full"), C: lost})
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [message.split(" could")[0] for message in errors] == ["shards [0, 2]", "shards [0]"]


def test_after_close_nothing_comes_in_or_out(bench: Bench) -> None:
    bench.put(1, A)
    bench.put(1, B)
    bench.delivery.pump(Lsn(1))
    bench.delivery.on_applied(lambda: pytest.fail("the mount is closed"))
    bench.delivery.close()
    bench.workers.answer(0)
    bench.delivery.pump(Lsn(1))
    assert bench.workers.is_closed and len(bench.overlay) == 2 and list(bench.workers.sent) == [1]


def test_inline_workers_apply_at_once(tmp_path: Path) -> None:
    create_shards(tmp_path, 3)
    with opened(tmp_path, 3) as shards:
        overlay = Overlay(applied_lsns(shards))
        delivery = Delivery(overlay, InlineWorkers(shards))
        for lsn in range(1, 30_001):
            overlay.put(Lsn(lsn), ShardId(lsn % 3), keys.inode_key(Ino(lsn << 8)), b"v")
        delivery.pump(Lsn(29_999))
        assert len(overlay) == 1 and [shard.state().inodes for shard in shards] == [9_999, 10_000, 10_000]
        assert applied_lsns(shards) == [29_997, 29_998, 29_999]


class PromptWorkers(Workers):
    """Workers that answer before `send` returns."""

    def send(self, worker: int, batch: list[ShardBatch], done: Callable[[Outcome], None]) -> None:
        super().send(worker, batch, done)
        self.answer(worker)


def test_any_number_of_batches_in_a_row() -> None:
    overlay = Overlay([Lsn(0)] * 3)
    delivery = Delivery(overlay, PromptWorkers())
    large = bytes(BATCH_MAX_BYTES)
    for lsn in range(1, 2001):
        overlay.put(Lsn(lsn), A, KEY, large)
    delivery.pump(Lsn(2000))
    assert len(overlay) == 0
