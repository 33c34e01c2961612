"""The command: ``python -m tools.bench --suite all --target shardfs --baseline DIR --rounds 3``."""

import json
import os
import tempfile
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import tools.bench.suites  # noqa: F401  (registers the rows)
from shardfs.errors import SetupError
from tools.bench.measure import Result, measure
from tools.bench.report import make_json, make_table
from tools.bench.rows import rows_of
from tools.bench.sides import Side, fresh_home, target_side
from tools.bench.work import QUICK, Scale

TEMPORARY = Path(tempfile.gettempdir())
PAPER_COLUMNS = 175


class Suite(Enum):
    """Which rows to run."""

    SMALLFILE = "smallfile"
    METADATA = "metadata"
    CHECKPOINT = "checkpoint"
    APPEND = "append"
    ALL = "all"


def run_sides(suite: Suite, target: str, baseline: Path, rounds: int, scale: Scale, console: Console) -> list[Result]:
    """Make both sides on the baseline's disk, run the rows, and clear up."""
    with fresh_home(baseline) as home, target_side(target, home) as measured, console.status("starting") as line:
        plain = home / "plain"
        plain.mkdir()
        return measure(rows_of(suite.value), [measured, Side("baseline", plain)], rounds, scale, line.update)


def main(
    suite: Annotated[Suite, typer.Option(help="Which rows.")] = Suite.ALL,
    target: Annotated[str, typer.Option(help="`shardfs` for a new volume beside the baseline, or a folder or mount point.")] = "shardfs",
    baseline: Annotated[Path, typer.Option(help="A directory of the disk to measure on.")] = TEMPORARY,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    quick: Annotated[bool, typer.Option(help="A tenth of the work: shows that the rows run, not how fast.")] = False,
    json_out: Annotated[Path | None, typer.Option("--json", help="Also write everything to this file.")] = None,
) -> None:
    """Compare a mount with a plain directory."""
    console, scale = Console(stderr=True), QUICK if quick else Scale()
    if os.geteuid() != 0:
        typer.echo("tools.bench: run as root: cold rows drop the kernel's caches", err=True)
        raise typer.Exit(1)
    try:
        results = run_sides(suite, target, baseline, rounds, scale, console)
    except SetupError as error:
        typer.echo(f"tools.bench: {error}", err=True)
        raise typer.Exit(1) from None
    Console(width=None if os.isatty(1) else PAPER_COLUMNS).print(make_table(results))
    if json_out is not None:
        json_out.write_text(json.dumps(make_json(results, rounds, scale), indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
