"""Volumes that nothing is wrong with, whatever was done to them, and those whose processes were killed."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfs.core.interface import RENAME_EXCHANGE, AttributeChanges
from shardfs.errors import CallerError
from shardfs.format import keys
from shardfs.ids import ROOT_INO, Ino, ino_shard
from tests.check.sample import CONTENT, LARGE, Sample
from tests.check.volumes import PACK_THRESHOLD_BYTES, ROOT, Mounted, TestVolume, kinds


def test_a_volume_that_was_just_formatted_is_clean(memory_path: Path) -> None:
    volume = TestVolume(memory_path)
    assert kinds(volume.check().found) == ["NotCleanlyUnmounted"]  # its first record is still in the journal
    assert not volume.check().has_errors_left


def test_a_clean_volume_has_no_findings_and_is_not_changed(sample: Sample) -> None:
    report = sample.check(data=True)
    assert report.found == () and (report.inodes, report.records) == (58, 53)
    assert report.entries == 58  # one inode has two names, and the root has none
    before = dict(_changed(sample))
    assert sample.repair(data=True).found == ()
    assert dict(_changed(sample)) == before


def _changed(volume: TestVolume) -> Iterator[tuple[Path, int]]:
    return ((path, os.stat(path).st_mtime_ns) for path in Path(volume.path).rglob("*") if path.name != "lock.mdb")


def churn(mounted: Mounted, seed: int, rounds: int) -> None:
    """Do all kinds of operations, in an order that the seed decides."""
    chance = random.Random(seed)
    folders = [ROOT_INO, *(mounted.make_directory(ROOT_INO, b"d%d" % number) for number in range(3))]
    for number in range(rounds):
        folder, other = chance.choice(folders), chance.choice(folders)
        names = list(mounted.list(folder)) or [b"none"]
        name, new = chance.choice(names), b"f%d" % chance.randrange(40)
        try:
            _do(mounted, chance.randrange(8), folder, name, other, new, chance)
        except CallerError:
            continue  # a name that is there already, or is a directory: as for any program
        finally:
            mounted.loop.advance(chance.choice((0, 0, 0, 1.5)))
        if number % 50 == 0:
            mounted.call("sync")


def _do(mounted: Mounted, what: int, folder: Ino, name: bytes, other: Ino, new: bytes, chance: random.Random) -> None:
    if what <= 2:
        mounted.make_file(folder, new, LARGE[: chance.choice((0, 5, 3000, PACK_THRESHOLD_BYTES, len(LARGE)))])
    elif what == 3:
        mounted.remove(folder, name)
    elif what == 4:
        mounted.call("rename", ROOT, folder, name, other, new, chance.choice((0, RENAME_EXCHANGE)))
    elif what == 5:
        mounted.link(mounted.list(folder).get(name, Ino(0)), other, new)
    elif what == 6:
        mounted.call("setxattr", ROOT, mounted.list(folder).get(name, Ino(0)), b"user.x", new, 0)
    else:
        size = chance.choice((0, 100, PACK_THRESHOLD_BYTES + 1))
        mounted.call("setattr", ROOT, mounted.list(folder).get(name, Ino(0)), AttributeChanges(size=size), None)


@pytest.mark.parametrize("seed", range(4))
def test_a_volume_is_clean_after_a_mixed_workload(memory_path: Path, seed: int) -> None:
    volume = TestVolume(memory_path)
    with volume.mounted() as mounted:
        churn(mounted, seed, 300)
    report = volume.check(data=True)
    assert [finding.message for finding in report.found] == [] and report.records > 10


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_volume_is_clean_but_not_unmounted(memory_path: Path, seed: int) -> None:
    volume = TestVolume(memory_path)
    mounted = volume.open()
    churn(mounted, seed, 150)
    mounted.begin_file(ROOT_INO, b"open and packed", CONTENT)
    mounted.begin_file(ROOT_INO, b"open and large", LARGE)
    gone, _ = mounted.begin_file(ROOT_INO, b"unlinked while open", LARGE)
    mounted.remove(ROOT_INO, b"unlinked while open")
    mounted.core.abandon()
    assert volume.get(ino_shard(gone), keys.inode_key(gone)) is None  # so far only the journal has it
    before = dict(_changed(volume))
    report = volume.check(data=True)
    assert dict(_changed(volume)) == before
    assert kinds(report.found) == ["NotCleanlyUnmounted"] and not report.has_errors_left
    repaired = volume.repair(data=True)
    assert repaired.left == () and not repaired.has_repaired_errors
    with volume.mounted() as mounted:
        assert mounted.read_file(mounted.find(b"open and packed").ino) == CONTENT
        assert mounted.read_file(mounted.find(b"open and large").ino) == LARGE
        assert b"unlinked while open" not in mounted.list(ROOT_INO)


def test_a_killed_volume_that_is_also_damaged(sample: Sample) -> None:
    mounted = sample.open()
    mounted.make_file(ROOT_INO, b"new", CONTENT)
    mounted.begin_file(ROOT_INO, b"open", CONTENT)
    mounted.core.abandon()
    sample.set_inode(sample.folder, nlink=9)
    assert kinds(sample.check().found) == ["NotCleanlyUnmounted", "WrongLinkCount"]
    sample.repair()
    assert sample.check(data=True).found == ()
    with sample.mounted() as mounted:
        assert mounted.read_file(mounted.find(b"new").ino) == mounted.read_file(mounted.find(b"open").ino) == CONTENT
