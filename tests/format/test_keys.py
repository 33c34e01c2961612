"""Keys of a shard: their bytes, their order, their parsers, and the shard that an entry is in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.ids import MAX_SHARDS, ROOT_INO, Ino, RecordId

INO = Ino(0x0102030405060708)
NUMBERS = "0102030405060708"

numbers = st.integers(0, (1 << 64) - 1)
inos = numbers.map(Ino)
names = st.binary(min_size=1, max_size=255)
hashes = st.integers(keys.MIN_NAME_HASH, keys.HASH_END - 1)
shard_counts = st.integers(1, MAX_SHARDS)


def test_golden_bytes() -> None:
    assert keys.inode_key(INO).hex() == "49" + NUMBERS
    assert keys.record_key(RecordId(INO)).hex() == "52" + NUMBERS
    assert keys.orphan_key(INO).hex() == "4f" + NUMBERS
    assert keys.writing_key(INO).hex() == "57" + NUMBERS
    assert keys.entry_key(INO, 0x1112131415161718, b"ab").hex() == "45" + NUMBERS + "1112131415161718" + "6162"
    assert keys.entry_from(INO, 0x1112131415161718).hex() == "45" + NUMBERS + "1112131415161718"
    assert keys.entry_prefix(INO).hex() == "45" + NUMBERS
    assert keys.xattr_key(INO, b"user.a").hex() == "58" + NUMBERS + "757365722e61"
    assert keys.xattr_prefix(INO).hex() == "58" + NUMBERS
    assert keys.meta_key(b"state") == b"Mstate"


def test_golden_hashes() -> None:
    assert keys.name_hash(ROOT_INO, b"checkpoint") == 0x71471AD626EAA695
    assert keys.name_hash(Ino(256), b"checkpoint") == 0x3C06BF24ED5A2445
    assert [keys.home_shard(Ino(n << 8), 16) for n in range(1, 9)] == [14, 2, 1, 15, 4, 2, 13, 11]


@given(inos, hashes, names)
def test_entry_round_trip(parent: Ino, h: int, name: bytes) -> None:
    key = keys.entry_key(parent, h, name)
    assert keys.parse_entry_key(key) == (parent, h, name)
    assert key.startswith(keys.entry_prefix(parent))
    assert keys.entry_from(parent, h) <= key < keys.entry_from(parent, h + 1)
    assert keys.table_of(key) == keys.ENTRY_TABLE


@given(inos, names)
def test_numbered_keys_round_trip(ino: Ino, name: bytes) -> None:
    assert keys.parse_inode_key(keys.inode_key(ino)) == ino
    assert keys.parse_record_key(keys.record_key(RecordId(ino))) == RecordId(ino)
    assert keys.parse_orphan_key(keys.orphan_key(ino)) == ino
    assert keys.parse_writing_key(keys.writing_key(ino)) == ino
    assert keys.parse_xattr_key(keys.xattr_key(ino, name)) == (ino, name)
    assert keys.xattr_key(ino, name).startswith(keys.xattr_prefix(ino))


@given(numbers, numbers)
def test_keys_sort_as_their_numbers_do(one: int, other: int) -> None:
    assert (keys.inode_key(Ino(one)) < keys.inode_key(Ino(other))) == (one < other)
    assert (keys.entry_from(ROOT_INO, one) < keys.entry_from(ROOT_INO, other)) == (one < other)


@given(inos, names)
def test_name_hashes_leave_the_first_offsets_free(parent: Ino, name: bytes) -> None:
    assert keys.MIN_NAME_HASH <= keys.name_hash(parent, name) < keys.HASH_END


@pytest.mark.parametrize("digest, h", [(0, 3), (5, 3), (7, 3), (8, 4), ((1 << 64) - 1, keys.HASH_END - 1)])
def test_name_hash_is_the_upper_bits_but_at_least_three(monkeypatch: pytest.MonkeyPatch, digest: int, h: int) -> None:
    monkeypatch.setattr(keys, "xxh3_64_intdigest", lambda name, seed: digest)
    assert keys.name_hash(ROOT_INO, b"a") == h


@given(inos, shard_counts)
def test_home_shard_exists_and_the_root_is_at_home_in_the_first(directory: Ino, shards: int) -> None:
    assert 0 <= keys.home_shard(directory, shards) < shards
    assert keys.home_shard(ROOT_INO, shards) == 0


@given(hashes, hashes, shard_counts)
def test_split_shards_are_ascending_ranges_of_h(one: int, other: int, shards: int) -> None:
    low, high = sorted((one, other))
    assert 0 <= keys.split_shard(low, shards) <= keys.split_shard(high, shards) < shards


@pytest.mark.parametrize("shards", [1, 3, 16, MAX_SHARDS])
def test_split_uses_every_shard(shards: int) -> None:
    assert keys.split_shard(keys.MIN_NAME_HASH, shards) == 0
    assert keys.split_shard(keys.HASH_END - 1, shards) == shards - 1
    assert {keys.split_shard(step * keys.HASH_END // shards + 1, shards) for step in range(shards)} == set(range(shards))


@given(inos, hashes, shard_counts)
def test_entry_shard_follows_the_split(directory: Ino, h: int, shards: int) -> None:
    home, split = keys.home_shard(directory, shards), keys.split_shard(h, shards)
    assert keys.entry_shard(directory, 0, h, shards) == home
    assert keys.entry_shard(directory, h, h, shards) == home
    assert keys.entry_shard(directory, h + 1, h, shards) == split
    assert keys.entry_shard(directory, keys.HASH_END, h, shards) == split


@pytest.mark.parametrize("parse", [keys.parse_inode_key, keys.parse_record_key, keys.parse_orphan_key, keys.parse_writing_key])
@pytest.mark.parametrize(
    "key", [b"", b"I", b"I1234567", b"R1234567", b"O1234567", b"W1234567", b"I123456789", b"R123456789", b"O123456789", b"E12345678"]
)
def test_a_misfit_is_no_numbered_key(parse: object, key: bytes) -> None:
    with pytest.raises(CorruptValue, match="is not that of a"):
        parse(key)  # type: ignore[operator]


@pytest.mark.parametrize("key", [b"", b"E", b"E1234567812345678", b"I12345678", b"X1234567812345678a"])
def test_a_misfit_is_no_entry_key(key: bytes) -> None:
    with pytest.raises(CorruptValue, match="is not that of a directory entry"):
        keys.parse_entry_key(key)


@pytest.mark.parametrize("key", [b"", b"X", b"X12345678", b"E123456781"])
def test_a_misfit_is_no_xattr_key(key: bytes) -> None:
    with pytest.raises(CorruptValue, match="is not that of an extended attribute"):
        keys.parse_xattr_key(key)


def test_every_table_is_told_and_no_other() -> None:
    assert [keys.table_of(table + b"rest") for table in keys.TABLES] == list(keys.TABLES)
    for key in (b"", b"Zebra"):
        with pytest.raises(CorruptValue, match="in no table"):
            keys.table_of(key)
