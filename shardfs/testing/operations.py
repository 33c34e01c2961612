"""Random system calls, as values: made from a seed, written down as JSON, and performed on any directory.

The same list performed on two directories must give the same answers and the same trees.
"""

import errno
import mmap
import os
import random
import stat
from collections.abc import Callable
from typing import Any, NamedTuple

from shardfs.testing.renameat2 import rename2

Operation = list[Any]
"""A verb and its arguments: texts, numbers. Paths are relative, with bytes as in `os.fsdecode`."""

SIZES_BYTES = (0, 1, 100, 4095, 4096, 5000, 40_000, 65_536)
OFFSETS_BYTES = (0, 0, 0, 0, 1, 1, 100, 4096, 4096, 10_000, 100_000, 1_048_570, 1_100_000)
LENGTHS_BYTES = (0, 0, 1, 50, 4096, 5000, 100_000, 1_048_576, 1_200_000)
FLAGS = (
    os.O_RDWR,
    os.O_RDONLY,
    os.O_WRONLY,
    os.O_RDWR | os.O_CREAT,
    os.O_RDWR | os.O_CREAT | os.O_EXCL,
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    os.O_RDONLY | os.O_TRUNC,
    os.O_RDONLY | os.O_DIRECTORY,
    os.O_RDONLY | os.O_NOFOLLOW,
)
MODES = (0o644, 0o600, 0o755, 0o666, 0o4755, 0o2775, 0o1777, 0o444)
NAMES = (*"abcdefgh", "n" * 255, "\udcff", "a b")
MAX_HANDLES = 6
MAX_KNOWN = 60


class Answer(NamedTuple):
    """What a system call said: a value, or the name of its error."""

    value: Any
    error: str | None


class Hands:
    """Performs operations below one directory and holds the files that they open."""

    def __init__(self, root: str) -> None:
        """`root` may be empty: the working directory."""
        self._root = root
        self._files: dict[int, int] = {}

    def perform(self, operation: Operation) -> Answer:
        """Do it; an OSError becomes the answer."""
        verb, *arguments = operation
        act: Callable[..., Any] = getattr(self, f"_do_{verb}")
        try:
            return Answer(act(*arguments), None)
        except OSError as error:
            assert error.errno is not None
            return Answer(None, errno.errorcode[error.errno])

    def close(self) -> None:
        """Close what is open."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _do_open(self, handle: int, path: str, flags: int, mode: int) -> None:
        fd = os.open(self._path(path), flags | os.O_NONBLOCK, mode)  # a fifo must not wait for its other end
        if handle in self._files:
            os.close(self._files[handle])
        self._files[handle] = fd

    def _do_close(self, handle: int) -> bool:
        fd = self._files.pop(handle, None)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def _fd(self, handle: int) -> int:
        if handle not in self._files:
            raise OSError(errno.EBADF, "not open in this run")
        return self._files[handle]

    def _do_pwrite(self, handle: int, offset: int, size: int, byte: int) -> int:
        return os.pwrite(self._fd(handle), bytes([byte]) * size, offset)

    def _do_write(self, handle: int, size: int, byte: int) -> int:
        return os.write(self._fd(handle), bytes([byte]) * size)

    def _do_pread(self, handle: int, offset: int, size: int) -> tuple[int, int]:
        data = os.pread(self._fd(handle), size, offset)
        return len(data), sum(data)

    def _do_ftruncate(self, handle: int, size: int) -> None:
        os.ftruncate(self._fd(handle), size)

    def _do_fsync(self, handle: int) -> None:
        os.fsync(self._fd(handle))

    def _do_fstat(self, handle: int) -> tuple[int, ...]:
        return told(os.fstat(self._fd(handle)))

    def _do_store(self, handle: int, offset: int, byte: int) -> None:
        """Change one byte through a shared mapping."""
        found = os.fstat(self._fd(handle))
        if stat.S_ISREG(found.st_mode) and found.st_size > offset:
            with mmap.mmap(self._fd(handle), found.st_size) as view:
                view[offset] = byte

    def _do_stat(self, path: str) -> tuple[int, ...]:
        return told(os.lstat(self._path(path)))

    def _do_list(self, path: str) -> list[str]:
        return sorted(os.listdir(self._path(path)))

    def _do_mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._path(path), mode)

    def _do_mkfifo(self, path: str, mode: int) -> None:
        os.mkfifo(self._path(path), mode)

    def _do_symlink(self, target: str, path: str) -> None:
        os.symlink(target, self._path(path))

    def _do_readlink(self, path: str) -> str:
        return os.readlink(self._path(path))

    def _do_link(self, path: str, new_path: str) -> None:
        os.link(self._path(path), self._path(new_path), follow_symlinks=False)

    def _do_unlink(self, path: str) -> None:
        os.unlink(self._path(path))

    def _do_rmdir(self, path: str) -> None:
        os.rmdir(self._path(path))

    def _do_rename(self, path: str, new_path: str, flags: int) -> None:
        rename2(os.fsencode(self._path(path)), os.fsencode(self._path(new_path)), flags)

    def _do_truncate(self, path: str, size: int) -> None:
        os.truncate(self._path(path), size)

    def _do_chmod(self, path: str, mode: int) -> None:
        os.chmod(self._path(path), mode)

    def _do_chown(self, path: str, uid: int, gid: int) -> None:
        os.lchown(self._path(path), uid, gid)

    def _do_utime(self, path: str, atime_ns: int, mtime_ns: int) -> None:
        os.utime(self._path(path), ns=(atime_ns, mtime_ns), follow_symlinks=False)

    def _do_setxattr(self, path: str, name: str, size: int, flags: int) -> None:
        os.setxattr(self._path(path), name, b"v" * size, flags, follow_symlinks=False)

    def _do_getxattr(self, path: str, name: str) -> int:
        return len(os.getxattr(self._path(path), name, follow_symlinks=False))

    def _do_listxattr(self, path: str) -> list[str]:
        return sorted(os.listxattr(self._path(path), follow_symlinks=False))

    def _do_removexattr(self, path: str, name: str) -> None:
        os.removexattr(self._path(path), name, follow_symlinks=False)


def told(found: os.stat_result) -> tuple[int, ...]:
    """Return what of a stat must agree everywhere: sizes of directories are the file system's own affair."""
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return found.st_mode, found.st_nlink, found.st_uid, found.st_gid, size, found.st_rdev


