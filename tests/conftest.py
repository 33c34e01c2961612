"""Fixtures that every suite may use: directories for several users, and mounts that leave nothing behind.

    mount         a fresh volume, mounted; unmounted and checked by fsck after the test
    make_volume   makes fresh volumes that the test mounts and ends itself; each is checked at the end
    shared_dir    an empty directory on a mount that lives for the whole session
    acl_dir       the same on a mount with `-o acl`
    open_tmp      an empty directory on the local file system that any user can reach

After each test the log of its mounts must hold no error, unless the test is marked `log_errors`.
"""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from shardfs.testing.mounted import Mounted

TEST_LIMIT_S, LONG_TEST_LIMIT_S = 170.0, 1500.0
"""A test that takes longer has its mounts taken away, so that it fails instead of hanging."""
MOUNTING_FIXTURES = {"mount", "make_volume", "shared_mount", "shared_dir", "acl_mount", "acl_dir"}

_living: list[Mounted] = []


def pytest_configure(config: pytest.Config) -> None:
    """Make our marks known, and clean up also when the run is terminated."""
    config.addinivalue_line("markers", "log_errors: the test provokes errors that its mount logs")
    signal.signal(signal.SIGTERM, lambda _number, _frame: pytest.exit("terminated", returncode=1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End the run at once if it needs mounts and this machine has none."""
    if not os.path.exists("/dev/fuse") and any(MOUNTING_FIXTURES & set(getattr(item, "fixturenames", ())) for item in items):
        pytest.exit("/dev/fuse is missing, so nothing can be mounted and tested; load it with: modprobe fuse", returncode=1)


@contextmanager
def _directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="shardfs-test-", dir="/tmp"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture
def open_tmp() -> Iterator[Path]:
    """An empty directory on the local file system."""
    with _directory() as path:
        yield path


@contextmanager
def _volume(on: Path | None = None, **how: Any) -> Iterator[Mounted]:
    """Make a volume, in a new directory or `on` a given one, and leave neither mount nor process nor file behind."""
    with nullcontext(on) if on else _directory() as base:
        mounted = Mounted(base, **how)
        _living.append(mounted)
        try:
            yield mounted
            if mounted.is_mounted:
                mounted.umount()
            mounted.assert_clean()
            assert not mounted.pids(), f"processes {mounted.pids()} are left"
        finally:
            _living.remove(mounted)
            mounted.force_end()
            mounted.remove_traces()


@contextmanager
def _mount(**how: Any) -> Iterator[Mounted]:
    with _volume(**how) as mounted:
        mounted.mount()
        yield mounted


@pytest.fixture
def mount() -> Iterator[Mounted]:
    """A fresh volume, mounted."""
    with _mount() as mounted:
        yield mounted


@pytest.fixture
def make_volume() -> Iterator[Callable[..., Mounted]]:
    """A function that makes fresh volumes, not mounted yet; it takes what `Mounted` takes."""
    with ExitStack() as stack:
        yield lambda **how: stack.enter_context(_volume(**how))


@pytest.fixture(scope="session")
def shared_mount() -> Iterator[Mounted]:
    """A mount that lives as long as the session."""
    with _mount() as mounted:
        yield mounted


@pytest.fixture(scope="session")
def acl_mount() -> Iterator[Mounted]:
    """The same with POSIX ACLs."""
    with _mount(options="allow_other,acl") as mounted:
        yield mounted


@contextmanager
def _directory_on(mounted: Mounted) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir=mounted.path))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture
def shared_dir(shared_mount: Mounted) -> Iterator[Path]:
    """An empty directory on the shared mount."""
    with _directory_on(shared_mount) as path:
        yield path


@pytest.fixture
def acl_dir(acl_mount: Mounted) -> Iterator[Path]:
    """An empty directory on the shared mount with ACLs."""
    with _directory_on(acl_mount) as path:
        yield path


@pytest.fixture(autouse=True)
def no_hanging(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take the mounts away from a test that takes too long."""
    limit_s = LONG_TEST_LIMIT_S if request.node.get_closest_marker("long") else TEST_LIMIT_S
    watch = threading.Timer(limit_s, _end_all)
    watch.daemon = True
    watch.start()
    yield
    watch.cancel()


def _end_all() -> None:
    for mounted in _living:
        mounted.force_end()


@pytest.fixture(autouse=True)
def quiet_logs(request: pytest.FixtureRequest, no_hanging: None) -> Iterator[None]:
    """Fail a test whose mounts have logged errors."""
    yield
    problems = [line for mounted in _living for line in mounted.problems()]
    if not request.node.get_closest_marker("log_errors"):
        assert not problems, "the mount logged errors:\n" + "\n".join(problems)
