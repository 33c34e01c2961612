"""A volume opened for a check: nothing of it is changed, and it is seen as the next mount would see it.

The shards are read through an overlay of what the journal holds and they lack. So a volume whose processes were killed
is checked in the state to which the next mount recovers it.

Where superblock, labels, shards or the journal cannot be relied upon, that is a finding, and what needs them is not
checked: everything else would look wrong for no reason of its own.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardfs.check.findings import Finding
from shardfs.check.volume_findings import DamagedJournal, DamagedLabel, DamagedShard, DamagedSuperblock
from shardfs.core.formatting import LABEL, SUPERBLOCK, SUPERBLOCK_COPY, shards_dir
from shardfs.core.opening import fill_overlay
from shardfs.errors import CorruptionError, CorruptShard, CorruptSuperblock, CorruptValue, SetupError
from shardfs.format import keys
from shardfs.format.superblock import DiskLabel, Superblock, decode_disk_label, decode_superblock, encode_disk_label, encode_superblock
from shardfs.format.values import open_value
from shardfs.ids import ShardId
from shardfs.journal.replay import replay
from shardfs.meta.overlay import Overlay
from shardfs.meta.shard import Shard, shard_path
from shardfs.meta.view import View
from shardfs.storage.files import Storage

Row = tuple[bytes, bytes | None]
"""A key and its value; None for a value that is damaged."""


@dataclass(frozen=True)
class Opened:
    """An open volume; `close` it."""

    path: str
    storage: Storage
    superblock: Superblock
    view: View

    @property
    def shards(self) -> Sequence[Shard]:
        """The shards, open for reading."""
        return self.view.shards

    @property
    def pending(self) -> int:
        """How many changes only the journal holds."""
        return len(self.view.overlay)

    def inodes(self, shard: Shard) -> Iterator[Row]:
        """Return the inodes of a shard."""
        return _rows(shard, keys.INODE_TABLE, self._held(shard, keys.INODE_TABLE), Counter())

    def rows(self, shard: Shard, counts: Counter[int]) -> Iterator[Row]:
        """Return all rows of a shard but its inodes, and count all that it stores by the first byte of their keys."""
        tables = [table for table in keys.TABLES if table != keys.INODE_TABLE]
        held = {key: value for table in tables for key, value in self._held(shard, table).items()}
        return _rows(shard, b"", held, counts, skip=keys.INODE_TABLE)

    def _held(self, shard: Shard, table: bytes) -> dict[bytes, bytes | None]:
        return dict(self.view.overlay.rows(shard.shard, table, table)) if self.pending else {}

    def close(self) -> None:
        """Close the shards."""
        for shard in self.shards:
            shard.close()


def _rows(shard: Shard, prefix: bytes, held: Mapping[bytes, bytes | None], counts: Counter[int], skip: bytes = b"") -> Iterator[Row]:
    skipped = skip[0] if skip else None
    for key, stored in shard.walk(prefix):
        table = key[0]
        counts[table] += 1
        if table == skipped or key in held:
            continue
        try:
            value = open_value(key, stored)
        except CorruptValue:
            yield key, None
        else:
            yield key, value
    for key, newest in held.items():
        if newest is not None:
            yield key, newest


def read_head(storage: Storage, path: str) -> tuple[Superblock, list[Finding]]:
    """Return a volume's superblock, and what is wrong with it, its copy and the labels of the disks.

    Raises `SetupError` if there is no volume, or a disk of it is missing; `CorruptSuperblock` if neither is intact.
    """
    paths = [os.path.join(path, name) for name in (SUPERBLOCK, SUPERBLOCK_COPY)]
    if not any(map(storage.exists, paths)):
        raise SetupError(f"{path} is not a volume: it has no superblock; name the directory of a volume")
    found = [_read_superblock(storage, one) for one in paths]
    superblock = next((one for one in found if isinstance(one, Superblock)), None)
    if superblock is None:
        raise CorruptSuperblock(f"the superblock of {path} and its copy are damaged; bring one of them back from a copy")
    findings: list[Finding] = [
        DamagedSuperblock(one, problem if isinstance(problem, str) else "differs from its copy", encode_superblock(superblock))
        for one, problem in zip(paths, found, strict=True)
        if problem != superblock
    ]
    for disk in superblock.disks:
        findings += _check_label(storage, superblock, disk)
    return superblock, findings


def _read_superblock(storage: Storage, path: str) -> Superblock | str:
    """Return a superblock, or what is wrong with it."""
    if not storage.exists(path):
        return "is missing"
    try:
        return decode_superblock(storage.read_small(path), path)
    except CorruptSuperblock:
        return "is damaged"


def _check_label(storage: Storage, superblock: Superblock, disk: DiskLabel) -> list[Finding]:
    path = os.path.join(disk.path, LABEL)
    if not storage.exists(path):
        raise SetupError(f"the hot disk {disk.path} of this volume is missing (no {path}); mount that disk first")
    try:
        found = decode_disk_label(storage.read_small(path), path)
    except CorruptSuperblock:
        return [DamagedLabel(path, "is damaged", encode_disk_label(superblock.volume_id, disk))]
    if (found[0], found[1].disk_id) != (superblock.volume_id, disk.disk_id):
        raise SetupError(f"{disk.path} holds a disk of another volume; mount the right disk there")
    return []


def open_for_check(storage: Storage, path: str, superblock: Superblock) -> Opened | list[Finding]:
    """Open shards and journal; returns instead what prevents it, if that is damage."""
    shards: list[Shard] = []
    problems: list[Finding] = []
    for number in map(ShardId, range(superblock.shards)):
        try:
            shards.append(Shard.open(shard_path(shards_dir(path), number), number, readonly=True))
        except (CorruptShard, CorruptValue) as error:
            problems.append(DamagedShard(str(error)))
    if not problems:
        try:
            return Opened(path, storage, superblock, View(shards, _replay(storage, superblock, shards)))
        except CorruptionError as error:
            problems.append(DamagedJournal(str(error)))
    for shard in shards:
        shard.close()
    return problems


def _replay(storage: Storage, superblock: Superblock, shards: Sequence[Shard]) -> Overlay:
    replayed = replay(storage, superblock.journal_dir, superblock.volume_id)
    # A shard that nothing was written to for long may lie far behind the journal's beginning, with nothing missing.
    replayed.check_against(max(shard.state().applied_lsn for shard in shards))
    return fill_overlay(shards, replayed)
