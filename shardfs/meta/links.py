"""The server's way to its worker processes: a listening Unix socket, and a thread for each worker.

Who runs: the acceptor thread takes connections and HELLOs; the thread of a worker takes one job after the other from
its queue, sends, waits for the answer, and posts the result to the loop thread. `_Peer._changed` guards the connection,
which the acceptor hands over; nothing else is shared.

A worker may be gone at any byte. Its thread then waits for it to connect again, looks at how far its shards have come,
and sends again what is missing. A batch is given up with `WorkerLost` when the worker does not come back within the
patience, or is lost `ATTEMPTS` times over it. A process that connects in the place of another one replaces it, and the
other is told to leave: so the workers of a killed mount go away.
"""

import contextlib
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from shardfs.errors import BadMessage, SetupError, ShardfsError, WorkerLost
from shardfs.ids import Lsn, ShardId
from shardfs.meta.batch import Outcome, ShardBatch
from shardfs.meta.usage import Usage
from shardfs.meta.wire import Channel, Kind, decode_failure, decode_hello, decode_outcome, decode_usage, encode_batch

PATIENCE_S = 10.0
"""How long a batch waits for its worker to connect."""
ANSWER_S = 120.0
"""How long a worker may take for an answer: a batch is several syncs, beside a save that saturates the disk."""
HELLO_S = 5.0
ATTEMPTS = 3

_Answer = TypeVar("_Answer")
_log = logging.getLogger(__name__)


