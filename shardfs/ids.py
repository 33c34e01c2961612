"""The identifiers of shardfs: distinct types over `int`, and how inode and record numbers are built.

An inode number or a record id is ``sequence << SHARD_BITS | shard``: the shard that holds it can be read off the
number, and a sequence is never handed out twice in the life of a volume (see `shardfs.core.numbers`). The root
directory is the exception: the kernel demands node id 1, which lives in shard 0.
"""

from typing import NewType

Ino = NewType("Ino", int)
"""Inode number; also the FUSE node id."""
RecordId = NewType("RecordId", int)
"""Names one immutable version of a file's content; the record table maps it to a place. 0 means no content."""
ShardId = NewType("ShardId", int)
"""Index of a metadata shard, 0 .. shards - 1."""
DiskId = NewType("DiskId", int)
"""Index of a hot disk in the superblock."""
SegmentId = NewType("SegmentId", int)
"""Number of an extent file that holds packed records; never reused."""
SoloId = NewType("SoloId", int)
"""Number of a backing file that holds one large file; never reused."""
SlotId = NewType("SlotId", int)
"""Index of a slot in the shared-memory slot table."""
Lsn = NewType("Lsn", int)
"""Log sequence number of a journal record; the first record of a volume has 1, 0 means before all records."""
Epoch = NewType("Epoch", int)
"""Number of a server's life; a new one begins at every server start."""
HandleId = NewType("HandleId", int)
"""Number of an open file or directory, as given to the kernel in `fh`."""
RequestId = NewType("RequestId", int)
"""The kernel's `unique` of a request; 0 where the transport does not tell it."""

SHARD_BITS = 8
MAX_SHARDS = 1 << SHARD_BITS
ROOT_INO = Ino(1)
NO_RECORD = RecordId(0)


def make_ino(sequence: int, shard: ShardId) -> Ino:
    """Return the inode number with this sequence (>= 1) in this shard."""
    assert sequence >= 1 and 0 <= shard < MAX_SHARDS
    return Ino(sequence << SHARD_BITS | shard)


def make_record_id(sequence: int, shard: ShardId) -> RecordId:
    """Return the record id with this sequence (>= 1) in this shard."""
    assert sequence >= 1 and 0 <= shard < MAX_SHARDS
    return RecordId(sequence << SHARD_BITS | shard)


def ino_shard(ino: Ino) -> ShardId:
    """Return the shard that holds this inode's record."""
    return ShardId(0) if ino == ROOT_INO else ShardId(ino & (MAX_SHARDS - 1))


def record_shard(record: RecordId) -> ShardId:
    """Return the shard whose record table holds this record's place."""
    return ShardId(record & (MAX_SHARDS - 1))
