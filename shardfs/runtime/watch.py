"""Waiting for descriptors, signals and times in one thread: the whole machinery of the supervisor."""

import heapq
import itertools
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterable

Action = Callable[[], None]


class Watch:
    """Calls functions when something happens."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Action]] = []
        self._serial = itertools.count()

    def on_readable(self, fd: int, action: Action) -> None:
        """Call `action` whenever the descriptor is readable, until `forget`."""
        self._selector.register(fd, selectors.EVENT_READ, action)

    def forget(self, fd: int) -> None:
        """Watch the descriptor no longer."""
        self._selector.unregister(fd)

    def call_later(self, delay_s: float, action: Action) -> None:
        """Call `action` once, after a delay."""
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._serial), action))

    def on_signals(self, numbers: Iterable[signal.Signals], action: Action) -> None:
        """Call `action` after any of these signals. Main thread only, once."""
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            end.setblocking(False)
        for number in numbers:
            signal.signal(number, lambda _number, _frame: None)  # what counts is the byte that it sends
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self._signal_ends = reader, writer

        def signalled() -> None:
            reader.recv(64)
            action()

        self.on_readable(reader.fileno(), signalled)

    def run_once(self) -> None:
        """Wait until something happens and call what belongs to it."""
        timeout_s = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
        for key, _ in self._selector.select(timeout_s):
            if self._selector.get_map().get(key.fd) is not None:  # an action before may have forgotten it
                key.data()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()

    def close(self) -> None:
        """Let go of everything; signals go back to their defaults."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
