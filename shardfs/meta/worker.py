"""The loop of a metadata worker process: the only writer of its shards.

It connects to the server's socket, says how far its shards are, and answers one question after the other. When the
server goes, it waits for the next one and begins again. It may be killed at any moment: a shard is then as its last
committed transaction left it, and the server sends again what is missing.

The process is spawned, and opens its shards here: an LMDB environment never lives across a fork.
"""

import logging
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from shardfs.errors import BadMessage, ShardfsError
from shardfs.ids import ShardId
from shardfs.meta.batch import apply_batch
from shardfs.meta.shard import Shard, shard_path
from shardfs.meta.usage import shard_usage
from shardfs.meta.wire import Channel, Hello, Kind, decode_batch, encode_failure, encode_hello, encode_outcome, encode_usage

RECONNECT_S = 30.0
"""How long a worker without a server waits for the next one."""
_RETRY_S = 0.05

_log = logging.getLogger(__name__)


def serve_worker(socket_path: str, shards_dir: str, worker: int, shards: Sequence[ShardId]) -> None:
    """Serve as worker number `worker` until the server tells it to leave or no server has been there for `RECONNECT_S`.

    Raises `CorruptShard`, `CorruptValue` or `DeviceFailed` if a shard cannot be opened.
    """
    opened: dict[ShardId, Shard] = {}
    try:
        for shard in shards:
            opened[shard] = Shard.open(shard_path(shards_dir, shard), shard)
        while (channel := _connect(socket_path)) is not None:
            if _serve_connection(channel, worker, opened):
                return
        _log.info("worker %d found no server at %s for %g s and leaves", worker, socket_path, RECONNECT_S)
    finally:
        for each in opened.values():
            each.close()


def _connect(socket_path: str) -> Channel | None:
    """Return a connection to the server, None if there is none for `RECONNECT_S`."""
    deadline_s = time.monotonic() + RECONNECT_S
    while time.monotonic() < deadline_s:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(socket_path)
        except OSError:
            connection.close()
            time.sleep(_RETRY_S)
        else:
            return Channel(connection)
    return None


def _serve_connection(channel: Channel, worker: int, shards: Mapping[ShardId, Shard]) -> bool:
    """Answer until the connection ends; return whether the worker is to leave."""
    try:
        hello = Hello(worker, {number: shard.state().applied_lsn for number, shard in shards.items()})
        channel.send(Kind.HELLO, encode_hello(hello), None)
        while True:
            kind, content = channel.receive(None)
            if kind == Kind.LEAVE:
                return True
            channel.send(*_answer(kind, content, shards), None)
    except (OSError, BadMessage) as error:
        _log.info("worker %d lost the server (%s) and waits for the next", worker, error)
        return False
    finally:
        channel.close()


def _answer(kind: Kind, content: Any, shards: Mapping[ShardId, Shard]) -> tuple[Kind, Any]:
    """Do what the server asks for; return the kind and content of the answer."""
    try:
        if kind == Kind.APPLY:
            return Kind.OUTCOME, encode_outcome(apply_batch(shards, decode_batch(content)))
        if kind == Kind.USAGE:
            return Kind.USED, encode_usage(shard_usage(shards.values()))
    except BadMessage:
        raise
    except ShardfsError as error:
        return Kind.FAILED, encode_failure(error)
    raise BadMessage(f"a worker does not understand {kind.name}; close the connection")