class SocketLinks:
    """A `WorkerLink` to worker processes. `send` is for the loop thread, `usage` for any other."""

    def __init__(
        self,
        socket_path: str,
        assignment: Sequence[Sequence[ShardId]],
        post: Callable[[Callable[[], None]], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`post` runs a function on the loop thread."""
        self.assignment = assignment
        self._socket_path = socket_path
        self._post = post
        self._peers = [_Peer(worker, shards, patience_s) for worker, shards in enumerate(assignment)]
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._is_closing = False
        self._greeted: Channel | None = None
        self._threads = [threading.Thread(target=peer.run, name=f"shardfs-worker-{peer.worker}", daemon=True) for peer in self._peers]
        self._threads.append(threading.Thread(target=self._accept, name="shardfs-workers", daemon=True))

    def start(self) -> None:
        """Listen and start the threads; raises `SetupError` if the socket cannot be made."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket_path)
        try:
            self._listener.bind(self._socket_path)
            os.chmod(self._socket_path, 0o600)
            self._listener.listen(len(self._peers) + 1)
        except OSError as error:
            raise SetupError(f"the workers' socket {self._socket_path} cannot be made ({error}); use a shorter or writable path") from error
        for thread in self._threads:
            thread.start()

    @property
    def connected(self) -> list[bool]:
        """Which workers are connected."""
        return [peer.is_connected for peer in self._peers]

    def send(self, worker: int, batch: list[ShardBatch], done: Callable[[Outcome], None]) -> None:
        """Let a worker apply a batch; `done` is called on the loop thread."""
        peer = self._peers[worker]

        def job() -> None:
            outcome = peer.apply(batch)
            if not self._is_closing:
                self._post(lambda: done(outcome))

        peer.jobs.put(job)

    def usage(self, timeout_s: float) -> Usage:
        """Return what all shards' records take; raises `WorkerLost`, or the error of a shard that cannot be read."""
        deadline_s = time.monotonic() + timeout_s
        usage = Usage()
        for worker, answer in enumerate([peer.ask_usage() for peer in self._peers]):
            try:
                usage.merge(answer.result(max(0.0, deadline_s - time.monotonic())))
            except FutureTimeout as error:
                raise WorkerLost(f"worker {worker} has not counted its records within {timeout_s:g} s; try again") from error
        return usage

    def close(self) -> None:
        """Stop listening, end all connections and threads. The worker processes wait for another server."""
        self._is_closing = True
        with contextlib.suppress(OSError):  # it never listened
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._greeted is not None:
            self._greeted.shut()
        for peer in self._peers:
            peer.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket_path)

    def _accept(self) -> None:
        while not self._is_closing:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if not self._is_closing:
                    _log.error("no connection of a worker can be taken: %s", error)
                    time.sleep(0.1)
                continue
            self._greet(Channel(connection))

    def _greet(self, channel: Channel) -> None:
        """Hand a new connection to the thread of the worker that it says to be."""
        self._greeted = channel  # before the look at `_is_closing`, which `close` sets before it looks here
        try:
            if self._is_closing:
                raise ConnectionAbortedError("the mount is closing")
            kind, content = channel.receive(HELLO_S)
            if kind != Kind.HELLO:
                raise BadMessage(f"a worker begins with {kind.name} instead of HELLO")
            hello = decode_hello(content)
            if hello.worker in range(len(self._peers)) and set(hello.applied) == set(self.assignment[hello.worker]):
                self._peers[hello.worker].attach(channel, hello.applied)
                return
            _log.warning("a process calls itself worker %d with shards %s and is told to leave", hello.worker, sorted(hello.applied))
            channel.send(Kind.LEAVE, None, HELLO_S)
        except (OSError, BadMessage) as error:
            _log.warning("a connection to %s was no worker's: %s", self._socket_path, error)
        channel.close()


class _Peer:
    """One worker as the server sees it: its jobs, its connection, and how far its shards have come."""

    def __init__(self, worker: int, shards: Sequence[ShardId], patience_s: float) -> None:
        self.worker = worker
        self.jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._channel: Channel | None = None
        self._open: set[Channel] = set()
        self._applied = dict.fromkeys(shards, Lsn(0))
        self._is_stopped = False

    @property
    def is_connected(self) -> bool:
        """Whether the worker is there, as far as the last message to it showed."""
        return self._channel is not None

    def run(self) -> None:
        """Do one job after the other until `stop`: the thread of this worker."""
        while (job := self.jobs.get()) is not None:
            job()
        for channel in self._open:
            channel.close()

    def stop(self) -> None:
        """Wake the thread from whatever it waits for, and let it end."""
        with self._changed:
            self._is_stopped = True
            for channel in self._open:
                channel.shut()
            self._changed.notify_all()
        self.jobs.put(None)

    def attach(self, channel: Channel, applied: Mapping[ShardId, Lsn]) -> None:
        """Take a new connection of the worker; the process of an older one is told to leave."""
        with self._changed:
            if self._is_stopped:
                channel.close()
                return
            older, self._channel = self._channel, channel
            self._open.add(channel)
            self._advance(applied)
            self._changed.notify_all()
        if older is not None:
            self.jobs.put(lambda: self._dismiss(older))

    def apply(self, batch: Sequence[ShardBatch]) -> Outcome:
        """Let the worker apply what it lacks of a batch; return what became of all of it."""

        def lacking() -> Any:
            return encode_batch([part for part in batch if self._applied[part.shard] < part.through])

        try:
            outcome = self._ask(Kind.APPLY, lacking, Kind.OUTCOME, decode_outcome)
        except ShardfsError as error:
            return Outcome({}, {part.shard: error for part in batch})
        with self._changed:
            self._advance(outcome.applied)
        reached = {part.shard: self._applied[part.shard] for part in batch if self._applied[part.shard] >= part.through}
        return Outcome(reached, outcome.failed)

    def ask_usage(self) -> Future[Usage]:
        """Let the worker count its records."""
        future: Future[Usage] = Future()

        def job() -> None:
            try:
                future.set_result(self._ask(Kind.USAGE, lambda: None, Kind.USED, decode_usage))
            except ShardfsError as error:
                future.set_exception(error)

        self.jobs.put(job)
        return future

    def _ask(self, question: Kind, content: Callable[[], Any], answer: Kind, decode: Callable[[Any], _Answer]) -> _Answer:
        for _ in range(ATTEMPTS):
            channel = self._connection()
            try:
                channel.send(question, content(), ANSWER_S)
                kind, said = channel.receive(ANSWER_S)
                if kind == Kind.FAILED:
                    raise decode_failure(said)
                if kind != answer:
                    raise BadMessage(f"a worker answers {question.name} with {kind.name}")
                return decode(said)
            except (OSError, BadMessage) as error:
                self._lose(channel, error)
        raise WorkerLost(f"worker {self.worker} was lost {ATTEMPTS} times over one {question.name}; see its log")

    def _connection(self) -> Channel:
        with self._changed:
            self._changed.wait_for(lambda: self._channel is not None or self._is_stopped, self._patience_s)
            if self._channel is None:
                raise WorkerLost(f"worker {self.worker} has not connected for {self._patience_s:g} s; see its log")
            return self._channel

    def _advance(self, applied: Mapping[ShardId, Lsn]) -> None:
        for shard, lsn in applied.items():
            self._applied[shard] = max(lsn, self._applied[shard])

    def _dismiss(self, channel: Channel) -> None:
        """Tell a process that was replaced to leave; by now nobody else uses its connection."""
        try:
            channel.send(Kind.LEAVE, None, HELLO_S)
        except OSError:
            _log.debug("the former worker %d is gone already", self.worker)
        self._forget(channel)

    def _lose(self, channel: Channel, error: Exception) -> None:
        if not self._is_stopped:
            _log.warning("worker %d is lost (%s) and gets its work again when it is back", self.worker, error)
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        with self._changed:
            if self._channel is channel:
                self._channel = None
            self._open.discard(channel)
            channel.close()
