"""One operation's changes, journaled as one record: all of them happen or none.

Invariants:

- Nothing outside of a transaction changes before its record is in the journal: inodes are copies, entries and records
  are collected. If the journal refuses, the operation fails and everything is as it was.
- A place is freed only when the record that freed it is durable (`Volume.free_durable`).
"""

import logging

from shardfs.core.volume import Volume
from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.format.frames import Change
from shardfs.format.values import Entry, Inode, Place, RecordEntry, encode_entry, encode_inode, encode_record_entry
from shardfs.ids import NO_RECORD, Ino, Lsn, RecordId, RequestId, ino_shard, record_shard

log = logging.getLogger(__name__)


class Transaction:
    """Collects changes, then commits them. Used once."""

    def __init__(self, volume: Volume, kind: str, request: RequestId = RequestId(0)) -> None:
        self._volume = volume
        self._kind = kind
        self._request = request
        self._inodes: dict[Ino, Inode] = {}
        self._added = 0
        self._removed: list[Ino] = []
        self._changes: list[Change] = []
        self._freed: list[Place] = []

    def inode(self, ino: Ino) -> Inode:
        """Return a copy of an inode to change; it is written at commit. Raises `NotFound`."""
        inode = self._inodes.get(ino)
        if inode is None:
            inode = self._inodes[ino] = self._volume.inodes.get(ino).copy()
        return inode

    def add_inode(self, inode: Inode) -> None:
        """Create an inode."""
        self._inodes[inode.ino] = inode
        self._added += 1

    def remove_inode(self, ino: Ino) -> None:
        """Delete an inode's record."""
        self._inodes.pop(ino, None)
        self._removed.append(ino)
        self._changes.append((ino_shard(ino), keys.inode_key(ino), None))

    def add_entry(self, directory: Inode, name: bytes, entry: Entry, now_ns: int) -> None:
        """Add an entry to a directory, an inode of this transaction, and touch the directory."""
        self._put_entry(directory, name, entry)
        directory.children += 1
        directory.mtime_ns = directory.ctime_ns = now_ns

    def replace_entry(self, directory: Inode, name: bytes, entry: Entry, now_ns: int) -> None:
        """Let an existing entry point elsewhere, and touch the directory."""
        self._put_entry(directory, name, entry)
        directory.mtime_ns = directory.ctime_ns = now_ns

    def remove_entry(self, directory: Inode, name: bytes, now_ns: int) -> None:
        """Remove an entry from a directory, an inode of this transaction, and touch the directory."""
        self._put_entry(directory, name, None)
        directory.children -= 1
        directory.mtime_ns = directory.ctime_ns = now_ns
        assert directory.children >= 0

    def _put_entry(self, directory: Inode, name: bytes, entry: Entry | None) -> None:
        h = keys.name_hash(directory.ino, name)
        shard = keys.entry_shard(directory.ino, directory.split_below_h, h, self._volume.shards)
        value = None if entry is None else encode_entry(entry)
        self._changes.append((shard, keys.entry_key(directory.ino, h, name), value))

    def change(self, change: Change) -> None:
        """Put or delete any other key."""
        self._changes.append(change)

    def add_record(self, record: RecordId, place: Place) -> None:
        """Create a record with one reference."""
        self._changes.append((record_shard(record), keys.record_key(record), encode_record_entry(RecordEntry(place, 1))))

    def release_record(self, record: RecordId) -> None:
        """Take one reference from a record; the last one frees its place. Nothing happens for `NO_RECORD`.

        A record that is missing is only logged: a damaged file can be removed or overwritten like any other.
        """
        if record == NO_RECORD:
            return
        try:
            place, references = self._volume.record(record)
        except CorruptValue as damage:
            log.error("a record is given up that cannot be read: %s", damage)
            self._changes.append((record_shard(record), keys.record_key(record), None))
            return
        left = encode_record_entry(RecordEntry(place, references - 1)) if references > 1 else None
        self._changes.append((record_shard(record), keys.record_key(record), left))
        if left is None:
            self._freed.append(place)

    def commit(self) -> Lsn:
        """Journal the changes and let them take effect. Raises `NoSpace` or `DeviceFailed`; then nothing has changed."""
        changes = self._changes
        changes.extend((ino_shard(ino), keys.inode_key(ino), encode_inode(inode)) for ino, inode in self._inodes.items())
        volume = self._volume
        lsn = volume.journal.append(self._request, self._kind, changes)
        put = volume.overlay.put
        for shard, key, value in changes:
            put(lsn, shard, key, value)
        for inode in self._inodes.values():
            volume.inodes.keep(inode)
        for ino in self._removed:
            volume.inodes.drop(ino)
        volume.inode_count += self._added - len(self._removed)
        volume.free_later(lsn, self._freed)
        return lsn
