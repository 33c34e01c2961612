"""The control socket and its protocol."""

import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shardfs.client.control import ask
from shardfs.errors import Overloaded, SetupError
from shardfs.format.messages import MessageReader, pack_message
from shardfs.runtime.control import REQUEST_MAX_BYTES, ControlServer
from tests.posix.table import as_user


def refuse(_request: Mapping[str, Any]) -> None:
    raise Overloaded("too busy")


def crash(_request: Mapping[str, Any]) -> None:
    raise KeyError("a bug")


COMMANDS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "echo": lambda request: request["what"],
    "refuse": refuse,
    "crash": crash,
}


@pytest.fixture
def path() -> Iterator[str]:
    """The path of a served socket, in a directory that other users can search."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        socket_path = os.path.join(directory, "sock")
        with ControlServer(socket_path, COMMANDS):
            yield socket_path
        assert os.listdir(directory) == []


def exchange(path: str, sent: bytes) -> Any:
    """Send bytes and return the first answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(sent)
        reader = MessageReader()
        while data := connection.recv(4096):
            for answer in reader.feed(data):
                return answer
    return None


def test_a_command_and_its_result(path: str) -> None:
    assert ask(path, "echo", what={"a": [1, 2]}) == {"a": (1, 2)}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_several_requests_on_one_connection(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        reader = MessageReader()
        request = pack_message({"version": 1, "command": "echo", "what": 1})
        connection.sendall(request + request[:3])
        answers = reader.feed(connection.recv(4096))
        connection.sendall(request[3:])
        answers += reader.feed(connection.recv(4096))
    assert answers == [{"version": 1, "ok": True, "result": 1}] * 2


def test_a_silent_connection_does_not_keep_others_waiting(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(path)
        assert ask(path, "echo", what=1) == 1


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"version": 2, "command": "echo"}, "speaks version 1"),
        ({"command": "echo"}, "speaks version 1"),
        ("echo", "speaks version 1"),
        ({"version": 1, "command": "nonsense"}, "unknown command 'nonsense'; this mount knows echo, refuse, crash"),
        ({"version": 1, "command": "refuse"}, "too busy"),
        ({"version": 1, "command": "crash"}, "bug in shardfs; see the log"),
    ],
)
def test_refusals_are_sentences(path: str, request_: object, sentence: str) -> None:
    answer = exchange(path, pack_message(request_))
    assert answer["ok"] is False and answer["version"] == 1 and sentence in answer["error"]


@pytest.mark.parametrize("rubbish", [b"\xff\xff\xff\xff", (REQUEST_MAX_BYTES + 1).to_bytes(4, "little"), b"\x01\0\0\0\xc1"])
def test_rubbish_is_answered_and_the_server_lives(path: str, rubbish: bytes) -> None:
    assert exchange(path, rubbish)["ok"] is False
    assert ask(path, "echo", what=1) == 1


def test_other_users_are_refused(path: str) -> None:
    os.chmod(path, 0o666)

    def asks() -> None:
        with pytest.raises(SetupError, match="only the user that runs this mount and root may ask"):
            ask(path, "echo", what=1)

    as_user(asks)


def test_nobody_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the mount does not answer on"):
        ask(str(tmp_path / "sock"), "status")
