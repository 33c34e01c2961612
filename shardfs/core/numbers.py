"""Numbers for new inodes and records: never handed out twice in the life of a volume.

One sequence serves both. Its bound is a value in shard 0 (`SEQUENCE_KEY`): numbers below the bound may be in use, so
after any restart the sequence goes on at the bound. A higher bound is journaled long before it is reached and counts
from the commit that makes it durable: otherwise a power loss could take back the bound but not a backing file or a
record in a segment that already bears a number beyond it.
"""

from struct import Struct

from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.ids import Ino, Lsn, RecordId, ShardId, make_ino, make_record_id
from shardfs.limits import SEQUENCE_RESERVE

SEQUENCE_KEY = keys.meta_key(b"sequence")
SEQUENCE_SHARD = ShardId(0)
FIRST_SEQUENCE = 1
_BOUND = Struct("<Q")


def encode_bound(bound: int) -> bytes:
    """Return the value of `SEQUENCE_KEY`: the bound as u64, little-endian."""
    return _BOUND.pack(bound)


def decode_bound(value: bytes) -> int:
    """Return the bound in the value of `SEQUENCE_KEY`; raises `CorruptValue`."""
    if len(value) != _BOUND.size:
        raise CorruptValue(f"the bound of the inode numbers has {len(value)} bytes instead of {_BOUND.size}; run shardfs fsck")
    bound: int = _BOUND.unpack(value)[0]
    return bound


class Numbers:
    """Hands out sequence numbers below the durable bound. Loop thread only."""

    def __init__(self, bound: int) -> None:
        self._next = bound
        self._bound = bound
        self._raise_to = bound
        self._raise_lsn: Lsn | None = None

    def new_ino(self, shard: ShardId) -> Ino:
        """Return a new inode number in a shard."""
        return make_ino(self._take(), shard)

    def new_record(self, shard: ShardId) -> RecordId:
        """Return a new record id in a shard."""
        return make_record_id(self._take(), shard)

    @property
    def left(self) -> int:
        """How many numbers can be handed out before the next bound has to be durable."""
        return self._bound - self._next

    def wants_more(self, needed: int) -> bool:
        """Return whether it is time to journal a higher bound, if so many numbers must always be left."""
        return self._raise_lsn is None and self.left < max(SEQUENCE_RESERVE // 2, needed)

    def next_bound(self) -> int:
        """Return the bound to journal next."""
        return self._bound + SEQUENCE_RESERVE

    def raised(self, bound: int, lsn: Lsn) -> None:
        """Note that a higher bound is in the journal."""
        self._raise_to, self._raise_lsn = bound, lsn

    def durable(self, through: Lsn) -> None:
        """Note that the journal is durable up to a record: a higher bound may now be used."""
        if self._raise_lsn is not None and self._raise_lsn <= through:
            self._bound, self._raise_lsn = self._raise_to, None

    def _take(self) -> int:
        assert self._next < self._bound, "the caller has checked `left`"
        self._next += 1
        return self._next - 1
