"""The byte tables of docs/FORMAT.md: without gaps, and as long as the structures of the code."""

import re
from pathlib import Path
from struct import Struct

import pytest

from shardfs.format import frames, keys, records, slots, superblock, values
from shardfs.ids import Ino
from shardfs.meta import shard

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "FORMAT.md"
HEAD = "| offset | size | field |"

LENGTHS = {
    "superblock or label": superblock._HEADER.size,
    "inode": values._INODE.size,
    "entry": values._ENTRY.size,
    "packed record": values._PACKED.size,
    "solo record": values._SOLO.size,
    "shard state": shard._STATE.size,
    "journal header": frames._HEADER.size + 8,
    "frame": frames._FRAME.size,
    "segment header": records._SEGMENT.size + 8,
    "record header": records._RECORD.size + 8,
    "slot table header": slots._TABLE.size + 8,
    "slot header": slots.HEADER_COPY_BYTES,
}


def byte_tables() -> list[list[tuple[int, int]]]:
    """Return offset and size of the fixed rows of every byte table, in the order of the document."""
    found = []
    for text in DOCUMENT.read_text().split(HEAD)[1:]:
        rows = text.strip("\n").split("\n\n")[0]
        found.append([(int(offset), int(size)) for offset, size in re.findall(r"^\| (\d+) \| (\d+) \|", rows, re.MULTILINE)])
    return found


def test_every_structure_has_its_table() -> None:
    assert len(byte_tables()) == len(LENGTHS)


@pytest.mark.parametrize("rows, length", list(zip(byte_tables(), LENGTHS.values(), strict=False)), ids=LENGTHS)
def test_a_table_has_no_gaps_and_the_length_of_its_structure(rows: list[tuple[int, int]], length: int) -> None:
    ends = [offset + size for offset, size in rows]
    assert [offset for offset, _ in rows] == [0, *ends[:-1]]
    assert ends[-1] == length


def test_every_table_of_a_shard_is_listed() -> None:
    listed = re.findall(r"^\| `([A-Z])` ", DOCUMENT.read_text(), re.MULTILINE)
    assert {table.encode() for table in listed} == set(keys.TABLES)


def test_every_format_version_is_listed() -> None:
    listed = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", DOCUMENT.read_text(), re.MULTILINE)
    assert [(int(number), name) for number, name in listed] == [(int(version), version.name) for version in superblock.FormatVersion]


def test_the_longest_key_is_one_that_lmdb_takes() -> None:
    longest = keys.entry_key(Ino(1), keys.HASH_END - 1, bytes(255))
    assert len(longest) == Struct(">cQQ255s").size <= 511
