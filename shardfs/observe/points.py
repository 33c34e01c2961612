"""Named points of the code where a test may kill the process, to prove that any moment will do.

`reach` does nothing unless the environment variable ``SHARDFS_KILL_AT`` is ``NAME:COUNT``: then the process sends
itself SIGKILL when it reaches NAME for the COUNT-th time. Only names in `POINTS` exist.
"""

import os
import signal
from collections import Counter

POINTS = (
    "journal.before_append",
    "journal.after_append",
    "journal.after_rotate",
    "slot.after_data",
    "slot.after_header",
    "segment.after_append",
    "seal.before_free",
    "solo.after_create",
    "commit.after_data_sync",
    "commit.after_journal_sync",
    "split.after_step",
    "worker.before_apply",
    "worker.in_transaction",
    "worker.after_apply",
)

_armed = os.environ.get("SHARDFS_KILL_AT", "")
_seen: Counter[str] = Counter()


def reach(name: str) -> None:
    """Die here if the environment asks for it."""
    if _armed:
        _count(name)


def _count(name: str) -> None:
    assert name in POINTS, f"unknown point {name}"
    wanted, _, count = _armed.partition(":")
    if name == wanted:
        _seen[name] += 1
        if _seen[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
