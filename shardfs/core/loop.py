"""The loop thread's queue: what other threads hand over to it, timers, and work that it hands to I/O threads.

One thread, the loop thread, owns the namespace. It is driven by a transport, which waits for the kernel and for
`EventLoop.wake_fd` together and calls `EventLoop.run_ready` in between.
"""

import heapq
import itertools
import logging
import os
import select
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from shardfs.limits import IO_THREADS

log = logging.getLogger(__name__)

Done = Callable[[Any, Exception | None], None]


class Loop(Protocol):
    """What `core` needs of its surroundings to get things done later or elsewhere."""

    def post(self, fn: Callable[[], None]) -> None:
        """Run `fn` on the loop thread soon. Any thread may call."""

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> None:
        """Run `fn` on the loop thread after a delay. Loop thread only."""

    def run_blocking(self, work: Callable[[], Any], done: Done) -> None:
        """Run `work` on an I/O thread, then `done(result, error)` on the loop thread."""

    def wait(self, timeout_s: float) -> None:
        """Run what is ready; if nothing is, wait for it up to a time. Loop thread only, outside of any operation."""


class EventLoop:
    """The loop of a running mount."""

    def __init__(self, io_threads: int = IO_THREADS) -> None:
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._posted: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self._pool = ThreadPoolExecutor(io_threads, thread_name_prefix="shardfs-io")

    def post(self, fn: Callable[[], None]) -> None:
        """Run `fn` on the loop thread soon. Any thread may call."""
        self._posted.append(fn)
        os.eventfd_write(self.wake_fd, 1)

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> None:
        """Run `fn` on the loop thread after a delay."""
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._serial), fn))

    def run_blocking(self, work: Callable[[], Any], done: Done) -> None:
        """Run `work` on an I/O thread, then `done(result, error)` on the loop thread."""

        def run() -> None:
            try:
                result, error = work(), None
            except Exception as failure:  # handed over to `done`, which answers it
                result, error = None, failure
            self.post(lambda: done(result, error))

        self._pool.submit(run)

    def run_ready(self) -> None:
        """Run all that was posted so far and every timer that is due; what those post waits for the next call."""
        try:
            os.eventfd_read(self.wake_fd)
        except BlockingIOError:
            pass  # only a timer is due
        for _ in range(len(self._posted)):
            _run(self._posted.popleft())
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _run(heapq.heappop(self._timers)[2])

    def timeout_ms(self) -> int:
        """Return how long a transport may wait before it calls `run_ready` again; -1 without a limit."""
        if not self._timers:
            return -1
        return max(0, int((self._timers[0][0] - time.monotonic()) * 1000) + 1)

    def wait(self, timeout_s: float) -> None:
        """Run what is ready; if nothing is, wait for it up to a time."""
        poll = select.poll()
        poll.register(self.wake_fd, select.POLLIN)
        due_ms = self.timeout_ms()
        poll.poll(min(timeout_s * 1000, due_ms) if due_ms >= 0 else timeout_s * 1000)
        self.run_ready()

    def close(self) -> None:
        """End the I/O threads after the work that they have begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        os.close(self.wake_fd)


def _run(fn: Callable[[], None]) -> None:
    """Run something on the loop thread. A bug in it must not end the mount: it is logged, and the loop goes on."""
    try:
        fn()
    except Exception:
        log.exception("the loop goes on after a bug in shardfs")
