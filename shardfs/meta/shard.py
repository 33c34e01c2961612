"""One metadata shard: an LMDB environment of its own. This module is the only user of lmdb.

Invariants:

- Only the shard's worker opens it for writing; any number of processes read it through the map at the same time.
- A process has at most one `Shard` for a path, and it never lives across a fork: LMDB's locks belong to processes.
- Each `apply` is one transaction, which also moves the shard's `ShardState`: what is stored is always exactly the
  journal's records up to `applied_lsn`, and the counts are those of the keys that are there.
- Every value is sealed with its key's checksum (`shardfs.format.values.seal_value`), the state included.
- Values are copied out before their transaction ends.

The state lies under ``M state``: six u64, little-endian, in the order of `ShardState`.

LMDB keeps its safe sync: a commit is durable when `apply` returns. The map is as large as a shard can ever become and
costs address space only.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from struct import Struct
from typing import NamedTuple

import lmdb
import lmdb.verify

from shardfs.errors import CorruptShard, CorruptValue, DeviceFailed, Exists, InternalError, NoSpace, ShardfsError
from shardfs.format import keys
from shardfs.format.values import open_value, seal_value
from shardfs.ids import Lsn, ShardId
from shardfs.limits import LMDB_MAP_BYTES, LMDB_MAX_READERS
from shardfs.observe import points

Changes = Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
"""Keys and their new values in the order in which they were made; None deletes."""

_DATA_FILE = "data.mdb"
STATE_KEY = keys.meta_key(b"state")
"""Where a shard notes its `ShardState`."""
_STATE = Struct("<6Q")
COUNTED_TABLES = (keys.INODE_TABLE, keys.ENTRY_TABLE, keys.RECORD_TABLE, keys.XATTR_TABLE, keys.ORPHAN_TABLE)
"""The tables in the order of their counts in `ShardState`."""
_NEARLY_FULL_BYTES = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.VersionMismatchError)

_verify: Callable[[str], list[str]] = lmdb.verify.verify  # without annotations of its own
_open_paths: set[str] = set()


class ShardState(NamedTuple):
    """How far a shard has come, and how many keys its tables hold."""

    applied_lsn: Lsn
    inodes: int
    entries: int
    records: int
    xattrs: int
    orphans: int


def shard_path(shards_dir: str, shard: ShardId) -> str:
    """Return the directory of a shard's environment below the volume's directory of shards."""
    return os.path.join(shards_dir, f"shard-{shard:02x}")


class Shard:
    """The keys and values of one shard. Reads may come from any thread, `apply` from one."""

    def __init__(self, path: str, shard: ShardId, environment: lmdb.Environment) -> None:
        """Use `create` and `open`."""
        self.path = path
        self.shard = shard
        self._environment = environment
        self._begin = environment.begin
        self._is_open = True

    @classmethod
    def create(cls, path: str, shard: ShardId) -> None:
        """Make an empty shard in a new directory; raises `Exists`, `NoSpace` or `DeviceFailed`."""
        try:
            os.mkdir(path, 0o700)
        except FileExistsError as error:
            raise Exists(f"{path} exists already; remove it or format another volume") from error
        except OSError as error:
            raise _outside_error(path, error) from error
        new = cls(path, shard, _open_environment(path, readonly=False))
        try:
            with new._begin(write=True) as transaction:
                _write_state(transaction, ShardState(Lsn(0), 0, 0, 0, 0, 0))
        except lmdb.Error as error:
            raise _explain(path, error) from error
        finally:
            new.close()

    @classmethod
    def open(cls, path: str, shard: ShardId, *, readonly: bool = False) -> "Shard":
        """Open a shard that `create` made; raises `CorruptShard`, `CorruptValue` or `DeviceFailed`.

        A data file that was cut short is refused: a read of a missing page would kill the process.
        """
        _check_file(path)
        opened = cls(path, shard, _open_environment(path, readonly=readonly))
        try:
            opened._check_length()
            opened.state()
        except ShardfsError:
            opened.close()
            raise
        return opened

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if there is none; raises `CorruptValue` or `CorruptShard`."""
        try:
            with self._begin() as transaction:
                stored: bytes | None = transaction.get(key)
        except lmdb.Error as error:
            raise _explain(self.path, error) from error
        return None if stored is None else open_value(key, stored)

    def scan(self, first_key: bytes, prefix: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return up to `limit` keys from `first_key` on that begin with `prefix`, and their values, in order."""
        try:
            with self._begin() as transaction:
                rows = list(islice(_rows(transaction, max(first_key, prefix), prefix), limit))
        except lmdb.Error as error:
            raise _explain(self.path, error) from error
        return [(key, open_value(key, stored)) for key, stored in rows]

    def walk(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys that begin with `prefix` and their values as stored, still sealed, in order.

        They are those of one moment. A read transaction is open until the iterator ends or is closed, and the shard
        cannot reuse pages in the meantime: for scans of a whole table.
        """
        try:
            with self._begin() as transaction:
                yield from _rows(transaction, prefix, prefix)
        except lmdb.Error as error:
            raise _explain(self.path, error) from error

    def apply(self, changes: Changes, through: Lsn) -> bool:
        """Apply the changes of all journal records up to `through` that this shard has not yet, in one transaction.

        Returns False, with nothing done, if the shard has passed `through` already. Raises `NoSpace`, `DeviceFailed`
        or `CorruptShard`; the shard is then as before.
        """
        return self._commit(dict(changes), through)

    def seed(self, changes: Changes) -> None:
        """Put what a new volume begins with: applied before the first journal record. Raises as `apply` does."""
        self._commit(dict(changes), None)

    def _commit(self, newest: Mapping[bytes, bytes | None], through: Lsn | None) -> bool:
        try:
            with self._begin(write=True) as transaction:
                state = _read_state(transaction, self.path)
                if through is not None and through <= state.applied_lsn:
                    return False
                added = _write_changes(transaction, newest)
                counts = (old + added[table[0]] for old, table in zip(state[1:], COUNTED_TABLES, strict=True))
                _write_state(transaction, ShardState(state.applied_lsn if through is None else through, *counts))
                points.reach("worker.in_transaction")
            self._environment.reader_check()
        except lmdb.Error as error:
            self._reopen()
            raise _explain(self.path, error) from error
        return True

    def recount(self) -> None:
        """Count all keys anew, for a shard whose counts are wrong. Raises as `apply` does."""
        try:
            with self._begin(write=True) as transaction:
                counts = [sum(1 for _ in _rows(transaction, table, table)) for table in COUNTED_TABLES]
                _write_state(transaction, ShardState(_read_state(transaction, self.path).applied_lsn, *counts))
        except lmdb.Error as error:
            self._reopen()
            raise _explain(self.path, error) from error

    def state(self) -> ShardState:
        """Return how far the shard has come and its counts."""
        try:
            with self._begin() as transaction:
                return _read_state(transaction, self.path)
        except lmdb.Error as error:
            raise _explain(self.path, error) from error

    def close(self) -> None:
        """Close the environment; nothing else may be called afterwards."""
        if self._is_open:
            self._is_open = False
            self._environment.close()
            _open_paths.discard(os.path.realpath(self.path))

    def _reopen(self) -> None:
        # After a failed write of a meta page LMDB refuses to go on with the same object.
        self._environment.close()
        _open_paths.discard(os.path.realpath(self.path))
        self._environment = _open_environment(self.path, readonly=False)
        self._begin = self._environment.begin

    def _check_length(self) -> None:
        # Pages at the end that are free need not exist (values of many pages leave such), so a short file only calls
        # for a closer look. The read transaction keeps the writer from reusing pages under it.
        try:
            with self._begin():
                if self._missing_bytes() and (problems := verify_shard(self.path)):
                    raise CorruptShard(f"{self.path}/{_DATA_FILE} is cut short ({problems[0]}); run shardfs fsck")
        except lmdb.Error as error:
            raise _explain(self.path, error) from error

    def _missing_bytes(self) -> int:
        """Return by how much the file is shorter than the pages that LMDB has numbered."""
        numbered_bytes = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
        return max(0, numbered_bytes - os.stat(os.path.join(self.path, _DATA_FILE)).st_size)


def verify_shard(path: str) -> list[str]:
    """Return what is wrong with the pages of a shard's file, read without LMDB; empty if nothing is.

    Nobody may be writing to the shard, or a read transaction must be open on it.
    """
    try:
        return _verify(path)
    except lmdb.verify.VerifyError as error:
        return [str(error)]


def _open_environment(path: str, *, readonly: bool) -> lmdb.Environment:
    real = os.path.realpath(path)
    if real in _open_paths:
        raise InternalError(f"{path} is open in this process already; LMDB allows one environment object for a path")
    try:
        environment = lmdb.Environment(
            path, map_size=LMDB_MAP_BYTES, max_readers=LMDB_MAX_READERS, mode=0o600, create=False, readonly=readonly, max_spare_txns=2
        )
    except lmdb.Error as error:
        raise _explain(path, error) from error
    _open_paths.add(real)
    return environment


def _check_file(path: str) -> None:
    # LMDB opened for writing would silently begin anew in an empty or missing file.
    data = os.path.join(path, _DATA_FILE)
    try:
        size_bytes = os.stat(data).st_size
    except FileNotFoundError as error:
        raise CorruptShard(f"{data} is missing; bring the file back or run shardfs fsck") from error
    except OSError as error:
        raise _outside_error(data, error) from error
    if not size_bytes:
        raise CorruptShard(f"{data} is empty; bring the file back or run shardfs fsck")


def _rows(transaction: "lmdb.Transaction[bytes]", first_key: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    cursor = transaction.cursor()
    if cursor.set_range(first_key):
        for row in cursor.iternext():
            if not row[0].startswith(prefix):
                return
            yield row


def _write_changes(transaction: "lmdb.Transaction[bytes]", newest: Mapping[bytes, bytes | None]) -> list[int]:
    """Put and delete; return by first byte of the key how many keys came to be, minus those that went."""
    added = [0] * 256
    put, delete = transaction.put, transaction.delete
    for key in sorted(newest):
        value = newest[key]
        if value is None:
            added[key[0]] -= delete(key)
            continue
        sealed = seal_value(key, value)
        if put(key, sealed, overwrite=False):
            added[key[0]] += 1
        else:
            put(key, sealed)
    return added


def _read_state(transaction: "lmdb.Transaction[bytes]", path: str) -> ShardState:
    stored = transaction.get(STATE_KEY)
    if stored is None:
        raise CorruptShard(f"{path} holds no state of a shard; run shardfs fsck")
    value = open_value(STATE_KEY, stored)
    if len(value) != _STATE.size:
        raise CorruptValue(f"the state in {path} has {len(value)} bytes instead of {_STATE.size}; run shardfs fsck")
    return ShardState._make(_STATE.unpack(value))


def _write_state(transaction: "lmdb.Transaction[bytes]", state: ShardState) -> None:
    transaction.put(STATE_KEY, seal_value(STATE_KEY, _STATE.pack(*state)))


def _explain(path: str, error: lmdb.Error) -> ShardfsError:
    """Return the error of ours for one of LMDB's."""
    if isinstance(error, (lmdb.MapFullError, lmdb.DiskError)) or error.code in _FULL or (error.code == errno.EIO and _is_full(path)):
        return NoSpace(f"no room for the shard {path} ({error}); free space on its disk")
    if isinstance(error, _DAMAGED):
        return CorruptShard(f"the shard {path} is damaged ({error}); run shardfs fsck")
    return DeviceFailed(f"LMDB failed on the shard {path} ({error}); see the kernel's log")


def _is_full(path: str) -> bool:
    """Return whether the disk is full: LMDB reports a write that the disk took only in part as an I/O error."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < _NEARLY_FULL_BYTES


def _outside_error(path: str, error: OSError) -> ShardfsError:
    if error.errno in _FULL:
        return NoSpace(f"no room for {path} ({error.strerror}); free space on its disk")
    return DeviceFailed(f"{path} cannot be used ({error.strerror}); check the disk and its permissions")
