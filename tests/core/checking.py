"""fsck as tests of the core call it."""

from pathlib import Path

from shardfs.check.checker import check_volume
from shardfs.check.findings import Severity
from shardfs.storage.real import RealStorage


def assert_clean(volume: Path) -> None:
    """Assert that the volume, which nobody has open, has no fault."""
    report = check_volume(RealStorage(), str(volume), data=True)
    errors = [finding for finding in report.left if finding.severity is Severity.ERROR]
    assert not errors, [finding.message for finding in errors]
