"""`shardfs format`."""

from pathlib import Path

import pytest

from shardfs.cli.format import parse_size
from shardfs.core.formatting import read_superblock
from shardfs.errors import UsageError
from shardfs.storage.real import RealStorage
from tests.cli.surroundings import Surroundings


def test_what_is_asked_for_is_in_the_superblock(here: Surroundings) -> None:
    disks = [here.base / "disk0", here.base / "disk1"]
    places: list[str | Path] = ["--hot", disks[0], "--hot", disks[1], "--journal", here.base / "j"]
    ended = here.run("format", here.volume, *places, "--shards", "5", "--pack-threshold", "512K")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"shardfs: {here.volume} formatted (5 shards, 2 hot disks)\n"
    superblock = read_superblock(RealStorage(), str(here.volume))
    assert (superblock.shards, superblock.pack_threshold_bytes, superblock.journal_dir) == (5, 512 * 1024, str(here.base / "j"))
    assert [disk.path for disk in superblock.disks] == [str(disk) for disk in disks]
    assert here.mount().returncode == 0


def test_a_volume_is_not_formatted_again(here: Surroundings) -> None:
    here.run("format", here.volume)
    with here.unchanged():
        here.assert_refused(here.run("format", here.volume), 1, "is not empty")


def test_nor_is_a_directory_with_files(here: Surroundings) -> None:
    here.volume.mkdir()
    (here.volume / "file").touch()
    with here.unchanged():
        here.assert_refused(here.run("format", here.volume), 1, "is not empty; name an empty or new directory")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--shards", "0"], "--shards 0 is out of range; give a value from 1 to 256"),
        (["--shards", "257"], "out of range"),
        (["--shards", "many"], "Invalid value for '--shards'"),
        (["--pack-threshold", "17M"], "--pack-threshold 17825792 is out of range"),
        (["--pack-threshold", "big"], "'big' is no size; write it as in 4096, 512K or 1M"),
    ],
)
def test_bad_usage(here: Surroundings, words: list[str], part: str) -> None:
    with here.unchanged():
        here.assert_refused(here.run("format", here.volume, *words), 2, part)


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("512K", 512 << 10), ("1M", 1 << 20), ("1MiB", 1 << 20), ("2mb", 2 << 20), ("1G", 1 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "1.5M", "-1", "1T", "1 M"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        parse_size(text)


def test_directories_that_lie_in_one_another(here: Surroundings) -> None:
    disk = here.base / "disk"
    cases: list[list[str | Path]] = [["--hot", disk, "--hot", disk / "sub"], ["--hot", disk, "--journal", disk], ["--journal", here.volume]]
    for words in cases:
        with here.unchanged():
            here.assert_refused(here.run("format", here.volume, *words), 1, "apart")
