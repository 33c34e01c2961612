"""Solo files in use: large files, each with a backing file of its own.

Invariants:

- While a solo file may be written, its key in the open-for-write table is in the journal. Its size and times are then
  those of the backing file, which survive the death of the server like the journal does. When the last writer is gone
  they are journaled and the key is removed (`settle`); so they are when the mtime is set to what that file does not know.
- `unsynced` names the files that were written since they were last synced. What makes such a file reachable under a new
  name, or replaces synced content by it, must include it in the commit (`sync_with_next_commit`).
"""

from dataclasses import dataclass

from shardfs.core.commit import GroupCommit
from shardfs.core.transaction import Transaction
from shardfs.core.turn import Waiting
from shardfs.core.volume import Volume
from shardfs.errors import CorruptRecord, NotFound, ShardfsError
from shardfs.format import keys
from shardfs.format.values import Inode, SoloPlace
from shardfs.ids import Ino, ino_shard
from shardfs.limits import UNSYNCED_MAX_FILES
from shardfs.observe import points
from shardfs.storage.files import BackingFile


@dataclass(slots=True)
class SoloFile:
    """A backing file that is open in the server.

    `writing`: the inode in the journal may lag behind it. `readers`: reads under way on I/O threads; while there are
    any, the descriptor stays open, and `closing` says that the last of them closes it.
    """

    place: SoloPlace
    file: BackingFile
    size: int
    mtime_ns: int
    ctime_ns: int
    writing: bool = False
    readers: int = 0
    closing: bool = False


