"""renameat2(2), which the standard library lacks."""

import ctypes
import os

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


def rename2(source: bytes, target: bytes, flags: int) -> None:
    """Rename with flags; raises OSError."""
    if _libc.renameat2(AT_FDCWD, source, AT_FDCWD, target, flags) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
