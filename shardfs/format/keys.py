"""The keys of a metadata shard, and which shard a key belongs to.

A key's first byte names its table; numbers follow as 8 bytes big-endian, so that LMDB's byte order is numeric order:

    I | ino             inode: its `Inode` value, in the shard that its number names
    E | parent h name   directory entry, in the directory's home shard or in the split shard of h
    R | record          record: its `RecordEntry` value, in the shard that its number names
    X | ino name        extended attribute: the value's own bytes, in the inode's shard
    O | ino             orphan: unlinked but not yet freed (empty value), in the inode's shard
    W | ino             written: a solo file that is open for write (empty value), in the inode's shard
    M | name            what a shard notes about itself and the volume

``h`` is the 63-bit hash of a name within its directory. It is readdir's offset, too, and 0, 1 and 2 are taken there
(the start, after ``.``, after ``..``), so every h lies in ``MIN_NAME_HASH .. HASH_END - 1``.

The longest key, that of an entry with a name of 255 bytes, has 272 bytes; LMDB takes up to 511.

Parsers raise `CorruptValue` for a key that is not of their table or is too short for it.
"""

from struct import Struct

from xxhash import xxh3_64_intdigest

from shardfs.errors import CorruptValue
from shardfs.ids import ROOT_INO, Ino, RecordId, ShardId

INODE_TABLE = b"I"
ENTRY_TABLE = b"E"
RECORD_TABLE = b"R"
XATTR_TABLE = b"X"
ORPHAN_TABLE = b"O"
WRITING_TABLE = b"W"
META_TABLE = b"M"
TABLES = (INODE_TABLE, ENTRY_TABLE, RECORD_TABLE, XATTR_TABLE, ORPHAN_TABLE, WRITING_TABLE, META_TABLE)

HASH_BITS = 63
HASH_END = 1 << HASH_BITS
"""One more than the largest hash of a name; as a directory's `split_below_h` it means fully split."""
MIN_NAME_HASH = 3
"""Smaller offsets mean the start of a directory and the places after ``.`` and ``..``."""

_NUMBER = Struct(">Q")
_TABLE_NUMBER = Struct(">cQ")
_TABLE_NUMBER_HASH = Struct(">cQQ")


def name_hash(parent: Ino, name: bytes) -> int:
    """Return h of a name in this directory: the order of listing, and in a split directory the choice of the shard."""
    h = xxh3_64_intdigest(name, parent) >> 1
    return h if h > MIN_NAME_HASH else MIN_NAME_HASH


def home_shard(directory: Ino, shards: int) -> ShardId:
    """Return the shard that holds the entries of this directory as long as it is not split."""
    if directory == ROOT_INO:
        return ShardId(0)
    return ShardId(xxh3_64_intdigest(_NUMBER.pack(directory)) % shards)


def split_shard(h: int, shards: int) -> ShardId:
    """Return the shard that holds a split directory's entries with this hash: ranges of h in ascending order."""
    return ShardId(h * shards >> HASH_BITS)


def entry_shard(directory: Ino, split_below_h: int, h: int, shards: int) -> ShardId:
    """Return the shard that holds an entry: entries below `split_below_h` have moved out of the home shard."""
    return split_shard(h, shards) if h < split_below_h else home_shard(directory, shards)


def inode_key(ino: Ino) -> bytes:
    """Return the key of an inode."""
    return _TABLE_NUMBER.pack(INODE_TABLE, ino)


def entry_key(parent: Ino, h: int, name: bytes) -> bytes:
    """Return the key of a directory entry; `h` is ``name_hash(parent, name)``."""
    return _TABLE_NUMBER_HASH.pack(ENTRY_TABLE, parent, h) + name


def entry_prefix(parent: Ino) -> bytes:
    """Return what the keys of all entries of a directory begin with."""
    return _TABLE_NUMBER.pack(ENTRY_TABLE, parent)


def entry_from(parent: Ino, h: int) -> bytes:
    """Return the key at which a scan of a directory starts to see the entries with this hash and larger ones."""
    return _TABLE_NUMBER_HASH.pack(ENTRY_TABLE, parent, h)


def record_key(record: RecordId) -> bytes:
    """Return the key of a record's place and reference count."""
    return _TABLE_NUMBER.pack(RECORD_TABLE, record)


def xattr_key(ino: Ino, name: bytes) -> bytes:
    """Return the key of an extended attribute; `name` includes its class, such as ``user.``."""
    return _TABLE_NUMBER.pack(XATTR_TABLE, ino) + name


def xattr_prefix(ino: Ino) -> bytes:
    """Return what the keys of all extended attributes of an inode begin with."""
    return _TABLE_NUMBER.pack(XATTR_TABLE, ino)


def orphan_key(ino: Ino) -> bytes:
    """Return the key that marks an inode as unlinked but not yet freed."""
    return _TABLE_NUMBER.pack(ORPHAN_TABLE, ino)


def writing_key(ino: Ino) -> bytes:
    """Return the key that marks a solo file as open for write: its backing file tells size and times, not its inode."""
    return _TABLE_NUMBER.pack(WRITING_TABLE, ino)


def meta_key(name: bytes) -> bytes:
    """Return the key of a note of a shard about itself or the volume."""
    return META_TABLE + name


def table_of(key: bytes) -> bytes:
    """Return the table that a key is in, one of `TABLES`; raises `CorruptValue` if there is no such table."""
    table = key[:1]
    if table not in TABLES:
        raise CorruptValue(f"the key {key!r} is in no table of a shard; run shardfs fsck")
    return table


def parse_entry_key(key: bytes) -> tuple[Ino, int, bytes]:
    """Return parent, h and name of an entry's key."""
    if key[:1] != ENTRY_TABLE or len(key) <= _TABLE_NUMBER_HASH.size:
        raise _misfit(key, "a directory entry")
    _, parent, h = _TABLE_NUMBER_HASH.unpack_from(key)
    return parent, h, key[_TABLE_NUMBER_HASH.size :]


def parse_inode_key(key: bytes) -> Ino:
    """Return the inode number of an inode's key."""
    return Ino(_parse_number(key, INODE_TABLE, "an inode"))


def parse_record_key(key: bytes) -> RecordId:
    """Return the record id of a record's key."""
    return RecordId(_parse_number(key, RECORD_TABLE, "a record"))


def parse_xattr_key(key: bytes) -> tuple[Ino, bytes]:
    """Return inode number and attribute name of an extended attribute's key."""
    if key[:1] != XATTR_TABLE or len(key) <= _TABLE_NUMBER.size:
        raise _misfit(key, "an extended attribute")
    _, ino = _TABLE_NUMBER.unpack_from(key)
    return ino, key[_TABLE_NUMBER.size :]


def parse_orphan_key(key: bytes) -> Ino:
    """Return the inode number of an orphan's key."""
    return Ino(_parse_number(key, ORPHAN_TABLE, "an orphan"))


def parse_writing_key(key: bytes) -> Ino:
    """Return the inode number of the key of a file that is open for write."""
    return Ino(_parse_number(key, WRITING_TABLE, "a file open for write"))


def _parse_number(key: bytes, table: bytes, what: str) -> int:
    if key[:1] != table or len(key) != _TABLE_NUMBER.size:
        raise _misfit(key, what)
    number: int = _NUMBER.unpack_from(key, 1)[0]
    return number


def _misfit(key: bytes, what: str) -> CorruptValue:
    return CorruptValue(f"the key {key!r} is not that of {what}; run shardfs fsck")
