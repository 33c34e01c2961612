"""A small volume to damage: filling it without a mount, planting damage in it, checking and repairing it."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from shardfs.check.checker import check_volume
from shardfs.check.findings import Finding
from shardfs.check.repairer import RepairOptions, repair_volume
from shardfs.check.report import Report
from shardfs.core.filesystem import FileSystem
from shardfs.core.formatting import FormatOptions, format_volume, shards_dir
from shardfs.core.interface import Attributes, Caller
from shardfs.core.opening import OpenOptions, open_volume
from shardfs.errors import CorruptionError
from shardfs.format import keys
from shardfs.format.values import (
    Entry,
    Inode,
    PackedPlace,
    RecordEntry,
    decode_inode,
    decode_record_entry,
    encode_entry,
    encode_inode,
    encode_record_entry,
)
from shardfs.ids import ROOT_INO, HandleId, Ino, RecordId, ShardId, ino_shard, record_shard
from shardfs.limits import KIB, MIB
from shardfs.meta.inline import InlineWorkers
from shardfs.meta.shard import Shard, shard_path
from shardfs.storage.real import RealStorage
from shardfs.testing.driver import drive
from shardfs.testing.loop import InlineLoop

ROOT = Caller(0, 0, 1)
SHARDS = 4
SPLIT_ENTRIES = 16
PACK_THRESHOLD_BYTES = 64 * KIB
JOURNAL_SEGMENT_BYTES = 256 * KIB
NOW_NS = 10**18
FORMAT = FormatOptions(
    shards=SHARDS,
    pack_threshold_bytes=PACK_THRESHOLD_BYTES,
    segment_bytes=1 * MIB,
    split_entries=SPLIT_ENTRIES,
    journal_segment_bytes=JOURNAL_SEGMENT_BYTES,
)


class Mounted:
    """A file system that is open without a mount, with operations by inode and name."""

    def __init__(self, core: FileSystem, loop: InlineLoop) -> None:
        self.core = core
        self.loop = loop

    def call(self, verb: str, *arguments: object) -> object:
        """Call an operation and wait for its answer."""
        return drive(self.loop, getattr(self.core, verb), *arguments)

    def make_directory(self, parent: Ino, name: bytes) -> Ino:
        """Make a directory and return its number."""
        return self._ino(self.call("mkdir", ROOT, parent, name, 0o755))

    def make_file(self, parent: Ino, name: bytes, content: bytes = b"") -> Ino:
        """Make a file, and forget that the kernel would know it, as it does at an unmount."""
        ino, handle = self.begin_file(parent, name, content)
        self.call("release", handle)
        return ino

    def begin_file(self, parent: Ino, name: bytes, content: bytes) -> tuple[Ino, HandleId]:
        """Make a file and leave it open."""
        made = self.call("create", ROOT, parent, name, 0o644, os.O_RDWR)
        assert isinstance(made, tuple)
        attributes, handle = made
        for offset in range(0, len(content), 32 * KIB):
            self.call("write", handle, offset, content[offset : offset + 32 * KIB])
        return self._ino(attributes), handle

    def link(self, ino: Ino, parent: Ino, name: bytes) -> None:
        """Give a file another name."""
        self._ino(self.call("link", ROOT, ino, parent, name))

    def remove(self, parent: Ino, name: bytes) -> None:
        """Remove a file."""
        self.call("unlink", ROOT, parent, name)

    def read_file(self, ino: Ino) -> bytes:
        """Return what is in a file."""
        handle = self.call("open", ROOT, ino, os.O_RDONLY)
        content = self.call("read", handle, 0, 100 * MIB)
        self.call("release", handle)
        assert isinstance(content, bytes)
        return content

    def try_read(self, ino: Ino) -> set[bytes]:
        """Return what is in a file; nothing if that is damaged."""
        try:
            return {self.read_file(ino)}
        except CorruptionError:
            return set()

    def is_directory(self, ino: Ino) -> bool:
        """Say whether this is a directory."""
        found = self.call("getattr", ROOT, ino)
        assert isinstance(found, Attributes)
        return stat.S_ISDIR(found.mode)

    def find(self, *names: bytes) -> Attributes:
        """Return what is at a path."""
        *above, name = names
        directory = self.find(*above).ino if above else ROOT_INO
        found = self.call("lookup", ROOT, directory, name)
        assert isinstance(found, Attributes), f"there is no {name!r}"
        self._ino(found)
        return found

    def list(self, ino: Ino) -> dict[bytes, Ino]:
        """Return the entries of a directory."""
        handle = self.call("opendir", ino)
        rows: dict[bytes, Ino] = {}
        offset = 0
        while listed := self.core.readdir(handle, offset, 100):  # type: ignore[arg-type]
            rows |= {row.name: row.attributes.ino for row in listed}
            offset = listed[-1].next_offset
        self.call("releasedir", handle)
        return {name: ino for name, ino in rows.items() if name not in (b".", b"..")}

    def _ino(self, attributes: object) -> Ino:
        assert isinstance(attributes, Attributes)
        self.core.forget([(attributes.ino, 1)])
        return attributes.ino


class TestVolume:
    """A volume in a directory of its own; nobody has it open but within `mounted`."""

    __test__ = False

    def __init__(self, directory: Path, options: FormatOptions = FORMAT) -> None:
        self.path = str(directory / "volume")
        self.slots = str(directory / "slots")
        self.storage = RealStorage()
        self.superblock = format_volume(self.storage, self.path, NOW_NS, options)

    # Use

    def open(self) -> Mounted:
        """Open the volume."""
        loop = InlineLoop()
        options = OpenOptions(self.slots, readonly_shards=False, slot_budget_bytes=1 * MIB, journal_segment_bytes=JOURNAL_SEGMENT_BYTES)
        return Mounted(open_volume(self.storage, self.path, loop, InlineWorkers, lambda: NOW_NS, options), loop)

    @contextmanager
    def mounted(self) -> Iterator[Mounted]:
        """Open the volume, and unmount it at the end."""
        mounted = self.open()
        yield mounted
        mounted.core.shutdown()

    def check(self, *, data: bool = False) -> Report:
        """Check the volume."""
        return check_volume(self.storage, self.path, data=data, slots_path=lambda _: self.slots)

    def repair(self, *, data: bool = False) -> Report:
        """Repair the volume."""
        options = RepairOptions(lambda _: self.slots, data, lambda: NOW_NS, JOURNAL_SEGMENT_BYTES)
        return repair_volume(self.storage, self.path, options)

    # Damage

    @contextmanager
    def shard(self, number: ShardId) -> Iterator[Shard]:
        """Open one shard for writing."""
        shard = Shard.open(self.shard_path(number), number)
        yield shard
        shard.close()

    def shard_path(self, number: ShardId) -> str:
        """Return where a shard is."""
        return shard_path(shards_dir(self.path), number)

    def get(self, number: ShardId, key: bytes) -> bytes | None:
        """Return a value."""
        with self.shard(number) as shard:
            return shard.get(key)

    def put(self, number: ShardId, key: bytes, value: bytes | None) -> None:
        """Set a value, or delete it, and let the shard's counts follow."""
        with self.shard(number) as shard:
            shard.seed([(key, value)])

    def put_raw(self, number: ShardId, key: bytes, stored: bytes | None) -> None:
        """Set a value as it is stored, or delete it, behind the shard's back."""
        with lmdb.open(self.shard_path(number)) as environment, environment.begin(write=True) as transaction:
            if stored is None:
                assert transaction.delete(key)
            else:
                transaction.put(key, stored)

    def damage(self, number: ShardId, key: bytes) -> None:
        """Flip a bit of a value as it is stored."""
        with lmdb.open(self.shard_path(number)) as environment, environment.begin(write=True) as transaction:
            stored = bytearray(transaction.get(key) or b"")
            stored[len(stored) // 2] ^= 0x10
            transaction.put(key, bytes(stored))

    def inode(self, ino: Ino) -> Inode:
        """Return an inode."""
        value = self.get(ino_shard(ino), keys.inode_key(ino))
        assert value is not None, f"inode {ino} is missing"
        return decode_inode(ino, value)

    def set_inode(self, ino: Ino, **fields: object) -> None:
        """Set fields of an inode."""
        inode = self.inode(ino)
        for name, value in fields.items():
            setattr(inode, name, value)
        self.put_inode(inode)

    def put_inode(self, inode: Inode) -> None:
        """Put an inode where it belongs."""
        self.put(ino_shard(inode.ino), keys.inode_key(inode.ino), encode_inode(inode))

    def entry_place(self, parent: Ino, name: bytes) -> tuple[ShardId, bytes]:
        """Return where an entry belongs."""
        h = keys.name_hash(parent, name)
        return keys.entry_shard(parent, self.inode(parent).split_below_h, h, SHARDS), keys.entry_key(parent, h, name)

    def put_entry(self, parent: Ino, name: bytes, entry: Entry | None) -> None:
        """Put an entry where it belongs, or remove it; the directory is not told."""
        self.put(*self.entry_place(parent, name), None if entry is None else encode_entry(entry))

    def record(self, record: RecordId) -> RecordEntry:
        """Return a record."""
        value = self.get(record_shard(record), keys.record_key(record))
        assert value is not None, f"record {record} is missing"
        return decode_record_entry(value)

    def put_record(self, record: RecordId, entry: RecordEntry | None) -> None:
        """Set a record, or remove it."""
        self.put(record_shard(record), keys.record_key(record), None if entry is None else encode_record_entry(entry))

    def packed_place(self, ino: Ino) -> PackedPlace:
        """Return where a packed file is."""
        place = self.record(self.inode(ino).record).place
        assert isinstance(place, PackedPlace)
        return place

    def segment_path(self, place: PackedPlace) -> Path:
        """Return the segment that a record is in."""
        return Path(self.superblock.disks[0].path) / "segments" / f"seg-{place.segment:016x}"


def kinds(findings: tuple[Finding, ...]) -> list[str]:
    """Return what kinds of findings these are."""
    return sorted(finding.kind for finding in findings)


def flip_byte(path: Path, offset: int) -> None:
    """Change one byte of a file."""
    with open(path, "r+b") as file:
        file.seek(offset)
        found = file.read(1)
        file.seek(offset)
        file.write(bytes([found[0] ^ 0xFF]))
