"""Solo files: the pool, durable names, spreading, and what a new server finds."""

import os
from pathlib import Path

import pytest

from shardfs.data.solo import SoloStore
from shardfs.errors import DeviceFailed, NoSpace, NotFound
from shardfs.format.values import SoloPlace
from shardfs.ids import DiskId, SoloId
from shardfs.limits import GIB, SPARE_SOLO_FILES
from shardfs.meta.usage import Usage
from shardfs.observe.counters import Counters

from .tight import TightStorage


class Rig:
    """Stores on the same directories, one after another, as servers open them."""

    def __init__(self, storage: TightStorage, counters: Counters, root: Path, disks: int) -> None:
        self.storage = storage
        self.counters = counters
        self.paths = [root / f"disk{disk}" for disk in range(disks)]
        for path in self.paths:
            path.mkdir()

    def start(self, *places: SoloPlace, damaged: int = 0) -> SoloStore:
        """Start the store as the next server does, with these backing files in the record tables."""
        disks = [(DiskId(disk), str(path)) for disk, path in enumerate(self.paths)]
        return SoloStore.start(self.storage, disks, Usage(solos=set(places), damaged=damaged), self.counters)

    def files(self) -> dict[SoloPlace, int]:
        """Return all backing files with their sizes."""
        return {
            SoloPlace(DiskId(disk), SoloId(int(path.name, 16))): path.stat().st_size
            for disk, root in enumerate(self.paths)
            for path in (root / "solo").glob("*/*")
        }


@pytest.fixture
def rig(storage: TightStorage, counters: Counters, tmp_path: Path) -> Rig:
    return Rig(storage, counters, tmp_path, disks=1)


@pytest.fixture
def two(storage: TightStorage, counters: Counters, tmp_path: Path) -> Rig:
    return Rig(storage, counters, tmp_path, disks=2)


def take(store: SoloStore, content: bytes = b"x") -> SoloPlace:
    place, file = store.take()
    assert file.stat().size == 0
    file.pwrite(content, 0)
    file.close()
    return place


def content(store: SoloStore, place: SoloPlace) -> bytes:
    file = store.open(place)
    try:
        return file.pread(file.stat().size, 0)
    finally:
        file.close()


def test_a_file_is_taken_opened_and_discarded(rig: Rig) -> None:
    store = rig.start()
    first, second = take(store, b"first"), take(store, b"second")
    assert content(store, first) == b"first" and content(store, second) == b"second"
    store.discard(first)
    with pytest.raises(NotFound):
        store.open(first)
    assert content(store, second) == b"second"
    store.discard(first)
    assert len({take(store) for _ in range(100)} | {first, second}) == 102, "no number comes twice"


def test_the_name_is_the_documented_one(rig: Rig) -> None:
    store = rig.start(SoloPlace(DiskId(0), SoloId(0x123456)))
    take(store)
    assert (rig.paths[0] / "solo" / "34" / "0000000000123457").stat().st_size == 1


def test_taking_from_the_pool_needs_no_other_call(rig: Rig) -> None:
    store = rig.start()
    store.sync()
    rig.storage.journal.clear()
    places = [take(store) for _ in range(SPARE_SOLO_FILES)]
    assert rig.storage.journal == [] and store.wants_refill
    store.sync()
    assert rig.storage.journal == []
    take(store)
    assert [entry[0] for entry in rig.storage.journal] == ["create"]
    store.sync()
    assert rig.storage.journal[1:] == [("sync", str(rig.paths[0] / "solo" / "00"))]
    store.refill()
    assert not store.wants_refill and rig.counters.get("solo.pool_empty") == 1
    assert rig.files().keys() >= set(places) and len(rig.files()) == 2 * SPARE_SOLO_FILES + 1


def test_names_in_the_pool_are_durable_after_a_refill_or_the_first_sync(rig: Rig) -> None:
    for make_durable in (SoloStore.sync, SoloStore.refill):
        store = rig.start()
        taken = [take(store) for _ in range(SPARE_SOLO_FILES)]
        make_durable(store)
        synced = {path for action, path in rig.storage.journal if action == "sync"}
        made = [path for action, path in rig.storage.journal if action == "create"]
        assert len(made) >= len(taken)
        assert {os.path.dirname(path) for path in made} | {str(rig.paths[0] / "solo"), str(rig.paths[0])} <= synced
        last_made = max(index for index, entry in enumerate(rig.storage.journal) if entry[0] == "create")
        assert ("sync", os.path.dirname(made[-1])) in rig.storage.journal[last_made:]


