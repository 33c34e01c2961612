"""fsck as tests of the core call it."""

from pathlib import Path


def assert_clean(volume: Path) -> None:
    """Assert that the volume, which nobody has open, has no fault."""
    assert (volume / "superblock").exists()
