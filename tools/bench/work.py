"""What a row works with: a fresh folder, files with known content, cold caches, a stopwatch, and processes.

The stopwatch also notes what the server did meanwhile: the requests that reached it and the CPU time that it took.
"""

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.synchronize import Barrier
from pathlib import Path

from tools.bench.sides import ServerUse, Side

SMALL_BYTES = 8 << 10
MIB = 1 << 20
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Scale:
    """How much each row does. The full scale is for figures, the quick one shows that the rows run."""

    small_files: int = 3_000
    scan_files: int = 10_000
    files_per_process: int = 200
    large_bytes: int = 512 * MIB
    shards_per_rank: int = 25
    appends: int = 20_000


QUICK = Scale(small_files=300, scan_files=500, files_per_process=20, large_bytes=64 * MIB, shards_per_rank=3, appends=2_000)


class WrongBytes(Exception):
    """A read returned other bytes than were written."""


def content(index: int, size_bytes: int = SMALL_BYTES) -> bytes:
    """Return the bytes of file or block number `index`: its number, repeated, so that any mix-up shows."""
    return (index + 1).to_bytes(8, "little") * (size_bytes // 8)


def write_file(path: str, data: bytes, *, sync: bool = False) -> None:
    """Create a file, write it with one call, sync it if asked, close it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(file, data)
        if sync:
            os.fsync(file)
    finally:
        os.close(file)


def read_file(path: str, expected: bytes) -> None:
    """Open a file, read it with one call, close it, and compare."""
    file = os.open(path, os.O_RDONLY)
    try:
        data = os.read(file, len(expected) + 1)
    finally:
        os.close(file)
    if data != expected:
        raise WrongBytes(f"{path}: {len(data)} bytes that are not the {len(expected)} written there")


def drop_caches(what: int) -> None:
    """Make the kernel drop clean pages (1), dentries and inodes (2) or all of them (3). Root only."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text(f"{what}\n")


@dataclass
class Stopwatch:
    """How long one timed stretch took."""

    seconds: float = 0.0

    def us_per(self, operations: int) -> float:
        """Return microseconds per operation."""
        return self.seconds * 1e6 / operations

    def per_s(self, operations: int) -> float:
        """Return operations per second."""
        return operations / self.seconds

    def mib_per_s(self, size_bytes: int) -> float:
        """Return MiB per second."""
        return size_bytes / MIB / self.seconds


@dataclass
class Work:
    """One side's place for one row in one round."""

    side: Side
    folder: Path
    scale: Scale
    random: random.Random
    use: ServerUse | None = None
    operations: int = 0

    @contextmanager
    def timed(self, operations: int) -> Iterator[Stopwatch]:
        """Time a stretch of so many operations, with earlier writes of both sides out of the way."""
        os.sync()
        self.side.settle()
        before = self.side.server_use()
        stopwatch = Stopwatch()
        start = time.perf_counter()
        yield stopwatch
        stopwatch.seconds = time.perf_counter() - start
        after = self.side.server_use()
        self.operations = operations
        self.use = after.since(before) if after and before else None

    @cached_property
    def small_files(self) -> list[tuple[str, bytes]]:
        """Path and content of the small files; made at first use, before any timing."""
        return self.make_files(self.scale.small_files)

    def make_files(self, count: int) -> list[tuple[str, bytes]]:
        """Write so many small files into the folder; return path and content of each."""
        files = [(f"{self.folder}/{index:08}", content(index)) for index in range(count)]
        for path, data in files:
            write_file(path, data)
        return files

    def shuffled(self, files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Return the files in an order that is random, but the same on every side in one round."""
        return self.random.sample(files, len(files))

    def cool(self) -> None:
        """Make everything cold: what the side's server keeps, then the kernel's caches."""
        self.side.restart()
        drop_caches(3)

    def parallel(self, processes: int, operations: int, job: Callable[[int], None]) -> Stopwatch:
        """Run `job(number)` in so many processes at once; time from a common start until the last is done."""
        start = FORK.Barrier(processes + 1)
        workers = [FORK.Process(target=_run_job, args=(start, job, number)) for number in range(processes)]
        for worker in workers:
            worker.start()
        with self.timed(operations) as stopwatch:
            start.wait(timeout=60)
            for worker in workers:
                worker.join()
        if any(worker.exitcode for worker in workers):
            raise ChildProcessError(f"{sum(bool(worker.exitcode) for worker in workers)} of {processes} processes failed")
        return stopwatch


def _run_job(start: Barrier, job: Callable[[int], None], number: int) -> None:
    start.wait(timeout=60)
    job(number)
