"""The registry of rows. A row is a function that does its work in a folder and returns one value in the row's unit."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tools.bench.work import Work

Run = Callable[[Work], float]


class Unit(Enum):
    """What a row's value is, and whether more of it is better."""

    MICROSECONDS = "us/op"
    PER_SECOND = "1/s"
    MIB_PER_SECOND = "MiB/s"

    @property
    def more_is_better(self) -> bool:
        """Whether a higher value is the better one."""
        return self is not Unit.MICROSECONDS

    def speed_ratio(self, value: float, baseline: float) -> float:
        """Return how fast `value` is in multiples of `baseline`: above 1 is faster, whatever the unit."""
        return value / baseline if self.more_is_better else baseline / value


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    suite: str
    name: str
    unit: Unit
    run: Run


SUITES = ("smallfile", "metadata", "checkpoint", "append")
ROWS: list[Row] = []
"""Every row, in the order of its definition."""


def row(suite: str, name: str, unit: Unit) -> Callable[[Run], Run]:
    """Register the decorated function as a row."""

    def register(run: Run) -> Run:
        ROWS.append(Row(suite, name, unit, run))
        return run

    return register


def rows_of(suite: str) -> list[Row]:
    """Return the rows of one suite, or of all, suite by suite."""
    chosen = SUITES if suite == "all" else (suite,)
    return [one for name in chosen for one in ROWS if one.suite == name]