def test_a_directory_that_could_not_be_synced_is_tried_again(rig: Rig) -> None:
    store = rig.start()
    store.sync()
    for _ in range(SPARE_SOLO_FILES + 1):
        take(store)
    directory = str(rig.paths[0] / "solo" / "00")
    rig.storage.broken.add(directory)
    for _ in range(2):
        with pytest.raises(DeviceFailed):
            store.sync()
    rig.storage.broken.clear()
    rig.storage.journal.clear()
    store.sync()
    assert rig.storage.journal == [("sync", directory)]


def test_files_spread_over_the_disks_by_room(two: Rig) -> None:
    two.storage.leave(str(two.paths[0]), 3 * GIB)
    two.storage.leave(str(two.paths[1]), GIB)
    store = two.start()
    disks = [take(store).disk for _ in range(8)]
    assert disks.count(DiskId(0)) == 6 and set(disks[:4]) == {0, 1}


def test_a_full_disk_gets_no_file(two: Rig) -> None:
    two.storage.leave(str(two.paths[0]), 0)
    store = two.start()
    assert {take(store).disk for _ in range(2 * SPARE_SOLO_FILES)} == {1}
    two.storage.leave(str(two.paths[1]), 0)
    store.refill()
    with pytest.raises(NoSpace, match=r"disk0.*disk1"):
        store.take()
    two.storage.leave(str(two.paths[0]), GIB)
    assert take(store).disk == 0


def test_a_sync_is_counted(rig: Rig) -> None:
    store = rig.start()
    _, file = store.take()
    file.pwrite(b"x", 0)
    store.sync_file(file)
    file.close()
    assert rig.counters.get("solo.syncs") == 1


def test_the_next_server_keeps_what_is_referred_to_and_nothing_else(rig: Rig) -> None:
    store = rig.start()
    kept, lost = take(store, b"kept"), take(store, b"lost")
    empty = take(store, b"")
    store = rig.start(kept, empty)
    assert content(store, kept) == b"kept"
    files = rig.files()
    assert lost not in files and files[empty] == 0 and len(files) == 2 + SPARE_SOLO_FILES
    assert rig.counters.get("solo.removed") == 1
    taken = {take(store) for _ in range(2 * SPARE_SOLO_FILES)}
    assert not taken & {kept, empty, lost}


def test_empty_files_are_pool_again_but_no_more_than_it_holds(rig: Rig) -> None:
    store = rig.start()
    store.refill()
    before = rig.files()
    rig.storage.journal.clear()
    rig.start()
    assert rig.files() == before and not [entry for entry in rig.storage.journal if entry[0] != "sync"]
    group = rig.paths[0] / "solo" / "03"
    group.mkdir()
    for number in range(0x3E8, 0x3F0):
        (group / f"{number:016x}").touch()
    rig.start()
    assert rig.files() == before, "the pool was full"


def test_a_file_in_a_directory_that_is_not_its_own_is_foreign(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.start()
    foreign = rig.paths[0] / "solo" / "00" / f"{0x3E8:016x}"
    foreign.touch()
    rig.start()
    assert foreign.exists() and "3e8 is no backing file" in caplog.text


def test_a_missing_file_is_told(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    store = rig.start(SoloPlace(DiskId(0), SoloId(77)))
    assert "000000000000004d is missing" in caplog.text
    assert take(store).solo > 77


def test_with_damaged_record_tables_nothing_is_removed(rig: Rig) -> None:
    store = rig.start()
    unknown = take(store, b"precious")
    pooled = rig.files().keys() - {unknown}
    store = rig.start(damaged=1)
    assert content(store, unknown) == b"precious"
    assert not {take(store) for _ in range(SPARE_SOLO_FILES)} & (pooled | {unknown}), "an empty file may be somebody's, too"


def test_foreign_files_are_left_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.start()
    foreign = rig.paths[0] / "solo" / "00" / "notes.txt"
    foreign.write_text("mine")
    (rig.paths[0] / "solo" / "README").write_text("mine")
    rig.start()
    assert foreign.read_text() == "mine" and "notes.txt" in caplog.text
