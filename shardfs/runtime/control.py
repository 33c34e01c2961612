"""The control socket: requests of programs and commands to a running mount.

One message of `shardfs.format.messages` asks ``{"version": 1, "command": NAME, ...}``, one answers
``{"version": 1, "ok": True, "result": ...}`` or ``{"version": 1, "ok": False, "error": SENTENCE}``; a connection may ask
again. Only the user that runs the mount and root are answered. Each connection has a thread of its own.
"""

import contextlib
import logging
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any

from shardfs.errors import BadMessage, ShardfsError
from shardfs.format.messages import MessageReader, pack_message

CONTROL_VERSION = 1
REQUEST_MAX_BYTES = 1 << 20
IDLE_S = 60.0
"""How long a connection may be silent."""

Command = Callable[[Mapping[str, Any]], object]
"""Takes the request and returns the result. Raises `ShardfsError` to refuse. Any thread."""

_PEER = struct.Struct("iII")
_log = logging.getLogger(__name__)


class ControlServer:
    """Listens while it is entered."""

    def __init__(self, path: str, commands: Mapping[str, Command]) -> None:
        self._path = path
        self._commands = commands

    def __enter__(self) -> "ControlServer":
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self._server = _Listener(self._path, self._commands)
        os.chmod(self._path, 0o600)
        threading.Thread(target=self._server.serve_forever, name="shardfs-control", daemon=True).start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: str, commands: Mapping[str, Command]) -> None:
        self.commands = commands
        super().__init__(path, _Connection)


class _Connection(socketserver.BaseRequestHandler):
    request: socket.socket
    server: _Listener

    def handle(self) -> None:
        """Answer one request after the other."""
        self.request.settimeout(IDLE_S)
        reader = MessageReader(REQUEST_MAX_BYTES)
        try:
            while data := self.request.recv(65536):
                for message in reader.feed(data):
                    self.request.sendall(pack_message(self._answer(message)))
        except BadMessage as error:
            self.request.sendall(pack_message(_refusal(str(error))))
        except OSError as error:
            _log.info("a connection to the control socket ended: %s", error)

    def _answer(self, message: Any) -> dict[str, object]:
        if peer_uid(self.request) not in (0, os.geteuid()):
            return _refusal("only the user that runs this mount and root may ask")
        if not isinstance(message, dict) or message.get("version") != CONTROL_VERSION:
            return _refusal(f"this mount speaks version {CONTROL_VERSION} of the control protocol; use the shardfs that mounted it")
        command = self.server.commands.get(message.get("command", ""))
        if command is None:
            known = ", ".join(self.server.commands)
            return _refusal(f"unknown command {message.get('command')!r}; this mount knows {known}")
        try:
            return {"version": CONTROL_VERSION, "ok": True, "result": command(message)}
        except ShardfsError as error:
            return _refusal(str(error))
        except Exception:
            _log.exception("the command %s failed by a bug in shardfs", message["command"])
            return _refusal("the command failed by a bug in shardfs; see the log of the mount")


def _refusal(sentence: str) -> dict[str, object]:
    return {"version": CONTROL_VERSION, "ok": False, "error": sentence}


def peer_uid(connection: socket.socket) -> int:
    """Return who is at the other end of a Unix socket (SO_PEERCRED of unix(7))."""
    _pid, uid, _gid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(uid)
