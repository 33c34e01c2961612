"""The mount table as the kernel tells it (/proc/self/mountinfo, see proc(5))."""

import os
import re
from dataclasses import dataclass

from shardfs.fuse.options import FSTYPE

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of the table: where, of what type, and what was named as its source."""

    mountpoint: str
    fstype: str
    source: str

    @property
    def is_shardfs(self) -> bool:
        """Whether it is one of ours."""
        return self.fstype == FSTYPE


def read_mounts(path: str = "/proc/self/mountinfo") -> list[Mount]:
    """Return all mounts, in the order in which they were mounted."""
    with open(path, "rb") as table:
        return [_parse(line) for line in table]


def _parse(line: bytes) -> Mount:
    mounted, _, described = line.partition(b" - ")
    fstype, source = described.split()[:2]
    return Mount(*(_unescape(field) for field in (mounted.split()[4], fstype, source)))


def _unescape(field: bytes) -> str:
    """Undo the kernel's octal escapes of white space and backslashes."""
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), field))


def mount_at(mountpoint: str) -> Mount | None:
    """Return the mount that is on top at this absolute path, if it is a mount point."""
    return next((mount for mount in reversed(read_mounts()) if mount.mountpoint == mountpoint), None)


def mounts_of(volume: str) -> list[Mount]:
    """Return the shardfs mounts of the volume at this absolute path."""
    return [mount for mount in read_mounts() if mount.is_shardfs and mount.source == volume]


def mount_holding(path: str) -> Mount | None:
    """Return the mount whose tree this absolute path belongs to."""
    holding = [mount for mount in read_mounts() if os.path.commonpath([mount.mountpoint, path]) == mount.mountpoint]
    return max(reversed(holding), key=lambda mount: len(mount.mountpoint), default=None)
