"""Solo files: each large file has a backing file of its own, ``solo/<2 hex digits>/<16 hex digits>`` on one of the disks.

The 16 digits are the number, the 2 its digits 13 and 14, so that 256 successive files share a directory. A new file is
taken from a pool of empty files: their names are durable as a rule, and no commit has to wait for a directory.

Invariants:
- A number is higher than any that the disks or the record tables knew before.
- A file in the pool is empty, and no record refers to it.
- A name that is not durable is in a directory that `sync` will sync, and `sync` never returns before an earlier one has
  done what it took over.

`take` and `spend` belong to the loop thread, everything else to any. The locks over tables are not held during I/O.
"""

import logging
import re
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Lock

from shardfs.data.disks import Disks
from shardfs.errors import DeviceFailed, NotFound, ShardfsError
from shardfs.format.values import SoloPlace
from shardfs.ids import DiskId, SoloId
from shardfs.limits import SPARE_SOLO_FILES
from shardfs.meta.usage import Usage
from shardfs.observe.counters import Counters
from shardfs.storage.files import BackingFile, Storage

log = logging.getLogger(__name__)

_GROUP = re.compile("[0-9a-f]{2}")
_NAME = re.compile("[0-9a-f]{16}")


def solo_root(disk_path: str) -> str:
    """Return the directory of a disk under which all its backing files are."""
    return f"{disk_path}/solo"


def solo_directory(disk_path: str, solo: SoloId) -> str:
    """Return the directory that a backing file is in."""
    return f"{solo_root(disk_path)}/{solo >> 8 & 0xFF:02x}"


def solo_path(disk_path: str, solo: SoloId) -> str:
    """Return where a backing file is."""
    return f"{solo_directory(disk_path, solo)}/{solo:016x}"


def parse_solo_name(name: str) -> SoloId | None:
    """Return which backing file a file of this name is; None if it is none."""
    return SoloId(int(name, 16)) if _NAME.fullmatch(name) else None


