"""Fixtures of the data layer's tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from shardfs.observe.counters import Counters

from .rigs import Rig
from .tight import TightStorage


@pytest.fixture
def storage() -> TightStorage:
    """A real disk that can be made full or broken."""
    return TightStorage()


@pytest.fixture
def counters() -> Counters:
    """Counters that start at zero."""
    return Counters()


@pytest.fixture
def rig(storage: TightStorage, counters: Counters, tmp_path: Path) -> Rig:
    return Rig(storage, counters, tmp_path, disks=1)


@pytest.fixture
def two(storage: TightStorage, counters: Counters, tmp_path: Path) -> Rig:
    return Rig(storage, counters, tmp_path, disks=2)


@pytest.fixture
def path() -> Iterator[Path]:
    """A path on tmpfs, where slot tables belong."""
    directory = Path(mkdtemp(dir="/dev/shm", prefix="shardfs-test-"))
    yield directory / "slots"
    shutil.rmtree(directory)
