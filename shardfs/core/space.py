"""How much room there is: for statfs, and to stop growth before the journal and the shards have none left."""

import time

from shardfs.core.interface import Statfs
from shardfs.core.volume import Volume
from shardfs.data.disks import kept_bytes
from shardfs.errors import NoSpace
from shardfs.limits import NAME_MAX_BYTES
from shardfs.storage.files import DiskSpace

BLOCK_BYTES = 4096
FRESH_S = 0.2
INODE_BYTES = 1024
"""About what one more small file costs in the shards and the journal: it turns free space into free inodes."""


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
            # Data stops at the whole reserve: the other half is for the metadata of files that fill what is allocated.
            self._short_bytes = kept_bytes(space) // 2 - space.available
        if self._short_bytes > 0:
            raise NoSpace(
                f"{self._volume.path}: its disk is full but for the reserve for metadata; delete something or add {self._short_bytes} bytes"
            )

    def statfs(self, inodes: int) -> Statfs:
        """Return the sizes of all hot disks together: what files can really get, without reserves."""
        volume = self._volume
        disks = self._distinct_disks()
        total, free = sum(disk.total for disk in disks), sum(disk.free for disk in disks)
        available = sum(max(0, disk.available - kept_bytes(disk)) for disk in disks)
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

    def _distinct_disks(self) -> list[DiskSpace]:
        """Return the space of each file system that holds hot disks, once."""
        found: dict[object, DiskSpace] = {}
        for disk in self._volume.superblock.disks:
            space = self._volume.storage.space(disk.path)
            found.setdefault(space.file_system or disk.path, space)
        return list(found.values())
