"""The demo's last word: its timings on the mount and on the plain disk, side by side.

``python -m tools.demo_report MOUNT/timings.json PLAIN/timings.json``
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

Timings = dict[str, Any]


def rows(timings: Timings) -> Iterator[tuple[str, float]]:
    """Yield what is compared, with its seconds."""
    yield "write 1,797 images", timings["write images"]
    yield "first epoch", timings["epochs"][0]
    yield "later epochs, median", median(timings["epochs"][1:] + timings["resumed epochs"])
    for name, value in timings.items():
        if name.startswith(("save ", "restore ")):
            yield name, value


def make_table(mount: Timings, plain: Timings) -> Table:
    """Return the comparison; a ratio below 1 means that the mount was faster."""
    table = Table(title="The same work on both, milliseconds")
    table.add_column("what")
    for column in ("shardfs", "plain disk", "shardfs / plain"):
        table.add_column(column, justify="right")
    for (name, on_mount_s), (_, on_plain_s) in zip(rows(mount), rows(plain), strict=True):
        table.add_row(name, f"{on_mount_s * 1e3:,.1f}", f"{on_plain_s * 1e3:,.1f}", f"{on_mount_s / on_plain_s:.2f}")
    return table


def main(mount: Path, plain: Path) -> None:
    """Print the comparison."""
    Console().print(make_table(json.loads(mount.read_text()), json.loads(plain.read_text())))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
