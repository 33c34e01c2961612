"""What a check or a repair of a volume tells in the end."""

from dataclasses import dataclass

from shardfs.check.findings import Finding


@dataclass(frozen=True)
class Report:
    """All that was found, and what of it is left. The counts are those of the last look; 0 if damage prevented it."""

    found: tuple[Finding, ...]
    left: tuple[Finding, ...]
    inodes: int
    entries: int
    records: int

    @property
    def repaired(self) -> tuple[Finding, ...]:
        """What was found and is not there any more."""
        left = set(self.left)
        return tuple(finding for finding in self.found if finding not in left)

    @property
    def has_errors_left(self) -> bool:
        """Whether something is left that counts as an error."""
        return any(finding.is_error for finding in self.left)

    @property
    def has_repaired_errors(self) -> bool:
        """Whether something that counts as an error was repaired."""
        return any(finding.is_error for finding in self.repaired)
