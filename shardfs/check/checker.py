"""fsck without changes: one look at a volume, and its report.

Nobody else may use the volume meanwhile: the caller holds its lock.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shardfs.check.findings import Finding
from shardfs.check.opened import Opened, open_for_check, read_head
from shardfs.check.report import Report
from shardfs.check.survey import Seen, Survey
from shardfs.check.volume_findings import DamagedShard
from shardfs.errors import CorruptShard
from shardfs.storage.files import Storage

SlotsPath = Callable[[bytes], str]
"""Returns where the slot table of the volume with this id is."""


@dataclass(frozen=True)
class Look:
    """What one look at a volume has found. Without `seen`, damage kept nearly all of it from being looked at."""

    findings: tuple[Finding, ...]
    seen: Seen | None


def check_volume(storage: Storage, path: str, *, data: bool = False, slots_path: SlotsPath | None = None) -> Report:
    """Look for everything that is wrong with a volume; with `data`, read all packed files, too.

    Without `slots_path` nobody looks whether files that were being written wait there for recovery. Raises `SetupError`
    or `CorruptSuperblock` if there is no volume to look at, `DeviceFailed` if its disks fail.
    """
    superblock, head = read_head(storage, path)
    volume = open_for_check(storage, path, superblock)
    if not isinstance(volume, Opened):
        return make_report(Look((*head, *volume), None))
    try:
        return make_report(look_at(volume, head, slots_path, data=data))
    finally:
        volume.close()


def look_at(volume: Opened, head: list[Finding], slots_path: SlotsPath | None, *, data: bool) -> Look:
    """Survey an open volume; `head` is what was found before it was opened."""
    has_slots = slots_path is not None and volume.storage.exists(slots_path(volume.superblock.volume_id))
    try:
        seen = Survey(volume, has_slots=has_slots).run(data=data)
    except CorruptShard as error:
        return Look((*head, DamagedShard(str(error))), None)
    return Look((*head, *seen.findings), seen)


def make_report(last: Look, found: tuple[Finding, ...] | None = None) -> Report:
    """Return the report of a check that ended with this look; `found` is all that was found, if that is more."""
    seen = last.seen
    counts = (seen.inodes, seen.entries, seen.records) if seen else (0, 0, 0)
    return Report(last.findings if found is None else found, last.findings, *counts)
