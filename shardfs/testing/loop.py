"""A loop without threads and without a clock of its own: what a test does decides when things happen."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from shardfs.core.loop import Done


class InlineLoop:
    """A `shardfs.core.loop.Loop` that runs blocking work at once, and everything else when `run_ready` is called.

    Time is a number that only `advance` and `wait` move, so every run of a test is the same.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._posted: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()

    def post(self, fn: Callable[[], None]) -> None:
        """Run `fn` at the next `run_ready`."""
        self._posted.append(fn)

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> None:
        """Run `fn` when the time has been moved on by this much."""
        heapq.heappush(self._timers, (self.now_s + delay_s, next(self._serial), fn))

    def run_blocking(self, work: Callable[[], Any], done: Done) -> None:
        """Run `work` now and post its outcome: `done` never runs inside the operation that asked for the work."""
        try:
            result, error = work(), None
        except Exception as failure:  # handed over to `done`, which answers it
            result, error = None, failure
        self.post(lambda: done(result, error))

    def run_ready(self) -> bool:
        """Run what is posted, and what that posts; return whether there was anything."""
        ran = bool(self._posted)
        while self._posted:
            self._posted.popleft()()
        return ran

    def run_one(self) -> None:
        """Run the function that was posted first, to look at what is between two of them."""
        self._posted.popleft()()

    def advance(self, seconds: float) -> None:
        """Move the time on, and run each timer at its moment."""
        end_s = self.now_s + seconds
        self.run_ready()
        while self._timers and self._timers[0][0] <= end_s:
            self.now_s, _, fn = heapq.heappop(self._timers)
            fn()
            self.run_ready()
        self.now_s = end_s

    def wait(self, timeout_s: float) -> None:
        """Run what is ready; if nothing is, move the time on."""
        if not self.run_ready():
            self.advance(timeout_s)
