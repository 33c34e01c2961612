"""What the tests of segments share: stores on the same directories, one after another."""

from pathlib import Path

from shardfs.data.segments import SegmentStore
from shardfs.format.records import RecordHeader, record_size_bytes
from shardfs.format.values import PackedPlace
from shardfs.ids import DiskId, Epoch, Ino, Lsn, RecordId
from shardfs.limits import KIB
from shardfs.meta.usage import Usage
from shardfs.observe.counters import Counters

from .tight import TightStorage

VOLUME = b"v" * 16
SEGMENT_BYTES = 256 * KIB
LARGEST = 32 * KIB
USABLE = SEGMENT_BYTES - 4096 - record_size_bytes(255, LARGEST)
"""What a fresh segment has room for, whatever the sizes of the records."""


class Rig:
    """Stores on the same directories, one after another, as servers open them."""

    def __init__(self, storage: TightStorage, counters: Counters, root: Path, disks: int) -> None:
        self.storage = storage
        self.counters = counters
        self.paths = [root / f"disk{disk}" for disk in range(disks)]
        for path in self.paths:
            path.mkdir()
        self.epoch = 0

    def open(self, *places: PackedPlace, damaged: int = 0) -> SegmentStore:
        """Open the store as the next server does, with these records in the record tables."""
        usage = Usage(damaged=damaged)
        for place in places:
            usage.add(place)
        self.epoch += 1
        disks = [(DiskId(disk), str(path)) for disk, path in enumerate(self.paths)]
        return SegmentStore.open(self.storage, disks, VOLUME, SEGMENT_BYTES, LARGEST, Epoch(self.epoch), usage, self.counters)

    def files(self, disk: int = 0) -> dict[str, int]:
        """Return names and sizes of a disk's segments."""
        return {path.name: path.stat().st_size for path in sorted((self.paths[disk] / "segments").iterdir())}

    def file(self, place: PackedPlace) -> Path:
        """Return the file that a record is in."""
        (found,) = (path for disk in self.paths for path in (disk / "segments").iterdir() if path.name == f"seg-{place.segment:016x}")
        return found


def header(number: int = 1, name: bytes = b"name") -> RecordHeader:
    return RecordHeader(RecordId(number), Ino(number + 1), Lsn(3), Ino(1), name, 0o100644, 5, 6, 7)


def fill(store: SegmentStore, count: int, size: int = LARGEST) -> list[PackedPlace]:
    return [store.append(header(number), number.to_bytes(4, "little") * (size // 4)) for number in range(count)]
