"""A shard keeps exactly what was applied, refuses what is damaged, and lives through full disks and killed processes."""

import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from shardfs.errors import CorruptShard, CorruptValue, DeviceFailed, Exists, InternalError, NoSpace
from shardfs.format import keys
from shardfs.ids import Ino, Lsn, RecordId, ShardId
from shardfs.meta.shard import Shard, ShardState, shard_path, verify_shard
from tests.meta.helpers import DIRECTORY, create_shards, entry, opened

ZERO = ShardId(0)
INODE = keys.inode_key(Ino(256))


@pytest.fixture
def path(tmp_path: Path) -> str:
    create_shards(tmp_path, 1)
    return shard_path(str(tmp_path), ZERO)


@contextmanager
def shard_at(path: str, *, readonly: bool = False) -> Iterator[Shard]:
    shard = Shard.open(path, ZERO, readonly=readonly)
    try:
        yield shard
    finally:
        shard.close()


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Let writes of this process beyond an offset fail, as on a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def many_inodes(count: int, seed: int = 1) -> dict[bytes, bytes | None]:
    made = random.Random(seed)
    return {keys.inode_key(Ino(number << 8)): made.randbytes(130) for number in range(1, count)}


def data_file(path: str) -> Path:
    return Path(path) / "data.mdb"


