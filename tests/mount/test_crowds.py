"""Many files in one directory, many processes in one directory, and scans of what changes."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfs.testing.mounted import Mounted

MANY = 100_000
PROCESSES = 8
EACH = 400


def in_processes(works: list[Callable[[], None]]) -> None:
    """Run each of these in a process of its own and assert that all succeed."""
    pids = []
    for work in works:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                work()
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(works)


def test_a_hundred_thousand_files(mount: Mounted) -> None:
    """They are created, listed, found by a kernel that does not know them, and removed."""
    directory = mount.path / "many"
    directory.mkdir()
    names = [f"file-{number}" for number in range(MANY)]
    for name in names:
        os.mknod(directory / name, 0o644)
    assert set(os.listdir(directory)) == set(names)
    mount.remount()
    with os.scandir(directory) as entries:
        found = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    assert len(found) == MANY and set(found) == set(names)
    for name in random.Random(1).sample(names, 1_000):
        assert os.stat(directory / name).st_nlink == 1
    assert not os.path.exists(directory / "file-")
    for name in names:
        os.unlink(directory / name)
    assert os.listdir(directory) == []
    directory.rmdir()


@pytest.mark.long
def test_a_million_files(mount: Mounted) -> None:
    directory = mount.path / "many"
    directory.mkdir()
    (directory / "0").touch()
    for number in range(1, 1_000_000):
        os.mknod(directory / str(number), 0o644)
    assert len(set(os.listdir(directory))) == 1_000_000
    mount.remount()
    assert sum(1 for _ in os.scandir(directory)) == 1_000_000
    assert os.path.exists(directory / "999999") and not os.path.exists(directory / "1000000")


def test_eight_processes_create_in_one_directory(shared_dir: Path) -> None:
    """All their files are there with their content; of names that all want, each is given once."""

    def work(number: int) -> None:
        won = 0
        for index in range(EACH):
            (shared_dir / f"{number}-{index}").write_bytes(b"%d %d" % (number, index) * 20)
            try:
                os.close(os.open(shared_dir / f"contested-{index}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                won += 1
            except FileExistsError:
                continue
        (shared_dir / f"won-{number}").write_text(str(won))

    in_processes([lambda number=number: work(number) for number in range(PROCESSES)])  # type: ignore[misc]
    assert len(os.listdir(shared_dir)) == PROCESSES * EACH + EACH + PROCESSES
    assert sum(int((shared_dir / f"won-{number}").read_text()) for number in range(PROCESSES)) == EACH
    for number in range(PROCESSES):
        for index in range(0, EACH, 7):
            assert (shared_dir / f"{number}-{index}").read_bytes() == b"%d %d" % (number, index) * 20


def test_eight_processes_rename_and_remove_in_one_directory(shared_dir: Path) -> None:
    """Every file of a shared heap is taken by exactly one of those who grab for it."""
    for index in range(EACH):
        (shared_dir / f"heap-{index}").write_bytes(b"%d" % index)

    def work(number: int) -> None:
        for index in range(EACH):
            try:
                os.rename(shared_dir / f"heap-{index}", shared_dir / f"taken-{index}-by-{number}")
            except FileNotFoundError:
                continue

    in_processes([lambda number=number: work(number) for number in range(PROCESSES)])  # type: ignore[misc]
    names = os.listdir(shared_dir)
    assert sorted(int(name.split("-")[1]) for name in names) == list(range(EACH))
    assert all((shared_dir / name).read_text() == name.split("-")[1] for name in names)


def test_a_tree_is_scanned_while_it_changes(shared_dir: Path) -> None:
    """What is not touched appears exactly once in every scan; nothing that never was appears; nobody gets an error."""
    for outer in range(10):
        (shared_dir / f"d{outer}" / "steady").mkdir(parents=True)
        for index in range(40):
            (shared_dir / f"d{outer}" / "steady" / f"s{index}").write_bytes(b"s")
    steady = {path for path in shared_dir.rglob("s*")}

    def change(number: int) -> None:
        chance = random.Random(number)
        for index in range(400):
            home = shared_dir / f"d{chance.randrange(10)}"
            path = home / f"c{number}-{index}"
            path.write_bytes(b"c")
            other = shared_dir / f"d{chance.randrange(10)}" / f"m{number}-{index}"
            os.rename(path, other)
            if chance.random() < 0.7:
                os.unlink(other)

    def scan() -> None:
        for _ in range(6):
            seen = [Path(root) / name for root, folders, files in os.walk(shared_dir) for name in folders + files]
            kept = [path for path in seen if path in steady]
            assert len(kept) == len(steady) and set(kept) == steady
            assert all(path.name[0] in "dscm" for path in seen)

    in_processes([lambda: change(1), lambda: change(2), scan, scan])


def test_directories_split_under_fire(mount: Mounted) -> None:
    """A directory outgrows its shard while four processes fill it, list it and look names up in it."""
    directory = mount.path / "split"
    directory.mkdir()

    def fill(number: int) -> None:
        for index in range(1_500):
            name = directory / f"{number}-{index}"
            os.mknod(name, 0o644)
            assert os.path.exists(name)
            if index % 500 == 499:
                mine = [entry for entry in os.listdir(directory) if entry.startswith(f"{number}-")]
                assert len(mine) == len(set(mine)) == index + 1

    in_processes([lambda number=number: fill(number) for number in range(4)])  # type: ignore[misc]
    expected = {f"{number}-{index}" for number in range(4) for index in range(1_500)}
    assert set(os.listdir(directory)) == expected
    assert mount.counters()["split.steps"] > 0
    mount.remount()
    assert set(os.listdir(directory)) == expected
