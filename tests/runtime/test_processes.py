"""Naming, watching and starting processes."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from shardfs.runtime.processes import ProcessName, name_process, oom_score_adj, own_name, rss_bytes, send_signal, wait_for_end

WAIT = "import sys; sys.stdin.read()"
SETTLE = """
import os, resource, signal
from pathlib import Path
from shardfs.runtime.processes import settle_in
settle_in("shardfs-test", 500)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], signal.getsignal(signal.SIGINT).name, Path("/proc/self/comm").read_text().strip())
print(Path("/proc/self/oom_score_adj").read_text().strip(), oct(os.umask(0)))
"""


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    started = subprocess.Popen([sys.executable, "-c", WAIT], stdin=subprocess.PIPE)
    yield started
    started.kill()
    started.communicate()


def named(child: "subprocess.Popen[bytes]") -> ProcessName:
    name = name_process(child.pid)
    assert name is not None
    return name


def pidfd_of(name: ProcessName) -> int:
    pidfd = name.open_pidfd()
    assert pidfd is not None
    return pidfd


def test_a_name_goes_through_text() -> None:
    assert ProcessName.parse(own_name().text()) == own_name() and own_name().pid == os.getpid()


def test_a_living_process(child: "subprocess.Popen[bytes]") -> None:
    assert named(child).is_alive and rss_bytes(child.pid) > 0
    assert 0 <= named(child).uptime_s < 60


def test_a_dead_one_that_is_not_reaped_is_not_alive_and_its_pidfd_tells(child: "subprocess.Popen[bytes]") -> None:
    name = named(child)
    pidfd = pidfd_of(name)
    assert not wait_for_end([pidfd], 0.01)
    send_signal(pidfd, signal.SIGKILL)
    assert wait_for_end([pidfd], 10) and not name.is_alive
    os.close(pidfd)
    late = pidfd_of(name)
    assert wait_for_end([late], 10)
    os.close(late)
    child.wait()
    assert name.open_pidfd() is None and name_process(child.pid) is None and rss_bytes(child.pid) == 0
    assert not name.is_alive


def test_a_number_used_again_is_another_process(child: "subprocess.Popen[bytes]") -> None:
    stranger = ProcessName(child.pid, named(child).start_ticks - 1)
    assert not stranger.is_alive and stranger.open_pidfd() is None


def test_signals_to_the_dead_do_nothing(child: "subprocess.Popen[bytes]") -> None:
    pidfd = pidfd_of(named(child))
    child.kill()
    child.wait()
    send_signal(pidfd, signal.SIGTERM)
    os.close(pidfd)


def test_waiting_for_many_ends_with_the_last(child: "subprocess.Popen[bytes]") -> None:
    other = subprocess.Popen([sys.executable, "-c", ""])
    pidfds = [os.pidfd_open(child.pid), os.pidfd_open(other.pid)]
    start_s = time.monotonic()
    assert not wait_for_end(pidfds, 0.3) and time.monotonic() - start_s >= 0.3
    child.kill()
    assert wait_for_end(pidfds, 10)
    other.wait()
    for pidfd in pidfds:
        os.close(pidfd)


def test_the_processes_of_a_mount_are_settled_in() -> None:
    told = subprocess.run([sys.executable, "-c", SETTLE], capture_output=True, text=True, check=True).stdout.split()
    hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert told == [str(hard_limit), "SIG_IGN", "shardfs-test", "500", "0o77"]


def test_oom_score() -> None:
    assert -1000 <= oom_score_adj() <= 1000
