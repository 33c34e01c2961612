"""Reading directories, and splitting those that grow.

A listing goes by ascending h, the hash of a name, which is also the offset that the kernel goes on from. So its order
does not depend on what is added or removed meanwhile, nor on whether the directory is split: every entry that is there
all the time is seen exactly once.

A directory begins in its home shard. When it has more entries than `split_entries`, they move to the shards of their
hash ranges, `SPLIT_STEP_ENTRIES` at a time, each step one record that also moves the watermark `split_below_h`.
"""

import logging
import stat

from shardfs.core.interface import Attributes, DirectoryRow
from shardfs.core.session import Session
from shardfs.core.transaction import Transaction
from shardfs.errors import CorruptionError, NotDirectory, NotFound, ShardfsError
from shardfs.format import keys
from shardfs.format.values import Entry, Inode, encode_entry
from shardfs.ids import HandleId, Ino
from shardfs.limits import SPLIT_STEP_ENTRIES
from shardfs.observe import points

log = logging.getLogger(__name__)

AFTER_DOT, AFTER_DOT_DOT = 1, 2
FULL_RETRY_S, FAILED_RETRY_S = 0.1, 30.0
"""When a split goes on that found the overlay full, or that has failed."""


class DirectoryOperations:
    """Listings. Loop thread only."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def opendir(self, ino: Ino) -> HandleId:
        """Open a directory."""
        inode = self._session.inode(ino)
        if not stat.S_ISDIR(inode.mode):
            raise NotDirectory(f"inode {ino} is not a directory")
        return self._session.handles.open(ino)

    def readdir(self, handle: HandleId, offset: int, limit: int) -> list[DirectoryRow]:
        """Return about `limit` rows that come after an offset, in order; none at the end."""
        directory = self._session.inode(self._session.handles.get(handle).ino)
        if directory.nlink == 0:
            return []  # it was removed while open
        rows = self._dots(directory, offset)
        listed = self._session.volume.view.list_entries(directory, max(offset, AFTER_DOT_DOT), limit)
        sizes = _group_sizes(listed)
        rows.extend(self._row(h, name, entry, sizes[h]) for h, name, entry in listed)
        return rows

    def _row(self, h: int, name: bytes, entry: Entry, group_size: int) -> DirectoryRow:
        try:
            return DirectoryRow(name, h, self._attributes(entry.ino), group_size)
        except (CorruptionError, NotFound) as damage:
            log.error("%r is listed without its attributes: %s", name, damage)
            told = Attributes(entry.ino, entry.kind << 12, 1, 0, 0, 0, 0, 0, 0, 0, 0)
            return DirectoryRow(name, h, told, group_size, is_damaged=True)

    def _dots(self, directory: Inode, offset: int) -> list[DirectoryRow]:
        rows = []
        if offset < AFTER_DOT:
            rows.append(DirectoryRow(b".", AFTER_DOT, self._attributes(directory.ino)))
        if offset < AFTER_DOT_DOT:
            rows.append(DirectoryRow(b"..", AFTER_DOT_DOT, self._attributes(directory.parent)))
        return rows

    def _attributes(self, ino: Ino) -> Attributes:
        session = self._session
        return session.content.attributes(session.inode(ino))


class Splitter:
    """Moves the entries of grown directories to their split shards, step by step between requests. Loop thread only."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._splitting: set[Ino] = set()

    def consider(self, directory: Inode) -> None:
        """Begin to split a directory if it has grown enough; also goes on with what a restart interrupted."""
        if (
            directory.children > self._session.volume.superblock.split_entries
            and directory.split_below_h < keys.HASH_END
            and directory.ino not in self._splitting
        ):
            self._splitting.add(directory.ino)
            self._session.volume.loop.post(lambda: self._step(directory.ino))

    def _step(self, ino: Ino) -> None:
        directory = self._session.volume.inodes.find(ino)
        if directory is None or directory.split_below_h >= keys.HASH_END or self._session.is_closed:
            self._splitting.discard(ino)
            return
        loop = self._session.volume.loop
        if not self._session.has_room:
            loop.call_later(FULL_RETRY_S, lambda: self._step(ino))
            return
        try:
            self._move_some(directory)
        except ShardfsError as error:
            log.error("directory %d could not be split further and will be tried again: %s", ino, error)
            loop.call_later(FAILED_RETRY_S, lambda: self._step(ino))
            return
        points.reach("split.after_step")
        loop.post(lambda: self._step(ino))

    def _move_some(self, directory: Inode) -> None:
        volume = self._session.volume
        listed = volume.view.list_entries(directory, directory.split_below_h - 1, SPLIT_STEP_ENTRIES)
        home = keys.home_shard(directory.ino, volume.shards)
        tx = Transaction(volume, "split")
        for h, name, entry in listed:
            shard = keys.split_shard(h, volume.shards)
            if shard != home:
                key = keys.entry_key(directory.ino, h, name)
                tx.change((home, key, None))
                tx.change((shard, key, encode_entry(entry)))
        moved = tx.inode(directory.ino)
        moved.split_below_h = listed[-1][0] + 1 if len(listed) >= SPLIT_STEP_ENTRIES else keys.HASH_END
        tx.commit()
        volume.counters.add("split.steps")


def _group_sizes(listed: list[tuple[int, bytes, Entry]]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for h, _, _ in listed:
        sizes[h] = sizes.get(h, 0) + 1
    return sizes
