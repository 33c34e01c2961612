"""The rounds: each row runs on every side in turn, the order of the sides turning from round to round."""

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from tools.bench.rows import Row
from tools.bench.sides import ServerUse, Side
from tools.bench.work import Scale, Work


@dataclass
class Series:
    """What one row gave on one side, a value a round."""

    values: list[float] = field(default_factory=list)
    uses: list[ServerUse] = field(default_factory=list)
    operations: int = 0

    @property
    def median(self) -> float:
        """The value of the middle round."""
        return median(self.values)

    @property
    def requests_per_operation(self) -> float | None:
        """Requests that reached the server for one operation; None where no server can be asked."""
        return median(use.requests for use in self.uses) / self.operations if self.uses else None

    @property
    def cpu_us_per_operation(self) -> float | None:
        """The server's CPU time for one operation, in microseconds."""
        return median(use.cpu_s for use in self.uses) * 1e6 / self.operations if self.uses else None

    @property
    def cpu_us_per_request(self) -> float | None:
        """The server's CPU time for one request, in microseconds; None where there were too few to tell."""
        told = [use.cpu_s * 1e6 / use.requests for use in self.uses if use.requests >= 100]
        return median(told) if told else None


@dataclass
class Result:
    """One row on all sides, by the side's name."""

    row: Row
    series: dict[str, Series]


def measure(rows: Sequence[Row], sides: Sequence[Side], rounds: int, scale: Scale, progress: Callable[[str], None]) -> list[Result]:
    """Run every row for so many rounds on every side."""
    results = []
    for row in rows:
        result = Result(row, {side.name: Series() for side in sides})
        for number in range(rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                progress(f"{row.suite}: {row.name} - round {number + 1} of {rounds} on {side.name}")
                run_once(row, side, number, scale, result.series[side.name])
        results.append(result)
    return results


def run_once(row: Row, side: Side, number: int, scale: Scale, series: Series) -> None:
    """Run one row once in a folder of its own and add what it gave to the series."""
    folder = side.folder / f"bench-{number}"
    folder.mkdir()
    work = Work(side, folder, scale, random.Random(number))
    try:
        series.values.append(row.run(work))
    finally:
        shutil.rmtree(folder)
    series.operations = work.operations
    if work.use is not None:
        series.uses.append(work.use)
