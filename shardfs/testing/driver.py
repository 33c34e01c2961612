"""Calls operations of `core` as a transport does, but waits for their answers."""

from collections.abc import Callable
from typing import Any, TypeVar

from shardfs.core.turn import Blocked, Waiting
from shardfs.testing.loop import InlineLoop

Answer = TypeVar("Answer")

MAX_ROUNDS = 10_000
"""After so many rounds of the loop an answer will never come."""


def drive(loop: InlineLoop, operation: Callable[..., Answer | Waiting], *arguments: object) -> Answer:
    """Call an operation, again as often as it is blocked, and return its final answer or raise its error."""
    for _ in range(MAX_ROUNDS):
        try:
            answer = operation(*arguments)
        except Blocked as blocked:
            _unblock(loop, blocked)
            continue
        return settle(loop, answer.on_done) if isinstance(answer, Waiting) else answer
    raise AssertionError(f"{operation} is blocked again and again")


def _unblock(loop: InlineLoop, blocked: Blocked) -> None:
    settle(loop, lambda callback: blocked.begin(loop, lambda error: callback(None, error)))


def settle(loop: InlineLoop, begin: Callable[[Callable[[Any, Exception | None], None]], None]) -> Any:
    """Call `begin` with a callback, run the loop until it is called, and return or raise what it was given."""
    outcome: list[tuple[Any, Exception | None]] = []
    begin(lambda result, error: outcome.append((result, error)))
    for _ in range(MAX_ROUNDS):
        if outcome:
            break
        loop.wait(1.0)
    assert outcome, "an answer never came"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
