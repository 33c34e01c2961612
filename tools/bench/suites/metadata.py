"""Names and attributes: stat, scans, rename, unlink, and many processes creating at once."""

import os

from tools.bench.rows import Unit, row
from tools.bench.work import Work, content, drop_caches, write_file

PROCESSES = 8
DENTRIES_AND_INODES = 2


@row("metadata", "stat, warm", Unit.MICROSECONDS)
def stat_warm(work: Work) -> float:
    """Stat files whose attributes the kernel has."""
    paths = [path for path, _ in work.small_files]
    for path in paths:
        os.stat(path)
    with work.timed(len(paths)) as stopwatch:
        for path in paths:
            os.stat(path)
    return stopwatch.us_per(len(paths))


@row("metadata", "stat, the kernel's entries dropped", Unit.MICROSECONDS)
def stat_uncached(work: Work) -> float:
    """Stat files that the kernel has forgotten: every stat looks the name up anew."""
    paths = [path for path, _ in work.shuffled(work.small_files)]
    drop_caches(DENTRIES_AND_INODES)
    with work.timed(len(paths)) as stopwatch:
        for path in paths:
            os.stat(path)
    return stopwatch.us_per(len(paths))


@row("metadata", "scan with stat, cold", Unit.MICROSECONDS)
def scan_cold(work: Work) -> float:
    """List a directory and stat every entry, with all caches empty."""
    count = work.scale.scan_files
    work.make_files(count)
    work.cool()
    with work.timed(count) as stopwatch, os.scandir(work.folder) as entries:
        seen = sum(entry.stat().st_size > 0 for entry in entries)
    assert seen == count, f"the scan saw {seen} of {count} files"
    return stopwatch.us_per(count)


@row("metadata", "rename", Unit.MICROSECONDS)
def rename(work: Work) -> float:
    """Rename files within their directory."""
    paths = [path for path, _ in work.small_files]
    with work.timed(len(paths)) as stopwatch:
        for path in paths:
            os.rename(path, path + "-renamed")
    return stopwatch.us_per(len(paths))


@row("metadata", "unlink", Unit.MICROSECONDS)
def unlink(work: Work) -> float:
    """Remove files that are not open."""
    paths = [path for path, _ in work.small_files]
    with work.timed(len(paths)) as stopwatch:
        for path in paths:
            os.unlink(path)
    return stopwatch.us_per(len(paths))


@row("metadata", "create, 8 processes, one directory", Unit.MICROSECONDS)
def create_in_one_directory(work: Work) -> float:
    """Eight processes create small files in the same directory."""
    return create_in(work, [f"{work.folder}"] * PROCESSES)


@row("metadata", "create, 8 processes, 8 directories", Unit.MICROSECONDS)
def create_in_own_directories(work: Work) -> float:
    """Eight processes create small files, each in a directory of its own."""
    folders = [f"{work.folder}/{number}" for number in range(PROCESSES)]
    for folder in folders:
        os.mkdir(folder)
    return create_in(work, folders)


def create_in(work: Work, folders: list[str]) -> float:
    """Create small files with one process for each folder named."""
    count = work.scale.files_per_process
    data = content(0)

    def job(number: int) -> None:
        for index in range(count):
            write_file(f"{folders[number]}/{number}-{index}", data)

    return work.parallel(len(folders), len(folders) * count, job).us_per(len(folders) * count)
