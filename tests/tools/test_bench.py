"""The benchmark measures what it says: ratios, files that are verified, server times, and a report of every row."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tools.bench.suites  # noqa: F401  (registers the rows)
from tools.bench.measure import Result, Series, measure
from tools.bench.report import make_json, make_table, speed_ratio
from tools.bench.rows import ROWS, SUITES, Row, Unit, rows_of
from tools.bench.sides import ServerUse, Side, cpu_seconds, existing_side
from tools.bench.work import QUICK, Work, WrongBytes, content, read_file, write_file

ROOT = Path(__file__).resolve().parents[2]


def make_work(folder: Path) -> Work:
    return Work(Side("plain", folder), folder, QUICK, random.Random(0))


def test_a_ratio_above_one_is_faster_whatever_the_unit() -> None:
    assert Unit.MICROSECONDS.speed_ratio(10, 20) == 2
    assert Unit.PER_SECOND.speed_ratio(10, 20) == 0.5
    assert Unit.MIB_PER_SECOND.speed_ratio(20, 10) == 2


def test_every_suite_has_rows_and_every_row_a_suite() -> None:
    assert {row.suite for row in ROWS} == set(SUITES)
    assert rows_of("all") == [row for suite in SUITES for row in rows_of(suite)]
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_reading_other_bytes_than_written_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    write_file(path, content(1))
    read_file(path, content(1))
    with pytest.raises(WrongBytes):
        read_file(path, content(2))
    with pytest.raises(WrongBytes):
        read_file(path, content(1)[:-8])


def test_the_order_of_files_is_random_and_the_same_on_every_side(tmp_path: Path) -> None:
    files = [(str(index), b"") for index in range(100)]
    first, second = make_work(tmp_path).shuffled(files), make_work(tmp_path).shuffled(files)
    assert first == second != files
    assert sorted(first) == sorted(files)


def test_processes_work_at_the_same_time_and_failures_are_noticed(tmp_path: Path) -> None:
    work = make_work(tmp_path)
    took = work.parallel(3, 3, lambda number: time.sleep(0.2)).seconds
    assert 0.2 <= took < 0.55
    with pytest.raises(ChildProcessError):
        work.parallel(2, 2, lambda number: os._exit(number))


def test_the_cpu_clock_of_a_process_counts_its_own_time() -> None:
    before, before_here = cpu_seconds(os.getpid()), time.process_time()
    sum(range(3_000_000))
    assert cpu_seconds(os.getpid()) - before == pytest.approx(time.process_time() - before_here, abs=0.02)


def test_rounds_turn_the_order_of_the_sides_and_leave_nothing(tmp_path: Path) -> None:
    order: list[str] = []

    def run(work: Work) -> float:
        order.append(work.side.name)
        write_file(f"{work.folder}/left-behind", content(0))
        return float(len(order))

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    sides = [Side("a", tmp_path / "a"), Side("b", tmp_path / "b")]
    results = measure([Row("append", "row", Unit.PER_SECOND, run)], sides, 2, QUICK, lambda _said: None)
    assert order == ["a", "b", "b", "a"]
    assert results[0].series["a"].values == [1.0, 4.0]
    assert not list(tmp_path.glob("*/*"))


def test_the_server_is_charged_per_operation_and_per_request() -> None:
    series = Series([1.0], [ServerUse(500, 0.02)], 1000)
    assert series.requests_per_operation == 0.5
    assert series.cpu_us_per_operation == pytest.approx(20)
    assert series.cpu_us_per_request == pytest.approx(40)
    assert Series([1.0], [ServerUse(10, 0.02)], 1000).cpu_us_per_request is None


def test_the_report_has_medians_ratio_and_all_rounds() -> None:
    series = {"shardfs": Series([30.0, 10.0, 20.0], [], 1), "baseline": Series([10.0], [], 1)}
    result = Result(Row("append", "row", Unit.MICROSECONDS, lambda work: 0.0), series)
    assert speed_ratio(result) == 0.5
    row = make_json([result], 3, QUICK)["rows"][0]
    assert row["sides"]["shardfs"]["values"] == [30.0, 10.0, 20.0] and row["sides"]["shardfs"]["median"] == 20.0
    assert make_table([result]).row_count == 1


def test_a_target_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = bench("--target", str(tmp_path / "missing"), "--baseline", str(tmp_path))
    assert done.returncode == 1 and "no directory" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_quick_run_against_a_plain_folder(tmp_path: Path) -> None:
    target, report = tmp_path / "target", tmp_path / "report.json"
    target.mkdir()
    done = bench("--suite", "append", "--target", str(target), "--baseline", str(tmp_path), "--rounds", "1", "--json", str(report))
    assert done.returncode == 0, done.stderr
    rows = json.loads(report.read_text())["rows"]
    assert [row["name"] for row in rows] == [row.name for row in rows_of("append")]
    assert all(row["speed_ratio"] > 0 for row in rows)
    assert existing_side(target).server_use() is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "target"]


def test_a_quick_run_on_a_new_volume_tells_what_the_server_did(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = bench("--suite", "append", "--baseline", str(tmp_path), "--rounds", "1", "--json", str(report))
    assert done.returncode == 0, done.stderr
    for row in json.loads(report.read_text())["rows"]:
        assert row["sides"]["shardfs"]["server_cpu_us_per_operation"] > 0
        assert row["sides"]["shardfs"]["requests_per_operation"] >= 1
        assert row["sides"]["baseline"]["server_cpu_us_per_operation"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmark's command."""
    command = [sys.executable, "-m", "tools.bench", "--quick", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