class SoloFiles:
    """The solo files that are open in the server. Loop thread only, but for reads on I/O threads."""

    def __init__(self, volume: Volume, commits: GroupCommit) -> None:
        self._volume = volume
        self._commits = commits
        self._open: dict[Ino, SoloFile] = {}
        self._unsynced: dict[Ino, SoloPlace] = {}

    def find(self, ino: Ino) -> SoloFile | None:
        """Return the file if it is open in the server."""
        return self._open.get(ino)

    def inos(self) -> list[Ino]:
        """Return the files that are open in the server."""
        return list(self._open)

    def open(self, inode: Inode, place: SoloPlace) -> SoloFile:
        """Open a file's backing file, if it is not open yet."""
        solo = self._open.get(inode.ino)
        if solo is None:
            file = self._open_backing_file(inode, place)
            solo = self._open[inode.ino] = SoloFile(place, file, inode.size, inode.mtime_ns, inode.ctime_ns)
        return solo

    def _open_backing_file(self, inode: Inode, place: SoloPlace) -> BackingFile:
        try:
            return self._volume.solos.open(place)
        except NotFound as missing:
            raise CorruptRecord(f"the content of inode {inode.ino} ({inode.name!r}) is missing: {missing}; run shardfs fsck") from missing

    def open_for_write(self, inode: Inode, place: SoloPlace) -> SoloFile:
        """Open a file to change it: the journal says so before anything is changed."""
        solo = self.open(inode, place)
        if not solo.writing:
            tx = Transaction(self._volume, "write")
            tx.change((ino_shard(inode.ino), keys.writing_key(inode.ino), b""))
            tx.commit()
            solo.writing = True
        self._note_unsynced(inode.ino, place)
        return solo

    def _note_unsynced(self, ino: Ino, place: SoloPlace) -> None:
        """Remember that a file was written; of too many, the one that was so longest is synced."""
        self._unsynced[ino] = place
        if len(self._unsynced) > UNSYNCED_MAX_FILES:
            self.sync_with_next_commit(next(iter(self._unsynced)))

    def create(self, ino: Ino, content: memoryview | bytes, mtime_ns: int, ctime_ns: int) -> SoloFile:
        """Let a file that has been packed, or empty, go on in a backing file that begins with this content.

        Raises `NoSpace` or `DeviceFailed`; then nothing has changed.
        """
        place, file = self._volume.solos.take()
        solo = SoloFile(place, file, len(content), mtime_ns, ctime_ns, writing=True)
        try:
            file.pwrite(content, 0)
            self._journal_creation(ino, solo)
        except ShardfsError:
            file.close()
            self._volume.discard_solo(place)
            raise
        points.reach("solo.after_create")
        self._open[ino] = solo
        self._note_unsynced(ino, place)
        return solo

    def _journal_creation(self, ino: Ino, solo: SoloFile) -> None:
        tx = Transaction(self._volume, "write")
        inode = tx.inode(ino)
        tx.release_record(inode.record)
        inode.record = self._volume.numbers.new_record(ino_shard(ino))
        tx.add_record(inode.record, solo.place)
        tx.change((ino_shard(ino), keys.writing_key(ino), b""))
        self.record_state(inode, solo)
        tx.commit()

    def write(self, solo: SoloFile, offset: int, data: bytes, now_ns: int) -> None:
        """Write into a file that is open for it. After an error the file is no longer than before."""
        self._volume.solos.spend(solo.place, len(data))
        try:
            solo.file.pwrite(data, offset)
        except ShardfsError:
            if solo.file.stat().size > solo.size:
                solo.file.truncate(solo.size)  # what was written behind the end must never show
            raise
        solo.size = max(solo.size, offset + len(data))
        solo.mtime_ns = solo.ctime_ns = now_ns

    def truncate(self, solo: SoloFile, size: int, now_ns: int) -> None:
        """Set the size of a file that is open for it."""
        solo.file.truncate(size)
        solo.size = size
        solo.mtime_ns = solo.ctime_ns = now_ns

    def read(self, solo: SoloFile, offset: int, size: int) -> bytes | Waiting:
        """Return bytes of a file: at once if the page cache has them, else from an I/O thread."""
        size = min(size, solo.size - offset)
        if size <= 0:
            return b""
        data = solo.file.pread_cached(size, offset)
        if data is not None and len(data) == size:
            return data
        return self._read_blocking(solo, offset, size)

    def _read_blocking(self, solo: SoloFile, offset: int, size: int) -> Waiting:
        waiting = Waiting()

        def work() -> bytes:
            # A backing file that a power loss has cut short reads as zeros up to the size.
            return solo.file.pread(size, offset).ljust(size, b"\0")

        def done(data: bytes | None, error: Exception | None) -> None:
            solo.readers -= 1
            if solo.closing and not solo.readers:
                solo.file.close()
            waiting.resolve(data, error)

        solo.readers += 1
        self._volume.counters.add("solo.reads_blocked")
        self._volume.loop.run_blocking(work, done)
        return waiting

    def blocks(self, solo: SoloFile) -> int:
        """Return how many 512-byte blocks a file takes on its disk."""
        return solo.file.stat().blocks

    def record_state(self, inode: Inode, solo: SoloFile) -> None:
        """Bring a transaction's inode up to its backing file's state."""
        inode.size, inode.mtime_ns = solo.size, solo.mtime_ns
        inode.ctime_ns = max(inode.ctime_ns, solo.ctime_ns)
        inode.blocks = self.blocks(solo)

    def checkpoint(self, ino: Ino) -> None:
        """Journal the size and times of a file that is being written, and let the next commit sync it."""
        solo = self._open[ino]
        if solo.writing:
            tx = Transaction(self._volume, "write")
            self.record_state(tx.inode(ino), solo)
            tx.commit()
        self.sync_with_next_commit(ino)

    def settle(self, ino: Ino) -> None:
        """Journal the final size and times: nobody writes any more."""
        solo = self._open[ino]
        if solo.writing:
            tx = Transaction(self._volume, "write")
            self.record_state(tx.inode(ino), solo)
            tx.change((ino_shard(ino), keys.writing_key(ino), None))
            tx.commit()
            solo.writing = False

    def close(self, ino: Ino) -> None:
        """Close the backing file: nobody uses it any more."""
        solo = self._open.pop(ino, None)
        if solo is None:
            return
        if solo.readers:
            solo.closing = True
        else:
            solo.file.close()

    def sync_with_next_commit(self, ino: Ino) -> None:
        """Let the next commit sync what was written to this file."""
        place = self._unsynced.pop(ino, None)
        if place is not None:
            self._commits.include(ino, place)

    def sync_all_with_next_commit(self) -> None:
        """Let the next commit sync every file that was written."""
        for ino in list(self._unsynced):
            self.sync_with_next_commit(ino)

    def forget(self, ino: Ino) -> None:
        """Drop all that is known of a file whose content is gone."""
        self.close(ino)
        self._unsynced.pop(ino, None)
        self._commits.exclude(ino)
