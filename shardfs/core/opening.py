"""Opening a volume: recovery, and everything put together.

Recovery, in this order:

1. The journal is replayed: what the shards have not applied goes to the overlay. In the same boot that is all that was
   acknowledged, after a power loss all that was durable.
2. In the same boot everything that was written is flushed to the disks, so that "in the journal" means "data durable"
   again for what the next commit covers.
3. The record tables are counted, to know which segments and backing files are in use.
4. Dirty slots are sealed, files that were open for writing get the size of their backing file, orphans are freed.

All of it may be interrupted and done again.
"""

import logging
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardfs.core.filesystem import FileSystem
from shardfs.core.formatting import check_disks, read_superblock, shards_dir
from shardfs.core.inodes import InodeTable
from shardfs.core.loop import Loop
from shardfs.core.numbers import SEQUENCE_KEY, SEQUENCE_SHARD, Numbers, decode_bound
from shardfs.core.transaction import Transaction
from shardfs.core.volume import Volume
from shardfs.data.cache import RecordCache
from shardfs.data.segments import SegmentStore
from shardfs.data.slots import SlotTable
from shardfs.data.solo import SoloStore
from shardfs.errors import CorruptionError, CorruptValue, NotFound, SetupError
from shardfs.format import keys
from shardfs.format.superblock import Superblock
from shardfs.format.values import Inode, SoloPlace
from shardfs.ids import NO_RECORD, DiskId, Epoch, Ino, Lsn, ShardId, ino_shard
from shardfs.journal.log import Journal
from shardfs.journal.replay import Replayed, replay
from shardfs.limits import INODE_CACHE_ENTRIES, OVERLAY_MAX_KEYS, RECORD_CACHE_BYTES, SLOT_BUDGET_BYTES
from shardfs.meta.delivery import Delivery, WorkerLink
from shardfs.meta.overlay import Overlay
from shardfs.meta.shard import Shard, shard_path
from shardfs.meta.usage import Usage, collect_usage
from shardfs.meta.view import View
from shardfs.observe.counters import Counters
from shardfs.storage.files import Storage

log = logging.getLogger(__name__)

USAGE_TIMEOUT_S = 120.0
USAGE_ATTEMPTS = 3


@dataclass(frozen=True)
class OpenOptions:
    """How to open a volume. `slots_path` is a file on tmpfs, the same for every mount of this boot."""

    slots_path: str
    with_acl: bool = False
    readonly_shards: bool = True
    slot_budget_bytes: int = SLOT_BUDGET_BYTES
    overlay_max_keys: int = OVERLAY_MAX_KEYS
    journal_segment_bytes: int | None = None


def open_volume(
    storage: Storage,
    path: str,
    loop: Loop,
    make_link: Callable[[Sequence[Shard]], WorkerLink],
    now_ns: Callable[[], int],
    options: OpenOptions,
) -> FileSystem:
    """Recover a volume and return its file system, ready to serve.

    `make_link` gets the shards, opened read-only if `readonly_shards`, and returns the way to their writers.
    Raises `SetupError`, or a `CorruptionError` if the volume is damaged.
    """
    superblock = read_superblock(storage, path)
    check_disks(storage, superblock)
    shards = open_shards(path, superblock, readonly=options.readonly_shards)
    link = make_link(shards)
    try:
        volume = _assemble(storage, path, superblock, shards, link, loop, now_ns, options)
        filesystem = FileSystem(volume, with_acl=options.with_acl, overlay_max_keys=options.overlay_max_keys)
        Recovery(filesystem).run()
        filesystem.start()
    except BaseException:
        link.close()
        for shard in shards:
            shard.close()
        raise
    return filesystem


def open_shards(path: str, superblock: Superblock, *, readonly: bool) -> list[Shard]:
    """Open all shards of a volume."""
    directory = shards_dir(path)
    return [Shard.open(shard_path(directory, ShardId(number)), ShardId(number), readonly=readonly) for number in range(superblock.shards)]


