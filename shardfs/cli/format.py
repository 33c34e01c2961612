"""`shardfs format`: make a volume."""

import os
import re
import time
from typing import Annotated

import typer

from shardfs.core.formatting import FormatOptions, format_volume
from shardfs.errors import UsageError
from shardfs.ids import MAX_SHARDS
from shardfs.limits import DEFAULT_PACK_THRESHOLD_BYTES, DEFAULT_SHARDS, GIB, KIB, MAX_PACK_THRESHOLD_BYTES, MIB
from shardfs.storage.real import RealStorage

_UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}
_DEFAULT_THRESHOLD = f"{DEFAULT_PACK_THRESHOLD_BYTES // MIB}M"
_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)


def format_command(
    volume: Annotated[str, typer.Argument(metavar="VOLUME", help="Directory for the volume: new or empty.")],
    hot: Annotated[list[str] | None, typer.Option(metavar="DIR", help="Directory on a disk for data; once for each disk.")] = None,
    journal: Annotated[str | None, typer.Option(metavar="DIR", help="Directory for the journal, perhaps on a disk of its own.")] = None,
    shards: Annotated[int, typer.Option(help="How many metadata shards.")] = DEFAULT_SHARDS,
    pack_threshold: Annotated[str, typer.Option(metavar="SIZE", help="Files up to this size are packed.")] = _DEFAULT_THRESHOLD,
) -> None:
    """Make a volume in a new or empty directory."""
    options = FormatOptions(
        hot=tuple(os.path.realpath(path) for path in hot or ()),
        journal=os.path.realpath(journal) if journal else None,
        shards=_check_range("--shards", shards, 1, MAX_SHARDS),
        pack_threshold_bytes=_check_range("--pack-threshold", parse_size(pack_threshold), 4 * KIB, MAX_PACK_THRESHOLD_BYTES),
        owner=(os.geteuid(), os.getegid()),
    )
    path = os.path.realpath(volume)
    superblock = format_volume(RealStorage(), path, time.time_ns(), options)
    disks = len(superblock.disks)
    print(f"shardfs: {path} formatted ({superblock.shards} shards, {disks} hot disk{'s' if disks > 1 else ''})")


def parse_size(text: str) -> int:
    """Return a size in bytes from text such as ``512K`` or ``1MiB``; raises `UsageError`."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no size; write it as in 4096, 512K or 1M")
    return int(found[1]) * _UNITS[found[2].upper()]


def _check_range(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise UsageError(f"{name} {value} is out of range; give a value from {least} to {most}")
    return value
