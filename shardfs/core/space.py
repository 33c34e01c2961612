"""How much room there is: for statfs, and to stop growth before the journal and the shards have none left."""

import time

from shardfs.core.interface import Statfs
from shardfs.core.volume import Volume
from shardfs.errors import NoSpace
from shardfs.limits import NAME_MAX_BYTES, RESERVE_BYTES

BLOCK_BYTES = 4096
FRESH_S = 0.2
INODE_BYTES = 1024
"""About what one more small file costs in the shards and the journal: it turns free space into free inodes."""


def reserve_bytes(disk_total_bytes: int) -> int:
    """Return how much of a disk of this size is kept for the journal and the shards."""
    return min(RESERVE_BYTES, disk_total_bytes // 20)


class SpaceGauge:
    """Looks at the disks, at most a few times a second. Loop thread only."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._checked_s = float("-inf")
        self._short_bytes = 0

    def require(self) -> None:
        """Raise `NoSpace` if the disk that holds the journal and the shards has only its reserve left."""
        now_s = time.monotonic()
        if now_s - self._checked_s > FRESH_S:
            self._checked_s = now_s
            space = self._volume.storage.space(self._volume.path)
            self._short_bytes = reserve_bytes(space.total) - space.available
        if self._short_bytes > 0:
            raise NoSpace(
                f"{self._volume.path}: its disk is full but for the reserve for metadata; delete something or add {self._short_bytes} bytes"
            )

    def statfs(self, inodes: int) -> Statfs:
        """Return the sizes of all hot disks together: what files can really get, without reserves."""
        volume = self._volume
        total = free = available = 0
        for disk in volume.superblock.disks:
            space = volume.storage.space(disk.path)
            total += space.total
            free += space.free
            available += max(0, space.available - reserve_bytes(space.total))
        unused = volume.segments.free_bytes()
        files_free = (available + unused) // INODE_BYTES
        return Statfs(
            BLOCK_BYTES,
            total // BLOCK_BYTES,
            (free + unused) // BLOCK_BYTES,
            (available + unused) // BLOCK_BYTES,
            inodes + files_free,
            files_free,
            NAME_MAX_BYTES,
        )
