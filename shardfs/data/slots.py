"""Slots: the content of packed files that was written and is in no record yet.

The slot table is a plain file on tmpfs, mapped: it outlives the server, and the next server of the same boot adopts it
with every byte that was acknowledged. A slot holds one whole file of up to `capacity_bytes`.

Invariants:
- Content is in its place before the header that shows it: a kill between any two steps leaves the newest header that
  was complete, and below its size nothing but what writes put there, acknowledged or just then in progress.
- Bytes of a slot at or beyond its size are garbage; they are zeroed before a size exposes them.
- Memory is allocated before it is stored to: a full tmpfs is `NoSpace`, not a SIGBUS.
- `dirty_bytes` is what dirty slots hold of the memory. Free slots keep at most a quarter of the budget, because the
  first touch of a page costs ten times what a later one does; beyond that a slot's memory goes back when it is freed.

Loop thread only. Small files fill a fraction of their slot, so there are more slots than the budget could fill.
"""

import logging
import mmap
import os

from shardfs.errors import NotFound
from shardfs.format.slots import (
    HEADER_COPY_BYTES,
    PAGE_BYTES,
    SLOT_HEADER_BYTES,
    SlotState,
    TableHeader,
    decode_slot_header,
    decode_table_header,
    encode_slot_header,
    encode_table_header,
    is_unused,
)
from shardfs.ids import Ino, SlotId
from shardfs.observe.counters import Counters
from shardfs.observe.points import reach
from shardfs.storage.files import BackingFile, Storage

log = logging.getLogger(__name__)

SLOTS_PER_BUDGET = 8
"""How many times the budget all slots together could hold."""
IDLE_SHARE = 4
"""Free slots keep at most this part of the budget in memory."""

_NOBODY = Ino(0)


