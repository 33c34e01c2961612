"""POSIX ACLs, as far as a file system has to know them: their bytes, and how they go together with modes.

The value of the attributes ``system.posix_acl_access`` and ``system.posix_acl_default`` (Linux,
``include/uapi/linux/posix_acl_xattr.h``): version u32 = 2, then for each entry tag u16, permissions u16, id u32, all
little-endian. The rules are those of acl(5) and of IEEE 1003.1e draft 17.
"""

from struct import Struct
from typing import NamedTuple

from shardfs.errors import InvalidArgument

ACCESS = b"system.posix_acl_access"
DEFAULT = b"system.posix_acl_default"

USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_VERSION = Struct("<I")
_ENTRY = Struct("<HHI")
_ACL_VERSION = 2


class AclEntry(NamedTuple):
    """One line of an ACL; `permissions` are rwx bits, `id` a user or group for the tags USER and GROUP."""

    tag: int
    permissions: int
    id: int


def decode_acl(value: bytes) -> list[AclEntry]:
    """Return the entries of an ACL; raises `InvalidArgument` for bytes that are none."""
    if len(value) < _VERSION.size or (len(value) - _VERSION.size) % _ENTRY.size or _VERSION.unpack_from(value)[0] != _ACL_VERSION:
        raise InvalidArgument("the value is not a POSIX ACL")
    entries = [AclEntry._make(fields) for fields in _ENTRY.iter_unpack(value[_VERSION.size :])]
    tags = [entry.tag for entry in entries]
    if entries and any(tags.count(tag) != 1 for tag in (USER_OBJ, GROUP_OBJ, OTHER)):
        raise InvalidArgument("a POSIX ACL has one entry each for owner, group and others")
    return entries


def encode_acl(entries: list[AclEntry]) -> bytes:
    """Return the value of an ACL."""
    return _VERSION.pack(_ACL_VERSION) + b"".join(_ENTRY.pack(*entry) for entry in entries)


def is_minimal(entries: list[AclEntry]) -> bool:
    """Return whether an ACL says no more than a mode does."""
    return all(entry.tag in (USER_OBJ, GROUP_OBJ, OTHER) for entry in entries)


def mode_of(entries: list[AclEntry], mode: int) -> int:
    """Return a mode with the permission bits that an access ACL gives: its mask, if any, stands for the group."""
    found = {entry.tag: entry.permissions for entry in entries}
    group = found.get(MASK, found[GROUP_OBJ])
    return mode & ~0o777 | found[USER_OBJ] << 6 | group << 3 | found[OTHER]


def with_mode(entries: list[AclEntry], mode: int) -> list[AclEntry]:
    """Return an access ACL after chmod: the group bits go to the mask if there is one."""
    group_tag = MASK if any(entry.tag == MASK for entry in entries) else GROUP_OBJ
    bits = {USER_OBJ: mode >> 6 & 7, group_tag: mode >> 3 & 7, OTHER: mode & 7}
    return [AclEntry(entry.tag, bits.get(entry.tag, entry.permissions), entry.id) for entry in entries]


def inherit(default: list[AclEntry], mode: int) -> tuple[int, list[AclEntry]]:
    """Return mode and access ACL of a new file below a directory with this default ACL: no more than both allow."""
    group_tag = MASK if any(entry.tag == MASK for entry in default) else GROUP_OBJ
    bits = {USER_OBJ: mode >> 6 & 7, group_tag: mode >> 3 & 7, OTHER: mode & 7}
    access = [AclEntry(entry.tag, entry.permissions & bits.get(entry.tag, 7), entry.id) for entry in default]
    return mode_of(access, mode), access
