"""Where the volumes lie that tests of fsck damage: in memory, where syncs cost nothing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.check.sample import Sample


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """An empty directory on tmpfs."""
    with tempfile.TemporaryDirectory(prefix="shardfs-check-", dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.fixture
def sample(memory_path: Path) -> Sample:
    """A volume with a few files, unmounted cleanly."""
    return Sample(memory_path)
