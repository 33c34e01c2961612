"""Worker processes for real: killed at each point and at any byte, cut off, replaced, out of space; nothing is lost.

Workers are spawned as the mount spawns them; each is ended by its own pid.
"""

import logging
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shardfs.errors import NoSpace, SetupError, WorkerLost
from shardfs.format import keys
from shardfs.format.messages import pack_message
from shardfs.format.values import PackedPlace, RecordEntry, SoloPlace, encode_record_entry
from shardfs.ids import DiskId, Ino, Lsn, SegmentId, ShardId, SoloId, make_record_id
from shardfs.meta import links as links_module
from shardfs.meta.batch import Outcome, ShardBatch
from shardfs.meta.delivery import Delivery, assign_shards
from shardfs.meta.links import SocketLinks
from shardfs.meta.overlay import Overlay
from shardfs.meta.shard import Shard, ShardState, shard_path
from shardfs.meta.usage import shard_usage
from shardfs.meta.wire import Channel, Hello, Kind, decode_batch, encode_hello, encode_outcome
from tests.meta.helpers import applied_lsns, create_shards, opened

SHARDS = 3
WORKERS = 2
WAIT_S = 30.0
SERVE = (
    "import sys; from shardfs.meta.worker import serve_worker\n"
    "serve_worker(sys.argv[1], sys.argv[2], int(sys.argv[3]), [int(number) for number in sys.argv[4].split(',')])\n"
)


class Mount:
    """The server's side: links, overlay, delivery and readers, with a loop that runs while the test waits."""

    def __init__(self, folder: Path, stack: ExitStack, patience_s: float = 10.0) -> None:
        self.folder = folder
        self.socket_path = str(folder / "workers")
        self.assignment = assign_shards(SHARDS, WORKERS)
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.links = SocketLinks(self.socket_path, self.assignment, self.posted.put, patience_s)
        self.links.start()
        stack.callback(self.links.close)
        self.shards = stack.enter_context(opened(folder, SHARDS, readonly=True))
        self.overlay = Overlay(applied_lsns(self.shards))
        self.delivery = Delivery(self.overlay, self.links)
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self._stack = stack

    def spawn(self, worker: int, kill_at: str = "") -> "subprocess.Popen[bytes]":
        numbers = ",".join(str(shard) for shard in self.assignment[worker])
        command = [sys.executable, "-c", SERVE, self.socket_path, str(self.folder), str(worker), numbers]
        process = subprocess.Popen(command, env={**os.environ, "SHARDFS_KILL_AT": kill_at})
        self._stack.callback(end, process)
        self.workers[worker] = process
        return process

    def respawn_killed(self) -> int:
        """Start a new worker for each that has killed itself; return how many."""
        killed = [worker for worker, process in self.workers.items() if process.poll() is not None]
        for worker in killed:
            assert self.workers[worker].wait() == -signal.SIGKILL
            self.spawn(worker)
        return len(killed)

    def run_until(self, is_done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not is_done():
            assert time.monotonic() < deadline_s, "the workers did not do their work"
            try:
                self.posted.get(timeout=0.02)()
            except queue.Empty:
                continue

    def send(self, worker: int, batch: list[ShardBatch]) -> list[Outcome]:
        """Send one batch past the delivery and return its outcomes: one."""
        outcomes: list[Outcome] = []
        self.links.send(worker, batch, outcomes.append)
        self.run_until(lambda: bool(outcomes))
        return outcomes


def end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait(WAIT_S)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    create_shards(tmp_path, SHARDS)
    with ExitStack() as stack:
        yield Mount(tmp_path, stack)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("shardfs-worker")] == []


def inode(number: int, shard: int) -> bytes:
    return keys.inode_key(Ino(number << 8 | shard))


def fill(mount: Mount, first: int, last: int) -> None:
    """Put records that create an inode in each shard and change one that they share."""
    for lsn in range(first, last):
        for shard in range(SHARDS):
            mount.overlay.put(Lsn(lsn), ShardId(shard), inode(lsn, shard), b"%d" % lsn)
            mount.overlay.put(Lsn(lsn), ShardId(shard), inode(1 << 20, shard), b"%d" % lsn)


def assert_applied(mount: Mount, last: int) -> None:
    for shard in mount.shards:
        assert shard.state() == ShardState(Lsn(last - 1), last, 0, 0, 0, 0)
        assert all(shard.get(inode(lsn, shard.shard)) == b"%d" % lsn for lsn in range(1, last))
        assert shard.get(inode(1 << 20, shard.shard)) == b"%d" % (last - 1)


