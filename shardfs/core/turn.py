"""What an operation does when it cannot answer at once.

Operations run to completion on the loop thread and never wait there. Two ways out:

- It raises `Blocked` before it has changed anything. Whoever called it begins the work that it names and, when that
  is done, calls the operation again from scratch.
- It has done its part and returns a `Waiting`, whose answer arrives later, such as that of a group commit.
"""

from collections.abc import Callable
from typing import Any

from shardfs.core.loop import Loop

Resume = Callable[[Exception | None], None]
"""Called on the loop thread: with None when the operation may be tried again, else with the error to answer."""


class Blocked(Exception):
    """The operation must be tried again when some work is done; nothing has been changed so far."""

    def begin(self, loop: Loop, resume: Resume) -> None:
        """Start the work; `resume` is called on the loop thread when it is done."""
        raise NotImplementedError


class BlockedOnWork(Blocked):
    """A job for an I/O thread: `work()` runs there, `absorb(result)` then on the loop thread, before the retry.

    Either may raise a `ShardfsError`, which is then the operation's answer.
    """

    def __init__(self, work: Callable[[], Any], absorb: Callable[[Any], None]) -> None:
        super().__init__("an I/O thread has to work first")
        self._work = work
        self._absorb = absorb

    def begin(self, loop: Loop, resume: Resume) -> None:
        """Run the work on an I/O thread."""

        def done(result: Any, error: Exception | None) -> None:
            try:
                if error is None:
                    self._absorb(result)
            except Exception as refused:  # whatever it is, the operation must get an answer
                error = refused
            resume(error)

        loop.run_blocking(self._work, done)


class BlockedOnWaiting(Blocked):
    """Something that is already under way, such as a commit or a full queue that drains."""

    def __init__(self, waiting: "Waiting") -> None:
        super().__init__("something under way has to end first")
        self._waiting = waiting

    def begin(self, loop: Loop, resume: Resume) -> None:
        """Resume when the awaited thing has happened."""
        self._waiting.on_done(lambda _result, error: resume(error))


class Waiting:
    """An answer that comes later. Loop thread only."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any, Exception | None], None]] | None = []
        self._result: Any = None
        self._error: Exception | None = None

    @classmethod
    def done(cls, result: Any = None) -> "Waiting":
        """Return one whose answer is already there."""
        waiting = cls()
        waiting.resolve(result, None)
        return waiting

    @property
    def is_done(self) -> bool:
        """Whether the answer is there."""
        return self._callbacks is None

    def resolve(self, result: Any, error: Exception | None) -> None:
        """Give the answer, once."""
        assert self._callbacks is not None, "an answer is given once"
        callbacks, self._callbacks = self._callbacks, None
        self._result, self._error = result, error
        for callback in callbacks:
            callback(result, error)

    def on_done(self, callback: Callable[[Any, Exception | None], None]) -> None:
        """Call back with result and error: now if the answer is there, else when it comes."""
        if self._callbacks is None:
            callback(self._result, self._error)
        else:
            self._callbacks.append(callback)
