"""What several tests of `meta` need: shards in a directory, and keys of each table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shardfs.format import keys
from shardfs.format.values import Entry, encode_entry
from shardfs.ids import Ino, Lsn, ShardId
from shardfs.meta.shard import Shard, shard_path

DIRECTORY = Ino(5 << 8)


def create_shards(folder: Path, count: int) -> None:
    """Make empty shards in a directory."""
    for number in range(count):
        Shard.create(shard_path(str(folder), ShardId(number)), ShardId(number))


@contextmanager
def opened(folder: Path, count: int, *, readonly: bool = False) -> Iterator[list[Shard]]:
    """Open the shards of a directory, and close them at the end."""
    shards: list[Shard] = []
    try:
        for number in range(count):
            shards.append(Shard.open(shard_path(str(folder), ShardId(number)), ShardId(number), readonly=readonly))
        yield shards
    finally:
        for shard in shards:
            shard.close()


def entry(h: int, name: bytes, number: int = 1, parent: Ino = DIRECTORY) -> tuple[bytes, bytes]:
    """Return key and value of a directory entry."""
    return keys.entry_key(parent, h, name), encode_entry(Entry(Ino(number << 8), 8))


def applied_lsns(shards: Sequence[Shard]) -> list[Lsn]:
    """Return how far each shard has come."""
    return [shard.state().applied_lsn for shard in shards]
