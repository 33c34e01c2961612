"""fsck with repairs.

A repair goes in rounds: what a look at the volume has found asks for changes (`shardfs.check.repairs`), these go through
the journal to the shards, and the next look sees the volume with them. When there is nothing left that can be repaired,
the volume is opened and closed like by a mount that nobody uses, which recovers what the last mount has left. That comes
last, as recovery relies on what the rounds put right. A last look says what is left.

Nobody else may use the volume meanwhile: the caller holds its lock.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from shardfs.check.checker import Look, SlotsPath, check_volume, look_at
from shardfs.check.findings import Finding
from shardfs.check.opened import Opened, open_for_check, read_head
from shardfs.check.payloads import check_pages
from shardfs.check.repairs import Repairs
from shardfs.check.report import Report
from shardfs.core.formatting import read_superblock, shards_dir
from shardfs.core.loop import EventLoop
from shardfs.core.opening import OpenOptions, fill_overlay, open_shards, open_volume
from shardfs.format.frames import Change
from shardfs.format.superblock import Superblock
from shardfs.ids import Epoch, RequestId, ShardId
from shardfs.journal.log import Journal
from shardfs.journal.replay import Replayed, replay
from shardfs.limits import JOURNAL_SEGMENT_BYTES, KIB
from shardfs.meta.delivery import Delivery
from shardfs.meta.inline import InlineWorkers
from shardfs.meta.overlay import Overlay
from shardfs.meta.shard import Shard, shard_path
from shardfs.meta.view import View
from shardfs.observe.counters import Counters
from shardfs.storage.files import Storage

MAX_ROUNDS = 8
"""What one round repairs may bring up more for the next; that ends after a few."""
_PART_BYTES = 32 * KIB
_CHANGE_BYTES = 16
"""What a change takes beyond its key and value, about."""
_IO_THREADS = 1
"""With one, background work that was begun is done when the last commit is."""


@dataclass(frozen=True)
class RepairOptions:
    """How to repair. `slots_path` returns where the slot table of the volume with an id is, for every mount of this boot."""

    slots_path: SlotsPath
    data: bool = False
    now_ns: Callable[[], int] = time.time_ns
    journal_segment_bytes: int = JOURNAL_SEGMENT_BYTES


def repair_volume(storage: Storage, path: str, options: RepairOptions) -> Report:
    """Repair what can be repaired of a volume, and recover it as a mount does; a clean volume is left as it is.

    Raises as `check_volume` does, and `NoSpace` or whatever keeps the volume from being written to.
    """
    repairer = _Repairer(storage, path, options)
    found: dict[Finding, None] = {}
    look = repairer.round(verify_pages=True)
    for _ in range(MAX_ROUNDS):
        found |= dict.fromkeys(look.findings)
        if not any(finding.is_repairable for finding in look.findings):
            break
        look = repairer.round(verify_pages=False)
    if found and look.seen is not None:
        repairer.recover()
    last = check_volume(storage, path, data=options.data, slots_path=options.slots_path)
    found |= dict.fromkeys(last.found)
    return Report(tuple(found), last.left, last.inodes, last.entries, last.records)


@dataclass(frozen=True)
class _Repairer:
    storage: Storage
    path: str
    options: RepairOptions

    def round(self, *, verify_pages: bool) -> Look:
        """Look at the volume and repair what can be; return what was found.

        `verify_pages` looks first whether the shards' pages hang together: nothing is written into those that do not.
        """
        superblock, head = read_head(self.storage, self.path)
        volume = open_for_check(self.storage, self.path, superblock)
        if not isinstance(volume, Opened):
            look, repairs = Look((*head, *volume), None), self._plan(head, View((), Overlay(())), 1)
        else:
            try:
                look = self._look(volume, head, verify_pages=verify_pages)
                repairs = self._plan(look.findings if look.seen else head, volume.view, look.seen.next_sequence if look.seen else 1)
            finally:
                volume.close()
        self._apply(superblock, repairs)
        return look

    def _look(self, volume: Opened, head: list[Finding], *, verify_pages: bool) -> Look:
        damage = list(check_pages(volume.shards)) if verify_pages else []
        return Look((*head, *damage), None) if damage else look_at(volume, head, self.options.slots_path, data=False)

    def _plan(self, findings: Iterable[Finding], view: View, next_sequence: int) -> Repairs:
        repairs = Repairs(view, next_sequence, self.options.now_ns())
        for finding in findings:
            if finding.is_repairable:
                finding.repair(repairs)
        return repairs

    def _apply(self, superblock: Superblock, repairs: Repairs) -> None:
        for repair_file in repairs.file_repairs:
            repair_file(self.storage)
        for number in sorted(repairs.recounts):
            _recount(self.path, number)
        if changes := repairs.changes():
            self._journal(superblock, changes)

    def _journal(self, superblock: Superblock, changes: list[Change]) -> None:
        """Write the changes to the journal, make all of it durable, and let the shards apply it."""
        storage, directory, volume_id = self.storage, superblock.journal_dir, superblock.volume_id
        replayed = replay(storage, directory, volume_id)
        epoch, segment_bytes = Epoch(replayed.last_epoch + 1), self.options.journal_segment_bytes
        journal = Journal.start(storage, directory, volume_id, replayed, epoch, Counters(), segment_bytes=segment_bytes)
        try:
            for part in _parts(changes):
                journal.append(RequestId(0), "fsck", part)
            # What the last mount has written, and not synced, must be on the disks before the journal says that it is.
            for disk in {self.path, directory, *(disk.path for disk in superblock.disks)}:
                storage.sync_disk(disk)
            journal.sync(journal.last_lsn)
        finally:
            journal.close()
        _deliver(self.path, superblock, replay(storage, directory, volume_id))

    def recover(self) -> None:
        """Open the volume and close it again."""
        superblock = read_superblock(self.storage, self.path)
        options = OpenOptions(
            slots_path=self.options.slots_path(superblock.volume_id),
            readonly_shards=False,
            journal_segment_bytes=self.options.journal_segment_bytes,
        )
        loop = EventLoop(_IO_THREADS)
        try:
            open_volume(self.storage, self.path, loop, InlineWorkers, self.options.now_ns, options).shutdown()
        finally:
            loop.close()


def _deliver(path: str, superblock: Superblock, replayed: Replayed) -> None:
    """Let all shards apply what the journal holds and they lack."""
    shards = open_shards(path, superblock, readonly=False)
    try:
        overlay = fill_overlay(shards, replayed)
        delivery = Delivery(overlay, InlineWorkers(shards))
        delivery.pump(replayed.last_lsn)
        for failure in delivery.failures.values():
            raise failure
    finally:
        for shard in shards:
            shard.close()


def _parts(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Yield the changes in parts that each fit into a frame of the journal."""
    part: list[Change] = []
    size_bytes = 0
    for change in changes:
        part.append(change)
        size_bytes += len(change[1]) + len(change[2] or b"") + _CHANGE_BYTES
        if size_bytes >= _PART_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _recount(path: str, number: ShardId) -> None:
    shard = Shard.open(shard_path(shards_dir(path), number), number)
    try:
        shard.recount()
    finally:
        shard.close()
