"""The lock of a volume."""

import os
import threading
from pathlib import Path

import pytest

from shardfs.core.formatting import SUPERBLOCK
from shardfs.errors import SetupError
from shardfs.runtime import lock
from shardfs.runtime.lock import last_state, take_lock, tell_lock


@pytest.fixture
def volume(tmp_path: Path) -> str:
    (tmp_path / SUPERBLOCK).touch()
    return str(tmp_path)


def test_a_held_lock_is_refused(volume: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "UNMOUNTING_S", 0.0)
    held = take_lock(volume)
    with pytest.raises(SetupError, match="is in use by another command; wait until that has ended"):
        take_lock(volume)
    os.close(held)
    os.close(take_lock(volume))


def test_a_lock_that_is_let_go_meanwhile_is_waited_for(volume: str) -> None:
    held = take_lock(volume)
    threading.Timer(0.1, lambda: os.close(held)).start()
    os.close(take_lock(volume))


def test_a_child_that_inherits_it_holds_it(volume: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "UNMOUNTING_S", 0.0)
    held = take_lock(volume)
    inherited = os.dup(held)
    os.close(held)
    with pytest.raises(SetupError, match="in use"):
        take_lock(volume)
    os.close(inherited)


@pytest.mark.parametrize("path", [".", "missing", "file", "file/below"])
def test_what_is_no_volume_gets_no_lock(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match="is not a shardfs volume"):
        take_lock(str(tmp_path / path))
    assert os.listdir(tmp_path) == ["file"]


def test_it_tells_nothing_before_the_first_mount(volume: str) -> None:
    assert last_state(volume) is None
    os.close(take_lock(volume))
    assert last_state(volume) is None


def test_a_state_file_that_is_gone_tells_nothing(volume: str, tmp_path: Path) -> None:
    held = take_lock(volume)
    tell_lock(held, str(tmp_path / "gone.json"))
    os.close(held)
    assert last_state(volume) is None
