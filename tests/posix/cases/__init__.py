"""All POSIX cases: importing this package fills the table."""

from tests.posix.cases import (
    acls,
    content,
    directories,
    limits,
    links,
    listing,
    locks,
    mapping,
    names,
    opening,
    permissions,
    precedence,
    rename,
    setid,
    special,
    times,
    xattrs,
)
from tests.posix.table import CASES

__all__ = [
    "CASES",
    "acls",
    "content",
    "directories",
    "limits",
    "links",
    "listing",
    "locks",
    "mapping",
    "names",
    "opening",
    "permissions",
    "precedence",
    "rename",
    "setid",
    "special",
    "times",
    "xattrs",
]
