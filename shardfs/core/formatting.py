"""Making a volume, and reading what is fixed for its life.

    VOLUME/superblock        written last: with it the volume exists
           superblock.copy   the same bytes, for fsck
           shardfs.toml      settings that people may change
           lock              locked (flock) by every process of a mount
           journal/          unless the superblock names another directory
           shards/shard-XX/  one LMDB environment each
           hot/              the first hot disk, unless others were named
    DISK/label               names volume and disk
         segments/ solo/     see `shardfs.data`
"""

import os
import secrets
from dataclasses import dataclass

from shardfs.config import DEFAULT_TOML, Settings, parse_settings
from shardfs.core.numbers import FIRST_SEQUENCE, SEQUENCE_KEY, SEQUENCE_SHARD, encode_bound
from shardfs.errors import NoSpace, SetupError, ShardfsError
from shardfs.format import keys
from shardfs.format.superblock import (
    NEWEST_FORMAT,
    DiskLabel,
    Superblock,
    decode_disk_label,
    decode_superblock,
    encode_disk_label,
    encode_superblock,
)
from shardfs.format.values import Inode, encode_inode
from shardfs.ids import ROOT_INO, DiskId, Epoch, RequestId, ShardId, ino_shard
from shardfs.journal.log import Journal, create_journal
from shardfs.journal.replay import replay
from shardfs.limits import DEFAULT_PACK_THRESHOLD_BYTES, DEFAULT_SEGMENT_BYTES, DEFAULT_SHARDS, DEFAULT_SPLIT_ENTRIES, JOURNAL_SEGMENT_BYTES
from shardfs.meta.shard import Shard, shard_path
from shardfs.observe.counters import Counters
from shardfs.storage.files import Storage

SUPERBLOCK, SUPERBLOCK_COPY, SETTINGS, LOCK, LABEL = "superblock", "superblock.copy", "shardfs.toml", "lock", "label"
ROOT_MODE = 0o040755


@dataclass(frozen=True)
class FormatOptions:
    """What is fixed at format. No hot directories: one inside the volume."""

    hot: tuple[str, ...] = ()
    journal: str | None = None
    shards: int = DEFAULT_SHARDS
    pack_threshold_bytes: int = DEFAULT_PACK_THRESHOLD_BYTES
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    split_entries: int = DEFAULT_SPLIT_ENTRIES
    journal_segment_bytes: int = JOURNAL_SEGMENT_BYTES
    owner: tuple[int, int] = (0, 0)


def shards_dir(volume: str) -> str:
    """Return the directory that holds a volume's shards."""
    return os.path.join(volume, "shards")


def is_volume(storage: Storage, volume: str) -> bool:
    """Return whether there is a superblock, whole or not."""
    return storage.exists(os.path.join(volume, SUPERBLOCK))


def format_volume(storage: Storage, volume: str, now_ns: int, options: FormatOptions) -> Superblock:
    """Make a volume in an empty or missing directory.

    Raises `SetupError` if there is something already or no room; then what was made is removed again.
    """
    superblock = _plan(volume, now_ns, options)
    places = _places(volume, superblock)
    missing = [path for path in places if not storage.exists(path)]
    for path in places:
        if path not in missing and storage.list_dir(path):
            raise SetupError(f"{path} is not empty; name an empty or new directory")
    try:
        _write_volume(storage, volume, superblock, options)
    except ShardfsError as error:
        for path in places:
            remove_content(storage, path, keep_directory=path not in missing)
        if isinstance(error, SetupError):
            raise
        raise SetupError(f"{volume} was not formatted: {error}") from error
    return superblock


def remove_content(storage: Storage, path: str, *, keep_directory: bool) -> None:
    """Undo what was made in a directory, and remove it unless it was there before: it may be a mount point."""
    if keep_directory:
        for name in storage.list_dir(path):
            storage.remove_tree(os.path.join(path, name))
    else:
        storage.remove_tree(path)


def _check_apart(volume: str, paths: list[str]) -> None:
    """Refuse directories of which one lies in another; only the volume's own lie in the volume."""
    own = (os.path.join(volume, "hot"), os.path.join(volume, "journal"))
    places = [volume, *(path for path in paths if path not in own)]
    for number, path in enumerate(places):
        for other in places[:number]:
            if os.path.commonpath([path, other]) in (path, other):
                raise SetupError(f"{path} and {other} overlap; keep volume, hot disks and journal apart")


def _places(volume: str, superblock: Superblock) -> list[str]:
    """Return the directories that the volume fills: itself, and those that lie elsewhere."""
    others = (superblock.journal_dir, *(disk.path for disk in superblock.disks))
    return [volume, *(path for path in others if not path.startswith(volume + os.sep))]


