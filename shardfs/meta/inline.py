"""Workers without processes: the shards are written by whoever reads them. For format, fsck and tests."""

from collections.abc import Callable, Sequence

from shardfs.ids import ShardId
from shardfs.meta.batch import Outcome, ShardBatch, apply_batch
from shardfs.meta.shard import Shard
from shardfs.meta.usage import Usage, shard_usage


class InlineWorkers:
    """A `WorkerLink` with one worker, which applies a batch at once: `done` is called before `send` returns."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        """`shards` are all shards of the volume by number, open for writing; the caller closes them."""
        self._shards = shards
        self.assignment: Sequence[Sequence[ShardId]] = [[shard.shard for shard in shards]]

    def send(self, worker: int, batch: list[ShardBatch], done: Callable[[Outcome], None]) -> None:
        """Apply a batch."""
        done(apply_batch({shard.shard: shard for shard in self._shards}, batch))

    def usage(self, timeout_s: float) -> Usage:
        """Return what all shards' records take."""
        return shard_usage(self._shards)

    def close(self) -> None:
        """Do nothing: every batch has been answered."""
