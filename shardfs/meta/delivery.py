"""Brings durable journal records to the workers in batches, and takes out of the overlay what they have committed.

Invariants:

- Only durable records go to a worker: a shard never holds what a power loss takes from the journal.
- A worker has at most one batch at a time. What it did not apply is in a later batch again; applying changes twice
  does no harm, since they are whole values in the order of the journal.
- A change leaves the overlay only after its shard's transaction is committed.

A shard that fails is left alone for a while that doubles up to `RETRY_MAX_S`, and its error is logged once; the other
shards go on. Loop thread only.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from shardfs.errors import ShardfsError
from shardfs.ids import Lsn, ShardId
from shardfs.meta.batch import Outcome, ShardBatch
from shardfs.meta.overlay import Overlay
from shardfs.meta.usage import Usage

RETRY_MIN_S = 0.5
RETRY_MAX_S = 30.0

_log = logging.getLogger(__name__)


class WorkerLink(Protocol):
    """The way to the workers."""

    assignment: Sequence[Sequence[ShardId]]
    """The shards of each worker."""

    def send(self, worker: int, batch: list[ShardBatch], done: Callable[[Outcome], None]) -> None:
        """Let a worker apply a batch; `done` is called on the loop thread, once, and in a bounded time."""

    def usage(self, timeout_s: float) -> Usage:
        """Return what all shards' records take; blocks, so not for a running loop thread. Raises `WorkerLost`."""

    def close(self) -> None:
        """Let go of the workers; a `done` that was not called yet is not called any more."""


class _Failure(NamedTuple):
    """A shard's last error, and when its next batch may go."""

    error: ShardfsError
    delay_s: float
    retry_at_s: float


def assign_shards(shards: int, workers: int) -> list[list[ShardId]]:
    """Spread the shards evenly over the workers; no more workers than shards are used."""
    workers = min(workers, shards)
    return [[ShardId(shard) for shard in range(worker, shards, workers)] for worker in range(workers)]


class Delivery:
    """Keeps every worker busy as long as there are durable records for it."""

    def __init__(self, overlay: Overlay, link: WorkerLink, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds that never go back."""
        self._overlay = overlay
        self._link = link
        self._clock = clock
        self._durable = Lsn(0)
        self._busy: set[int] = set()
        self._is_pumping = False
        self._is_closed = False
        self._failures: dict[ShardId, _Failure] = {}
        self._callbacks: list[Callable[[], None]] = []

    @property
    def failures(self) -> dict[ShardId, ShardfsError]:
        """The shards whose last batch failed, and why."""
        return {shard: failure.error for shard, failure in self._failures.items()}

    def on_applied(self, callback: Callable[[], None]) -> None:
        """Call back each time that the overlay has become smaller."""
        self._callbacks.append(callback)

    def pump(self, durable: Lsn) -> None:
        """Start a batch for each idle worker that has something to do of the records up to `durable`.

        To be called after each commit and every second or so: this is where failed shards are tried again.
        """
        self._durable = max(self._durable, durable)
        if self._is_closed or self._is_pumping:
            return  # pumping: a worker in this process has just answered, and the loop below goes on with it
        self._is_pumping = True
        try:
            for worker, shards in enumerate(self._link.assignment):
                self._feed(worker, shards)
        finally:
            self._is_pumping = False

    def close(self) -> None:
        """Let go of the workers; batches under way are forgotten, and their records stay in the journal."""
        self._is_closed = True
        self._link.close()

    def _feed(self, worker: int, shards: Iterable[ShardId]) -> None:
        while worker not in self._busy:
            now_s = self._clock()
            ready = [shard for shard in shards if shard not in self._failures or self._failures[shard].retry_at_s <= now_s]
            batch = self._overlay.take_batch(ready, self._durable)
            if not batch:
                return
            self._busy.add(worker)
            self._link.send(worker, batch, lambda outcome: self._done(worker, outcome))

    def _done(self, worker: int, outcome: Outcome) -> None:
        if self._is_closed:
            return
        self._busy.remove(worker)
        for shard, lsn in outcome.applied.items():
            self._overlay.applied(shard, lsn)
            if self._failures.pop(shard, None):
                _log.info("shard %d applies its changes again", shard)
        self._note_failures(outcome.failed)
        for callback in self._callbacks:
            callback()
        self.pump(self._durable)

    def _note_failures(self, failed: Mapping[ShardId, ShardfsError]) -> None:
        fresh: defaultdict[str, list[ShardId]] = defaultdict(list)
        for shard, error in failed.items():
            known = self._failures.get(shard)
            if known is None or str(known.error) != str(error):
                fresh[str(error)].append(shard)
            delay_s = min(known.delay_s * 2, RETRY_MAX_S) if known else RETRY_MIN_S
            self._failures[shard] = _Failure(error, delay_s, self._clock() + delay_s)
        for cause, shards in fresh.items():
            _log.error("shards %s could not apply their changes and will be tried again: %s", shards, cause)