def _plan(volume: str, now_ns: int, options: FormatOptions) -> Superblock:
    paths = [os.path.abspath(path) for path in options.hot] or [os.path.join(volume, "hot")]
    journal = os.path.abspath(options.journal) if options.journal else os.path.join(volume, "journal")
    _check_apart(volume, [*paths, journal])
    disks = tuple(DiskLabel(DiskId(number), path, secrets.token_bytes(16)) for number, path in enumerate(paths))
    return Superblock(
        format_version=NEWEST_FORMAT,
        volume_id=secrets.token_bytes(16),
        created_ns=now_ns,
        shards=options.shards,
        segment_bytes=options.segment_bytes,
        pack_threshold_bytes=options.pack_threshold_bytes,
        split_entries=options.split_entries,
        journal_dir=journal,
        disks=disks,
    )


def _write_volume(storage: Storage, volume: str, superblock: Superblock, options: FormatOptions) -> None:
    storage.make_dir(volume)
    for label in superblock.disks:
        storage.make_dir(label.path)
        _check_room(storage, label.path, superblock.segment_bytes)
        storage.replace_small(os.path.join(label.path, LABEL), encode_disk_label(superblock.volume_id, label))
    _write_shards(storage, volume, superblock)
    _write_journal(storage, superblock, options)
    storage.replace_small(os.path.join(volume, SETTINGS), DEFAULT_TOML.encode())
    storage.replace_small(os.path.join(volume, LOCK), b"")
    encoded = encode_superblock(superblock)
    storage.replace_small(os.path.join(volume, SUPERBLOCK_COPY), encoded)
    storage.replace_small(os.path.join(volume, SUPERBLOCK), encoded)


def _check_room(storage: Storage, path: str, segment_bytes: int) -> None:
    available, needed = storage.space(path).available, 2 * segment_bytes
    if available < needed:
        raise NoSpace(f"the disk of {path} has {available >> 20} MiB free, {needed >> 20} MiB are needed; free some or name another")


def _write_shards(storage: Storage, volume: str, superblock: Superblock) -> None:
    storage.make_dir(shards_dir(volume))
    for number in range(superblock.shards):
        Shard.create(shard_path(shards_dir(volume), ShardId(number)), ShardId(number))
    storage.sync_dir(shards_dir(volume))


def _write_journal(storage: Storage, superblock: Superblock, options: FormatOptions) -> None:
    """Make the journal; its first record creates the root directory."""
    directory, volume_id, segment_bytes = superblock.journal_dir, superblock.volume_id, options.journal_segment_bytes
    create_journal(storage, directory, volume_id, segment_bytes=segment_bytes)
    now_ns = superblock.created_ns
    root = Inode(ROOT_INO, ROOT_MODE, *options.owner, nlink=2, atime_ns=now_ns, mtime_ns=now_ns, ctime_ns=now_ns, parent=ROOT_INO)
    first = [
        (ino_shard(ROOT_INO), keys.inode_key(ROOT_INO), encode_inode(root)),
        (SEQUENCE_SHARD, SEQUENCE_KEY, encode_bound(FIRST_SEQUENCE)),
    ]
    replayed = replay(storage, directory, volume_id)
    journal = Journal.start(storage, directory, volume_id, replayed, Epoch(1), Counters(), segment_bytes=segment_bytes)
    try:
        journal.sync(journal.append(RequestId(0), "format", first))
    finally:
        journal.close()


def read_superblock(storage: Storage, volume: str) -> Superblock:
    """Return a volume's superblock. Raises `SetupError` if there is none or it is newer, `CorruptSuperblock` if damaged."""
    path = os.path.join(volume, SUPERBLOCK)
    if not storage.exists(path):
        raise SetupError(f"{volume} is not a volume: it has no superblock; make one with: shardfs format {volume}")
    return decode_superblock(storage.read_small(path), path)


def read_settings(storage: Storage, volume: str) -> Settings:
    """Return what the volume's settings file says; the defaults if there is none. Raises `SetupError`."""
    path = os.path.join(volume, SETTINGS)
    return parse_settings(storage.read_small(path), path) if storage.exists(path) else Settings()


def check_disks(storage: Storage, superblock: Superblock) -> None:
    """Raise `SetupError` unless journal and hot disks are there, and the disks belong to this volume."""
    if not storage.exists(superblock.journal_dir):
        raise SetupError(f"the journal of this volume is missing: there is no {superblock.journal_dir}; mount its disk first")
    for disk in superblock.disks:
        path = os.path.join(disk.path, LABEL)
        if not storage.exists(path):
            raise SetupError(f"the hot disk {disk.path} of this volume is missing (no {path}); mount that disk first")
        volume_id, label = decode_disk_label(storage.read_small(path), path)
        if (volume_id, label.disk_id) != (superblock.volume_id, disk.disk_id):
            raise SetupError(f"{disk.path} holds a disk of another volume; mount the right disk there")
