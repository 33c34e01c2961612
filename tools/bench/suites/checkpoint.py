"""Checkpoints: large files, many ranks saving into one directory, and a loader that reads meanwhile."""

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tools.bench.rows import Unit, row
from tools.bench.work import FORK, MIB, Work, WrongBytes, content, read_file, write_file

RANKS = 8
SAVE_STARTS_S = 10.0


def write_large(path: str, size_bytes: int) -> None:
    """Write a file in 1 MiB calls and sync it; every block differs from the others."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        for index in range(size_bytes // MIB):
            os.write(file, content(index, MIB))
        os.fsync(file)
    finally:
        os.close(file)


def check_block(path: str, index: int, block: bytes) -> None:
    """Raise unless this 1 MiB block is the one written there."""
    if block != content(index, MIB):
        raise WrongBytes(f"{path}: block {index} is not what was written")


@row("checkpoint", "large file: write + fsync", Unit.MIB_PER_SECOND)
def large_write(work: Work) -> float:
    """Write one large file and sync it."""
    size_bytes = work.scale.large_bytes
    with work.timed(size_bytes // MIB) as stopwatch:
        write_large(f"{work.folder}/model.pt", size_bytes)
    return stopwatch.mib_per_s(size_bytes)


@row("checkpoint", "large file: read, cold", Unit.MIB_PER_SECOND)
def large_read(work: Work) -> float:
    """Read one large file from start to end with all caches empty."""
    path, size_bytes = f"{work.folder}/model.pt", work.scale.large_bytes
    write_large(path, size_bytes)
    work.cool()
    with work.timed(size_bytes // MIB) as stopwatch, open(path, "rb", buffering=0) as file:
        for index in range(size_bytes // MIB):
            check_block(path, index, file.read(MIB))
    return stopwatch.mib_per_s(size_bytes)


@row("checkpoint", "large file: mmap, cold", Unit.MIB_PER_SECOND)
def large_map(work: Work) -> float:
    """Map one large file and read the mapping, as safetensors does."""
    path, size_bytes = f"{work.folder}/model.safetensors", work.scale.large_bytes
    write_large(path, size_bytes)
    work.cool()
    with work.timed(size_bytes // MIB) as stopwatch, open(path, "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for index in range(size_bytes // MIB):
            check_block(path, index, mapping[index * MIB : (index + 1) * MIB])
        mapping.close()
    return stopwatch.mib_per_s(size_bytes)


@row("checkpoint", "shards of 1-4 MiB + fsync, 8 ranks, one directory", Unit.MIB_PER_SECOND)
def save_shards(work: Work) -> float:
    """Eight ranks save their shards at once; the save lasts until the slowest is done."""
    count = work.scale.shards_per_rank
    sizes = [work.random.randint(1, 4) * MIB for _ in range(count)]

    def job(number: int) -> None:
        for index, size_bytes in enumerate(sizes):
            write_large(f"{work.folder}/{number}-{index}.distcp", size_bytes)

    return work.parallel(RANKS, RANKS * count, job).mib_per_s(RANKS * sum(sizes))


@contextmanager
def save_beside(work: Work) -> Iterator[None]:
    """Let another process save one large file after the other for as long as the block lasts."""
    path = f"{work.folder}/model.pt"
    process = FORK.Process(target=save_forever, args=(path, work.scale.large_bytes))
    process.start()
    try:
        deadline_s = time.monotonic() + SAVE_STARTS_S
        while not os.path.exists(path) and time.monotonic() < deadline_s:
            time.sleep(0.001)
        yield
        assert process.is_alive(), "the save beside has failed"
    finally:
        process.terminate()
        process.join()


def save_forever(path: str, size_bytes: int) -> None:
    """Save, remove, and begin again until the process is ended."""
    while True:
        write_large(path, size_bytes)
        os.unlink(path)


@row("checkpoint", "small files read while a save runs", Unit.PER_SECOND)
def read_beside_save(work: Work) -> float:
    """Read small files in random order, cold, while another process saves."""
    files = work.shuffled(work.small_files)
    work.cool()
    with work.timed(len(files)), save_beside(work):
        start = time.perf_counter()
        for path, data in files:
            read_file(path, data)
        took_s = time.perf_counter() - start
    return len(files) / took_s


@row("checkpoint", "fsync of a small file beside a save, p99", Unit.MICROSECONDS)
def fsync_beside_save(work: Work) -> float:
    """Create and sync small files while another process saves; the slow ones count."""
    count = work.scale.files_per_process
    took_s = []
    with work.timed(count), save_beside(work):
        for index in range(count):
            start = time.perf_counter()
            write_file(f"{work.folder}/{index}", content(index), sync=True)
            took_s.append(time.perf_counter() - start)
    return sorted(took_s)[count * 99 // 100] * 1e6
