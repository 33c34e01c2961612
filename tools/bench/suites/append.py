"""Appends, as logs and metrics files get them."""

import os

from tools.bench.rows import Unit, row
from tools.bench.work import Work, WrongBytes, content

APPEND_BYTES = 4 << 10
LOG_BYTES = 512 << 10


def append(path: str, count: int) -> None:
    """Append so many blocks to a file with `O_APPEND`."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for index in range(count):
        os.write(file, content(index, APPEND_BYTES))
    os.close(file)


def verify(path: str, count: int) -> None:
    """Compare the file with what was appended."""
    with open(path, "rb") as file:
        for index in range(count):
            if file.read(APPEND_BYTES) != content(index, APPEND_BYTES):
                raise WrongBytes(f"{path}: block {index} is not what was appended")
        if file.read(1):
            raise WrongBytes(f"{path}: longer than {count} blocks")


@row("append", "4 KiB appends to one growing file", Unit.PER_SECOND)
def append_growing(work: Work) -> float:
    """Append to one file, far beyond the size of a packed one."""
    path, count = f"{work.folder}/log", work.scale.appends
    with work.timed(count) as stopwatch:
        append(path, count)
    verify(path, count)
    return stopwatch.per_s(count)


@row("append", "4 KiB appends to files of 512 KiB", Unit.PER_SECOND)
def append_small_logs(work: Work) -> float:
    """Append to one file after the other, each small enough to be packed."""
    per_log = LOG_BYTES // APPEND_BYTES
    logs = [f"{work.folder}/log-{number}" for number in range(work.scale.appends // per_log)]
    with work.timed(len(logs) * per_log) as stopwatch:
        for log in logs:
            append(log, per_log)
    for log in logs:
        verify(log, per_log)
    return stopwatch.per_s(len(logs) * per_log)
