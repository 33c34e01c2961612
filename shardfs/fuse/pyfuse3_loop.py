"""Waiting for the kernel, cheaply: the stand-in that pyfuse3 gets in the place of trio.

As shipped, pyfuse3 takes a trio lock and registers with epoll for every request, which costs more than the request
itself. Here one session task, the poller, waits for the kernel and for the event loop with one poll(2) that blocks the
whole thread, and handles what comes without giving way to any other task. Only a handler that has to wait gives way;
another session task then becomes the poller.

Invariants: at most one task is the poller. The poller blocks the thread only when no task is about to be resumed.
"""

import select
from collections.abc import Callable
from types import TracebackType
from typing import Any

import trio

from shardfs.core.loop import Done, EventLoop

ALL_BUSY_POLL_S = 0.02
"""How often timers are looked at while every session task is waiting, and so none is the poller."""


class Readiness:
    """Who waits for the kernel, and what wakes handlers that wait. Loop thread only."""

    def __init__(self, loop: EventLoop) -> None:
        self.loop = loop
        self._poll = select.poll()
        self._poll.register(loop.wake_fd, select.POLLIN)
        self._kernel_fd = -1
        self._idle = trio.lowlevel.ParkingLot()
        self._has_poller = False
        self._resuming = 0
        self._closing = False

    async def wait_readable(self, fd: int) -> None:
        """Return when the kernel has a request; raises `trio.ClosedResourceError` when the session ends."""
        if fd != self._kernel_fd:
            self._poll.register(fd, select.POLLIN)
            self._kernel_fd = fd
        while self._has_poller and not self._closing:
            await self._idle.park()
        self._has_poller = True
        try:
            while not self._closing:
                if not self._resuming and self._kernel_ready():
                    return
                await trio.lowlevel.checkpoint()
            raise trio.ClosedResourceError("the session ends")
        finally:
            self._has_poller = False

    def _kernel_ready(self) -> bool:
        """Wait for the kernel or the loop, run what the loop has, and say whether a request is there."""
        timeout_ms = self.loop.timeout_ms()
        events = dict(self._poll.poll(timeout_ms))
        kernel = events.pop(self._kernel_fd, 0)
        if events or not kernel or timeout_ms == 0:
            self.loop.run_ready()
        if kernel & select.POLLERR:  # what poll(2) says of /dev/fuse once the mount is gone
            self.close()
        return kernel != 0 and not self._closing

    async def outcome(self, begin: Callable[[Done], None]) -> Any:
        """Call `begin` with a callback, wait until that is called, and return the result or raise the error."""
        answered = trio.Event()
        answer: list[Any] = []

        def done(result: Any, error: Exception | None) -> None:
            answer.extend((result, error))
            self._resuming += 1
            answered.set()

        begin(done)
        self._idle.unpark()
        await answered.wait()
        self._resuming -= 1
        result, error = answer
        if error is not None:
            raise error
        return result

    async def run_loop(self) -> None:
        """Run the event loop while no task is the poller; ends only by cancellation."""
        while True:
            timeout_ms = self.loop.timeout_ms()
            due_s = timeout_ms / 1000 if timeout_ms >= 0 else ALL_BUSY_POLL_S
            with trio.move_on_after(min(due_s, ALL_BUSY_POLL_S)):
                await trio.lowlevel.wait_readable(self.loop.wake_fd)
            self.loop.run_ready()

    def close(self, _fd: int = -1) -> None:
        """Let every session task end as soon as it has answered its request."""
        self._closing = True
        self._idle.unpark_all()


class _NoLock:
    """The lock around waiting: not needed, since only one task waits."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        pass


class _Lowlevel:
    """The part of `trio.lowlevel` that pyfuse3 uses."""

    current_task = staticmethod(trio.lowlevel.current_task)
    current_trio_token = staticmethod(trio.lowlevel.current_trio_token)

    def __init__(self, readiness: Readiness) -> None:
        self.wait_readable = readiness.wait_readable
        self.notify_closing = readiness.close


class TrioForPyfuse3:
    """The part of `trio` that pyfuse3 uses, with its own way of waiting for the kernel."""

    Lock = _NoLock
    ClosedResourceError = trio.ClosedResourceError
    open_nursery = staticmethod(trio.open_nursery)

    def __init__(self, readiness: Readiness) -> None:
        self.lowlevel = _Lowlevel(readiness)
