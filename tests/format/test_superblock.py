"""The superblock and the labels of disks: their bytes, round trips, and the error for each kind of damage."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_digest

from shardfs.errors import CorruptSuperblock, InternalError, SetupError
from shardfs.format.superblock import (
    NEWEST_FORMAT,
    DiskLabel,
    FormatVersion,
    Superblock,
    decode_disk_label,
    decode_superblock,
    encode_disk_label,
    encode_superblock,
)
from shardfs.ids import DiskId

VOLUME_ID = bytes(range(16))
LABEL = DiskLabel(DiskId(0), "hot", b"d" * 16)
SUPERBLOCK = Superblock(
    format_version=FormatVersion.FOUNDING,
    volume_id=VOLUME_ID,
    created_ns=1_700_000_000_000_000_000,
    shards=16,
    segment_bytes=64 << 20,
    pack_threshold_bytes=1 << 20,
    split_entries=2048,
    journal_dir="journal",
    disks=(LABEL,),
)
SUPERBLOCK_HEX = (
    "736861726466730101000000bc00000088a9766f6c756d655f6964c410000102030405060708090a0b0c0d0e0faa637265617465645f6e73cf17979cfe362a00"
    "00a673686172647310ad7365676d656e745f6279746573ce04000000b47061636b5f7468726573686f6c645f6279746573ce00100000ad73706c69745f656e74"
    "72696573cd0800ab6a6f75726e616c5f646972a76a6f75726e616ca56469736b739183a46469736b00a470617468a3686f74a76469736b5f6964c41064646464"
    "6464646464646464646464647f944b49ddc39e3f"
)
LABEL_HEX = (
    "7368617264667302010000004600000084a46469736b00a470617468a3686f74a76469736b5f6964c41064646464646464646464646464646464a9766f6c756d"
    "655f6964c410000102030405060708090a0b0c0d0e0fa9083d31ade3862a"
)

paths = st.text(st.characters(exclude_categories=["Cs"]) | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF))
ids = st.binary(min_size=16, max_size=16)
u63 = st.integers(0, (1 << 63) - 1)


@st.composite
def superblocks(draw: st.DrawFn) -> Superblock:
    threshold = draw(st.integers(1, 1 << 24))
    labels = draw(st.lists(st.tuples(paths, ids), min_size=1, max_size=4))
    return Superblock(
        format_version=FormatVersion.FOUNDING,
        volume_id=draw(ids),
        created_ns=draw(u63),
        shards=draw(st.integers(1, 256)),
        segment_bytes=draw(st.integers(2 * threshold, 1 << 40)),
        pack_threshold_bytes=threshold,
        split_entries=draw(u63),
        journal_dir=draw(paths),
        disks=tuple(DiskLabel(DiskId(number), *label) for number, label in enumerate(labels)),
    )


def rewrap(data: bytes, **changes: int) -> bytes:
    """Return an envelope with other bytes at some places of its header and a checksum that fits again."""
    content = bytearray(data[:-8])
    for name, value in changes.items():
        offset = {"version": 8, "length": 12}[name]
        content[offset : offset + 4] = value.to_bytes(4, "little")
    return bytes(content) + xxh3_64_digest(bytes(content))


def test_golden_bytes() -> None:
    assert encode_superblock(SUPERBLOCK).hex() == SUPERBLOCK_HEX
    assert encode_disk_label(VOLUME_ID, LABEL).hex() == LABEL_HEX


def test_format_versions_keep_their_names() -> None:
    assert {version.name: int(version) for version in FormatVersion} == {"FOUNDING": 1}


@given(superblocks())
def test_superblock_round_trip(superblock: Superblock) -> None:
    assert decode_superblock(encode_superblock(superblock), "/v/superblock") == superblock


@given(ids, st.builds(DiskLabel, st.integers(0, 255), paths, ids))
def test_disk_label_round_trip(volume_id: bytes, label: DiskLabel) -> None:
    assert decode_disk_label(encode_disk_label(volume_id, label), "/hot/label") == (volume_id, label)


def test_any_changed_byte_or_length_is_damage() -> None:
    data = encode_superblock(SUPERBLOCK)
    damaged = [data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :] for at in range(len(data))]
    for misfit in damaged + [data[:length] for length in range(len(data))] + [data + b"\0"]:
        with pytest.raises(CorruptSuperblock, match="/v/superblock is damaged"):
            decode_superblock(misfit, "/v/superblock")


def test_a_damaged_disk_label_is_told() -> None:
    data = encode_disk_label(VOLUME_ID, LABEL)
    for misfit in (b"", data[:-1], data[:20] + b"?" + data[21:]):
        with pytest.raises(CorruptSuperblock, match="disk label /hot/label is damaged"):
            decode_disk_label(misfit, "/hot/label")


def test_a_superblock_is_no_disk_label() -> None:
    with pytest.raises(CorruptSuperblock, match="magic"):
        decode_disk_label(encode_superblock(SUPERBLOCK), "/hot/label")


def test_a_newer_format_asks_for_a_newer_program() -> None:
    newer = rewrap(encode_superblock(SUPERBLOCK), version=NEWEST_FORMAT + 1)
    with pytest.raises(SetupError, match="is of format 2, this shardfs knows up to 1: install a newer one"):
        decode_superblock(newer, "/v/superblock")
    newer = rewrap(encode_disk_label(VOLUME_ID, LABEL), version=NEWEST_FORMAT + 1)
    with pytest.raises(SetupError, match="/hot/label is of format 2"):
        decode_disk_label(newer, "/hot/label")


@pytest.mark.parametrize("changes, reason", [({"version": 0}, "0 is not a valid FormatVersion"), ({"length": 3}, "length")])
def test_a_header_that_never_existed_is_damage(changes: dict[str, int], reason: str) -> None:
    with pytest.raises(CorruptSuperblock, match=reason):
        decode_superblock(rewrap(encode_superblock(SUPERBLOCK), **changes), "/v/superblock")


def test_an_envelope_without_a_header_is_damage() -> None:
    magic = encode_superblock(SUPERBLOCK)[:8]
    with pytest.raises(CorruptSuperblock):
        decode_superblock(magic + xxh3_64_digest(magic), "/v/superblock")


FLAWS = {
    "an id does not have 16 bytes": {"volume_id": b"short"},
    "0 shards are out of range": {"shards": 0},
    "257 shards are out of range": {"shards": 257},
    "disks are not numbered": {"disks": ()},
    "disks are not numbered 0": {"disks": (dataclasses.replace(LABEL, disk=DiskId(1)),)},
    "does not hold two": {"segment_bytes": 1 << 20},
    "does not hold two of": {"pack_threshold_bytes": 0},
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_broken_invariant_is_neither_written_nor_read(monkeypatch: pytest.MonkeyPatch, flaw: str) -> None:
    broken = dataclasses.replace(SUPERBLOCK, **FLAWS[flaw])  # type: ignore[arg-type]
    with pytest.raises(InternalError, match=flaw):
        encode_superblock(broken)
    with monkeypatch.context() as patch:
        patch.setattr("shardfs.format.superblock._flaw", lambda superblock: None)
        data = encode_superblock(broken)
    with pytest.raises(CorruptSuperblock, match=flaw):
        decode_superblock(data, "/v/superblock")
