"""The journal's bytes: golden headers and frames, and that nothing but what was written validates."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfs.errors import CorruptJournal
from shardfs.format.frames import (
    FRAME_HEADER_BYTES,
    HEADER_BLOCK_BYTES,
    SYNC_FRAME_BYTES,
    FrameKind,
    JournalHeader,
    Operation,
    SyncMark,
    decode_frame,
    decode_frames,
    decode_journal_header,
    decode_operation,
    encode_frame,
    encode_journal_header,
    encode_operation,
    encode_sync,
    find_syncs,
    frame_size_bytes,
)
from shardfs.ids import Epoch, Lsn, RequestId, ShardId

HEADER = JournalHeader(
    volume_id=bytes(range(16)),
    sequence=5,
    epoch=Epoch(3),
    first_lsn=Lsn(101),
    previous_sequence=4,
    boot_id=bytes(range(100, 116)),
    salt=0x0102030405060708,
)
OPERATION = Operation(RequestId(77), "mkdir", ((ShardId(3), b"Ikey", b"value"), (ShardId(4), b"Egone", None)))
PACKED = encode_operation(*OPERATION)

u64s = st.integers(0, (1 << 64) - 1)
changes = st.tuples(st.integers(0, 255).map(ShardId), st.binary(max_size=40), st.none() | st.binary(max_size=300))
operations = st.builds(Operation, u64s.map(RequestId), st.text(max_size=12), st.lists(changes, max_size=6).map(tuple))
headers = st.builds(
    JournalHeader,
    volume_id=st.binary(min_size=16, max_size=16),
    sequence=u64s,
    epoch=u64s.map(Epoch),
    first_lsn=u64s.map(Lsn),
    previous_sequence=u64s,
    boot_id=st.binary(min_size=16, max_size=16),
    salt=u64s,
)


def segment(*frames: bytes, header: JournalHeader = HEADER) -> bytes:
    """A whole segment with these frames and room behind them."""
    return encode_journal_header(header) + b"".join(frames) + bytes(256)


def operation_frame(lsn: int, payload: bytes = PACKED) -> bytes:
    return encode_frame(HEADER, FrameKind.OPERATION, Lsn(lsn), payload)


def sync_frame(through: int, durable: int) -> bytes:
    return encode_sync(HEADER, SyncMark(Lsn(through), Lsn(durable)))


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def test_golden_header() -> None:
    block = encode_journal_header(HEADER)
    assert block[:96].hex() == (
        "7366736a726e6c00" + "01000000" + "00000000" + "000102030405060708090a0b0c0d0e0f"
        "0500000000000000" + "0300000000000000" + "6500000000000000" + "0400000000000000"
        "6465666768696a6b6c6d6e6f70717273" + "0807060504030201" + "53973003dabe3f1f"
    )
    assert block[96:] == bytes(HEADER_BLOCK_BYTES - 96)


def test_golden_operation() -> None:
    assert PACKED.hex() == "934da56d6b6469729293" + "03c404496b6579c40576616c7565" + "9304c40545676f6e65c0"


def test_golden_frames() -> None:
    assert operation_frame(101).hex() == (
        "73b736d7658a7e13" + "22000000" + "01" + "000000" + "0300000000000000" + "6500000000000000" + PACKED.hex() + "0000" * 3
    )
    assert sync_frame(102, 100).hex() == (
        "06ff4b68edb6e429" + "08000000" + "02" + "000000" + "0300000000000000" + "6600000000000000" + "6400000000000000"
    )


@given(headers)
def test_headers_come_back(header: JournalHeader) -> None:
    assert decode_journal_header(encode_journal_header(header)) == header


@given(st.integers(0, 95))
def test_a_damaged_header_is_refused(at: int) -> None:
    with pytest.raises(CorruptJournal):
        decode_journal_header(flipped(encode_journal_header(HEADER), at))


@pytest.mark.parametrize("block", [b"", encode_journal_header(HEADER)[:-1], bytes(HEADER_BLOCK_BYTES)])
def test_what_is_no_header_is_refused(block: bytes) -> None:
    with pytest.raises(CorruptJournal, match="not a journal segment"):
        decode_journal_header(block)


@given(operations)
def test_operations_come_back(operation: Operation) -> None:
    payload = encode_operation(operation.request, operation.kind, operation.changes)
    assert decode_operation(payload) == operation
    frame = operation_frame(101, payload)
    assert len(frame) == frame_size_bytes(len(payload))
    assert len(frame) % 8 == 0
    decoded = decode_frame(segment(frame), HEADER, HEADER_BLOCK_BYTES)
    assert decoded == (HEADER_BLOCK_BYTES, FrameKind.OPERATION, 101, payload)


@pytest.mark.parametrize("payload", [b"", b"\xc1", PACKED[:-1], PACKED + b"x", b"\x01", b"\x92\x01\x02"])
def test_a_payload_that_is_no_operation_is_refused(payload: bytes) -> None:
    with pytest.raises(CorruptJournal, match="no operation"):
        decode_operation(payload)


def test_a_value_that_cannot_be_encoded_leaves_nothing_behind() -> None:
    with pytest.raises(TypeError):
        encode_operation(RequestId(1), "bad", [(ShardId(0), b"key", object())])  # type: ignore[list-item]
    assert encode_operation(*OPERATION) == PACKED


@given(st.integers(0, len(operation_frame(101)) - 1))
def test_a_damaged_frame_is_not_there(at: int) -> None:
    content = segment(flipped(operation_frame(101), at))
    assert decode_frame(content, HEADER, HEADER_BLOCK_BYTES) is None


@given(st.integers(0, len(operation_frame(101)) - 1))
def test_a_cut_frame_is_not_there(length: int) -> None:
    assert decode_frame(segment()[:HEADER_BLOCK_BYTES] + operation_frame(101)[:length], HEADER, HEADER_BLOCK_BYTES) is None


@given(headers)
def test_a_frame_counts_under_its_own_header_only(other: JournalHeader) -> None:
    stale = encode_frame(other, FrameKind.OPERATION, HEADER.first_lsn, PACKED)
    assert (decode_frame(segment(stale), HEADER, HEADER_BLOCK_BYTES) is None) == (other != HEADER)


def test_frames_end_at_the_first_gap() -> None:
    frames = [operation_frame(101), sync_frame(101, 99), operation_frame(102), operation_frame(104)]
    assert [frame.lsn for frame in decode_frames(segment(*frames), HEADER)] == [101, 101, 102]
    assert list(decode_frames(segment(operation_frame(102)), HEADER)) == []


def test_a_full_segment_ends_without_room() -> None:
    content = encode_journal_header(HEADER) + operation_frame(101)
    assert [frame.lsn for frame in decode_frames(content, HEADER)] == [101]


def test_sync_frames_are_found_behind_damage() -> None:
    frames = [sync_frame(100, 99), operation_frame(101), sync_frame(101, 100), operation_frame(102), sync_frame(102, 101)]
    content = segment(*frames)
    damaged = flipped(content, HEADER_BLOCK_BYTES + SYNC_FRAME_BYTES + FRAME_HEADER_BYTES)
    assert [frame.lsn for frame in decode_frames(damaged, HEADER)] == [100]
    assert list(find_syncs(damaged, HEADER)) == [(100, 99), (101, 100), (102, 101)]


@given(st.binary(max_size=8), st.binary(max_size=40))
def test_a_sync_frame_of_another_header_in_a_payload_is_not_found(before: bytes, after: bytes) -> None:
    foreign = encode_sync(replace(HEADER, salt=1), SyncMark(Lsn(1 << 40), Lsn(1 << 40)))
    assert list(find_syncs(segment(operation_frame(101, before + foreign + after), sync_frame(101, 0)), HEADER)) == [(101, 0)]