def _assemble(
    storage: Storage,
    path: str,
    superblock: Superblock,
    shards: Sequence[Shard],
    link: WorkerLink,
    loop: Loop,
    now_ns: Callable[[], int],
    options: OpenOptions,
) -> Volume:
    counters = Counters()
    replayed = replay(storage, superblock.journal_dir, superblock.volume_id)
    if replayed.same_boot:
        for directory in {path, superblock.journal_dir, *(disk.path for disk in superblock.disks)}:
            storage.sync_disk(directory)
    elif storage.exists(options.slots_path):
        # Slots belong to the boot that wrote them: another machine may have served the volume in between.
        log.warning("%s is of an earlier boot or another machine and is removed", options.slots_path)
        storage.remove(options.slots_path)
    view, usage = _count_usage(shards, replayed, link)
    epoch = Epoch(replayed.last_epoch + 1)
    journal = _start_journal(storage, superblock, replayed, epoch, counters, options)
    # Segments and backing files that are not in use are removed below. What freed them may be beyond the last sync.
    journal.sync(journal.last_lsn)
    return Volume(
        path=path,
        superblock=superblock,
        storage=storage,
        loop=loop,
        now_ns=now_ns,
        counters=counters,
        journal=journal,
        overlay=view.overlay,
        view=view,
        link=link,
        delivery=Delivery(view.overlay, link),
        inode_count=count_inodes(view),
        inodes=InodeTable(view, INODE_CACHE_ENTRIES),
        numbers=Numbers(_number_bound(view)),
        slots=SlotTable.open(
            storage, options.slots_path, superblock.volume_id, superblock.pack_threshold_bytes, options.slot_budget_bytes, counters
        ),
        segments=_open_segments(storage, superblock, epoch, usage, counters),
        solos=SoloStore.start(storage, _disks(superblock), usage, counters),
        records=RecordCache(RECORD_CACHE_BYTES),
    )


def _start_journal(
    storage: Storage, superblock: Superblock, replayed: Replayed, epoch: Epoch, counters: Counters, options: OpenOptions
) -> Journal:
    directory, volume_id = superblock.journal_dir, superblock.volume_id
    if options.journal_segment_bytes is None:
        return Journal.start(storage, directory, volume_id, replayed, epoch, counters)
    return Journal.start(storage, directory, volume_id, replayed, epoch, counters, segment_bytes=options.journal_segment_bytes)


def _open_segments(storage: Storage, superblock: Superblock, epoch: Epoch, usage: Usage, counters: Counters) -> SegmentStore:
    return SegmentStore.open(
        storage,
        _disks(superblock),
        superblock.volume_id,
        superblock.segment_bytes,
        superblock.pack_threshold_bytes,
        epoch,
        usage,
        counters,
    )


def _disks(superblock: Superblock) -> list[tuple[DiskId, str]]:
    return [(label.disk, label.path) for label in superblock.disks]


def _count_usage(shards: Sequence[Shard], replayed: Replayed, link: WorkerLink) -> tuple[View, Usage]:
    """Return a view of the volume as the journal says it is, and what its records take on the disks."""
    replayed.check_against(max(shard.state().applied_lsn for shard in shards))
    for attempt in range(USAGE_ATTEMPTS):
        view = View(shards, fill_overlay(shards, replayed))
        try:
            return view, collect_usage(view, link.usage(USAGE_TIMEOUT_S))
        except SetupError:  # a worker of a killed mount has finished its last batch meanwhile; it gets no other
            if attempt == USAGE_ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def fill_overlay(shards: Sequence[Shard], replayed: Replayed) -> Overlay:
    """Return an overlay with what the journal holds and the shards have not applied."""
    applied = [shard.state().applied_lsn for shard in shards]
    overlay = Overlay(applied)
    for lsn, operation in replayed.operations(after=Lsn(min(applied))):
        for shard, key, value in operation.changes:
            overlay.put(lsn, shard, key, value)
    return overlay