class Slot:
    """One file's content while it is being written."""

    __slots__ = ("_content_at", "_header_at", "_map", "_table", "ctime_ns", "held_bytes", "ino", "mtime_ns", "seq", "size", "slot")

    def __init__(self, table: "SlotTable", slot: SlotId, seq: int, held_bytes: int) -> None:
        self._table = table
        self._map = table.mapping
        self._header_at = table.geometry.header_offset(slot)
        self._content_at = table.geometry.content_offset(slot)
        self.slot = slot
        self.seq = seq
        self.held_bytes = held_bytes
        self.ino = _NOBODY
        self.size = self.mtime_ns = self.ctime_ns = 0

    def write(self, offset: int, data: bytes | memoryview, now_ns: int) -> None:
        """Write at least one byte, within the capacity, and set mtime and ctime; raises `NoSpace` when tmpfs is full."""
        end = offset + len(data)
        self._expose(offset, end)
        start = self._content_at + offset
        self._map[start : start + len(data)] = data
        reach("slot.after_data")
        if end > self.size:
            self.size = end
        self.mtime_ns = self.ctime_ns = now_ns
        self.publish(SlotState.DIRTY)

    def truncate(self, size: int, now_ns: int) -> None:
        """Set the size, within the capacity, and mtime and ctime; new bytes are zero. Raises `NoSpace` when tmpfs is full."""
        self._expose(size, size)
        self.size = size
        self.mtime_ns = self.ctime_ns = now_ns
        self.publish(SlotState.DIRTY)

    def set_times(self, mtime_ns: int, ctime_ns: int) -> None:
        """Set the times."""
        assert self.ino, f"slot {self.slot} is free"
        self.mtime_ns, self.ctime_ns = mtime_ns, ctime_ns
        self.publish(SlotState.DIRTY)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer where the content ends."""
        end = min(offset + size, self.size)
        return self._map[self._content_at + offset : self._content_at + end] if offset < end else b""

    def content(self) -> memoryview:
        """Return a view of the whole content; let go of it before the slot changes or the table closes."""
        return memoryview(self._map)[self._content_at : self._content_at + self.size]

    def fill(self, ino: Ino, size: int, mtime_ns: int, ctime_ns: int, content: bytes) -> None:
        """Begin with this content, and zeros up to `size`; for the table, which has allocated the memory."""
        at = self._content_at
        self._map[at : at + len(content)] = content
        self._map[at + len(content) : at + size] = bytes(size - len(content))
        self.ino, self.size, self.mtime_ns, self.ctime_ns = ino, size, mtime_ns, ctime_ns
        self.publish(SlotState.DIRTY)

    def publish(self, state: SlotState) -> None:
        """Overwrite the older copy of the header with what this object says; for this class and its table."""
        self.seq = seq = self.seq + 1
        at = self._header_at + HEADER_COPY_BYTES * (seq & 1)
        self._map[at : at + HEADER_COPY_BYTES] = encode_slot_header(seq, state, self.ino, self.size, self.mtime_ns, self.ctime_ns)
        reach("slot.after_header")

    def _expose(self, start: int, end: int) -> None:
        """Have memory up to `end`, and zeros from the size up to `start`."""
        assert self.ino, f"slot {self.slot} is free"
        if end > self.held_bytes:
            self._table.grow(self, end)
        if start > self.size:
            self._map[self._content_at + self.size : self._content_at + start] = bytes(start - self.size)


class SlotTable:
    """All slots of a mount. `open` makes one; `adopted` says whether the file was there already."""

    def __init__(self, storage: Storage, path: str, file: BackingFile, geometry: TableHeader, budget_bytes: int) -> None:
        self.geometry = geometry
        self.mapping = mmap.mmap(file.fileno(), geometry.file_bytes)
        self.adopted = False
        self._storage = storage
        self._path = path
        self._file = file
        self._budget = budget_bytes
        self._dirty: dict[SlotId, Slot] = {}
        self._free = [(SlotId(slot), 0, 0) for slot in reversed(range(geometry.slots))]
        """A stack of free slots: slot, seq, held bytes."""
        self._dirty_bytes = self._idle_bytes = 0

    @classmethod
    def open(cls, storage: Storage, path: str, volume_id: bytes, slot_bytes: int, budget_bytes: int, counters: Counters) -> "SlotTable":
        """Adopt the table at `path`, or put a new one there; the storage must be one whose files can be mapped.

        A table of another volume or slot size, or one that is damaged or somebody else's, is replaced, and the log says
        what was lost. The budget is at most half of what tmpfs has left. An adopted table keeps its number of slots.
        """
        slot_bytes = _whole_pages(slot_bytes)
        space = storage.space(os.path.dirname(path))
        if space.total:  # 0: a tmpfs without a limit
            budget_bytes = min(budget_bytes, space.available // 2)
        found = _find(storage, path, volume_id, slot_bytes)
        geometry = TableHeader(max(1, SLOTS_PER_BUDGET * budget_bytes // slot_bytes), volume_id, slot_bytes)
        file, geometry = found or (_create(storage, path, geometry), geometry)
        table = cls(storage, path, file, geometry, budget_bytes)
        if found:
            table._adopt()
        counters.add("slot.adopted" if found else "slot.created")
        counters.add("slot.recovered", len(table._dirty))
        return table

    @property
    def capacity_bytes(self) -> int:
        """The most bytes that a slot holds."""
        return self.geometry.slot_bytes

    @property
    def dirty_bytes(self) -> int:
        """Memory that dirty slots hold."""
        return self._dirty_bytes

    @property
    def dirty_count(self) -> int:
        """Number of dirty slots."""
        return len(self._dirty)

    @property
    def over_budget(self) -> bool:
        """Whether the oldest slots should be sealed; ask after what makes content grow."""
        return self._dirty_bytes > self._budget

    def take(self, ino: Ino, size: int, mtime_ns: int, ctime_ns: int, content: bytes = b"") -> Slot | None:
        """Return a dirty slot for this inode: `content`, then zeros up to `size`; None if all slots are dirty.

        Content and size show together, so that a kill never leaves half of a file in a dirty slot. The slot freed last
        goes first: its memory is warm. Raises `NoSpace` when tmpfs is full; seal the oldest slots and try again.
        """
        assert len(content) <= size <= self.capacity_bytes, f"{len(content)} bytes for a slot of {size}"
        if not self._free:
            return None
        slot = Slot(self, *self._free[-1])
        if size > slot.held_bytes:
            self.grow(slot, size)
        number, _, held_bytes = self._free.pop()
        self._idle_bytes -= held_bytes
        self._dirty_bytes += held_bytes
        self._dirty[number] = slot
        slot.fill(ino, size, mtime_ns, ctime_ns, content)
        return slot

    def free(self, slot: Slot) -> None:
        """Give a slot back: its content is in a journaled record, or its file is gone."""
        known = self._dirty.pop(slot.slot, None)
        assert known is slot, f"slot {slot.slot} is not dirty"
        slot.publish(SlotState.FREE)
        slot.ino = _NOBODY
        self._dirty_bytes -= slot.held_bytes
        if self._idle_bytes + slot.held_bytes > self._budget // IDLE_SHARE:
            self._give_back(slot.slot, 0)
            slot.held_bytes = 0
        self._idle_bytes += slot.held_bytes
        self._free.append((slot.slot, slot.seq, slot.held_bytes))

    def dirty_slots(self) -> list[Slot]:
        """Return the dirty slots, the one that was taken first first."""
        return list(self._dirty.values())

    def oldest(self) -> Slot | None:
        """Return the dirty slot that was taken first."""
        return next(iter(self._dirty.values()), None)

    def recovered(self) -> list[Slot]:
        """Return the dirty slots right after `open`: what an earlier server left, the oldest change first."""
        return self.dirty_slots()

    def close(self) -> None:
        """Let go of the mapping; the file stays for the next server."""
        self.mapping.close()
        self._file.close()

    def remove(self) -> None:
        """Remove the file and close, at a clean unmount."""
        assert not self._dirty, f"{len(self._dirty)} slots are dirty"
        self._storage.remove(self._path)
        self.close()

    def grow(self, slot: Slot, end: int) -> None:
        """Allocate memory for a slot's content up to `end`, at least doubling it; for the slots."""
        assert end <= self.capacity_bytes, f"{end} bytes do not fit into a slot"
        held = min(self.capacity_bytes, max(_whole_pages(end), 2 * slot.held_bytes))
        self._file.allocate(self.geometry.content_offset(slot.slot) + slot.held_bytes, held - slot.held_bytes)
        self._dirty_bytes += held - slot.held_bytes
        slot.held_bytes = held

    def _give_back(self, slot: SlotId, keep_bytes: int) -> None:
        """Free the memory of a slot's content but for the first bytes (MADV_REMOVE punches a hole, see madvise(2))."""
        if keep_bytes < self.capacity_bytes:
            start = self.geometry.content_offset(slot) + keep_bytes
            self.mapping.madvise(mmap.MADV_REMOVE, start, self.capacity_bytes - keep_bytes)

    def _adopt(self) -> None:
        """Take over what an earlier server left: its dirty slots, and the seq of each free one."""
        self.adopted = True
        self._free.clear()
        for slot in sorted(map(self._load, reversed(range(self.geometry.slots))), key=lambda slot: slot.ctime_ns):
            self._give_back(slot.slot, slot.held_bytes)
            if slot.ino:
                self._dirty[slot.slot] = slot
                self._dirty_bytes += slot.held_bytes
            else:
                self._free.append((slot.slot, slot.seq, 0))

    def _load(self, number: int) -> Slot:
        """Return a slot as its header in the file says; one without a valid header is free."""
        at = self.geometry.header_offset(SlotId(number))
        copies = self.mapping[at : at + SLOT_HEADER_BYTES]
        header = decode_slot_header(copies)
        if not header and not is_unused(copies):
            log.warning("slot %d of %s has no intact header; what it held is lost", number, self._path)
        if not header or header.state != SlotState.DIRTY:
            return Slot(self, SlotId(number), header.seq if header else 0, 0)
        slot = Slot(self, SlotId(number), header.seq, _whole_pages(header.size))
        slot.ino, slot.size, slot.mtime_ns, slot.ctime_ns = header.ino, header.size, header.mtime_ns, header.ctime_ns
        return slot


