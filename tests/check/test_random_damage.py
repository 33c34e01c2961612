"""Several kinds of damage at once, at random: a repair ends, is stable, and loses nothing that was not damaged itself."""

import random
from pathlib import Path

import pytest

from shardfs.check.report import Report
from shardfs.format import keys
from shardfs.format.values import Entry, encode_entry
from shardfs.ids import ROOT_INO, Ino, ShardId
from tests.check.sample import Sample
from tests.check.volumes import SHARDS, Mounted

BEYOND_REPAIR = {"MissingRecord", "UnreadableRecord"}


@pytest.mark.parametrize("seed", range(8))
def test_random_damage(memory_path: Path, seed: int) -> None:
    assert_survives(Sample(memory_path), random.Random(seed))


def assert_survives(sample: Sample, chance: random.Random) -> None:
    """Damage a volume, repair it, and assert that what was not damaged is still there."""
    with sample.mounted() as mounted:
        before = contents(mounted, ROOT_INO)
    damaged = [plant(sample, chance) for _ in range(chance.randint(1, 12))]
    report = sample.repair(data=True)
    assert {finding.kind for finding in report.left} <= BEYOND_REPAIR, [finding.message for finding in report.left]
    assert_stable(sample, report)
    lost = sum(key[:1] in (keys.RECORD_TABLE, keys.INODE_TABLE) for key in damaged)
    with sample.mounted() as mounted:
        after = contents(mounted, ROOT_INO)
    assert len(before - after) <= lost
    assert_stable(sample, report)


def assert_stable(sample: Sample, report: Report) -> None:
    """Assert that another repair finds nothing but what was left, and leaves it."""
    again = sample.repair(data=True)
    assert set(again.found) == set(again.left) == set(report.left)


def plant(sample: Sample, chance: random.Random) -> bytes:
    """Delete, replace or damage the value of one key; return it."""
    number = ShardId(chance.randrange(SHARDS))
    with sample.shard(number) as shard:
        found = [key for table in keys.TABLES for key, _ in shard.walk(table) if key != keys.meta_key(b"state")]
        key = chance.choice(found)
        what = chance.randrange(5)
        if what == 0:
            shard.seed([(key, None)])
        elif what == 1 and key[:1] == keys.ENTRY_TABLE:
            shard.seed([(key, encode_entry(Entry(Ino(chance.randrange(80) << 8 | number), chance.choice((4, 8)))))])
        elif what == 2:
            key = chance.choice(found)[: len(key)]
            shard.seed([(key, b"x")])
    if what == 3:
        sample.put_raw(number, key, None)
    elif what == 4:
        sample.damage(number, key)
    return key


def contents(mounted: Mounted, directory: Ino) -> set[bytes]:
    """Return the different contents of all files that can be read, below a directory."""
    found: set[bytes] = set()
    for ino in mounted.list(directory).values():
        if mounted.is_directory(ino):
            found |= contents(mounted, ino)
        else:
            found |= mounted.try_read(ino)
    return found
