"""The runtime directory and what is in it."""

import os
import stat
from pathlib import Path

import pytest

from shardfs.errors import SetupError
from shardfs.runtime.paths import DIRECTORY_VARIABLE, prepare_paths, runtime_directory, slots_path

VOLUME_ID = bytes(range(16))


def test_the_directory_by_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    assert runtime_directory() == "/run/shardfs"
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1234")
    assert runtime_directory() == "/run/user/1234/shardfs"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime_directory() == "/tmp/shardfs-1234"


def test_it_is_made_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "run"))
    paths = prepare_paths(VOLUME_ID)
    assert stat.S_IMODE(os.stat(paths.directory).st_mode) == 0o700
    assert paths.control == f"{tmp_path}/run/{VOLUME_ID.hex()}.sock"


@pytest.mark.parametrize(("mode", "uid"), [(0o755, 0), (0o700, 1)])
def test_one_that_others_can_reach_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int, uid: int) -> None:
    (tmp_path / "run").mkdir()
    os.chown(tmp_path / "run", uid, -1)
    os.chmod(tmp_path / "run", mode)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "run"))
    with pytest.raises(SetupError, match="not a directory of mode 0700 that belongs to this user"):
        prepare_paths(VOLUME_ID)


def test_one_with_a_path_too_long_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / ("long" * 20)))
    with pytest.raises(SetupError, match="too long for a socket"):
        prepare_paths(VOLUME_ID)


def test_the_slots_are_where_every_user_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = slots_path(VOLUME_ID)
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert slots_path(VOLUME_ID) == before == f"/dev/shm/shardfs-{VOLUME_ID.hex()}.slots"