class SoloStore:
    """All backing files of all hot disks; made by `start`."""

    def __init__(self, storage: Storage, disks: Sequence[tuple[DiskId, str]], counters: Counters) -> None:
        self._storage = storage
        self._disks = Disks(storage, disks)
        self._counters = counters
        self._lock = Lock()
        self._sync_lock = Lock()
        self._last = 0
        self._pools: dict[DiskId, deque[SoloId]] = {disk: deque() for disk in self._disks}
        self._known_directories: set[str] = set()
        self._unsynced_directories: set[str] = set()
        self._broken = ""

    @classmethod
    def start(cls, storage: Storage, disks: Sequence[tuple[DiskId, str]], usage: Usage, counters: Counters) -> "SoloStore":
        """Look through the disks and fill the pools.

        What replay brought must be durable before: a file that `usage` does not name goes into the pool if it is empty,
        else it is removed. With damage in the record tables such files are left as they are.
        """
        store = cls(storage, disks, counters)
        found = {place for disk in store._disks for place in store._found(disk)}
        store._last = max((place.solo for place in found | usage.solos), default=0)
        for place in sorted(usage.solos - found):
            log.error("the backing file %s is missing; run shardfs fsck", store._path(place))
        if not usage.damaged:
            for place in sorted(found - usage.solos):
                store._sort_out(place)
        store._fill()
        return store

    def take(self) -> tuple[SoloPlace, BackingFile]:
        """Return an empty backing file, open; who takes it closes it.

        Raises `NoSpace` if no disk has room, `DeviceFailed` if the disk's directory has gone.
        """
        try:
            return self._take()
        except NotFound as gone:
            raise DeviceFailed(f"a hot disk has gone: {gone}; bring it back") from gone

    def _take(self) -> tuple[SoloPlace, BackingFile]:
        disk = self._disks.choose_with_room()
        pool = self._pools[disk]
        if not pool:
            self._counters.add("solo.pool_empty")
            return self._make(disk)
        place = SoloPlace(disk, pool.popleft())
        return place, self._storage.open(self._path(place))

    def open(self, place: SoloPlace) -> BackingFile:
        """Open a backing file; who opens it closes it. Raises `NotFound` if it is missing."""
        return self._storage.open(self._path(place))

    def spend(self, place: SoloPlace, size_bytes: int) -> None:
        """Let so many bytes be written to a backing file; raises `NoSpace` before the disk's reserve is touched."""
        self._disks.spend(place.disk, size_bytes)

    def sync_file(self, file: BackingFile) -> None:
        """Make the content of a backing file durable.

        Raises `DeviceFailed` for good after one failure: a second fdatasync would say that all is well, though the kernel
        has dropped what it could not write.
        """
        if self._broken:
            raise DeviceFailed(f"large files cannot be made durable since a sync failed ({self._broken}); mount again")
        self._counters.add("solo.syncs")
        try:
            file.sync()
        except ShardfsError as error:
            self._broken = str(error)
            raise

    def sync(self) -> None:
        """Make the names of all files durable; nothing to do unless a pool was empty, or nothing was synced since the start."""
        with self._sync_lock:
            with self._lock:
                directories, self._unsynced_directories = self._unsynced_directories, set()
            try:
                for directory in sorted(directories):
                    self._storage.sync_dir(directory)
            except ShardfsError:
                with self._lock:
                    self._unsynced_directories |= directories
                raise

    def discard(self, place: SoloPlace) -> None:
        """Remove a backing file whose freeing is durable; fine if it is gone."""
        try:
            self._storage.remove(self._path(place))
        except NotFound:
            log.warning("the backing file %s was gone before it was removed", self._path(place))
        self._counters.add("solo.discarded")

    @property
    def wants_refill(self) -> bool:
        """Whether the pool of a disk is less than half full."""
        return any(len(pool) < SPARE_SOLO_FILES // 2 for pool in self._pools.values())

    def refill(self) -> None:
        """Look how much room there is, and if a pool is half empty, fill all but those of full disks, durably."""
        if self.wants_refill:
            self._fill()
            self.sync()
        else:
            self._disks.refresh()

    def _fill(self) -> None:
        self._disks.refresh()
        for disk, pool in self._pools.items():
            if self._disks.room_bytes(disk):
                pool.extend([self._make_closed(disk) for _ in range(SPARE_SOLO_FILES - len(pool))])

    def _found(self, disk: DiskId) -> Iterator[SoloPlace]:
        """Yield the backing files of a disk."""
        root = self._root(disk)
        if not self._storage.exists(root):
            self._storage.make_dir(root)
            self._unsynced_directories.add(self._disks.path(disk))
        for group in filter(_GROUP.fullmatch, self._storage.list_dir(root)):
            directory = f"{root}/{group}"
            self._known_directories.add(directory)
            for name in self._storage.list_dir(directory):
                solo = parse_solo_name(name)
                if solo is not None and self._directory(place := SoloPlace(disk, solo)) == directory:
                    yield place
                else:
                    log.warning("%s/%s is no backing file; it is left alone", directory, name)

    def _sort_out(self, place: SoloPlace) -> None:
        """Put a file that nothing refers to into the pool, or remove it."""
        path = self._path(place)
        file = self._storage.open(path)
        size = file.stat().size
        file.close()
        if size or len(self._pools[place.disk]) >= SPARE_SOLO_FILES:
            log.info("%s of %d bytes is no file's any more and is removed", path, size)
            self._storage.remove(path)
            self._counters.add("solo.removed")
        else:
            self._unsynced_directories.add(self._directory(place))
            self._pools[place.disk].append(place.solo)

    def _make(self, disk: DiskId) -> tuple[SoloPlace, BackingFile]:
        """Make a backing file, whose name the next `sync` makes durable."""
        with self._lock:
            self._last += 1
            place = SoloPlace(disk, SoloId(self._last))
        directory = self._directory(place)
        is_new = directory not in self._known_directories
        if is_new:
            self._storage.make_dir(directory)
        file = self._storage.open(self._path(place), create=True, exclusive=True)
        with self._lock:
            self._known_directories.add(directory)
            self._unsynced_directories |= {directory, self._root(disk)} if is_new else {directory}
        self._counters.add("solo.created")
        return place, file

    def _make_closed(self, disk: DiskId) -> SoloId:
        place, file = self._make(disk)
        file.close()
        return place.solo

    def _root(self, disk: DiskId) -> str:
        return solo_root(self._disks.path(disk))

    def _directory(self, place: SoloPlace) -> str:
        return solo_directory(self._disks.path(place.disk), place.solo)

    def _path(self, place: SoloPlace) -> str:
        return solo_path(self._disks.path(place.disk), place.solo)
