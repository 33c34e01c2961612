"""Errors by cause. Lower layers raise these and never speak of errno: `shardfs.fuse.errnos` holds the one table.

Every message says what happened, to what, and where it helps what to do.
"""


class ShardfsError(Exception):
    """Base of all errors that shardfs raises on purpose."""


class CallerError(ShardfsError):
    """The caller asked for something that cannot be; the file system is fine."""


class NotFound(CallerError):
    """No such directory entry or inode."""


class Exists(CallerError):
    """The name is taken."""


class NotDirectory(CallerError):
    """A directory is needed and this is not one."""


class IsDirectory(CallerError):
    """This is a directory and the operation wants anything else."""


class NotEmpty(CallerError):
    """The directory still has entries."""


class NotPermitted(CallerError):
    """The operation is not allowed on this kind of file."""


class InvalidArgument(CallerError):
    """An argument is out of its range or contradicts another."""


class NameTooLong(CallerError):
    """A name is longer than 255 bytes, or a symlink target longer than 4095."""


class FileTooLarge(CallerError):
    """The size is beyond what a file can have."""


class TooManyLinks(CallerError):
    """The inode has as many links as it can have."""


class NoAttribute(CallerError):
    """The extended attribute does not exist."""


class AttributeTooLarge(CallerError):
    """The extended attribute's name or value, or the list of names, is too large."""


class BadHandle(CallerError):
    """No such open file, or it was opened for something else."""


class NotSupported(CallerError):
    """The operation or this variant of it is not offered."""


class OutsideError(ShardfsError):
    """The world around shardfs failed: a disk, a directory, another process."""


class NoSpace(OutsideError):
    """No room is left for this."""


class DeviceFailed(OutsideError):
    """A read, write or sync of a backing file failed."""


class WorkerLost(OutsideError):
    """A process of this mount is gone and the operation needed it."""


class BadMessage(OutsideError):
    """Another process sent what is not a message, or one that is too large."""


class CorruptionError(ShardfsError):
    """Stored bytes are not what was written there."""


class CorruptValue(CorruptionError):
    """A metadata value does not match its checksum or layout."""


class CorruptShard(CorruptionError):
    """A metadata shard's file is missing, cut short or damaged."""


class CorruptJournal(CorruptionError):
    """A journal frame below the last sync is damaged."""


class CorruptRecord(CorruptionError):
    """A packed file's record does not match its checksum or header."""


class CorruptSuperblock(CorruptionError):
    """The superblock does not match its checksum or layout."""


class InternalError(ShardfsError):
    """A bug in shardfs."""


class Overloaded(ShardfsError):
    """A queue stayed full for longer than an operation may wait."""


class SetupError(ShardfsError):
    """A command cannot do its work: one sentence that says why and what to do. Commands exit with 1."""


class UsageError(SetupError):
    """A command was called with options that make no sense. Commands exit with 2."""
