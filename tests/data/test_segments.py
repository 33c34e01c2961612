"""Segments: appending and reading, and what a new server finds."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardfs.data import segment_files
from shardfs.errors import CorruptRecord
from shardfs.format.records import (
    decode_record_header,
    decode_segment_header,
    header_size_bytes,
    record_size_bytes,
)
from shardfs.format.values import PackedPlace
from shardfs.ids import DiskId, Epoch, SegmentId
from shardfs.observe.counters import Counters
from shardfs.storage.files import BackingFile
from shardfs.storage.real import RealFile

from .rigs import LARGEST, SEGMENT_BYTES, VOLUME, Rig, fill, header
from .tight import TightStorage


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=255), st.binary(min_size=1, max_size=300), st.integers(1, 100)), max_size=30))
def test_what_is_appended_is_read(tmp_path_factory: pytest.TempPathFactory, records: list[tuple[bytes, bytes, int]]) -> None:
    rig = Rig(TightStorage(), Counters(), tmp_path_factory.mktemp("disks"), disks=2)
    store = rig.open()
    kept = [(store.append(header(1, name), data * times), data * times) for name, data, times in records]
    assert all(store.read_cached(place) == store.read(place) == payload for place, payload in kept)
    assert all(place.offset % 64 == 0 and place.length_bytes == len(payload) for place, payload in kept)
    store.close()
    store = rig.open(*(place for place, _ in kept))
    assert all(store.read(place) == payload for place, payload in kept)
    store.close()


def test_a_record_on_the_disk_tells_what_it_is(rig: Rig) -> None:
    store = rig.open()
    places = [store.append(header(1, b"first"), memoryview(b"one")), store.append(header(2, b"second"), b"two")]
    store.close()
    data = rig.file(places[0]).read_bytes()
    segment = decode_segment_header(data)
    assert segment == (DiskId(0), VOLUME, places[0].segment, Epoch(1))
    offset, found = 4096, []
    while offset < len(data):
        record = decode_record_header(data[offset:], segment.segment)
        begin = offset + header_size_bytes(len(record.name))
        found.append((record.name, record.record, record.ino, record.mtime_ns, data[begin : begin + record.length_bytes]))
        assert PackedPlace(segment.segment, offset, record.length_bytes, record.payload_checksum, len(record.name)) in places
        offset += record_size_bytes(len(record.name), record.length_bytes)
    assert found == [(b"first", 1, 2, 7, b"one"), (b"second", 2, 3, 7, b"two")]


def test_a_record_is_one_write_and_never_leaves_its_segment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rig.open()
    writes: list[tuple[int, int]] = []
    real = RealFile.pwrite

    def pwrite(self: RealFile, data: bytes, offset: int) -> None:
        writes.append((offset, len(data)))
        real(self, data, offset)

    monkeypatch.setattr(RealFile, "pwrite", pwrite)
    places = fill(store, 7)
    monkeypatch.undo()
    assert writes == [(place.offset, record_size_bytes(4, LARGEST)) for place in places]
    places += fill(store, 20)
    assert all(place.offset + record_size_bytes(4, LARGEST) <= SEGMENT_BYTES for place in places)
    assert set(rig.files().values()) == {SEGMENT_BYTES}
    store.close()


def test_damage_is_told_and_never_returned(rig: Rig) -> None:
    store = rig.open()
    place, other = store.append(header(), b"x" * 1000), store.append(header(), b"y" * 1000)
    with rig.file(place).open("r+b") as file:
        file.seek(place.offset + header_size_bytes(4) + 500)
        file.write(b"!")
    for read in (store.read, store.read_cached):
        with pytest.raises(CorruptRecord, match=str(place.offset)):
            read(place)
    assert store.read(other) == b"y" * 1000
    assert rig.counters.get("segment.corrupt") == 2
    store.close()


def test_a_record_whose_segment_is_cut_off_or_missing_is_corrupt(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    store = rig.open()
    place = store.append(header(), b"x" * 1000)
    store.close()
    path = rig.file(place)
    with path.open("r+b") as file:
        file.truncate(place.offset + 500)
    store = rig.open(place)
    assert "lost its end" in caplog.text
    with pytest.raises(CorruptRecord):
        store.read(place)
    store.close()
    path.unlink()
    store = rig.open(place)
    assert path.name in caplog.text
    for read in (store.read, store.read_cached):
        with pytest.raises(CorruptRecord, match=path.name):
            read(place)
    store.drop_live(place)
    store.close()


def test_what_the_page_cache_lacks_is_left_to_another_thread(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rig.open()
    place = store.append(header(), b"x" * 1000)
    assert store.read_cached(place) == b"x" * 1000
    monkeypatch.setattr(RealFile, "pread_cached", lambda self, size, offset: None)
    assert store.read_cached(place) is None
    monkeypatch.undo()
    store.close()
    store = rig.open(place)
    monkeypatch.setattr(segment_files, "IDLE_FILES", 0)
    assert store.read(place) == b"x" * 1000
    monkeypatch.setattr(rig.storage, "open", lambda *_: pytest.fail("opened a file on the loop thread"))
    assert store.read_cached(place) is None
    monkeypatch.undo()
    store.close()


def test_few_files_stay_open(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "IDLE_FILES", 2)
    store = rig.open()
    places = fill(store, 40)
    store.sync()
    store.close()
    opened: list[BackingFile] = []
    real, closes = RealFile.close, [0]

    def close(self: RealFile) -> None:
        closes[0] += 1
        real(self)

    def note(path: str, **options: bool) -> BackingFile:
        opened.append(TightStorage.open(rig.storage, path, **options))
        return opened[-1]

    monkeypatch.setattr(RealFile, "close", close)
    monkeypatch.setattr(rig.storage, "open", note)
    store = rig.open(*places)
    for place in places * 2:
        store.read(place)
    assert len(opened) - closes[0] <= 2 + 1, "two idle ones and the spare"
    store.close()
    assert len(opened) == closes[0]


def test_closing_gives_back_what_is_not_used(rig: Rig) -> None:
    store = rig.open()
    place = store.append(header(), b"x" * 1000)
    store.refill()
    assert list(rig.files().values()) == [SEGMENT_BYTES] * 2
    store.close()
    assert rig.files() == {f"seg-{place.segment:016x}": 4096 + record_size_bytes(4, 1000)}


def test_a_killed_server_is_cleaned_up_after(rig: Rig) -> None:
    killed = rig.open()
    live, dead = killed.append(header(), b"live"), killed.append(header(), b"never journaled")
    killed.refill()
    assert len(rig.files()) == 2
    store = rig.open(live)
    assert rig.files()[f"seg-{live.segment:016x}"] == dead.offset
    new = store.append(header(), b"new")
    assert new.segment > max(live.segment, 2) and (store.read(live), store.read(new)) == (b"live", b"new")
    assert decode_segment_header(rig.file(new).read_bytes()).epoch == 2
    assert rig.counters.get("segment.removed") == 1
    store.close()
    killed.close()


def test_numbers_go_on_behind_all_that_is_known(rig: Rig) -> None:
    store = rig.open(PackedPlace(SegmentId(0x500), 4096, 10, 1, 4))
    assert store.append(header(), b"x").segment == 0x501
    store.close()
    (rig.paths[0] / "segments" / f"seg-{0x900:016x}").write_bytes(b"")
    store = rig.open()
    assert store.append(header(), b"x").segment == 0x901
    store.close()


def test_a_segment_from_before_dies_like_any_other(rig: Rig) -> None:
    store = rig.open()
    places = fill(store, 2)
    store.close()
    store = rig.open(*places)
    store.drop_live(places[0])
    store.refill()
    assert store.read(places[1])
    store.drop_live(places[1])
    store.refill()
    assert f"seg-{places[0].segment:016x}" not in rig.files()
    store.close()


def test_with_damaged_record_tables_nothing_is_removed(rig: Rig) -> None:
    store = rig.open()
    places = fill(store, 20, 8000)
    store.close()
    before = rig.files()
    store = rig.open(places[0], damaged=1)
    store.drop_live(places[0])
    store.refill()
    assert before.items() <= rig.files().items()
    assert store.read(places[-1])
    store.close()


def test_foreign_files_are_left_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.open().close()
    foreign = rig.paths[0] / "segments" / "notes.txt"
    foreign.write_text("mine")
    rig.open().close()
    assert foreign.read_text() == "mine" and "notes.txt" in caplog.text
