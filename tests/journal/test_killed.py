"""A process that appends to a journal on the real disk is killed at each named point; what it acknowledged is there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shardfs.ids import Epoch
from shardfs.journal.log import Journal, create_journal
from shardfs.journal.replay import replay
from shardfs.observe.counters import Counters
from shardfs.storage.real import RealStorage

VOLUME = b"volume-of-a-test"
SEGMENT_BYTES = 8192

WRITER = """
import sys
from shardfs.ids import Epoch
from shardfs.journal.log import Journal
from shardfs.journal.replay import replay
from shardfs.observe.counters import Counters
from shardfs.storage.real import RealStorage

directory, volume, segment_bytes = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
storage = RealStorage()
journal = Journal.start(storage, directory, volume, replay(storage, directory, volume), Epoch(1), Counters(), segment_bytes=segment_bytes)
for request in range(1, 200):
    sys.stdout.write(f"{journal.append(request, 'create', [(0, b'key', b'v' * 100)])}\\n")
    sys.stdout.flush()
    if request % 10 == 0:
        journal.sync(journal.last_lsn)
        journal.recycle(journal.durable_lsn - 50 if request > 50 else 1)
"""


@pytest.mark.parametrize(
    ("point", "acknowledged"),
    [("journal.before_append:77", 76), ("journal.after_append:77", 76), ("journal.after_rotate:3", None)],
)
def test_what_was_acknowledged_is_there(tmp_path: Path, point: str, acknowledged: int | None) -> None:
    storage, directory = RealStorage(), str(tmp_path / "journal")
    create_journal(storage, directory, VOLUME, segment_bytes=SEGMENT_BYTES)
    command = [sys.executable, "-c", WRITER, directory, VOLUME.decode(), str(SEGMENT_BYTES)]
    ended = subprocess.run(command, env={**os.environ, "SHARDFS_KILL_AT": point}, capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    last = int(ended.stdout.split()[-1])
    assert acknowledged in (None, last)
    found = replay(storage, directory, VOLUME)
    assert found.same_boot
    assert found.last_lsn == last + (point.startswith("journal.after_append"))
    assert [operation.request for _, operation in found.operations()] == list(range(found.first_lsn, found.last_lsn + 1))
    journal = Journal.start(storage, directory, VOLUME, found, Epoch(2), Counters(), segment_bytes=SEGMENT_BYTES)
    assert journal.durable_lsn == last // 10 * 10
    journal.close()
