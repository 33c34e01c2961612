"""A place for commands to work in."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfs.runtime.paths import slots_path
from tests.cli.surroundings import Surroundings


@pytest.fixture
def here(open_tmp: Path) -> Iterator[Surroundings]:
    """A directory with a mount point and no volume yet, and a runtime directory; whatever is mounted is taken away."""
    runtime = Path(tempfile.mkdtemp(prefix="sfs-", dir="/tmp"))
    made = Surroundings(open_tmp, runtime)
    yield made
    for mount in reversed(made.picture()[1]):
        if mount.is_shardfs:
            assert made.run("umount", mount.mountpoint).returncode == 0
        else:
            subprocess.run(["umount", mount.mountpoint], check=True)
    assert made.processes() == []
    for log in runtime.glob("*.log"):
        Path(slots_path(bytes.fromhex(log.stem))).unlink(missing_ok=True)
    shutil.rmtree(runtime)
