"""The shell scripts: they are POSIX, say in one sentence what is wrong, and the demo leaves nothing behind."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("tools/demo", "tools/test", "tools/check", "tools/lib/setup.sh")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_posix(script: str) -> None:
    assert subprocess.run(["dash", "-n", ROOT / script], check=False).returncode == 0


@pytest.mark.parametrize("script", ["tools/demo", "tools/test"])
def test_without_dev_fuse_a_script_says_so_and_fails(script: str, tmp_path: Path) -> None:
    """In a mount name space of its own, where /dev/fuse is an ordinary file."""
    stand_in = tmp_path / "fuse"
    stand_in.touch()
    hidden = f"mount --make-rprivate / && mount --bind {stand_in} /dev/fuse && exec {ROOT / script}"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", hidden], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "/dev/fuse is missing" in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_demo_refuses_unknown_options() -> None:
    done = subprocess.run([ROOT / "tools/demo", "--no-such"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.startswith("tools/demo: usage:")


@pytest.fixture
def demo_home(tmp_path: Path) -> Iterator[Path]:
    """A directory for the demo, which must be empty and free of mounts in the end."""
    yield tmp_path
    assert not list(tmp_path.iterdir())
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def start_demo(home: Path) -> subprocess.Popen[str]:
    """Start the demo in a process group of its own, as a terminal does."""
    command = [str(ROOT / "tools/demo"), "--dir", str(home)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


@pytest.mark.long
def test_the_demo_trains_and_compares(demo_home: Path) -> None:
    demo = start_demo(demo_home)
    said, _ = demo.communicate(timeout=600)
    assert demo.returncode == 0, said
    assert said.count("after 3 more epochs") == 6
    assert "shardfs / plain" in said


@pytest.mark.long
@pytest.mark.parametrize("after", ["formatting and mounting", "mounted at", "Training in"])
def test_the_demo_can_be_interrupted(demo_home: Path, after: str) -> None:
    demo = start_demo(demo_home)
    assert demo.stdout is not None
    said = ""
    while after not in said:
        line = demo.stdout.readline()
        assert line, f"the demo ended before it could be interrupted: {said}"
        said += line
    interrupted_s = time.monotonic()
    os.killpg(demo.pid, signal.SIGINT)
    demo.communicate(timeout=120)
    assert demo.returncode == 130
    assert time.monotonic() - interrupted_s < 60
