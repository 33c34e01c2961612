"""Random operations against the file system and the reference model, with everything compared after each step."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from shardfs.format import keys
from tests.core.machine import CoreMachine

COMMON = settings(deadline=None, print_blob=True, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink))
SHORT = settings(COMMON, max_examples=100, stateful_step_count=60, derandomize=True, database=None)
LONG = settings(COMMON, max_examples=400, stateful_step_count=100)


@pytest.fixture
def machine() -> Iterator[type[CoreMachine]]:
    """A machine that makes its volumes on tmpfs: syncs cost nothing there, and no read is ever answered without waiting."""
    with tempfile.TemporaryDirectory(prefix="shardfs-model-", dir="/dev/shm") as directory:
        yield type("Machine", (CoreMachine,), {"directory": Path(directory)})


@pytest.fixture
def few_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let names have one of 8 hashes only, so that collisions are the rule."""
    plain = keys.name_hash
    monkeypatch.setattr(keys, "name_hash", lambda parent, name: plain(parent, name) >> 60 << 60 | 3)


def test_random_operations(machine: type[CoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=SHORT)


@pytest.mark.usefixtures("few_hashes")
def test_random_operations_with_colliding_names(machine: type[CoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=SHORT)


@pytest.mark.long
def test_many_random_operations(machine: type[CoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=LONG)


@pytest.mark.long
@pytest.mark.usefixtures("few_hashes")
def test_many_random_operations_with_colliding_names(machine: type[CoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=LONG)
