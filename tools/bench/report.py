"""What a run gave: a table for people, JSON for programs."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from tools.bench.measure import Result, Series
from tools.bench.rows import Unit
from tools.bench.work import Scale

REPORT_VERSION = 1


def speed_ratio(result: Result) -> float | None:
    """Return the target's speed in multiples of the baseline's; None with one side only."""
    medians = [series.median for series in result.series.values()]
    return result.row.unit.speed_ratio(medians[0], medians[1]) if len(medians) > 1 else None


def format_value(unit: Unit, value: float) -> str:
    """Return a value with as many digits as mean something."""
    return f"{value:,.1f}" if unit is Unit.MICROSECONDS and value < 100 else f"{value:,.0f}"


def format_series(unit: Unit, series: Series) -> str:
    """Return the median with the lowest and highest round."""
    low, high = format_value(unit, min(series.values)), format_value(unit, max(series.values))
    middle = format_value(unit, series.median)
    return middle if len(series.values) == 1 else f"{middle} ({low} - {high})"


def format_optional(value: float | None, digits: int) -> str:
    """Return a number, or nothing."""
    return "" if value is None else f"{value:,.{digits}f}"


def make_table(results: Sequence[Result]) -> Table:
    """Return the table: medians with their spread, and how fast the target is beside the baseline."""
    table = Table(title="Medians of the rounds (lowest - highest)")
    table.add_column("row", no_wrap=True)
    table.add_column("unit")
    for name in results[0].series:
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("speed, x baseline", "requests/op", "server us/op", "server us/request"):
        table.add_column(name, justify="right")
    for result in results:
        unit, target = result.row.unit, next(iter(result.series.values()))
        cells = [format_series(unit, series) for series in result.series.values()]
        cells += [format_optional(speed_ratio(result), 2), format_optional(target.requests_per_operation, 2)]
        cells += [format_optional(target.cpu_us_per_operation, 1), format_optional(target.cpu_us_per_request, 1)]
        table.add_row(result.row.name, unit.value, *cells)
    return table


def make_json(results: Sequence[Result], rounds: int, scale: Scale) -> dict[str, Any]:
    """Return everything that was measured, with what it was measured on."""
    return {
        "report_version": REPORT_VERSION,
        "machine": {"kernel": platform.release(), "cpus": os.cpu_count(), "python": platform.python_version()},
        "rounds": rounds,
        "scale": asdict(scale),
        "rows": [row_json(result) for result in results],
    }


def row_json(result: Result) -> dict[str, Any]:
    """Return one row with all its rounds."""
    return {
        "suite": result.row.suite,
        "name": result.row.name,
        "unit": result.row.unit.value,
        "more_is_better": result.row.unit.more_is_better,
        "speed_ratio": speed_ratio(result),
        "sides": {name: series_json(series) for name, series in result.series.items()},
    }


def series_json(series: Series) -> dict[str, Any]:
    """Return one side's values."""
    return {
        "median": series.median,
        "values": series.values,
        "operations": series.operations,
        "requests_per_operation": series.requests_per_operation,
        "server_cpu_us_per_operation": series.cpu_us_per_operation,
        "server_cpu_us_per_request": series.cpu_us_per_request,
    }
