"""The same random system calls on a plain directory and on the mount: every answer and the whole tree agree."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardfs.testing.operations import Generator, Hands
from shardfs.testing.trees import differences, picture
from tests.posix.table import OTHER, USER

STEPS = 1_500
LONG_STEPS = 20_000
PICTURE_EVERY = 250
USERS = (0, 0, USER, OTHER)
"""Who does the next operations, in turn; each inherits the open files of the one before."""
TURN_STEPS = 50


@contextmanager
def _acting_as(uid: int) -> Iterator[None]:
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def no_groups() -> Iterator[None]:
    """Let no supplementary group open a door."""
    groups = os.getgroups()
    old = os.umask(0o022)
    os.setgroups([])
    yield
    os.setgroups(groups)
    os.umask(old)


def _compare(seed: int, steps: int, plain: Path, mounted: Path) -> None:
    for directory in (plain, mounted):
        directory.chmod(0o777)
    generator = Generator(seed)
    right, left = Hands(str(plain)), Hands(str(mounted))
    history: list[str] = []
    try:
        for step in range(steps):
            operation = generator.next()
            uid = USERS[step // TURN_STEPS % len(USERS)]
            with _acting_as(uid):
                expected, found = right.perform(operation), left.perform(operation)
            history.append(f"{step} uid {uid}: {operation} -> {expected}".replace("n" * 255, "n*255"))
            assert found == expected, f"seed {seed}: got {found}\n" + "\n".join(history[-40:])
            generator.learn(operation, expected)
            if step % PICTURE_EVERY == PICTURE_EVERY - 1:
                unlike = differences(picture(str(plain)), picture(str(mounted)))
                assert not unlike, f"seed {seed}:\n" + "\n".join(unlike + history[-PICTURE_EVERY:])
    finally:
        right.close()
        left.close()
    assert not differences(picture(str(plain)), picture(str(mounted)))


@pytest.mark.usefixtures("no_groups")
@pytest.mark.parametrize("seed", range(4))
def test_same_answers(seed: int, open_tmp: Path, shared_dir: Path) -> None:
    _compare(seed, STEPS, open_tmp, shared_dir)


@pytest.mark.long
@pytest.mark.usefixtures("no_groups")
@pytest.mark.parametrize("seed", range(100, 120))
def test_same_answers_for_long(seed: int, open_tmp: Path, shared_dir: Path) -> None:
    _compare(seed, LONG_STEPS, open_tmp, shared_dir)
