"""What the repairs of one round change, gathered first and then applied together.

Findings ask for changes one after the other and see those of the ones before. All new values go to the journal, as
those of any operation do: the next mount, or the end of fsck, replays them. So a repair that is killed halfway leaves a
volume that can be checked and repaired again.

Nothing is deleted that somebody could still want: what has no place is put into the directory ``lost+found`` of the
root, which is made when it is needed.
"""

import stat
from collections.abc import Callable, Iterator

from shardfs.check.nodes import DIRECTORY, EntryAt
from shardfs.core.numbers import SEQUENCE_KEY, SEQUENCE_SHARD, encode_bound
from shardfs.errors import CorruptValue, NotFound
from shardfs.format import keys
from shardfs.format.frames import Change
from shardfs.format.values import Entry, Inode, RecordEntry, decode_entry, decode_inode, encode_entry, encode_inode, encode_record_entry
from shardfs.ids import ROOT_INO, Ino, RecordId, ShardId, ino_shard, make_ino, record_shard
from shardfs.limits import NAME_MAX_BYTES
from shardfs.meta.view import View
from shardfs.storage.files import Storage

LOST_FOUND = b"lost+found"
LOST_FOUND_MODE = stat.S_IFDIR | 0o700


class Repairs:
    """The changes of one round. `next_sequence` is a number from which on none is in use."""

    def __init__(self, view: View, next_sequence: int, now_ns: int) -> None:
        self.now_ns = now_ns
        self.recounts: set[ShardId] = set()
        """Shards whose counts are to be taken anew."""
        self.file_repairs: list[Callable[[Storage], None]] = []
        """Changes of files beside the metadata."""
        self._view = view
        self._next_sequence = next_sequence
        self._raises_bound = False
        self._inodes: dict[Ino, Inode] = {}
        self._values: dict[tuple[ShardId, bytes], bytes | None] = {}
        self._lost_found: Ino | None = None

    @property
    def shards(self) -> int:
        """How many shards the volume has."""
        return len(self._view.shards)

    def changes(self) -> list[Change]:
        """Return all new values."""
        values = dict(self._values)
        for ino, inode in self._inodes.items():
            values[ino_shard(ino), keys.inode_key(ino)] = encode_inode(inode)
        if self._raises_bound:
            values[SEQUENCE_SHARD, SEQUENCE_KEY] = encode_bound(self._next_sequence)
        return [(shard, key, value) for (shard, key), value in values.items()]

    def put(self, shard: ShardId, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None deletes it. What `inode` and `put_inode` say of an inode counts more."""
        self._values[shard, key] = value

    def get(self, shard: ShardId, key: bytes) -> bytes | None:
        """Return the value of a key, for an inode perhaps not the newest; raises `CorruptValue`."""
        if (shard, key) in self._values:
            return self._values[shard, key]
        return self._view.get(shard, key)

    def inode(self, ino: Ino) -> Inode:
        """Return an inode to change; raises `NotFound`, or `CorruptValue` if it is unreadable."""
        inode = self._inodes.get(ino)
        if inode is None:
            value = self.get(ino_shard(ino), keys.inode_key(ino))
            if value is None:
                raise NotFound(f"inode {ino} does not exist")
            inode = self._inodes[ino] = decode_inode(ino, value)
        return inode

    def put_inode(self, inode: Inode) -> None:
        """Put an inode in the place of one that is missing or unreadable."""
        self._inodes[inode.ino] = inode

    def new_ino(self, shard: ShardId) -> Ino:
        """Return an inode number that was never used."""
        self.raise_bound()
        self._next_sequence += 1
        return make_ino(self._next_sequence - 1, shard)

    def raise_bound(self) -> None:
        """Put the bound of numbers above all that are in use."""
        self._raises_bound = True

    def put_record(self, record: RecordId, entry: RecordEntry) -> None:
        """Set the place and the reference count of a record."""
        self.put(record_shard(record), keys.record_key(record), encode_record_entry(entry))

    def remove_entry(self, at: EntryAt) -> None:
        """Remove an entry from its directory, which exists and counts it."""
        self.put(at.shard, at.key, None)
        directory = self.inode(at.parent)
        directory.children -= 1
        directory.nlink -= at.kind == DIRECTORY
        directory.mtime_ns = directory.ctime_ns = self.now_ns

    def add_to_lost_found(self, inode: Inode, name: bytes) -> None:
        """Give an inode a place in the directory of lost files, and let it know; its links are up to the caller."""
        directory = self._lost_found_directory()
        name = self._free_name(directory, name[:NAME_MAX_BYTES])
        self._add_entry(directory, name, inode)

    def _add_entry(self, directory: Inode, name: bytes, inode: Inode) -> None:
        kind = inode.mode >> 12
        self.put(*self._entry_place(directory, name), encode_entry(Entry(inode.ino, kind)))
        directory.children += 1
        directory.nlink += kind == DIRECTORY
        directory.mtime_ns = directory.ctime_ns = self.now_ns
        inode.parent, inode.name, inode.ctime_ns = directory.ino, name, self.now_ns
        self.put_inode(inode)

    def _entry_place(self, directory: Inode, name: bytes) -> tuple[ShardId, bytes]:
        h = keys.name_hash(directory.ino, name)
        shard = keys.entry_shard(directory.ino, directory.split_below_h, h, self.shards)
        return shard, keys.entry_key(directory.ino, h, name)

    def _lost_found_directory(self) -> Inode:
        if self._lost_found is None:
            self._lost_found = self._find_lost_found() or self._make_lost_found()
        return self.inode(self._lost_found)

    def _find_lost_found(self) -> Ino | None:
        try:
            value = self.get(*self._entry_place(self.inode(ROOT_INO), LOST_FOUND))
            found = None if value is None else self.inode(decode_entry(value).ino)
        except (CorruptValue, NotFound):
            return None
        return found.ino if found is not None and stat.S_ISDIR(found.mode) else None

    def _make_lost_found(self) -> Ino:
        root = self.inode(ROOT_INO)
        name = self._free_name(root, LOST_FOUND)
        shard, _ = self._entry_place(root, name)
        made = Inode(self.new_ino(shard), LOST_FOUND_MODE, root.uid, root.gid, nlink=2)
        made.atime_ns = made.mtime_ns = self.now_ns
        self._add_entry(root, name, made)
        return made.ino

    def _free_name(self, directory: Inode, wanted: bytes) -> bytes:
        """Return the name, or with a number behind it if it is taken."""
        return next(name for name in _variants(wanted) if not self._is_taken(directory, name))

    def _is_taken(self, directory: Inode, name: bytes) -> bool:
        try:
            return self.get(*self._entry_place(directory, name)) is not None
        except CorruptValue:
            return True


def _variants(name: bytes) -> Iterator[bytes]:
    yield name
    number = 1
    while True:
        tail = b".%d" % number
        yield name[: NAME_MAX_BYTES - len(tail)] + tail
        number += 1
