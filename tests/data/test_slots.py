"""Slots: content like that of a file, and what a kill at any moment leaves."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfs.data import slots as slots_module
from shardfs.data.slots import Slot
from shardfs.format.slots import encode_slot_header
from shardfs.ids import Ino

from .tables import left, open_table, taken

steps = st.lists(
    st.tuples(st.just("write"), st.integers(0, 9000), st.binary(min_size=1, max_size=5000))
    | st.tuples(st.just("truncate"), st.integers(0, 14000), st.none()),
    max_size=12,
)


def apply(slot: Slot, model: bytearray, step: tuple[str, int, bytes | None]) -> None:
    """Do a step to a slot and to the bytes that it should hold."""
    _, number, data = step
    if data is None:
        slot.truncate(number, 5)
        del model[number:]
        model.extend(bytes(number - len(model)))
    else:
        slot.write(number, data, 5)
        model.extend(bytes(max(0, number - len(model))))
        model[number : number + len(data)] = data


@settings(max_examples=60, deadline=None)
@given(steps, st.binary(max_size=6000))
def test_content_is_that_of_a_file(steps: list[tuple[str, int, bytes | None]], first: bytes) -> None:
    directory = Path(mkdtemp(dir="/dev/shm", prefix="shardfs-test-"))
    try:
        table = open_table(directory / "slots")
        garbage = taken(table, 1, b"\xff" * 20000)
        table.free(garbage)
        slot, model = taken(table, 2, first), bytearray(first)
        for step in steps:
            apply(slot, model, step)
            assert slot.size == len(model) and bytes(slot.content()) == model
            assert slot.read(100, 3000) == model[100:3100]
        table.close()
        assert left(directory / "slots") == {2: bytes(model)}
    finally:
        shutil.rmtree(directory)


def test_a_slot_begins_with_its_content_and_goes_on_with_zeros(path: Path) -> None:
    table = open_table(path)
    table.free(taken(table, 1, b"\xff" * 5000))
    slot = taken(table, 2, b"abc", size=4000)
    assert (slot.ino, slot.size, slot.mtime_ns, slot.ctime_ns) == (2, 4000, 1, 2)
    assert bytes(slot.content()) == b"abc".ljust(4000, b"\0")
    assert slot.read(3999, 100) == b"\0" and slot.read(4000, 1) == b"" and slot.read(9000, 1) == b""
    table.close()


def test_times_follow_writes_and_can_be_set(path: Path) -> None:
    table = open_table(path)
    slot = taken(table, 1)
    slot.write(0, b"x", 77)
    assert (slot.mtime_ns, slot.ctime_ns) == (77, 77)
    slot.set_times(-5, 99)
    table.close()
    table = open_table(path)
    (slot,) = table.recovered()
    assert (slot.mtime_ns, slot.ctime_ns) == (-5, 99)
    table.close()


def test_free_slots_are_not_recovered_and_used_again_the_last_first(path: Path) -> None:
    table = open_table(path)
    first, second = taken(table, 1), taken(table, 2)
    table.free(first)
    table.free(second)
    assert taken(table, 3).slot == second.slot
    assert taken(table, 4).slot == first.slot
    table.close()
    assert left(path) == {3: b"", 4: b""}


def test_a_freed_slot_object_is_of_no_use_any_more(path: Path) -> None:
    table = open_table(path)
    slot = taken(table, 1)
    table.free(slot)
    with pytest.raises(AssertionError):
        slot.write(0, b"x", 1)
    with pytest.raises(AssertionError):
        slot.truncate(1, 1)
    with pytest.raises(AssertionError):
        slot.set_times(1, 1)
    with pytest.raises(AssertionError):
        table.free(slot)
    table.close()


def test_every_slot_can_be_taken_once(path: Path) -> None:
    table = open_table(path)
    count = table.geometry.slots
    slots = [taken(table, ino + 1, b"x") for ino in range(count)]
    assert table.take(Ino(9999), 0, 0, 0) is None
    assert table.dirty_count == count and table.oldest() is slots[0]
    table.free(slots[0])
    assert table.oldest() is slots[1] and table.dirty_slots() == slots[1:]
    assert taken(table, 9999).slot == slots[0].slot
    table.close()


# What a kill leaves -------------------------------------------------------------------------------------------------


def each_kill(path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[dict[int, bytes]]:
    """Return what a server would find that comes after a kill at each of the points that `act` passes."""
    copies: list[Path] = []

    def copy(_point: str) -> None:
        copies.append(path.with_name(f"copy{len(copies)}"))
        shutil.copy(path, copies[-1])

    monkeypatch.setattr(slots_module, "reach", copy)
    act()
    monkeypatch.undo()
    return [left(found) for found in copies]


def test_a_kill_in_a_write_leaves_the_old_size_or_the_new_content(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(path)
    slot = taken(table, 1, b"acknowledged")
    found = each_kill(path, monkeypatch, lambda: slot.write(20, b"more", 9))
    assert found == [{1: b"acknowledged"}, {1: b"acknowledged".ljust(20, b"\0") + b"more"}]
    table.close()


def test_a_kill_in_a_truncation_leaves_the_old_or_the_new_content(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(path)
    slot = taken(table, 1, b"acknowledged")
    assert each_kill(path, monkeypatch, lambda: slot.truncate(3, 9)) == [{1: b"ack"}]
    assert each_kill(path, monkeypatch, lambda: slot.truncate(5, 9)) == [{1: b"ack\0\0"}]
    table.close()


def test_taking_a_slot_shows_nothing_or_everything(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(path)
    table.free(taken(table, 1, b"old"))
    found: list[dict[int, bytes]] = []

    def header(seq: int, state: int, ino: Ino, size: int, mtime_ns: int, ctime_ns: int) -> bytes:
        shutil.copy(path, path.with_name("copy"))
        found.append(left(path.with_name("copy")))
        return encode_slot_header(seq, state, ino, size, mtime_ns, ctime_ns)

    monkeypatch.setattr(slots_module, "encode_slot_header", header)
    taken(table, 2, b"new")
    monkeypatch.undo()
    assert found == [{}]
    table.close()
    assert left(path) == {2: b"new"}


@given(st.integers(0, 63))
@settings(max_examples=20, deadline=None)
def test_a_kill_in_the_middle_of_a_header_leaves_the_one_before(written: int) -> None:
    directory = Path(mkdtemp(dir="/dev/shm", prefix="shardfs-test-"))
    try:
        table = open_table(directory / "slots")
        slot = taken(table, 1, b"acknowledged")
        at = table.geometry.header_offset(slot.slot)
        before = table.mapping[at : at + 128]
        slot.write(12, b"more", 9)
        after = table.mapping[at : at + 128]
        changed = next(half for half in (0, 64) if before[half : half + 64] != after[half : half + 64])
        table.mapping[at : at + 128] = before
        table.mapping[at + changed : at + changed + written] = after[changed : changed + written]
        table.close()
        torn = after[changed : changed + written] + before[changed + written : changed + 64] != after[changed : changed + 64]
        assert left(directory / "slots") == {1: b"acknowledged" if torn else b"acknowledgedmore"}
    finally:
        shutil.rmtree(directory)


WRITER = """
import sys
from shardfs.data.slots import SlotTable
from shardfs.ids import Ino
from shardfs.observe.counters import Counters
from shardfs.storage.real import RealStorage
table = SlotTable.open(RealStorage(), sys.argv[1], b"v" * 16, 65536, 1 << 20, Counters())
slot = table.take(Ino(1), 0, 0, 0)
for number in range(100):
    slot.write(number * 100, bytes([number]) * 100, number)
    print(number, flush=True)
"""


@pytest.mark.parametrize("point", ["slot.after_data:50", "slot.after_header:51"])
def test_a_killed_writer_leaves_what_it_acknowledged(path: Path, point: str) -> None:
    run = subprocess.run([sys.executable, "-c", WRITER, str(path)], env=os.environ | {"SHARDFS_KILL_AT": point}, capture_output=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    acknowledged = len(run.stdout.split())
    assert acknowledged == 49
    (content,) = left(path).values()
    expected = b"".join(bytes([number]) * 100 for number in range(100))
    assert content == expected[: len(content)] and len(content) in (4900, 5000)