class Generator:
    """Makes operations, but for some verbs. It learns from the answers which paths are there, so that most meet something."""

    def __init__(self, seed: int, without: tuple[str, ...] = ()) -> None:
        self._random = random.Random(seed)
        self._known: list[str] = []
        self._open_handles: set[int] = set()
        self._makers: tuple[tuple[int, Callable[[], Operation]], ...] = (
            (14, self._open),
            (12, lambda: ["pwrite", self._handle(), self._of(OFFSETS_BYTES), self._of(SIZES_BYTES), self._byte()]),
            (6, lambda: ["write", self._handle(), self._of(SIZES_BYTES), self._byte()]),
            (6, lambda: ["pread", self._handle(), self._of(OFFSETS_BYTES), self._of(SIZES_BYTES)]),
            (4, lambda: ["ftruncate", self._handle(), self._of(LENGTHS_BYTES)]),
            (3, lambda: ["fsync", self._handle()]),
            (3, lambda: ["fstat", self._handle()]),
            (2, lambda: ["store", self._handle(), self._of((0, 99, 4096, 50_000)), self._byte()]),
            (6, lambda: ["close", self._handle()]),
            (8, lambda: ["stat", self._path()]),
            (3, lambda: ["list", self._path()]),
            (9, lambda: ["mkdir", self._path(), self._of((0o755, 0o777, 0o2775, 0o1777))]),
            (2, lambda: ["mkfifo", self._path(), self._of(MODES)]),
            (5, lambda: ["symlink", self._path(), self._path()]),
            (2, lambda: ["readlink", self._path()]),
            (7, lambda: ["link", self._path(), self._path()]),
            (8, lambda: ["unlink", self._path()]),
            (4, lambda: ["rmdir", self._path()]),
            (12, lambda: ["rename", self._path(), self._path(), self._of((0, 0, 0, 1, 2))]),
            (6, lambda: ["truncate", self._path(), self._of(LENGTHS_BYTES)]),
            (4, lambda: ["chmod", self._path(), self._of(MODES)]),
            (3, lambda: ["chown", self._path(), self._of((0, 41_001, -1)), self._of((0, 41_001, 41_002, -1))]),
            (3, lambda: ["utime", self._path(), self._random.randrange(1 << 40), self._random.randrange(1 << 40)]),
            (4, lambda: ["setxattr", self._path(), self._attribute(), self._of((0, 5, 300)), self._of((0, 0, 1, 2))]),
            (2, lambda: ["getxattr", self._path(), self._attribute()]),
            (2, lambda: ["listxattr", self._path()]),
            (2, lambda: ["removexattr", self._path(), self._attribute()]),
        )
        self._weights = [weight for weight, _ in self._makers]
        self._without = without

    def next(self) -> Operation:
        """Return one more operation."""
        while True:
            operation = self._random.choices(self._makers, self._weights)[0][1]()
            if operation[0] not in self._without:
                return operation

    def learn(self, operation: Operation, answer: Answer) -> None:
        """Take note of the names that an operation has made, and of what is open."""
        if operation[0] == "close":
            self._open_handles.discard(operation[1])
        if answer.error is None and operation[0] == "open":
            self._open_handles.add(operation[1])
        if answer.error is None and operation[0] in ("mkdir", "symlink", "link", "rename", "open"):
            path = operation[1] if operation[0] == "mkdir" else operation[2]
            self._known = [*self._known[-MAX_KNOWN:], path]

    def _of(self, values: tuple[Any, ...]) -> Any:
        return self._random.choice(values)

    def _byte(self) -> int:
        return self._random.randrange(1, 256)

    def _handle(self) -> int:
        if self._open_handles and self._random.random() < 0.8:
            return self._random.choice(sorted(self._open_handles))
        return self._random.randrange(MAX_HANDLES)

    def _attribute(self) -> str:
        return str(self._of(("user.a", "user.b", "trusted.c", "security.d")))

    def _open(self) -> Operation:
        return ["open", self._handle(), self._path(), self._of(FLAGS), self._of(MODES)]

    def _path(self) -> str:
        if self._known and self._random.random() < 0.65:
            path: str = self._random.choice(self._known)
            return path if self._random.random() < 0.7 or path.count("/") > 3 else f"{path}/{self._of(NAMES)}"
        return str(self._of(NAMES))
