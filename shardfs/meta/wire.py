"""The messages between the server and a metadata worker, over a Unix stream socket. The worker connects.

Each message is a pair of a kind and its content (`shardfs.format.messages` frames them):

    worker -> server   HELLO    worker, {shard: applied LSN}                    once, first
    server -> worker   APPLY    [shard, through, {key: value or nil}] ...       answered by OUTCOME or FAILED
    worker -> server   OUTCOME  {shard: applied LSN}, {shard: [cause, text]}
    server -> worker   USAGE                                                    answered by USED or FAILED
    worker -> server   USED     [segment, live bytes, records, end] ..., [disk, solo] ..., damaged, {shard: applied LSN}
    worker -> server   FAILED   cause, text
    server -> worker   LEAVE                                                    another process has this worker's place: exit

The worker answers one question after the other. A cause is the name of a class of `shardfs.errors`.
"""

import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple

from shardfs.errors import BadMessage, CorruptShard, CorruptValue, DeviceFailed, NoSpace, ShardfsError
from shardfs.format.messages import MessageReader, pack_message
from shardfs.format.values import SoloPlace
from shardfs.ids import Lsn, SegmentId, ShardId
from shardfs.meta.batch import Outcome, ShardBatch
from shardfs.meta.usage import SegmentUsage, Usage

_CHUNK_BYTES = 256 * 1024
_CAUSES: dict[str, type[ShardfsError]] = {cause.__name__: cause for cause in (NoSpace, DeviceFailed, CorruptShard, CorruptValue)}


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    APPLY = 2
    OUTCOME = 3
    USAGE = 4
    USED = 5
    FAILED = 6
    LEAVE = 7


class Hello(NamedTuple):
    """Who has connected, and how far its shards have come."""

    worker: int
    applied: dict[ShardId, Lsn]


class Channel:
    """One end of a connection. Used by one thread at a time, but for `shut`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = MessageReader()
        self._arrived: deque[Any] = deque()

    def send(self, kind: Kind, content: Any, timeout_s: float | None) -> None:
        """Send a message; raises `OSError` if the other end is gone or does not read in time."""
        self._connection.settimeout(timeout_s)
        self._connection.sendall(pack_message((kind, content)))

    def receive(self, timeout_s: float | None) -> tuple[Kind, Any]:
        """Return the next message; raises `OSError` if the other end is gone or silent, `BadMessage` if it sends rubbish."""
        self._connection.settimeout(timeout_s)
        while not self._arrived:
            data = self._connection.recv(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("the other end has closed the connection")
            self._arrived.extend(self._reader.feed(data))
        with _parsing("message"):
            kind, content = self._arrived.popleft()
            return Kind(kind), content

    def shut(self) -> None:
        """End the connection: whoever waits for it on either end is woken. From any thread, more than once."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end was faster

    def close(self) -> None:
        """Free the socket; nothing else may be called afterwards."""
        self._connection.close()


def encode_hello(hello: Hello) -> Any:
    """Return the content of HELLO."""
    return tuple(hello)


def decode_hello(content: Any) -> Hello:
    """Return what HELLO says; raises `BadMessage`."""
    with _parsing("HELLO"):
        worker, applied = content
        return Hello(int(worker), {ShardId(int(shard)): Lsn(int(lsn)) for shard, lsn in applied.items()})


def encode_batch(batch: Sequence[ShardBatch]) -> Any:
    """Return the content of APPLY."""
    return [tuple(part) for part in batch]


def decode_batch(content: Any) -> list[ShardBatch]:
    """Return what APPLY says; raises `BadMessage`."""
    with _parsing("APPLY"):
        return [ShardBatch(ShardId(shard), Lsn(through), dict(changes)) for shard, through, changes in content]


def encode_outcome(outcome: Outcome) -> Any:
    """Return the content of OUTCOME."""
    return outcome.applied, {shard: encode_failure(error) for shard, error in outcome.failed.items()}


def decode_outcome(content: Any) -> Outcome:
    """Return what OUTCOME says; raises `BadMessage`."""
    with _parsing("OUTCOME"):
        applied, failed = content
        return Outcome(dict(applied), {ShardId(shard): decode_failure(failure) for shard, failure in failed.items()})


def encode_usage(usage: Usage) -> Any:
    """Return the content of USED."""
    segments = [(segment, used.live_bytes, used.records, used.end_bytes) for segment, used in usage.segments.items()]
    return segments, [tuple(solo) for solo in usage.solos], usage.damaged, usage.applied


def decode_usage(content: Any) -> Usage:
    """Return what USED says; raises `BadMessage`."""
    with _parsing("USED"):
        segments, solos, damaged, applied = content
        used = {SegmentId(segment): SegmentUsage(*numbers) for segment, *numbers in segments}
        return Usage(used, {SoloPlace(*solo) for solo in solos}, damaged, dict(applied))


def encode_failure(error: ShardfsError) -> Any:
    """Return the content of FAILED."""
    return type(error).__name__, str(error)


def decode_failure(content: Any) -> ShardfsError:
    """Return the error that FAILED tells of; raises `BadMessage`."""
    with _parsing("FAILED"):
        cause, text = content
        return _CAUSES.get(cause, DeviceFailed)(text)


@contextmanager
def _parsing(what: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, AttributeError) as error:
        raise BadMessage(f"a {what} between server and worker has another form ({error}); close the connection") from error
