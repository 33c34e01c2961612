"""The one table from causes to errno. Nothing below `fuse` speaks of errno.

Invariant: every cause that an operation can have is in `ERRNOS`; a subclass takes the errno of its nearest base there.
The errors of commands (`SetupError`, `UsageError`) never reach the kernel and have none.
"""

import errno

from shardfs import errors

ERRNOS: dict[type[errors.ShardfsError], int] = {
    errors.NotFound: errno.ENOENT,
    errors.Exists: errno.EEXIST,
    errors.NotDirectory: errno.ENOTDIR,
    errors.IsDirectory: errno.EISDIR,
    errors.NotEmpty: errno.ENOTEMPTY,
    errors.NotPermitted: errno.EPERM,
    errors.InvalidArgument: errno.EINVAL,
    errors.NameTooLong: errno.ENAMETOOLONG,
    errors.FileTooLarge: errno.EFBIG,
    errors.TooManyLinks: errno.EMLINK,
    errors.NoAttribute: errno.ENODATA,
    errors.AttributeTooLarge: errno.E2BIG,
    errors.BadHandle: errno.EBADF,
    errors.NotSupported: errno.EOPNOTSUPP,
    errors.NoSpace: errno.ENOSPC,
    errors.DeviceFailed: errno.EIO,
    errors.WorkerLost: errno.EIO,
    errors.BadMessage: errno.EIO,
    errors.CorruptionError: errno.EIO,
    errors.InternalError: errno.EIO,
    errors.Overloaded: errno.ETIMEDOUT,
}


def errno_of(error: errors.ShardfsError) -> int:
    """Return the errno that the kernel gets for this error; EIO for what has no place in the table."""
    return next((ERRNOS[base] for base in type(error).__mro__ if base in ERRNOS), errno.EIO)
