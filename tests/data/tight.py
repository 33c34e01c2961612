"""Storage that is real, but can be made full or broken."""

from shardfs.errors import DeviceFailed
from shardfs.limits import GIB, MIB
from shardfs.storage.files import BackingFile, DiskSpace
from shardfs.storage.real import RealStorage


class TightStorage(RealStorage):
    """The real storage, but a disk is as full as its entry in `available` says, and syncs of `broken` directories fail.

    `journal` lists the directories synced, the files made, and the files removed, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.available: dict[str, int] = {}
        self.broken: set[str] = set()
        self.journal: list[tuple[str, str]] = []

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> BackingFile:
        """Open and note."""
        if create:
            self.journal.append(("create", path))
        return super().open(path, create=create, exclusive=exclusive)

    def remove(self, path: str) -> None:
        """Remove and note."""
        self.journal.append(("remove", path))
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        """Sync and note, or fail."""
        if path in self.broken:
            raise DeviceFailed(f"cannot sync {path}")
        self.journal.append(("sync", path))
        super().sync_dir(path)

    def space(self, path: str) -> DiskSpace:
        """Return what the test says is available, of 10 GiB."""
        available = self.available.get(path, 5 * GIB)
        return DiskSpace(10 * GIB, available, available)

    def leave(self, path: str, room_bytes: int) -> None:
        """Let a disk have this much room beyond its reserve."""
        self.available[path] = 64 * MIB + room_bytes
