"""`shardfs fsck`: check a volume that is not mounted, and repair it."""

import os
from typing import Annotated

import typer

from shardfs.check.checker import check_volume
from shardfs.check.repairer import RepairOptions, repair_volume
from shardfs.check.report import Report
from shardfs.runtime.leftovers import clear_leftovers
from shardfs.runtime.lock import take_lock
from shardfs.runtime.paths import slots_path
from shardfs.storage.real import RealStorage

CLEAN, REPAIRED, ERRORS_LEFT, CANNOT_RUN, USAGE = 0, 1, 4, 8, 16
"""Exit codes, as of fsck(8)."""


def fsck_command(
    volume: Annotated[str, typer.Argument(metavar="VOLUME", help="The volume's directory; it must not be mounted.")],
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
    data: Annotated[bool, typer.Option("--data", help="Read all packed files, too, and check their content.")] = False,
) -> int:
    """Check a volume. Exits with 0: clean, 1: repaired, 4: errors left, 8: it cannot be checked, 16: usage."""
    path = os.path.realpath(volume)
    lock_fd = take_lock(path)
    try:
        clear_leftovers(path)
        if repair:
            report = repair_volume(RealStorage(), path, RepairOptions(slots_path, data=data))
        else:
            report = check_volume(RealStorage(), path, data=data, slots_path=slots_path)
    finally:
        os.close(lock_fd)
    return show_report(path, report)


def show_report(path: str, report: Report) -> int:
    """Print what was found, a line each, and the conclusion; return the exit code."""
    for finding in report.repaired:
        print(f"{'repaired' if finding.is_error else 'done'}: {finding.message}")
    for finding in report.left:
        remedy = f" (--repair: {finding.remedy})" if finding.is_repairable else ""
        print(f"{finding.severity.value}: {finding.message}{remedy}")
    conclusion, code = _conclude(path, report)
    print(f"shardfs: {path} {conclusion} ({report.inodes} inodes, {report.entries} entries, {report.records} records)")
    return code


def _conclude(path: str, report: Report) -> tuple[str, int]:
    if report.has_errors_left:
        can_repair = any(finding.is_repairable for finding in report.left)
        advice = f"try: shardfs fsck --repair {path}" if can_repair else "what is named above cannot be repaired"
        return f"has errors; {advice}", ERRORS_LEFT
    return ("was repaired and is clean", REPAIRED) if report.has_repaired_errors else ("is clean", CLEAN)