def run_python(code: str, *arguments: str, kill_at: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program that has `path` in its first argument."""
    environment = {**os.environ, "SHARDFS_KILL_AT": kill_at}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, timeout=60)


def test_a_new_shard_is_empty(path: str) -> None:
    with shard_at(path) as shard:
        assert shard.state() == ShardState(Lsn(0), 0, 0, 0, 0, 0)
        assert shard.get(INODE) is None and shard.scan(b"", b"", 5) == shard.scan(b"", b"M", 5)


def test_files_are_private(path: str) -> None:
    assert os.stat(path).st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in Path(path).iterdir()} == {0o600}


def test_create_does_not_touch_what_is_there(path: str) -> None:
    with pytest.raises(Exists):
        Shard.create(path, ZERO)


def test_apply_puts_deletes_and_moves_the_state(path: str) -> None:
    with shard_at(path) as shard:
        assert shard.apply([(INODE, b"one"), (keys.orphan_key(Ino(256)), b""), (INODE, b"two")], Lsn(7))
        assert shard.get(INODE) == b"two" and shard.get(keys.orphan_key(Ino(256))) == b""
        assert shard.apply({INODE: None}, Lsn(9))
        assert shard.get(INODE) is None and shard.state().applied_lsn == 9


def test_counts_are_exact(path: str) -> None:
    """A put over a key and the deletion of a missing one count nothing."""
    puts = [INODE, entry(9, b"a")[0], keys.record_key(RecordId(512)), keys.xattr_key(Ino(256), b"user.x"), keys.orphan_key(Ino(256))]
    with shard_at(path) as shard:
        shard.apply([(key, b"v") for key in puts], Lsn(1))
        shard.apply([(key, b"w") for key in puts], Lsn(2))
        shard.apply([(keys.inode_key(Ino(1024)), None), (puts[1], None), (keys.meta_key(b"note"), b"n")], Lsn(3))
        assert shard.state() == ShardState(Lsn(3), inodes=1, entries=0, records=1, xattrs=1, orphans=1)


def test_what_was_applied_is_not_applied_again(path: str) -> None:
    with shard_at(path) as shard:
        shard.apply({INODE: b"new"}, Lsn(5))
        assert not shard.apply({INODE: b"old"}, Lsn(5)) and not shard.apply({INODE: b"old"}, Lsn(4))
        assert shard.get(INODE) == b"new"


def test_seed_leaves_the_lsn(path: str) -> None:
    with shard_at(path) as shard:
        shard.seed([(INODE, b"root")])
        assert shard.state() == ShardState(Lsn(0), 1, 0, 0, 0, 0)


def test_recount_mends_wrong_counts(path: str) -> None:
    with shard_at(path) as shard:
        shard.apply({**many_inodes(10), keys.orphan_key(Ino(256)): b""}, Lsn(4))
    with lmdb.open(path) as environment, environment.begin(write=True) as transaction:
        transaction.delete(INODE)
    with shard_at(path) as shard:
        assert shard.state().inodes == 9
        shard.recount()
        assert shard.state() == ShardState(Lsn(4), inodes=8, entries=0, records=0, xattrs=0, orphans=1)


def test_scan_stays_in_its_prefix_and_limit(path: str) -> None:
    rows = [entry(h, b"n") for h in (3, 5, 7)]
    with shard_at(path) as shard:
        shard.apply([*rows, entry(4, b"other", parent=Ino(DIRECTORY + 256)), (INODE, b"i")], Lsn(1))
        prefix = keys.entry_prefix(DIRECTORY)
        assert shard.scan(b"", prefix, 9) == rows and shard.scan(prefix, prefix, 2) == rows[:2]
        assert shard.scan(keys.entry_from(DIRECTORY, 5), prefix, 9) == rows[1:]
        assert shard.scan(keys.entry_from(DIRECTORY, 8), prefix, 9) == []


def test_walk_sees_one_moment(path: str) -> None:
    with shard_at(path) as shard:
        shard.apply(many_inodes(500), Lsn(1))
        walk = shard.walk(keys.INODE_TABLE)
        first = next(walk)[0]
        shard.apply(many_inodes(900), Lsn(2))
        assert len([first, *walk]) == 499


def test_one_object_for_a_path(path: str) -> None:
    with shard_at(path), pytest.raises(InternalError):
        Shard.open(path, ZERO, readonly=True)
    with shard_at(path):
        pass  # closing lets it be opened again


def test_a_changed_byte_is_found(path: str) -> None:
    marker = b"a value that is easy to find in the file"
    with shard_at(path) as shard:
        shard.apply({INODE: marker}, Lsn(1))
    raw = data_file(path).read_bytes()
    assert raw.count(marker) == 1
    data_file(path).write_bytes(raw.replace(marker, marker.swapcase()))
    with shard_at(path) as shard:
        with pytest.raises(CorruptValue):
            shard.get(INODE)
        with pytest.raises(CorruptValue):
            shard.scan(b"", keys.INODE_TABLE, 5)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_truncated_file_is_refused(path: str, readonly: bool) -> None:
    with shard_at(path) as shard:
        shard.apply(many_inodes(2000), Lsn(1))
    os.truncate(data_file(path), data_file(path).stat().st_size // 2)
    with pytest.raises(CorruptShard, match="cut short"):
        Shard.open(path, ZERO, readonly=readonly)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("left_bytes", [0, 100, 4096, 8192])
def test_a_file_of_nothing_is_refused_and_left_alone(path: str, readonly: bool, left_bytes: int) -> None:
    with shard_at(path) as shard:
        shard.apply(many_inodes(2000), Lsn(1))
    os.truncate(data_file(path), left_bytes)
    with pytest.raises(CorruptShard):
        Shard.open(path, ZERO, readonly=readonly)
    assert data_file(path).stat().st_size == left_bytes


@pytest.mark.parametrize("readonly", [False, True])
def test_a_missing_file_is_refused_and_not_made_anew(path: str, readonly: bool) -> None:
    data_file(path).unlink()
    with pytest.raises(CorruptShard, match="missing"):
        Shard.open(path, ZERO, readonly=readonly)
    assert not data_file(path).exists()


def test_rubbish_is_refused(path: str) -> None:
    data_file(path).write_bytes(random.Random(1).randbytes(65536))
    with pytest.raises(CorruptShard):
        Shard.open(path, ZERO)
    assert verify_shard(path)


def test_an_lmdb_file_that_is_no_shard_is_refused(path: str) -> None:
    data_file(path).unlink()
    lmdb.open(path).close()
    with pytest.raises(CorruptShard, match="no state"):
        Shard.open(path, ZERO)


def test_a_file_without_its_free_tail_opens(path: str) -> None:
    """LMDB numbers pages at the end that it frees before they are written: a file may lack them."""
    with shard_at(path) as shard:
        shard.apply(many_inodes(3000), Lsn(1))
        shard.apply(dict.fromkeys(many_inodes(3000)), Lsn(2))
        for lsn in range(3, 9):
            shard.apply({INODE: b"left"}, Lsn(lsn))
    raw = data_file(path).read_bytes()
    kept_bytes = len(raw)
    while not verify_shard(path):
        kept_bytes -= 4096
        os.truncate(data_file(path), kept_bytes)
    assert kept_bytes + 4096 < len(raw), "there is a free tail"
    with pytest.raises(CorruptShard, match="cut short"):
        Shard.open(path, ZERO)
    data_file(path).write_bytes(raw[: kept_bytes + 4096])
    with shard_at(path) as shard:
        assert shard.get(INODE) == b"left" and shard.apply(many_inodes(3000), Lsn(9))


def test_a_full_disk_fails_the_batch_and_nothing_else(path: str) -> None:
    with shard_at(path) as shard:
        shard.apply({INODE: b"before"}, Lsn(1))
        with file_size_limit(data_file(path).stat().st_size), pytest.raises(NoSpace):
            shard.apply({**many_inodes(5000), INODE: b"lost"}, Lsn(2))
        assert shard.get(INODE) == b"before" and shard.state() == ShardState(Lsn(1), 1, 0, 0, 0, 0)
        assert shard.apply(many_inodes(5000), Lsn(2)) and shard.state().inodes == 4999


def test_an_environment_that_refuses_is_opened_anew(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As LMDB's does every transaction after a failed write of a meta page; here it is one that was closed."""
    useless = lmdb.open(str(tmp_path / "other"))
    useless.close()
    with shard_at(path) as shard:
        monkeypatch.setattr(shard, "_begin", useless.begin)
        with pytest.raises(DeviceFailed):
            shard.apply({INODE: b"v"}, Lsn(1))
        assert shard.apply({INODE: b"v"}, Lsn(1)) and shard.get(INODE) == b"v"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB; mounting it takes root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_takes_half_of_a_write_is_full(small_disk: Path) -> None:
    create_shards(small_disk, 1)
    with shard_at(shard_path(str(small_disk), ZERO)) as shard:
        shard.apply({INODE: b"before"}, Lsn(1))
        for _ in range(3):
            with pytest.raises(NoSpace):
                shard.apply(many_inodes(9000), Lsn(2))
        assert shard.get(INODE) == b"before" and shard.apply({INODE: b"after"}, Lsn(2))


def test_readers_in_other_processes_see_each_commit(path: str) -> None:
    code = (
        "import sys; from shardfs.meta.shard import Shard\n"
        "shard = Shard.open(sys.argv[1], 0, readonly=True)\n"
        "for line in sys.stdin: print((shard.get(bytes.fromhex(sys.argv[2])) or b'').hex(), flush=True)\n"
    )
    reader = subprocess.Popen([sys.executable, "-c", code, path, INODE.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdin and reader.stdout
    with reader, shard_at(path) as shard:
        for number in range(1, 20):
            shard.apply({**many_inodes(200, number), INODE: bytes([number])}, Lsn(number))
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == f"{number:02x}\n"
        reader.stdin.close()
        assert reader.wait(30) == 0


APPLY = """
import sys
from shardfs.meta.shard import Shard
shard = Shard.open(sys.argv[1], 0)
for lsn in range(1, 6):
    shard.apply({b"I%07d" % number: b"%d" % lsn for number in range(2000)}, lsn)
"""


def test_a_writer_killed_in_its_transaction_leaves_the_last_commit(path: str) -> None:
    with shard_at(path, readonly=True) as shard:
        assert run_python(APPLY, path, kill_at="worker.in_transaction:3").returncode == -signal.SIGKILL
        assert shard.state() == ShardState(Lsn(2), 2000, 0, 0, 0, 0)
        assert {value for _, value in shard.scan(b"", keys.INODE_TABLE, 9999)} == {b"2"}
        done = run_python(APPLY, path)  # takes the lock over from the dead writer
        assert done.returncode == 0, done.stderr
        assert shard.state().applied_lsn == 5 and shard.get(b"I0000000") == b"5"


READ_AND_DIE = """
import os, signal, sys
from shardfs.meta.shard import Shard
walk = Shard.open(sys.argv[1], 0, readonly=True).walk(b"I")
next(walk)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_reader_does_not_hold_pages(path: str) -> None:
    """Its slot in LMDB's reader table is freed by the next apply, so the file stops growing."""
    with shard_at(path) as shard:
        shard.apply(many_inodes(5000), Lsn(1))
        assert run_python(READ_AND_DIE, path).returncode == -signal.SIGKILL
        sizes = []
        for lsn in range(2, 12):
            shard.apply(many_inodes(5000, lsn), Lsn(lsn))
            sizes.append(data_file(path).stat().st_size)
        assert sizes[3] == sizes[-1]


def test_shards_lie_side_by_side(tmp_path: Path) -> None:
    create_shards(tmp_path, 3)
    with opened(tmp_path, 3) as shards:
        shards[1].apply({INODE: b"one"}, Lsn(1))
    with opened(tmp_path, 3, readonly=True) as shards:
        assert [shard.get(INODE) for shard in shards] == [None, b"one", None]
