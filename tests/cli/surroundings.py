"""What a refused command must leave as it was."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardfs.fuse.mountinfo import Mount, read_mounts
from shardfs.runtime.paths import DIRECTORY_VARIABLE

BIN = Path(sys.executable).parent


class Surroundings:
    """A directory to work in, with a runtime directory of its own."""

    def __init__(self, base: Path, runtime: Path) -> None:
        self.base = base
        self.runtime = runtime
        self.volume = base / "volume"
        self.mountpoint = base / "mnt"
        self.mountpoint.mkdir()

    def run(self, *words: str | Path, program: str = "shardfs", **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command and return how it ended."""
        surroundings = {**os.environ, DIRECTORY_VARIABLE: str(self.runtime), **environment}
        return subprocess.run([BIN / program, *words], env=surroundings, capture_output=True, text=True, timeout=60, check=False)

    def mount(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run `shardfs mount` for the volume."""
        return self.run("mount", self.volume, self.mountpoint, *words, **environment)

    def processes(self) -> list[str]:
        """Return the command lines of what runs here."""
        mark = f"--directory={self.runtime}".encode()
        lines = [_command_line(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        return [line.decode(errors="replace") for line in lines if mark in line.split(b"\0")]

    def picture(self) -> tuple[list[tuple[str, int, int, bytes]], list[Mount], list[str]]:
        """Return everything that could have changed: files (less the content of large ones), mounts and processes."""
        files = [(str(path), path.lstat().st_mode, path.lstat().st_size, _content(path)) for path in sorted(self.base.rglob("*"))]
        return files, [mount for mount in read_mounts() if str(self.base) in mount.mountpoint], self.processes()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Assert that the body changes nothing."""
        before = self.picture()
        yield
        assert self.picture() == before

    def assert_refused(self, ended: "subprocess.CompletedProcess[str]", code: int, *parts: str) -> None:
        """Assert that a command ended with this code and one sentence that has all these parts."""
        assert ended.returncode == code and ended.stdout == "", ended
        assert ended.stderr.count("\n") == 1 and ended.stderr.startswith("shardfs"), ended.stderr
        for part in parts:
            assert part in ended.stderr, ended.stderr


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() and path.stat().st_size < 65536 else b""


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