def test_batches_reach_the_shards(mount: Mount) -> None:
    for worker in range(WORKERS):
        mount.spawn(worker)
    fill(mount, 1, 200)
    mount.delivery.pump(Lsn(150))
    mount.run_until(lambda: mount.overlay.oldest_pending_lsn() == 151)
    mount.delivery.pump(Lsn(199))
    mount.run_until(lambda: len(mount.overlay) == 0)
    assert_applied(mount, 200)
    assert mount.links.connected == [True, True]
    assert os.stat(mount.socket_path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("point", ["worker.before_apply", "worker.in_transaction", "worker.after_apply"])
def test_a_worker_killed_at_a_point_is_sent_what_it_lacks(mount: Mount, point: str, count: int) -> None:
    for worker in range(WORKERS):
        mount.spawn(worker, f"{point}:{count}")
    respawned = 0
    for first in range(1, 100, 20):
        fill(mount, first, first + 20)
        mount.delivery.pump(Lsn(first + 19))

        def is_applied() -> bool:
            nonlocal respawned
            respawned += mount.respawn_killed()
            return len(mount.overlay) == 0

        mount.run_until(is_applied)
    assert respawned == WORKERS and mount.delivery.failures == {}
    assert_applied(mount, 101)


def test_a_worker_that_was_killed_while_idle(mount: Mount) -> None:
    mount.spawn(1)
    first = ShardBatch(ShardId(1), Lsn(1), {inode(1, 1): b"1"})
    assert mount.send(1, [first]) == [Outcome({ShardId(1): Lsn(1)}, {})]
    end(mount.workers[1])
    mount.spawn(1)
    assert mount.send(1, [ShardBatch(ShardId(1), Lsn(2), {inode(1, 1): b"2"})]) == [Outcome({ShardId(1): Lsn(2)}, {})]


def connect(mount: Mount, worker: int, applied: dict[ShardId, Lsn]) -> Channel:
    """Pretend to be a worker."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(mount.socket_path)
    channel = Channel(connection)
    channel.send(Kind.HELLO, encode_hello(Hello(worker, applied)), WAIT_S)
    return channel


def raw_connection(mount: Mount) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(mount.socket_path)
    return connection


HELLO = pack_message((Kind.HELLO, (1, {1: 0})))
ANSWER = pack_message((Kind.OUTCOME, ({1: 5}, {})))


@pytest.mark.parametrize("sent_bytes", range(len(HELLO)))
def test_a_connection_that_breaks_within_hello_is_no_worker(mount: Mount, sent_bytes: int) -> None:
    connection = raw_connection(mount)
    connection.sendall(HELLO[:sent_bytes])
    connection.close()
    good = connect(mount, 1, {ShardId(1): Lsn(5)})
    outcomes: list[Outcome] = []
    mount.links.send(1, [ShardBatch(ShardId(1), Lsn(6), {})], outcomes.append)
    assert good.receive(WAIT_S)[0] == Kind.APPLY
    good.send(Kind.OUTCOME, encode_outcome(Outcome({ShardId(1): Lsn(6)}, {})), WAIT_S)
    mount.run_until(lambda: bool(outcomes))
    good.close()


@pytest.mark.parametrize("sent_bytes", range(len(ANSWER)))
def test_an_answer_that_breaks_off_is_asked_for_again(mount: Mount, sent_bytes: int) -> None:
    """Whether the lost worker had applied the batch is told by the LSN that the next one begins with."""
    outcomes: list[Outcome] = []
    bad = raw_connection(mount)
    bad.sendall(HELLO)
    mount.links.send(1, [ShardBatch(ShardId(1), Lsn(5), {inode(1, 1): b"v"})], outcomes.append)
    Channel(bad).receive(WAIT_S)
    bad.sendall(ANSWER[:sent_bytes])
    bad.close()
    good = connect(mount, 1, {ShardId(1): Lsn(5 if sent_bytes % 2 else 0)})
    kind, content = good.receive(WAIT_S)
    lacking = [] if sent_bytes % 2 else [ShardBatch(ShardId(1), Lsn(5), {inode(1, 1): b"v"})]
    assert kind == Kind.APPLY and decode_batch(content) == lacking
    good.send(Kind.OUTCOME, encode_outcome(Outcome({part.shard: part.through for part in lacking}, {})), WAIT_S)
    mount.run_until(lambda: bool(outcomes))
    assert outcomes == [Outcome({ShardId(1): Lsn(5)}, {})]
    good.close()


@pytest.mark.parametrize(
    "rubbish",
    [b"\xff" * 64, pack_message("no pair"), pack_message((99, None)), pack_message((Kind.OUTCOME, 5)), pack_message((Kind.USED, None))],
)
def test_a_worker_that_answers_rubbish_is_cut_off(mount: Mount, rubbish: bytes) -> None:
    outcomes: list[Outcome] = []
    bad = raw_connection(mount)
    bad.sendall(HELLO)
    mount.links.send(1, [ShardBatch(ShardId(1), Lsn(5), {})], outcomes.append)
    channel = Channel(bad)
    channel.receive(WAIT_S)
    bad.sendall(rubbish)
    with pytest.raises(ConnectionResetError):
        channel.receive(WAIT_S)
    channel.close()
    mount.spawn(1)
    mount.run_until(lambda: bool(outcomes))
    assert outcomes == [Outcome({ShardId(1): Lsn(5)}, {})]


def test_a_batch_that_kills_its_worker_again_and_again_is_given_up(mount: Mount) -> None:
    outcomes: list[Outcome] = []
    mount.links.send(1, [ShardBatch(ShardId(1), Lsn(5), {})], outcomes.append)
    for _ in range(links_module.ATTEMPTS):
        channel = connect(mount, 1, {ShardId(1): Lsn(0)})
        assert channel.receive(WAIT_S)[0] == Kind.APPLY
        channel.close()
    mount.run_until(lambda: bool(outcomes))
    assert outcomes[0].applied == {} and isinstance(outcomes[0].failed[ShardId(1)], WorkerLost)


def test_a_worker_that_never_comes_is_an_error_in_time(tmp_path: Path) -> None:
    create_shards(tmp_path, SHARDS)
    with ExitStack() as stack:
        mount = Mount(tmp_path, stack, patience_s=0.05)
        outcomes = mount.send(0, [ShardBatch(ShardId(0), Lsn(1), {}), ShardBatch(ShardId(2), Lsn(1), {})])
        assert outcomes[0].applied == {} and sorted(outcomes[0].failed) == [0, 2]
        with pytest.raises(WorkerLost, match="worker 0"):
            mount.links.usage(WAIT_S)


def test_usage_runs_out_of_time(mount: Mount) -> None:
    with pytest.raises(WorkerLost, match="within"):
        mount.links.usage(0.05)


def test_the_later_of_two_processes_stays(mount: Mount) -> None:
    """Workers that outlived a killed mount find the socket of the next one, and leave when its own workers come."""
    old = mount.spawn(1)
    mount.run_until(lambda: mount.links.connected[1])
    new = mount.spawn(1)
    assert old.wait(WAIT_S) == 0
    assert mount.send(1, [ShardBatch(ShardId(1), Lsn(1), {})]) == [Outcome({ShardId(1): Lsn(1)}, {})]
    assert new.poll() is None


@pytest.mark.parametrize(("worker", "applied"), [(7, {ShardId(1): Lsn(0)}), (-1, {ShardId(1): Lsn(0)}), (1, {ShardId(0): Lsn(0)}), (0, {})])
def test_a_worker_of_another_assignment_is_told_to_leave(mount: Mount, worker: int, applied: dict[ShardId, Lsn]) -> None:
    channel = connect(mount, worker, applied)
    assert channel.receive(WAIT_S)[0] == Kind.LEAVE
    channel.close()
    assert mount.links.connected == [False, False]


def test_a_worker_finds_the_next_server(mount: Mount, tmp_path: Path) -> None:
    mount.spawn(1)
    assert mount.send(1, [ShardBatch(ShardId(1), Lsn(1), {})]) == [Outcome({ShardId(1): Lsn(1)}, {})]
    mount.links.close()
    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    outcomes: list[Outcome] = []
    following = SocketLinks(mount.socket_path, mount.assignment, posted.put)
    following.start()
    try:
        following.send(1, [ShardBatch(ShardId(1), Lsn(2), {})], outcomes.append)
        posted.get(timeout=WAIT_S)()
    finally:
        following.close()
    assert outcomes == [Outcome({ShardId(1): Lsn(2)}, {})]
    assert mount.workers[1].poll() is None


def test_a_worker_without_a_server_leaves(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    mount.links.close()
    code = SERVE.replace("\n", "\nimport shardfs.meta.worker; shardfs.meta.worker.RECONNECT_S = 0.2\n", 1)
    done = subprocess.run([sys.executable, "-c", code, mount.socket_path, str(mount.folder), "1", "1"], timeout=WAIT_S)
    assert done.returncode == 0


def test_a_full_disk_fails_one_batch_and_the_worker_lives(mount: Mount) -> None:
    process = mount.spawn(0)
    assert mount.send(0, [ShardBatch(ShardId(0), Lsn(1), {})])[0].failed == {}
    large: dict[bytes, bytes | None] = {inode(number, 0): bytes(200) for number in range(1, 5000)}
    batch = [ShardBatch(ShardId(0), Lsn(2), large), ShardBatch(ShardId(2), Lsn(2), {inode(1, 2): b"small"})]
    limit_bytes = os.stat(os.path.join(mount.shards[0].path, "data.mdb")).st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
    outcome = mount.send(0, batch)[0]
    assert outcome.applied == {ShardId(2): Lsn(2)} and isinstance(outcome.failed[ShardId(0)], NoSpace)
    assert mount.shards[0].state().applied_lsn == 1
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert mount.send(0, batch) == [Outcome({ShardId(0): Lsn(2), ShardId(2): Lsn(2)}, {})]
    assert mount.shards[0].state().inodes == 4999 and process.poll() is None


def test_usage_is_counted_by_the_workers(mount: Mount) -> None:
    mount.links.close()
    for number, shard in enumerate(mount.shards):
        shard.close()
        writable = Shard.open(shard_path(str(mount.folder), ShardId(number)), ShardId(number))
        packed = RecordEntry(PackedPlace(SegmentId(number // 2), 4096, 100 * number, 0, 5), 1)
        solo = RecordEntry(SoloPlace(DiskId(0), SoloId(number)), 1)
        records = {make_record_id(sequence, ShardId(number)): entry for sequence, entry in ((1, packed), (2, solo))}
        writable.apply({keys.record_key(record): encode_record_entry(entry) for record, entry in records.items()}, Lsn(number + 1))
        writable.close()
    with ExitStack() as stack:
        following = Mount(mount.folder, stack)
        for worker in range(WORKERS):
            following.spawn(worker)
        usage = following.links.usage(WAIT_S)
        assert usage == shard_usage(following.shards) and len(usage.solos) == SHARDS and usage.applied == {0: 1, 1: 2, 2: 3}


def test_close_is_prompt_whatever_the_threads_wait_for(mount: Mount) -> None:
    """One worker never came, the other is silent over a batch; `done` is not called any more."""
    silent = connect(mount, 1, {ShardId(1): Lsn(0)})
    for worker in range(WORKERS):
        shard = mount.assignment[worker][0]
        mount.links.send(worker, [ShardBatch(shard, Lsn(1), {})], lambda _: pytest.fail("closed"))
    assert silent.receive(WAIT_S)[0] == Kind.APPLY
    begun_s = time.monotonic()
    mount.links.close()
    assert time.monotonic() - begun_s < 2
    assert mount.posted.empty() and not os.path.exists(mount.socket_path)
    silent.close()


def test_close_does_not_wait_for_a_silent_connection(mount: Mount) -> None:
    connection = raw_connection(mount)
    mount.run_until(lambda: mount.links._greeted is not None)
    begun_s = time.monotonic()
    mount.links.close()
    assert time.monotonic() - begun_s < 2
    connection.close()


def test_a_socket_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    links = SocketLinks(str(tmp_path / ("x" * 120)), [[ShardId(0)]], lambda _: None)
    with pytest.raises(SetupError, match="cannot be made"):
        links.start()
    links.close()


def test_losses_are_logged(mount: Mount, caplog: pytest.LogCaptureFixture) -> None:
    mount.spawn(1, "worker.before_apply:1")
    outcomes: list[Outcome] = []
    mount.links.send(1, [ShardBatch(ShardId(1), Lsn(1), {})], outcomes.append)

    def is_done() -> bool:
        mount.respawn_killed()
        return bool(outcomes)

    with caplog.at_level(logging.WARNING):
        mount.run_until(is_done)
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == ["worker 1 is lost"]