def count_inodes(view: View) -> int:
    """Return how many inodes exist: what the shards have counted, corrected by the overlay."""
    count = 0
    for shard in view.shards:
        count += shard.state().inodes
        for key, value in view.overlay.rows(shard.shard, keys.INODE_TABLE, keys.INODE_TABLE):
            count += (value is not None) - _is_stored(shard, key)
    return count


def _is_stored(shard: Shard, key: bytes) -> bool:
    try:
        return shard.get(key) is not None
    except CorruptValue:
        return True  # and counted, damaged or not


def _number_bound(view: View) -> int:
    value = view.get(SEQUENCE_SHARD, SEQUENCE_KEY)
    if value is None:
        raise CorruptValue("shard 0 has lost the bound of the inode numbers; run shardfs fsck --repair")
    return decode_bound(value)


class Recovery:
    """The part of recovery that changes the volume, through operations like any others."""

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._session = filesystem.session
        self._volume = filesystem.session.volume

    def run(self) -> None:
        """Bring the volume to a state in which nothing is open."""
        self._reserve_numbers()
        self._adopt_slots()
        self._for_each(keys.WRITING_TABLE, keys.parse_writing_key, self._settle_solo)
        self._for_each(keys.ORPHAN_TABLE, keys.parse_orphan_key, self._free_orphan)
        self._filesystem.wait(self._filesystem.sync(), "the recovery's commit")

    def _reserve_numbers(self) -> None:
        while self._volume.numbers.left < self._session.numbers_needed:
            self._session.raise_number_bound()
            self._filesystem.wait(self._session.commits.request(), "the first commit")

    def _adopt_slots(self) -> None:
        for slot in self._volume.slots.recovered():
            inode = self._volume.inodes.find(slot.ino)
            if inode is None or not stat.S_ISREG(inode.mode):
                self._volume.slots.free(slot)
                continue
            self._session.content.packer.adopt(slot)
            self._session.content.packer.seal(slot.ino)

    def _settle_solo(self, ino: Ino) -> None:
        """Take size and mtime of a file that was open for writing from its backing file."""
        tx = Transaction(self._volume, "recover")
        tx.change((ino_shard(ino), keys.writing_key(ino), None))
        inode = self._volume.inodes.find(ino)
        if inode is not None and inode.record != NO_RECORD:
            place = self._volume.record(inode.record).place
            if isinstance(place, SoloPlace):
                self._take_state(tx.inode(ino), place)
        tx.commit()

    def _free_orphan(self, ino: Ino) -> None:
        """Free an unlinked inode; a mark that tells something else is left for fsck."""
        inode = self._volume.inodes.find(ino)
        if inode is not None and inode.nlink == 0:
            self._filesystem.reclaimer.free(ino)
        else:
            log.error("inode %d is marked as unlinked, which it is not; run shardfs fsck --repair", ino)

    def _take_state(self, inode: Inode, place: SoloPlace) -> None:
        file = self._volume.solos.open(place)
        try:
            found = file.stat()
        finally:
            file.close()
        inode.size, inode.mtime_ns, inode.blocks = found.size, found.mtime_ns, found.blocks
        inode.ctime_ns = max(inode.ctime_ns, found.mtime_ns)

    def _for_each(self, table: bytes, parse: Callable[[bytes], Ino], work: Callable[[Ino], None]) -> None:
        """Do something with each inode of a table of all shards. One damaged file must not keep the others away."""
        view = self._volume.view
        for ino in [parse(key) for shard in view.shards for key in view.scan_keys(shard.shard, table)]:
            try:
                work(ino)
            except (CorruptionError, NotFound) as damage:
                log.error("inode %d is not as the last mount left it, everything else is there: %s", ino, damage)
