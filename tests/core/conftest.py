"""Volumes for the tests of the core."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.small_volume import SmallVolume


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallVolume]:
    """A volume with small limits, open without a mount."""
    volume = SmallVolume(tmp_path)
    yield volume
    volume.close()
