"""The inodes in memory: a bounded cache of what the shards and the overlay hold, and the kernel's look-up counts.

Invariants:

- A cached inode equals what the view holds; it is never changed in place. `Transaction` copies it, and puts the
  changed copy here when its record is in the journal. So any cached inode may be dropped at any time.
- `lookups[ino]` is how often the kernel was told of the inode and has not yet forgotten; always positive.
"""

from itertools import islice

from shardfs.errors import NotFound
from shardfs.format import keys
from shardfs.format.values import Inode, decode_inode
from shardfs.ids import Ino, ino_shard
from shardfs.meta.view import View

EVICTED_SHARE = 16


class InodeTable:
    """Inodes by number. Loop thread only."""

    def __init__(self, view: View, max_entries: int) -> None:
        self._view = view
        self._max_entries = max_entries
        self._cached: dict[Ino, Inode] = {}
        self._lookups: dict[Ino, int] = {}

    def __len__(self) -> int:
        """Return how many inodes are cached."""
        return len(self._cached)

    def get(self, ino: Ino) -> Inode:
        """Return an inode, which the caller must not change; raises `NotFound`."""
        inode = self._cached.get(ino) or self.find(ino)
        if inode is None:
            raise NotFound(f"inode {ino} does not exist")
        return inode

    def find(self, ino: Ino) -> Inode | None:
        """Return an inode, or None if there is none with this number."""
        inode = self._cached.get(ino)
        if inode is None:
            value = self._view.get(ino_shard(ino), keys.inode_key(ino))
            if value is None:
                return None
            inode = decode_inode(ino, value)
            self.keep(inode)
        return inode

    def keep(self, inode: Inode) -> None:
        """Take the newest state of an inode, and let the oldest cached ones go if there are too many."""
        self._cached[inode.ino] = inode
        if len(self._cached) > self._max_entries:
            # Many at once: finding the first key of a dict takes longer with each key that was deleted before it.
            for ino in list(islice(self._cached, max(1, self._max_entries // EVICTED_SHARE))):
                del self._cached[ino]

    def drop(self, ino: Ino) -> None:
        """Forget an inode that exists no more."""
        self._cached.pop(ino, None)

    def note_lookup(self, ino: Ino) -> None:
        """Count that the kernel was told of an inode."""
        self._lookups[ino] = self._lookups.get(ino, 0) + 1

    def forget(self, ino: Ino, count: int) -> bool:
        """Take back look-ups; return whether the kernel knows the inode no more."""
        left = self._lookups.get(ino, 0) - count
        if left > 0:
            self._lookups[ino] = left
            return False
        self._lookups.pop(ino, None)
        return True

    def is_known(self, ino: Ino) -> bool:
        """Return whether the kernel holds a reference to an inode."""
        return ino in self._lookups
