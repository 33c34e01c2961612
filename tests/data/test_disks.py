"""Disks: room beyond the reserve, and turns that follow it."""

from collections import Counter

import pytest

from shardfs.data.disks import Disks
from shardfs.errors import NoSpace
from shardfs.ids import DiskId
from shardfs.limits import GIB, MIB
from shardfs.storage.files import DiskSpace
from shardfs.storage.real import RealStorage

PATHS = [(DiskId(0), "/a"), (DiskId(1), "/b"), (DiskId(2), "/c")]


class Measured(RealStorage):
    """Storage that only tells how full its disks are."""

    def __init__(self, total: int, **available: int) -> None:
        super().__init__()
        self.total = total
        self.available_by_path = {"/" + name: size for name, size in available.items()}

    def space(self, path: str) -> DiskSpace:
        available = self.available_by_path[path]
        return DiskSpace(self.total, available, available)


def test_room_is_what_lies_beyond_the_reserve() -> None:
    disks = Disks(Measured(100 * GIB, a=65 * MIB, b=64 * MIB, c=0), PATHS)
    assert [disks.room_bytes(disk) for disk in disks] == [MIB, 0, 0]
    small = Disks(Measured(200 * MIB, a=11 * MIB), PATHS[:1])
    assert small.room_bytes(DiskId(0)) == MIB


def test_disks_take_turns_by_their_room() -> None:
    disks = Disks(Measured(100 * GIB, a=64 * MIB + 3 * GIB, b=64 * MIB + GIB, c=64 * MIB), PATHS)
    chosen = [disks.choose() for _ in range(40)]
    assert Counter(chosen) == {0: 30, 1: 10}
    assert Counter(chosen[:4]) == {0: 3, 1: 1}, "in turn, not one after the other"
    assert disks.by_room() == [0, 1, 2]


def test_a_disk_that_has_filled_up_is_not_chosen_any_more() -> None:
    storage = Measured(100 * GIB, a=2 * GIB, b=2 * GIB, c=0)
    disks = Disks(storage, PATHS)
    disks.choose()
    storage.available_by_path["/b"] = 0
    disks.refresh()
    assert {disks.choose() for _ in range(10)} == {0}


def test_no_room_is_told_only_after_another_look() -> None:
    storage = Measured(100 * GIB, a=0, b=0, c=0)
    disks = Disks(storage, PATHS)
    with pytest.raises(NoSpace, match="/a, /b, /c"):
        disks.choose_with_room()
    storage.available_by_path["/c"] = GIB
    assert disks.choose_with_room() == 2


def test_spending_stops_at_what_stays_free() -> None:
    storage = Measured(100 * GIB, a=64 * MIB + 20 * MIB)
    disks = Disks(storage, PATHS[:1])
    for _ in range(2):
        disks.spend(DiskId(0), 5 * MIB)
        storage.available_by_path["/a"] -= 5 * MIB
    storage.available_by_path["/a"] = 64 * MIB + MIB  # others have filled it meanwhile
    disks.spend(DiskId(0), MIB)
    with pytest.raises(NoSpace, match="no hot disk has room"):
        disks.spend(DiskId(0), 8 * MIB)
    storage.available_by_path["/a"] = GIB
    disks.spend(DiskId(0), 8 * MIB)
