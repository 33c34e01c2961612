"""The state file of a mount."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from shardfs.errors import SetupError
from shardfs.runtime.state import MountState, ProcessState, boot_id, read_state, write_state

STATE = MountState(
    volume="/v\udcff",
    volume_id="ab",
    mountpoint="/m",
    transport="pyfuse3",
    profile="mixed",
    workers=1,
    directory="/run",
    boot_id=boot_id(),
    processes=(ProcessState("server", 0, 11, 22, 0), ProcessState("worker", 0, 12, 23, 4)),
)


def test_it_reads_back_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(str(path), STATE)
    assert read_state(str(path)) == STATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(tmp_path) == ["state"]


def test_none_is_told_where_none_is(tmp_path: Path) -> None:
    assert read_state(str(tmp_path / "state")) is None


def test_pids_of_another_boot_mean_nothing(tmp_path: Path) -> None:
    write_state(str(tmp_path / "state"), replace(STATE, boot_id="another"))
    assert read_state(str(tmp_path / "state")) is None


def test_another_version_is_refused(tmp_path: Path) -> None:
    write_state(str(tmp_path / "state"), replace(STATE, version=99))
    with pytest.raises(SetupError, match="another version"):
        read_state(str(tmp_path / "state"))


@pytest.mark.parametrize("content", ["", "{", json.dumps({"version": 1, "processes": [{}]}), json.dumps([1])])
def test_damage_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "state").write_text(content)
    with pytest.raises(SetupError, match="cannot read the state file"):
        read_state(str(tmp_path / "state"))


def test_roles() -> None:
    server = STATE.with_role("server")
    assert server is not None and server.pid == 11 and STATE.with_role("mover") is None