def _whole_pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def _find(storage: Storage, path: str, volume_id: bytes, slot_bytes: int) -> tuple[BackingFile, TableHeader] | None:
    """Return the table that is at this path, if it can be adopted."""
    try:
        file = storage.open(path)
    except NotFound:
        return None
    header = decode_table_header(file.pread(PAGE_BYTES, 0))
    if header is None or file.stat().size != header.file_bytes:
        flaw = "it is damaged, and what it held is lost"
    elif os.fstat(file.fileno()).st_uid != os.geteuid():
        flaw = "it belongs to another user"
    elif (header.volume_id, header.slot_bytes) != (volume_id, slot_bytes):
        flaw = f"it is of another volume or slot size; files that were being written and are lost: {_count_dirty(file, header)}"
    else:
        return file, header
    log.warning("the slot table %s is replaced: %s", path, flaw)
    file.close()
    return None


def _count_dirty(file: BackingFile, table: TableHeader) -> int:
    blocks = (file.pread(SLOT_HEADER_BYTES, table.header_offset(SlotId(slot))) for slot in range(table.slots))
    return sum(header.state == SlotState.DIRTY for header in map(decode_slot_header, blocks) if header)


def _create(storage: Storage, path: str, geometry: TableHeader) -> BackingFile:
    """Put a new table in the place of whatever is at this path; a kill on the way leaves that as it was."""
    fresh = path + ".new"
    if storage.exists(fresh):
        storage.remove(fresh)
    file = storage.open(fresh, create=True, exclusive=True)
    file.truncate(geometry.file_bytes)
    file.allocate(0, geometry.headers_end)
    file.pwrite(encode_table_header(geometry), 0)
    storage.rename(fresh, path)
    return file
