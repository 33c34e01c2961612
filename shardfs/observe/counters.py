"""Counters of what happened: plain integers by dotted name, cheap enough for the request path."""

from collections import Counter


class Counters:
    """Counts by name, such as ``request.lookup`` or ``journal.syncs``. Written by any thread, read as a snapshot."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Add to one counter."""
        self._counts[name] += amount

    def get(self, name: str) -> int:
        """Return one counter's value; 0 if nothing was counted."""
        return self._counts[name]

    def snapshot(self) -> dict[str, int]:
        """Return all counters by name."""
        return dict(sorted(self._counts.items()))
