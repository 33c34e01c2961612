"""The table of errnos covers every cause that an operation can have."""

import errno

import pytest

from shardfs import errors
from shardfs.fuse.errnos import ERRNOS, errno_of

COMMANDS_ONLY = (errors.SetupError, errors.UsageError)


def causes(base: type[errors.ShardfsError] = errors.ShardfsError) -> list[type[errors.ShardfsError]]:
    """Return every class that is no mere group of others."""
    below = base.__subclasses__()
    return [base] if not below else [cause for child in below for cause in causes(child)]


@pytest.mark.parametrize("cause", [cause for cause in causes() if cause not in COMMANDS_ONLY], ids=lambda cause: cause.__name__)
def test_every_cause_has_an_errno(cause: type[errors.ShardfsError]) -> None:
    assert any(base in ERRNOS for base in cause.__mro__)
    assert errno_of(cause("said")) in errno.errorcode


def test_no_error_of_a_command_is_in_the_table() -> None:
    assert not ERRNOS.keys() & set(COMMANDS_ONLY)


def test_a_subclass_takes_the_errno_of_its_base() -> None:
    assert errno_of(errors.CorruptRecord("said")) == errno.EIO


def test_what_has_no_place_is_eio() -> None:
    assert errno_of(errors.SetupError("said")) == errno.EIO
