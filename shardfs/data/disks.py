"""The hot disks as places for new data: how much room each has, and which one is next.

Room is what a disk has available beyond what stays free on it: `RESERVE_BYTES`, or a twentieth of a small disk. New data
goes to the disks in turn, to each as often as its room says: all disks work, and they fill up together.

Invariant: `choose` returns a disk without room only if none had any at the last look.
"""

from collections.abc import Iterable, Iterator, Sequence

from shardfs.errors import NoSpace
from shardfs.ids import DiskId
from shardfs.limits import MIB, RESERVE_BYTES
from shardfs.storage.files import DiskSpace, Storage

LOOK_BYTES = 8 * MIB
"""How much is written to a disk before it is asked again how much room it has."""


class Disks:
    """The hot disks of a volume, by number. `choose` and `spend` are the loop thread's, the rest any thread's."""

    def __init__(self, storage: Storage, disks: Sequence[tuple[DiskId, str]]) -> None:
        assert disks, "a volume has at least one hot disk"
        self._storage = storage
        self._paths = dict(disks)
        self._left_bytes: dict[DiskId, int] = {}
        self.refresh()

    def __iter__(self) -> Iterator[DiskId]:
        return iter(self._paths)

    def path(self, disk: DiskId) -> str:
        """Return the directory of a disk."""
        return self._paths[disk]

    def room_bytes(self, disk: DiskId, *, with_kept: bool = False) -> int:
        """Look how much room a disk has; `with_kept` counts in what stays free on it otherwise."""
        space = self._storage.space(self._paths[disk])
        return space.available if with_kept else _room_bytes(space)

    def spend(self, disk: DiskId, size_bytes: int) -> None:
        """Let so many bytes be written to a disk; raises `NoSpace` if that would take from what stays free on it.

        The disk is looked at each time that `LOOK_BYTES` have been spent.
        """
        left_bytes = self._left_bytes.get(disk, 0) - size_bytes
        if left_bytes < 0:
            left_bytes = min(self.room_bytes(disk), max(LOOK_BYTES, size_bytes)) - size_bytes
            if left_bytes < 0:
                self._left_bytes[disk] = 0
                raise no_room([self._paths[disk]])
        self._left_bytes[disk] = left_bytes

    def refresh(self) -> None:
        """Look how much room each disk has, for the choices that follow."""
        self._rooms = {disk: self.room_bytes(disk) for disk in self._paths}
        self._turns = dict.fromkeys(self._paths, 0)

    def by_room(self) -> list[DiskId]:
        """Return the disks, the one that had most room at the last look first."""
        return sorted(self._rooms, key=self._rooms.__getitem__, reverse=True)

    def choose(self) -> DiskId:
        """Return the disk for the next piece of data."""
        rooms, turns = self._rooms, self._turns
        for disk, room in rooms.items():
            turns[disk] += room
        # The turns now add up to all room, so whichever is ahead has some.
        chosen = max(turns, key=turns.__getitem__)
        turns[chosen] -= sum(rooms.values())
        return chosen

    def choose_with_room(self) -> DiskId:
        """Return the disk for the next piece of data; raises `NoSpace` if no disk has room even when looked at again."""
        if not any(self._rooms.values()):
            self.refresh()
        if not any(self._rooms.values()):
            raise no_room(self._paths.values())
        return self.choose()


def no_room(paths: Iterable[str]) -> NoSpace:
    """Return the error for data that no disk has room for."""
    return NoSpace(f"no hot disk has room ({', '.join(paths)}): delete files, or make room on the disks")


def kept_bytes(space: DiskSpace) -> int:
    """Return how much of a disk data never takes: the journal and the shards need it to go on."""
    return min(RESERVE_BYTES, space.total // 20)


def _room_bytes(space: DiskSpace) -> int:
    return max(0, space.available - kept_bytes(space))
