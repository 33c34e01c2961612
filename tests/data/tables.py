"""What the tests of slots share: tables on tmpfs, one server after another."""

from pathlib import Path

from shardfs.data.slots import Slot, SlotTable
from shardfs.ids import Ino
from shardfs.limits import KIB, MIB
from shardfs.observe.counters import Counters
from shardfs.storage.real import RealStorage

VOLUME = b"v" * 16
SLOT_BYTES = 64 * KIB
BUDGET_BYTES = 1 * MIB


def open_table(path: Path, volume_id: bytes = VOLUME, slot_bytes: int = SLOT_BYTES, budget_bytes: int = BUDGET_BYTES) -> SlotTable:
    return SlotTable.open(RealStorage(), str(path), volume_id, slot_bytes, budget_bytes, Counters())


def taken(table: SlotTable, ino: int, content: bytes = b"", size: int | None = None) -> Slot:
    slot = table.take(Ino(ino), len(content) if size is None else size, 1, 2, content)
    assert slot is not None
    return slot


def left(path: Path) -> dict[int, bytes]:
    """Return what the next server finds: the content by inode."""
    table = open_table(path)
    try:
        return {slot.ino: bytes(slot.content()) for slot in table.recovered()}
    finally:
        table.close()
