"""The slot table: adoption by the next server, and memory."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfs.data.slots import SlotTable
from shardfs.errors import NoSpace
from shardfs.ids import Ino
from shardfs.limits import KIB, MIB
from shardfs.observe.counters import Counters
from shardfs.storage.files import DiskSpace
from shardfs.storage.real import RealStorage

from .tables import BUDGET_BYTES, SLOT_BYTES, VOLUME, left, open_table, taken

# Adoption -----------------------------------------------------------------------------------------------------------


def test_the_next_server_goes_on_where_the_last_one_was(path: Path) -> None:
    table = open_table(path)
    assert not table.adopted and table.recovered() == []
    table.free(taken(table, 1, b"gone"))
    slot = taken(table, 2, b"kept")
    other = taken(table, 3, b"younger")
    other.set_times(0, 50)
    slot.set_times(0, 60)
    table.close()
    table = open_table(path)
    assert table.adopted and [slot.ino for slot in table.recovered()] == [3, 2], "the oldest change first"
    table.recovered()[1].write(4, b" and changed", 70)
    for slot in table.recovered():
        if slot.ino == 3:
            table.free(slot)
    taken(table, 4, b"new")
    table.close()
    assert left(path) == {2: b"kept and changed", 4: b"new"}


def test_a_slot_freed_by_an_earlier_server_can_be_trusted_again(path: Path) -> None:
    table = open_table(path)
    for ino in range(1, 6):
        table.free(taken(table, ino, b"long gone"))
    table.close()
    table = open_table(path)
    slots = [taken(table, ino, b"new") for ino in range(100, 100 + table.geometry.slots)]
    table.close()
    assert left(path) == {slot.ino: b"new" for slot in slots}


def test_another_budget_loses_nothing(path: Path) -> None:
    table = open_table(path)
    taken(table, 1, b"kept")
    table.close()
    table = open_table(path, budget_bytes=4 * BUDGET_BYTES)
    assert [bytes(slot.content()) for slot in table.recovered()] == [b"kept"]
    table.close()


@pytest.mark.parametrize(
    ("volume_id", "slot_bytes", "reason"),
    [(b"w" * 16, SLOT_BYTES, "lost: 1"), (VOLUME, 2 * SLOT_BYTES, "lost: 1")],
)
def test_a_table_of_another_kind_is_replaced(
    path: Path, volume_id: bytes, slot_bytes: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = open_table(path, volume_id, slot_bytes)
    taken(table, 1, b"of another volume")
    table.free(taken(table, 2, b"free"))
    table.close()
    table = open_table(path)
    assert not table.adopted and table.recovered() == [] and reason in caplog.text
    table.close()


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: b"junk" + data[4:], lambda data: data[:-4096], lambda data: data + b"x"])
def test_a_damaged_table_is_replaced(path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture) -> None:
    table = open_table(path)
    taken(table, 1, b"lost")
    table.close()
    path.write_bytes(damage(path.read_bytes()))
    table = open_table(path)
    assert not table.adopted and "damaged" in caplog.text
    assert bytes(taken(table, 2, b"new").content()) == b"new"
    table.close()


def test_a_table_of_another_user_is_replaced(path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    open_table(path).close()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    table = open_table(path)
    assert not table.adopted and "another user" in caplog.text
    table.close()


def test_a_slot_whose_header_is_damaged_is_told_and_free(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = open_table(path)
    slot, other = taken(table, 1, b"damaged"), taken(table, 2, b"intact")
    slot.set_times(1, 1)
    at = table.geometry.header_offset(slot.slot)
    table.mapping[at : at + 128] = b"\xff" * 128
    table.close()
    table = open_table(path)
    assert [found.ino for found in table.recovered()] == [2] and "slot 0" in caplog.text
    assert table.recovered()[0].slot == other.slot
    assert {taken(table, ino).slot for ino in range(10, 9 + table.geometry.slots)} == set(range(table.geometry.slots)) - {other.slot}
    table.close()


def test_only_the_owner_can_read_the_table_and_it_can_be_removed(path: Path) -> None:
    table = open_table(path)
    assert path.stat().st_mode & 0o777 == 0o600
    slot = taken(table, 1)
    with pytest.raises(AssertionError):
        table.remove()
    table.free(slot)
    table.remove()
    assert list(path.parent.iterdir()) == []


def test_a_leftover_of_a_killed_creation_does_not_matter(path: Path) -> None:
    path.with_name("slots.new").write_bytes(b"half")
    table = open_table(path)
    assert bytes(taken(table, 1, b"x").content()) == b"x"
    table.close()
    assert os.listdir(path.parent) == ["slots"]


# Memory -------------------------------------------------------------------------------------------------------------


def memory_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_small_files_take_little_memory_and_the_budget_counts_it(path: Path) -> None:
    table = open_table(path)
    before = memory_bytes(path)
    slots = [taken(table, ino + 1, b"x" * 100) for ino in range(20)]
    assert memory_bytes(path) - before == table.dirty_bytes == 20 * 4096
    assert not table.over_budget
    for slot in slots[:17]:
        slot.write(SLOT_BYTES - 1, b"x", 1)
    assert table.over_budget and memory_bytes(path) - before == table.dirty_bytes == 17 * SLOT_BYTES + 3 * 4096
    table.free(slots[0])
    assert table.dirty_bytes == 16 * SLOT_BYTES + 3 * 4096
    table.close()


def test_freed_slots_keep_a_quarter_of_the_budget_in_memory(path: Path) -> None:
    table = open_table(path)
    before = memory_bytes(path)
    slots = [taken(table, ino + 1, size=SLOT_BYTES) for ino in range(16)]
    for slot in slots:
        table.free(slot)
    assert memory_bytes(path) - before == BUDGET_BYTES // 4
    again = [taken(table, ino + 1, b"y" * SLOT_BYTES) for ino in range(16)]
    assert all(bytes(slot.content()) == b"y" * SLOT_BYTES for slot in again)
    assert table.dirty_bytes == memory_bytes(path) - before == BUDGET_BYTES
    table.close()


def test_adoption_gives_back_what_free_slots_held(path: Path) -> None:
    table = open_table(path)
    before = memory_bytes(path)
    table.free(taken(table, 1, size=SLOT_BYTES))
    slot = taken(table, 2, size=SLOT_BYTES)
    slot.truncate(5000, 1)
    table.close()
    table = open_table(path)
    assert table.dirty_bytes == memory_bytes(path) - before == 8192
    table.close()


class FullTmpfs(RealStorage):
    """A tmpfs whose `space` is what the test says."""

    def space(self, path: str) -> DiskSpace:
        return DiskSpace(1 * MIB, 512 * KIB, 512 * KIB)


def test_the_budget_is_at_most_half_of_what_tmpfs_has(path: Path) -> None:
    table = SlotTable.open(FullTmpfs(), str(path), VOLUME, SLOT_BYTES, BUDGET_BYTES, Counters())
    slots = [taken(table, ino + 1, size=SLOT_BYTES) for ino in range(4)]
    assert not table.over_budget
    slots.append(taken(table, 5, size=1))
    assert table.over_budget
    table.close()


def test_a_tmpfs_without_a_limit_does_not_limit_the_budget(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FullTmpfs, "space", lambda self, path: DiskSpace(0, 0, 0))
    table = SlotTable.open(FullTmpfs(), str(path), VOLUME, SLOT_BYTES, BUDGET_BYTES, Counters())
    for ino in range(16):
        taken(table, ino + 1, size=SLOT_BYTES)
    assert not table.over_budget
    table.close()


def test_a_full_tmpfs_is_an_error_and_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(path)
    slot = taken(table, 1, b"abc")

    def refuse(_fd: int, _offset: int, _size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(NoSpace):
        slot.write(4096, b"x", 9)
    with pytest.raises(NoSpace):
        slot.truncate(5000, 9)
    with pytest.raises(NoSpace):
        table.take(Ino(2), 10, 0, 0, b"0123456789")
    monkeypatch.undo()
    assert (slot.size, slot.mtime_ns, table.dirty_count) == (3, 1, 1)
    assert bytes(taken(table, 3, b"x").content()) == b"x"
    table.close()
    assert left(path) == {1: b"abc", 3: b"x"}
