"""The usage of the disks is what the records say, wherever they are: in the shards, in the overlay, or changed there."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfs.errors import SetupError
from shardfs.format import keys
from shardfs.format.records import record_size_bytes
from shardfs.format.values import PackedPlace, Place, RecordEntry, SoloPlace, encode_record_entry
from shardfs.ids import DiskId, Lsn, RecordId, SegmentId, ShardId, SoloId, make_record_id, record_shard
from shardfs.meta.inline import InlineWorkers
from shardfs.meta.overlay import Overlay
from shardfs.meta.usage import SegmentUsage, Usage, collect_usage, shard_usage
from shardfs.meta.view import View
from tests.meta.helpers import applied_lsns, create_shards, opened

SHARDS = 2
places = st.one_of(
    st.builds(
        PackedPlace,
        st.integers(1, 3).map(SegmentId),
        st.integers(64, 99).map(lambda block: block * 64),
        st.integers(0, 999),
        st.just(0),
        st.integers(0, 9),
    ),
    st.builds(SoloPlace, st.integers(0, 1).map(DiskId), st.integers(1, 99).map(SoloId)),
)
changes = st.lists(
    st.tuples(st.builds(make_record_id, st.integers(1, 4), st.integers(0, SHARDS - 1).map(ShardId)), st.one_of(st.none(), places)),
    max_size=12,
)


def expected(records: dict[RecordId, Place | None]) -> Usage:
    usage = Usage()
    for place in records.values():
        if isinstance(place, SoloPlace):
            usage.solos.add(place)
        elif place is not None:
            used = usage.segments.setdefault(place.segment, SegmentUsage())
            size_bytes = record_size_bytes(place.name_bytes, place.length_bytes)
            used.live_bytes += size_bytes
            used.records += 1
            used.end_bytes = max(used.end_bytes, place.offset + size_bytes)
    return usage


def value_of(place: Place | None) -> bytes | None:
    return None if place is None else encode_record_entry(RecordEntry(place, 1))


def without_repeated_solos(script: list[tuple[RecordId, Place | None]]) -> list[tuple[RecordId, Place | None]]:
    """A backing file belongs to one record."""
    return list(
        {
            place if isinstance(place, SoloPlace) else (place, index): (record, place) for index, (record, place) in enumerate(script)
        }.values()
    )


@settings(max_examples=60, deadline=None)
@given(changes, changes)
def test_overlay_and_shards_together(tmp_path_factory, stored, held) -> None:  # type: ignore[no-untyped-def]
    script = without_repeated_solos([*stored, *held])
    folder = tmp_path_factory.mktemp("shards")
    create_shards(folder, SHARDS)
    with opened(folder, SHARDS) as shards:
        in_shards = dict(script[: len(stored)])
        for shard in shards:
            mine = {keys.record_key(record): value_of(place) for record, place in in_shards.items() if record_shard(record) == shard.shard}
            shard.apply(mine, Lsn(1))
        overlay = Overlay(applied_lsns(shards))
        for record, place in script[len(stored) :]:
            overlay.put(Lsn(2), record_shard(record), keys.record_key(record), value_of(place))
        counted = InlineWorkers(shards).usage(timeout_s=1)
        assert counted.applied == {shard.shard: 1 for shard in shards}
        assert (counted.segments, counted.solos) == (expected(in_shards).segments, expected(in_shards).solos)
        assert_same(collect_usage(View(shards, overlay), counted), expected(dict(script)))


def assert_same(usage: Usage, wanted: Usage) -> None:
    """Equal, but for the end of a segment, which may be too large."""
    assert usage.solos == wanted.solos and usage.damaged == wanted.damaged == 0
    assert {segment: used.live_bytes for segment, used in usage.segments.items()} == {
        segment: used.live_bytes for segment, used in wanted.segments.items()
    }
    for segment, used in usage.segments.items():
        assert used.records == wanted.segments[segment].records and used.end_bytes >= wanted.segments[segment].end_bytes


def test_a_record_that_cannot_be_read_is_counted_as_damaged(tmp_path: Path) -> None:
    """Until a newer value in the overlay takes its place."""
    create_shards(tmp_path, 1)
    solo = encode_record_entry(RecordEntry(SoloPlace(DiskId(0), SoloId(1)), 1))
    damaged = keys.record_key(RecordId(256))
    with opened(tmp_path, 1) as shards:
        shards[0].apply({damaged: b"rubbish", keys.record_key(RecordId(512)): solo}, Lsn(1))
        usage = shard_usage(shards)
        assert usage.damaged == 1 and usage.solos == {SoloPlace(DiskId(0), SoloId(1))}
        overlay = Overlay(applied_lsns(shards))
        overlay.put(Lsn(2), ShardId(0), damaged, None)
        assert collect_usage(View(shards, overlay), usage).damaged == 0


def test_merge_adds_the_records_of_other_shards() -> None:
    one = Usage({SegmentId(1): SegmentUsage(64, 1, 4160)}, {SoloPlace(DiskId(0), SoloId(1))}, 1)
    two = Usage({SegmentId(1): SegmentUsage(128, 2, 8192), SegmentId(2): SegmentUsage(64, 1, 4160)}, set(), 2)
    one.merge(two)
    assert one.segments == {SegmentId(1): SegmentUsage(192, 3, 8192), SegmentId(2): SegmentUsage(64, 1, 4160)}
    assert one.damaged == 3 and len(one.solos) == 1


def test_a_shard_that_moves_on_while_it_is_counted_is_refused(tmp_path: Path) -> None:
    """A worker that outlived a killed mount may still finish its batch."""
    create_shards(tmp_path, 1)
    with opened(tmp_path, 1) as shards:
        view, usage = View(shards, Overlay(applied_lsns(shards))), shard_usage(shards)
        shards[0].apply({}, Lsn(1))
        with pytest.raises(SetupError, match="earlier mount"):
            collect_usage(view, usage)
