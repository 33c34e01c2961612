"""What all findings of fsck have in common. There is one class per kind of finding, in the modules beside this one.

A finding names what is wrong, with the path or the number of what it is wrong with, so that its message alone tells
what happened and what it means. It is made by a survey of the volume (`shardfs.check.survey`) and knows how it is
repaired; nothing changes until `shardfs.check.repairs` applies what all findings of a survey have asked for.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from shardfs.check.repairs import Repairs


class Severity(Enum):
    """How bad a finding is."""

    INFO = "info"
    """Nothing is wrong: worth knowing, and it does not count as an error."""
    ERROR = "error"
    """Something is not as it must be."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found. Equal findings of two surveys are the same thing, found again."""

    severity: ClassVar[Severity] = Severity.ERROR
    remedy: ClassVar[str] = ""
    """What a repair does about it; empty if it can do nothing."""

    @property
    def message(self) -> str:
        """What is wrong with what, and what that means, in one sentence."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind of finding, as one word."""
        return type(self).__name__

    @property
    def is_error(self) -> bool:
        """Whether it counts as an error."""
        return self.severity is Severity.ERROR

    @property
    def is_repairable(self) -> bool:
        """Whether `repair` can be called."""
        return bool(self.remedy)

    def repair(self, repairs: Repairs) -> None:
        """Ask for the changes that put it right."""
        raise NotImplementedError
