"""Syncing segments: what a sync covers, what waits, what a failure means; and all threads at once."""

import threading
from collections.abc import Callable

import pytest

from shardfs.errors import DeviceFailed
from shardfs.format.values import PackedPlace
from shardfs.storage.real import RealFile

from .rigs import Rig, fill


class Syncs:
    """Notes which files are synced, and runs `during` in the middle of the first sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, during: Callable[[], None] = lambda: None) -> None:
        self.paths: list[str] = []
        self._during = during
        self._real = RealFile.sync
        monkeypatch.setattr(RealFile, "sync", lambda file: self._sync(file))

    def _sync(self, file: RealFile) -> None:
        during, self._during = self._during, lambda: None
        during()
        self._real(file)
        self.paths.append(file._path)

    def of(self, place: PackedPlace) -> int:
        """Return how often a record's segment was synced."""
        return sum(path.endswith(f"seg-{place.segment:016x}") for path in self.paths)


def test_a_sync_covers_all_segments_also_those_that_filled_up(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rig.open()
    store.sync()
    syncs = Syncs(monkeypatch)
    places = fill(store, 21)
    store.sync()
    assert {syncs.of(place) for place in places} == {1}
    store.sync()
    assert {syncs.of(place) for place in places} == {1}, "nothing new, nothing synced"
    assert rig.counters.get("segment.syncs") == len(syncs.paths) + 1
    store.close()


def test_new_names_are_synced_before_the_records(rig: Rig) -> None:
    store = rig.open()
    rig.storage.journal.clear()
    fill(store, 21)
    directory = str(rig.paths[0] / "segments")
    assert ("sync", directory) not in rig.storage.journal
    store.sync()
    assert rig.storage.journal[-1] == ("sync", directory)
    store.close()


def test_the_names_of_spares_are_durable_after_a_refill_or_the_first_sync(rig: Rig) -> None:
    store = rig.open()
    directory = str(rig.paths[0] / "segments")
    fill(store, 1)
    store.sync()
    assert [entry[0] for entry in rig.storage.journal if directory in entry[1]] == ["create", "sync"]
    rig.storage.journal.clear()
    store.refill()
    assert [entry[0] for entry in rig.storage.journal] == ["create", "sync"]
    store.close()


def test_what_is_appended_during_a_sync_waits_for_the_next(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rig.open()
    first = fill(store, 1)
    late: list[PackedPlace] = []
    syncs = Syncs(monkeypatch, during=lambda: late.extend(fill(store, 8)))
    store.sync()
    assert syncs.of(first[0]) == 1
    store.sync()
    assert syncs.of(first[0]) == 2 and syncs.of(late[-1]) == 1 and late[-1].segment != first[0].segment
    store.close()


def test_a_sync_waits_for_the_one_before(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rig.open()
    (place,) = fill(store, 1)
    order: list[str] = []
    started, go_on = threading.Event(), threading.Event()

    def during() -> None:
        started.set()
        assert go_on.wait(10)
        order.append("first")

    syncs = Syncs(monkeypatch, during)
    first = threading.Thread(target=store.sync)

    def sync_too() -> None:
        store.sync()
        order.append(f"second sees {syncs.of(place)}")

    second = threading.Thread(target=sync_too)
    first.start()
    assert started.wait(10)
    second.start()
    go_on.set()
    first.join(10)
    second.join(10)
    assert order == ["first", "second sees 1"]
    store.close()


def test_after_a_failed_sync_nothing_is_called_durable(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rig.open()
    (place,) = fill(store, 1)

    def fail(self: RealFile) -> None:
        raise DeviceFailed("lost the disk")

    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "sync", fail)
        with pytest.raises(DeviceFailed):
            store.sync()
    with pytest.raises(DeviceFailed, match="lost the disk"):
        store.sync()
    assert store.read(place)
    store.close()


def test_readers_appends_and_recycling_get_along(rig: Rig) -> None:
    store = rig.open()
    kept = [(place, store.read(place)) for place in fill(store, 8, 8000)]
    stop, errors = threading.Event(), list[BaseException]()

    def background() -> None:
        try:
            while not stop.is_set():
                store.refill()
                store.sync()
                for place, payload in kept:
                    assert store.read(place) == payload
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=background) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        for place in fill(store, 30, 8000):
            store.drop_live(place)
    stop.set()
    for thread in threads:
        thread.join(20)
    assert errors == []
    store.sync()
    store.refill()
    space = store._space
    assert rig.counters.get("segment.recycled") + rig.counters.get("segment.removed") > 10
    writable = [*space._open.values(), *(segment for spares in space._spares.values() for segment in spares)]
    assert store.free_bytes() == space.usable_bytes == sum(map(space._usable, writable))
    assert {segment.segment for segment in writable} | {place.segment for place, _ in kept} == space.segments.keys()
    store.close()
