"""The processes below a supervisor, and how long it waits before it starts one again."""

import subprocess
import sys

import pytest

from shardfs.runtime.children import LONGEST_DELAY_S, STEADY_S, Backoff, Child
from shardfs.runtime.processes import wait_for_end


def test_the_delay_doubles_up_to_a_limit_and_begins_anew_after_a_long_life() -> None:
    backoff = Backoff()
    delays = [backoff.next_delay_s(1.0) for _ in range(9)]
    assert delays[:4] == [0.1, 0.2, 0.4, 0.8] and delays[-1] == LONGEST_DELAY_S
    assert backoff.next_delay_s(STEADY_S) == 0.1


@pytest.mark.parametrize(
    ("source", "how"), [("", ""), ("raise SystemExit(3)", "exit code 3"), ("import os; os.kill(os.getpid(), 9)", "signal 9")]
)
def test_how_an_own_child_ended(source: str, how: str) -> None:
    child = Child.own("worker", 1, subprocess.Popen([sys.executable, "-c", source], stderr=subprocess.DEVNULL), restarts=2)
    assert child.state.restarts == 2 and child.state.index == 1
    assert wait_for_end([child.pidfd], 20)
    assert child.reap() == how


def test_another_supervisors_child_is_adopted_while_it_lives() -> None:
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state = Child.own("worker", 0, started, restarts=1).state
    adopted = Child.adopted(state)
    assert adopted is not None and adopted.state == state
    started.kill()
    started.communicate()
    assert wait_for_end([adopted.pidfd], 10) and adopted.reap() == "how is not known"
    assert Child.adopted(state) is None
