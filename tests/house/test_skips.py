"""A skipped test fails the run: proved by running pytest on planted tests with the repository's own rule."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run one planted test module under the repository's `conftest.py`."""
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_planted.py").write_text("import pytest\n" + test)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", folder], capture_output=True, text=True, timeout=60)


def test_a_skipped_test_fails_the_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def test_it():\n    pytest.skip('no luck')\n")
    assert done.returncode == 1 and "counts as a failure" in done.stdout and "no luck" in done.stdout


def test_a_skipped_module_fails_the_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "pytest.importorskip('no_such_module')\ndef test_it():\n    pass\n")
    assert done.returncode == 2 and "counts as a failure" in done.stdout


def test_an_expected_failure_is_not_a_skip(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "@pytest.mark.xfail(strict=True)\ndef test_it():\n    assert False\n")
    assert done.returncode == 0 and "1 xfailed" in done.stdout
