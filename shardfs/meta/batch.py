"""What workers are told to apply, and what they answer."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shardfs.errors import ShardfsError
from shardfs.ids import Lsn, ShardId
from shardfs.meta.shard import Shard
from shardfs.observe import points


class ShardBatch(NamedTuple):
    """All changes that bring a shard from its applied LSN to `through`: the newest value of each key, None deletes."""

    shard: ShardId
    through: Lsn
    changes: dict[bytes, bytes | None]


class Outcome(NamedTuple):
    """What became of a batch: the LSN that each shard has now reached, and why others could not apply their part."""

    applied: dict[ShardId, Lsn]
    failed: dict[ShardId, ShardfsError]


def apply_batch(shards: Mapping[ShardId, Shard], batch: Sequence[ShardBatch]) -> Outcome:
    """Apply each part of a batch to its shard, in a transaction of its own: a shard that fails does not stop the others."""
    outcome = Outcome({}, {})
    for shard, through, changes in batch:
        points.reach("worker.before_apply")
        try:
            shards[shard].apply(changes, through)
        except ShardfsError as error:
            outcome.failed[shard] = error
        else:
            outcome.applied[shard] = through
        points.reach("worker.after_apply")
    return outcome
