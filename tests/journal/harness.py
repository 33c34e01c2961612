"""A journal on a simulated disk, with the few words that the tests need to speak about it."""

from shardfs.format.frames import HEADER_BLOCK_BYTES
from shardfs.ids import Epoch, Lsn, RequestId, ShardId
from shardfs.journal.log import Journal, create_journal
from shardfs.journal.replay import Replayed, replay
from shardfs.observe.counters import Counters
from tests.journal.simulated import SimulatedDisk

DIRECTORY = "/volume/journal"
VOLUME = b"volume-of-a-test"
SEGMENT_BYTES = 6 * 1024
VALUE_BYTES = 300
FRAME_BYTES = 360
"""What an operation of `Harness.append` takes; the second and later ones of a segment begin in pages of their own."""
PER_SEGMENT = (SEGMENT_BYTES - HEADER_BLOCK_BYTES) // FRAME_BYTES


class Harness:
    """A new volume's journal, started once."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.counters = Counters()
        create_journal(self.disk, DIRECTORY, VOLUME, segment_bytes=SEGMENT_BYTES)
        self.journal = self.start()

    def replay(self) -> Replayed:
        return replay(self.disk, DIRECTORY, VOLUME)

    def start(self) -> Journal:
        """Let another server begin with what is there."""
        found = self.replay()
        epoch = Epoch(found.last_epoch + 1)
        self.journal = Journal.start(self.disk, DIRECTORY, VOLUME, found, epoch, self.counters, segment_bytes=SEGMENT_BYTES)
        return self.journal

    def append(self, count: int = 1, *, size: int = VALUE_BYTES, kind: str = "create") -> Lsn:
        """Append operations; the request of each is its LSN."""
        for _ in range(count):
            request = RequestId(self.journal.last_lsn + 1)
            self.journal.append(request, kind, [(ShardId(1), b"key", b"v" * size)])
        return self.journal.last_lsn

    def sync(self, through: int | None = None) -> None:
        self.journal.sync(self.journal.last_lsn if through is None else Lsn(through))

    def append_until_rotated(self) -> Lsn:
        """Append until a segment has been finished, and return the last LSN in that."""
        rotations = self.counters.get("journal.rotations")
        while self.counters.get("journal.rotations") == rotations:
            self.append()
        return Lsn(self.journal.last_lsn - 1)

    def lsns(self) -> list[int]:
        """The LSNs that a replay finds."""
        return [lsn for lsn, _ in self.replay().operations()]

    def kinds(self) -> list[str]:
        return [operation.kind for _, operation in self.replay().operations()]

    def names(self, prefix: str) -> list[str]:
        return [name for name in self.disk.list_dir(DIRECTORY) if name.startswith(prefix)]

    def content(self, name: str) -> bytearray:
        """A file's bytes, to be looked at or damaged."""
        return self.disk.content(f"{DIRECTORY}/{name}")

    def damage(self, name: str, offset: int) -> None:
        """Change a byte on the disk."""
        self.content(name)[offset] ^= 0x01

    def damage_frame(self, name: str, request: int) -> None:
        """Change a byte of the operation with this request, which is its LSN too."""
        start = bytes([1, 0, 0, 0]) + int(self.replay().last_epoch).to_bytes(8, "little") + request.to_bytes(8, "little")
        found = self.content(name).find(start, HEADER_BLOCK_BYTES)
        assert found > 0
        self.damage(name, found + len(start))
