"""Group commit: what is synced, in which order, and for whom."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardfs.core.loop import Done
from shardfs.core.turn import Waiting
from shardfs.errors import DeviceFailed, NotFound, Overloaded
from shardfs.format.values import SoloPlace
from shardfs.ids import ROOT_INO
from shardfs.limits import ADMISSION_WAIT_S, IDLE_SEAL_S
from tests.core.small_volume import PACK_THRESHOLD_BYTES, ROOT, SmallVolume, TracedFile

LARGE = b"L" * (PACK_THRESHOLD_BYTES + 1)


def test_data_is_synced_before_the_journal(small: SmallVolume) -> None:
    _, handle = small.begin(b"a", b"data")
    small.storage.trace.clear()
    small.call("fsync", handle, False)
    assert small.storage.trace == ["sync segments", "sync journal"]
    assert small.volume.journal.durable_lsn == small.volume.journal.last_lsn
    small.call("release", handle)


def test_a_synced_solo_file_is_synced_before_the_journal(small: SmallVolume) -> None:
    _, handle = small.begin(b"a", LARGE)
    small.storage.trace.clear()
    small.call("fsync", handle, False)
    assert small.storage.trace == ["sync solo", "sync journal"]
    small.call("release", handle)


def test_what_is_durable_already_needs_no_sync(small: SmallVolume) -> None:
    _, handle = small.begin(b"a", b"data")
    small.call("fsync", handle, False)
    small.storage.trace.clear()
    small.call("fsync", handle, False)
    assert small.storage.trace == []
    small.call("release", handle)


def test_all_who_wait_share_one_commit(small: SmallVolume) -> None:
    handles = [small.begin(b"%d" % number, b"data")[1] for number in range(8)]
    small.call("fsync", handles[0], False)
    for handle in handles:
        small.call("write", handle, 0, b"more")
    small.storage.trace.clear()
    waiting = [small.fs.fsync(handle, False) for handle in handles]
    while not all(one.is_done for one in waiting):
        small.loop.wait(0.01)
    # The first one starts at once; the other seven wait for the next one together.
    assert small.storage.trace == ["sync segments", "sync journal"] * 2
    for handle in handles:
        small.call("release", handle)


def test_renaming_a_large_file_syncs_its_data_with_the_rename(small: SmallVolume) -> None:
    small.add(b"model.tmp", LARGE)
    small.call("fsyncdir", small.call("opendir", ROOT_INO), False)
    _, handle = small.begin(b"other.tmp", LARGE)
    small.call("release", handle)
    small.call("rename", ROOT, ROOT_INO, b"other.tmp", ROOT_INO, b"other", 0)
    small.storage.trace.clear()
    small.call("fsyncdir", small.call("opendir", ROOT_INO), False)
    assert small.storage.trace == ["sync solo", "sync journal"]


def test_renaming_a_directory_syncs_everything_written(small: SmallVolume) -> None:
    directory = small.call("mkdir", ROOT, ROOT_INO, b"step.tmp", 0o755).ino
    for number in range(3):
        small.add(b"%d" % number, LARGE, parent=directory)
    small.storage.trace.clear()
    small.call("rename", ROOT, ROOT_INO, b"step.tmp", ROOT_INO, b"step", 0)
    small.call("fsyncdir", small.call("opendir", ROOT_INO), False)
    # One sync more: files that outgrow the pack threshold are synced with the record that says so.
    assert small.storage.trace[-1] == "sync journal"
    assert small.storage.trace.count("sync solo") == 3


def test_a_failed_sync_is_told_to_all_who_wait(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    _, handle = small.begin(b"a", b"data")
    _, other = small.begin(b"b", b"data")

    def fail() -> None:
        raise DeviceFailed("the disk is gone")

    monkeypatch.setattr(small.volume.segments, "sync", fail)
    first, second = small.fs.fsync(handle, False), small.fs.fsync(other, False)
    errors = [_error_of(small, first), _error_of(small, second)]
    assert [type(error) for error in errors] == [DeviceFailed, DeviceFailed]
    monkeypatch.undo()
    small.call("fsync", handle, False)
    assert small.volume.journal.durable_lsn == small.volume.journal.last_lsn


def _error_of(small: SmallVolume, waiting: Waiting) -> Exception | None:
    errors: list[Exception | None] = []
    waiting.on_done(lambda _result, error: errors.append(error))
    while not errors:
        small.loop.wait(0.01)
    return errors[0]


def test_the_journal_is_committed_every_second_without_being_asked(small: SmallVolume) -> None:
    small.add(b"a", b"data")
    assert small.volume.journal.durable_lsn < small.volume.journal.last_lsn
    small.loop.advance(1.1)
    assert small.volume.journal.durable_lsn == small.volume.journal.last_lsn
    small.loop.advance(1.1)
    assert len(small.volume.overlay) == 0, "the workers have applied what is durable"


def test_freed_bytes_stay_until_the_freeing_is_durable(small: SmallVolume) -> None:
    ino = small.add(b"large", LARGE)
    place = small.volume.record(small.volume.inodes.get(ino).record).place
    assert isinstance(place, SoloPlace)
    small.loop.advance(3.0)
    small.call("unlink", ROOT, ROOT_INO, b"large")
    small.fs.forget([(ino, 1)])
    assert small.volume.inodes.find(ino) is None
    small.volume.solos.open(place).close()
    small.loop.advance(3.0)
    with pytest.raises(NotFound):
        small.volume.solos.open(place)


def test_a_refill_that_hangs_gets_no_company(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging: list[object] = []
    run_blocking = small.loop.run_blocking

    def hang(work: Callable[[], Any], done: Done) -> None:
        if work == small.fs._refill:
            hanging.append(done)
        else:
            run_blocking(work, done)

    monkeypatch.setattr(small.loop, "run_blocking", hang)
    small.loop.advance(5.0)
    assert len(hanging) == 1, "a saturated disk must leave I/O threads for reads"
    monkeypatch.undo()
    small.volume.in_background(small.fs._refill, "the refill failed")
    small.volume.background -= len(hanging)
    small.loop.advance(2.0)


def test_operations_that_find_the_overlay_full_do_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SmallVolume(tmp_path, overlay_max_keys=20)
    monkeypatch.setattr(small.volume.delivery, "pump", lambda durable: None)
    with pytest.raises(Overloaded):
        for number in range(20):
            small.add(b"%d" % number)
    assert small.loop.now_s >= ADMISSION_WAIT_S
    monkeypatch.undo()
    small.add(b"again")
    small.close()


def test_closing_files_never_runs_out_of_numbers(small: SmallVolume) -> None:
    ino = small.add(b"log", b"0")
    numbers = small.volume.numbers
    numbers._next = numbers._bound - 5  # as after many appends, while nothing was created
    for number in range(10):
        handle = small.call("open", ROOT, ino, os.O_RDWR)
        small.call("write", handle, 0, b"%d" % number)
        small.call("release", handle)
    assert small.read(b"log") == b"9"
    assert numbers.left >= small.fs.session.numbers_needed


def test_a_rename_never_becomes_durable_after_its_data_was_lost(small: SmallVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [DeviceFailed("the disk could not write")]

    def fail_once(file: TracedFile) -> None:  # the kernel tells of a failed write-back once, then forgets it
        if errors:
            raise errors.pop()

    small.add(b"model.tmp", LARGE)
    small.call("rename", ROOT, ROOT_INO, b"model.tmp", ROOT_INO, b"model", 0)
    monkeypatch.setattr(TracedFile, "sync", fail_once)
    small.loop.advance(3.0)
    assert not errors
    assert small.volume.journal.durable_lsn < small.volume.journal.last_lsn
    with pytest.raises(DeviceFailed, match="mount again"):
        small.call("fsyncdir", small.call("opendir", ROOT_INO), False)
    monkeypatch.undo()
    small.reopen_as_after_a_kill()


def test_an_open_file_that_nobody_changes_is_sealed_after_a_while(small: SmallVolume) -> None:
    _, handle = small.begin(b"a", b"data")
    small.loop.advance(1.1)
    assert small.volume.slots.dirty_count == 1
    small.now_ns += int(IDLE_SEAL_S * 1e9) + 1
    small.loop.advance(1.1)
    assert small.volume.slots.dirty_count == 0
    small.call("write", handle, 4, b"more")
    small.call("release", handle)
    assert small.read(b"a") == b"datamore"
