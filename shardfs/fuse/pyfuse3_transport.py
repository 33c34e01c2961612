"""A mount over pyfuse3: mounts, serves until the mount ends or is stopped, and cleans up.

libfuse serves one session per process, and so does this module.
"""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyfuse3
import trio

from shardfs.core.filesystem import FileSystem
from shardfs.core.loop import EventLoop
from shardfs.errors import SetupError
from shardfs.fuse.options import MountOptions, libfuse_options
from shardfs.fuse.pyfuse3_loop import Readiness, TrioForPyfuse3
from shardfs.fuse.pyfuse3_operations import Pyfuse3Operations

SESSION_TASKS = 64
"""How many requests can wait inside the server at a time; the kernel keeps further ones."""

NAME = "pyfuse3"

_log = logging.getLogger(__name__)


class Pyfuse3Transport:
    """Serves one file system at one mount point. All methods belong to the loop thread."""

    def __init__(self, filesystem: FileSystem, loop: EventLoop, started: Callable[[], None]) -> None:
        """`started` is called when the kernel has greeted the session, so that operations on the mount get answers."""
        self._filesystem = filesystem
        self._readiness = Readiness(loop)
        self._started = started

    def mount(self, volume: str, mountpoint: str, options: MountOptions) -> None:
        """Mount; raises `SetupError` with the reason that libfuse gives."""
        vars(pyfuse3)["trio"] = TrioForPyfuse3(self._readiness)
        operations = Pyfuse3Operations(self._filesystem, self._readiness, options.acl, self._started)
        with _captured_stderr() as said:
            try:
                pyfuse3.init(operations, mountpoint, libfuse_options(volume, options, os.geteuid() == 0))
            except RuntimeError as error:
                reason = " ".join(said().split()) or str(error)
                raise SetupError(f"cannot mount at {mountpoint}: {reason}") from error
        _log.info("%s is mounted at %s", volume, mountpoint)

    def serve(self) -> None:
        """Serve until the mount is gone or `stop` was called, and every request that was begun is answered."""
        trio.run(self._serve)

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._readiness.run_loop)
            await pyfuse3.main(min_tasks=SESSION_TASKS, max_tasks=SESSION_TASKS)
            nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """Take no more requests; `serve` returns when those at hand are answered."""
        pyfuse3.terminate()

    def close(self) -> None:
        """Detach the mount if it is still there; requests that the kernel still holds then fail with ENOTCONN."""
        pyfuse3.close(unmount=True)


@contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """Catch what C code writes to file descriptor 2: libfuse and fusermount3 give their reasons there."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:

        def said() -> str:
            return os.pread(caught.fileno(), 4096, 0).decode(errors="replace")

        os.dup2(caught.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)
