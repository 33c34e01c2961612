"""Small files, as a data set has them: 8 KiB each, in one directory."""

from tools.bench.rows import Unit, row
from tools.bench.work import Work, content, read_file, write_file

PROCESSES = 8


@row("smallfile", "create + write 8 KiB + close", Unit.MICROSECONDS)
def create(work: Work) -> float:
    """One process creates files in one directory."""
    count = work.scale.small_files
    data = content(0)
    paths = [f"{work.folder}/{index:08}" for index in range(count)]
    with work.timed(count) as stopwatch:
        for path in paths:
            write_file(path, data)
    return stopwatch.us_per(count)


@row("smallfile", "the same with fsync, 8 processes", Unit.MICROSECONDS)
def create_synced(work: Work) -> float:
    """Eight processes create and sync files in one directory."""
    count = work.scale.files_per_process

    def job(number: int) -> None:
        for index in range(count):
            write_file(f"{work.folder}/{number}-{index}", content(index), sync=True)

    return work.parallel(PROCESSES, PROCESSES * count, job).us_per(PROCESSES * count)


@row("smallfile", "open + read 8 KiB + close, warm", Unit.MICROSECONDS)
def read_warm(work: Work) -> float:
    """Read every file again that was just read."""
    files = work.shuffled(work.small_files)
    for path, data in files:
        read_file(path, data)
    with work.timed(len(files)) as stopwatch:
        for path, data in files:
            read_file(path, data)
    return stopwatch.us_per(len(files))


@row("smallfile", "open + read 8 KiB + close, cold, random order", Unit.MICROSECONDS)
def read_cold(work: Work) -> float:
    """Read every file once with all caches empty, as a first epoch does."""
    files = work.shuffled(work.small_files)
    work.cool()
    with work.timed(len(files)) as stopwatch:
        for path, data in files:
            read_file(path, data)
    return stopwatch.us_per(len(files))
