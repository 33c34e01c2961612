"""What the framework tests share."""

import importlib.util
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

NEEDED = ("torch", "numpy", "safetensors", "filelock")
PROGRAM_TIMEOUT_S = 150.0


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """Fail, and say how to go on, if a package that these tests put on the mount is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.fail(
            f"{', '.join(missing)} not installed; tools/test installs them, or: pip install torch==2.13.0 numpy safetensors filelock"
        )


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., str]:
    """A function that runs Python source as a program of its own and returns what it printed."""

    def run(source: str, *words: object) -> str:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        line = [sys.executable, str(path), *map(str, words)]
        ended = subprocess.run(line, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run
