"""What regular files contain, wherever it lies: nothing yet, a record in a segment, a slot, or a backing file.

    empty  --write-->  slot  --seal-->  packed  --write-->  slot  ...
                        |  grows beyond the pack threshold, or is synced again and again
                        v
                       solo (for good, until it is truncated to nothing)

Invariant: a file has a slot or an open backing file to write to, never both; `NO_RECORD` means an empty file.
"""

from shardfs.core.commit import GroupCommit
from shardfs.core.interface import Attributes
from shardfs.core.packing import Packer, blocks_of
from shardfs.core.solofiles import SoloFile, SoloFiles
from shardfs.core.transaction import Transaction
from shardfs.core.turn import Waiting
from shardfs.core.volume import Volume
from shardfs.errors import FileTooLarge, NoSpace
from shardfs.format import keys
from shardfs.format.values import Inode, SoloPlace
from shardfs.ids import NO_RECORD, Ino, ino_shard
from shardfs.limits import FILE_MAX_BYTES, SOLO_AFTER_SYNCS


class Content:
    """Reads and changes the content of regular files. Loop thread only."""

    def __init__(self, volume: Volume, commits: GroupCommit) -> None:
        self._volume = volume
        self._threshold_bytes = volume.superblock.pack_threshold_bytes
        self._syncs: dict[Ino, int] = {}
        self.packer = Packer(volume)
        self.solos = SoloFiles(volume, commits)

    def attributes(self, inode: Inode) -> Attributes:
        """Return what stat tells of an inode, with the size and times of content that is being written."""
        size, mtime_ns, ctime_ns, blocks = inode.size, inode.mtime_ns, inode.ctime_ns, inode.blocks
        slot = self.packer.slot(inode.ino)
        if slot is not None:
            size, mtime_ns, ctime_ns = slot.size, slot.mtime_ns, max(ctime_ns, slot.ctime_ns)
            blocks = blocks_of(size)
        elif (solo := self.solos.find(inode.ino)) is not None and solo.writing:
            size, mtime_ns, ctime_ns = solo.size, solo.mtime_ns, max(ctime_ns, solo.ctime_ns)
            blocks = self.solos.blocks(solo)
        return Attributes(
            inode.ino, inode.mode, inode.nlink, inode.uid, inode.gid, inode.rdev, size, blocks, inode.atime_ns, mtime_ns, ctime_ns
        )

    def size(self, inode: Inode) -> int:
        """Return the current size of a file."""
        return self.attributes(inode).size

    def read(self, inode: Inode, offset: int, size: int) -> bytes | Waiting:
        """Return up to `size` bytes; fewer at the end. Raises `Blocked`, or `CorruptRecord` for damaged content."""
        slot = self.packer.slot(inode.ino)
        if slot is not None:
            return slot.read(offset, size)
        solo = self.solos.find(inode.ino)
        if solo is not None:
            return self.solos.read(solo, offset, size)
        if inode.record == NO_RECORD:
            return b""
        place = self._volume.record(inode.record).place
        if isinstance(place, SoloPlace):
            return self.solos.read(self.solos.open(inode, place), offset, size)
        payload = self.packer.payload(inode.record, place, inode.ino)
        if len(payload) > size:
            self._volume.records.put(inode.record, payload)
        return payload[offset : offset + size]

    def write(self, inode: Inode, offset: int, data: bytes, now_ns: int) -> None:
        """Write bytes. Raises `Blocked`, `NoSpace` or `FileTooLarge` before anything has changed."""
        end = offset + len(data)
        if end > FILE_MAX_BYTES:
            raise FileTooLarge(f"inode {inode.ino} cannot grow to {end} bytes")
        solo = self._solo_for_write(inode)
        if solo is None and end > self._threshold_bytes:
            solo = self._outgrow(inode)
        if solo is None:
            self.packer.write(inode, offset, data, now_ns)
        else:
            self.solos.write(solo, offset, data, now_ns)

    def truncate(self, inode: Inode, size: int, now_ns: int) -> None:
        """Set the size. Raises as `write` does."""
        if size > FILE_MAX_BYTES:
            raise FileTooLarge(f"inode {inode.ino} cannot grow to {size} bytes")
        if size == 0 and self.packer.slot(inode.ino) is None:
            self._empty(inode, now_ns)
            return
        solo = self._solo_for_write(inode)
        if solo is None and size > self._threshold_bytes:
            solo = self._outgrow(inode)
        if solo is None:
            self.packer.truncate(inode, size, now_ns)
        else:
            self.solos.truncate(solo, size, now_ns)

    def _solo_for_write(self, inode: Inode) -> SoloFile | None:
        solo = self.solos.find(inode.ino)
        if solo is not None:
            return self.solos.open_for_write(inode, solo.place)
        if inode.record == NO_RECORD or self.packer.slot(inode.ino) is not None:
            return None
        place = self._volume.record(inode.record).place
        return self.solos.open_for_write(inode, place) if isinstance(place, SoloPlace) else None

    def _outgrow(self, inode: Inode) -> SoloFile:
        """Turn a packed or empty file into a solo one."""
        content, mtime_ns, ctime_ns = self._packed_content(inode)
        solo = self.solos.create(inode.ino, content, mtime_ns, ctime_ns)
        self.packer.discard(inode.ino)
        # What was synced of the packed file must not depend on a backing file that never was.
        self.solos.sync_with_next_commit(inode.ino)
        self._volume.counters.add("file.outgrown")
        return solo

    def _packed_content(self, inode: Inode) -> tuple[memoryview | bytes, int, int]:
        slot = self.packer.slot(inode.ino)
        if slot is not None:
            return slot.content(), slot.mtime_ns, slot.ctime_ns
        if inode.record == NO_RECORD:
            return b"", inode.mtime_ns, inode.ctime_ns
        place = self._volume.record(inode.record).place
        assert not isinstance(place, SoloPlace), "a solo file has outgrown already"
        return self.packer.payload(inode.record, place, inode.ino), inode.mtime_ns, inode.ctime_ns

    def _empty(self, inode: Inode, now_ns: int) -> None:
        """Truncate a file that has no slot to nothing."""
        tx = Transaction(self._volume, "truncate")
        emptied = tx.inode(inode.ino)
        self.release(tx, emptied)
        emptied.size = emptied.blocks = 0
        emptied.mtime_ns = emptied.ctime_ns = now_ns
        tx.commit()
        self.solos.forget(inode.ino)

    def release(self, tx: Transaction, inode: Inode) -> None:
        """Let a transaction's inode have no content any more; `forget` must follow its commit."""
        if inode.record != NO_RECORD and self._volume.view.get(ino_shard(inode.ino), keys.writing_key(inode.ino)) is not None:
            tx.change((ino_shard(inode.ino), keys.writing_key(inode.ino), None))
        tx.release_record(inode.record)
        inode.record = NO_RECORD

    def forget(self, ino: Ino) -> None:
        """Drop what memory holds of a file that has no content any more."""
        self.packer.discard(ino)
        self.solos.forget(ino)
        self._syncs.pop(ino, None)

    def set_times(self, inode: Inode, mtime_ns: int, now_ns: int) -> None:
        """Take over an mtime that was set by hand, for content that is being written."""
        slot = self.packer.slot(inode.ino)
        solo = self.solos.find(inode.ino)
        if slot is not None:
            slot.set_times(mtime_ns, now_ns)
        elif solo is not None:
            solo.mtime_ns, solo.ctime_ns = mtime_ns, now_ns
            self.solos.settle(inode.ino)  # else recovery would take the time from the backing file

    def prepare_sync(self, inode: Inode) -> None:
        """Journal a file's current content, so that the next commit makes it durable."""
        ino = inode.ino
        if self.packer.slot(ino) is not None:
            self._syncs[ino] = self._syncs.get(ino, 0) + 1
            if self._syncs[ino] < SOLO_AFTER_SYNCS:
                self.packer.seal(ino)
                return
            # A file that is synced again and again must not be rewritten as a whole each time.
            try:
                self._outgrow(inode)
            except NoSpace:
                self.packer.seal(ino)  # for that the room is reserved
                return
        if self.solos.find(ino) is not None:
            self.solos.checkpoint(ino)
        else:
            self.solos.sync_with_next_commit(ino)

    def prepare_move(self, inode: Inode, *, with_all_below: bool) -> None:
        """See to it that a new name never shows content older than the journal says it is.

        For a directory that is everything written so far: any of it may lie below.
        """
        if with_all_below:
            self.seal_all()
            self.solos.sync_all_with_next_commit()
        elif self.packer.slot(inode.ino) is not None:
            self.packer.seal(inode.ino)
        else:
            self.solos.sync_with_next_commit(inode.ino)

    def settle(self, ino: Ino, *, is_orphan: bool = False) -> None:
        """Nobody has the file open for writing any more: seal the slot, or journal the final size.

        An orphan's slot stays: it is about to be freed, and sealing it would only write what nobody reads.
        """
        if self.packer.slot(ino) is not None:
            if not is_orphan:
                self.packer.seal(ino)
        elif self.solos.find(ino) is not None:
            self.solos.settle(ino)

    def close(self, ino: Ino) -> None:
        """Nobody has the file open any more."""
        self._syncs.pop(ino, None)
        self.solos.close(ino)

    def seal_all(self) -> None:
        """Seal every slot, but for those of damaged inodes."""
        for ino in self.packer.inos():
            self.packer.seal_if_sound(ino)
