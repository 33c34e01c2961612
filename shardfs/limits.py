"""Every limit of shardfs in one place, with the relations that must hold between them.

Sizes are bytes, times seconds. What the format fixes for the life of a volume is stored in the superblock; the
values here are the defaults at format.
"""

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

# Names and numbers of the POSIX interface.
NAME_MAX_BYTES = 255
SYMLINK_MAX_BYTES = 4095
LINK_MAX = 65_000
FILE_MAX_BYTES = (1 << 63) - 1
XATTR_NAME_MAX_BYTES = 255
XATTR_VALUE_MAX_BYTES = 64 * KIB
XATTR_LIST_MAX_BYTES = 64 * KIB

# Format defaults.
DEFAULT_SHARDS = 16
DEFAULT_PACK_THRESHOLD_BYTES = 1 * MIB
MAX_PACK_THRESHOLD_BYTES = 16 * MIB
DEFAULT_SEGMENT_BYTES = 64 * MIB
DEFAULT_SPLIT_ENTRIES = 2_048
JOURNAL_SEGMENT_BYTES = 16 * MIB
JOURNAL_FRAME_MAX_BYTES = 4 * MIB
LMDB_MAP_BYTES = 1 * TIB
LMDB_MAX_READERS = 254
"""Read transactions open at one time on a shard, in all processes together."""

# The running mount.
SLOT_BUDGET_BYTES = 256 * MIB
OVERLAY_MAX_KEYS = 200_000
OVERLAY_MAX_BYTES = 256 * MIB
BATCH_MAX_RECORDS = 2_500
BATCH_MAX_BYTES = 16 * MIB
"""Keys and values of one batch for a worker; it may end with one operation that goes beyond."""
COMMIT_INTERVAL_S = 1.0
IDLE_SEAL_S = 5.0
"""After this time without a change a small file that is open for writing is sealed, and so becomes durable."""
RECORD_CACHE_BYTES = 32 * MIB
INODE_CACHE_ENTRIES = 200_000
IO_THREADS = 8
SPLIT_STEP_ENTRIES = 64
SEQUENCE_RESERVE = 65_536
SPARE_SOLO_FILES = 32
UNSYNCED_MAX_FILES = 10_000
"""Large files written and not synced that are remembered; beyond it they are synced by and by."""
SOLO_AFTER_SYNCS = 4
RESERVE_BYTES = 64 * MIB
"""Room on the volume's disk that user data never takes: the journal and the shards need it to go on."""
MESSAGE_MAX_BYTES = 64 * MIB
"""The largest message between two processes of a mount: a batch for a worker, or its answer."""
ADMISSION_WAIT_S = 60.0
"""The longest an operation waits for a queue with room before it fails."""
KERNEL_TIMEOUT_S = 3600.0
"""How long the kernel may keep entries and attributes: shardfs is the only writer, so any time is right."""

assert DEFAULT_PACK_THRESHOLD_BYTES <= MAX_PACK_THRESHOLD_BYTES
assert MAX_PACK_THRESHOLD_BYTES * 2 <= DEFAULT_SEGMENT_BYTES, "a segment holds several of the largest records"
assert XATTR_VALUE_MAX_BYTES + 64 * KIB <= JOURNAL_FRAME_MAX_BYTES <= JOURNAL_SEGMENT_BYTES // 2
assert JOURNAL_FRAME_MAX_BYTES * 2 <= MESSAGE_MAX_BYTES, "a batch holds at least the largest operation"
assert BATCH_MAX_RECORDS < OVERLAY_MAX_KEYS
assert (BATCH_MAX_BYTES + JOURNAL_FRAME_MAX_BYTES) * 2 <= MESSAGE_MAX_BYTES, "a full batch fits, framing included"
assert SPLIT_STEP_ENTRIES * 1024 <= JOURNAL_FRAME_MAX_BYTES
