"""Asking a running mount over its control socket."""

import socket
from typing import Any

from shardfs.errors import BadMessage, SetupError
from shardfs.format.messages import MessageReader, pack_message
from shardfs.runtime.control import CONTROL_VERSION

ANSWER_S = 5.0
"""Longer than the server waits for its own loop, so that its answer about that still arrives."""


def ask(path: str, command: str, **arguments: Any) -> Any:
    """Return the result of a command; raises `SetupError` if nobody answers or the answer is a refusal."""
    request = {"version": CONTROL_VERSION, "command": command, **arguments}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(path)
            connection.sendall(pack_message(request))
            answer = _receive(connection)
    except (OSError, BadMessage) as error:
        raise SetupError(f"the mount does not answer on {path} ({error}); see the log beside it") from error
    if not answer["ok"]:
        raise SetupError(answer["error"])
    return answer["result"]


def _receive(connection: socket.socket) -> dict[str, Any]:
    reader = MessageReader()
    while data := connection.recv(65536):
        for answer in reader.feed(data):
            if isinstance(answer, dict) and "ok" in answer:
                return answer
            raise BadMessage("the answer has another form")
    raise BadMessage("the connection was closed")
