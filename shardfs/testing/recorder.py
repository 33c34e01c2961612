"""A process that changes its working directory and records, in a file elsewhere, everything that was acknowledged to it.

    python -P -m shardfs.testing.recorder RECORD SEED COUNT PRELUDE

Each operation is written down before it begins and again with its answer. When the directory's mount dies the process
ends by itself. `verify` then performs the same operations on a plain directory and compares: every acknowledged
operation must be there, and of the one under way all, nothing, or the first bytes.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from shardfs.testing.operations import Answer, Generator, Hands, Operation
from shardfs.testing.trees import Picture, differences, picture

DEAD = frozenset({"ENOTCONN", "ECONNABORTED", "EIO", "ENODEV", "ESHUTDOWN"})
"""What a process hears from a mount whose server has died."""
WRITES = ("pwrite", "write")


def plan(seed: int, prelude: Iterable[Operation], count: int) -> Iterator[tuple[Operation, Generator]]:
    """Return the operations of a recorder in order; the generator wants to learn each answer before the next."""
    generator = Generator(seed, without=("store",))  # a store is acknowledged to nobody
    for operation in prelude:
        yield operation, generator
    for _ in range(count):
        yield generator.next(), generator


def grow_directory(entries: int) -> list[Operation]:
    """Return operations that fill one directory."""
    first: list[Operation] = [["mkdir", "big", 0o755], ["mkfifo", "one", 0o644]]
    return first + [["link", "one", f"big/entry-{number}"] for number in range(entries)]


def fill_journal(size_bytes: int) -> list[Operation]:
    """Return operations that write about so many bytes into the journal: each change of the inode repeats its long target."""
    return [["symlink", "t" * 4000, "long"]] + [["chown", "long", 0, -1]] * (size_bytes // 4000)


PRELUDES: dict[str, list[Operation]] = {"none": [], "directory": grow_directory(2_300), "journal": fill_journal(18 << 20)}


def main(record: str, seed: str, count: str, prelude: str) -> None:
    """Work until the count is reached or the mount has died."""
    os.umask(0o022)
    hands = Hands("")  # relative paths never leave the mount, not even when it is taken away
    fd = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for operation, generator in plan(int(seed), PRELUDES[prelude], int(count)):
        os.write(fd, json.dumps(["begin", operation]).encode() + b"\n")
        answer = hands.perform(operation)
        if answer.error in DEAD or _is_cut_short(operation, answer):
            return
        os.write(fd, json.dumps(["done", answer]).encode() + b"\n")
        generator.learn(operation, answer)


def _is_cut_short(operation: Operation, answer: Answer) -> bool:
    """Say whether only a part of a write was acknowledged, which a death in the middle of it does."""
    return operation[0] in WRITES and answer.error is None and answer.value < operation[-2]


def read_record(record: Path) -> tuple[list[tuple[Operation, Answer]], Operation | None]:
    """Return what was acknowledged, and the operation that was under way at the end."""
    done: list[tuple[Operation, Answer]] = []
    begun: Operation | None = None
    for line in record.read_text().splitlines():
        kind, value = json.loads(line)
        if kind == "begin":
            begun = value
        else:
            assert begun is not None
            done.append((begun, Answer(*value)))
            begun = None
    return done, begun


def verify(record: Path, plain: Path, found: Path) -> int:
    """Assert that a directory holds what a recorder was told; `plain` is an empty directory. Return the number of operations."""
    done, begun = read_record(record)
    hands = Hands(str(plain))
    try:
        for number, (operation, answer) in enumerate(done):
            again = Answer(*json.loads(json.dumps(hands.perform(operation))))
            assert again == answer, f"{number}: {operation} answered {answer}, a plain directory {again}"
        _compare(hands, begun, plain, found)
    finally:
        hands.close()
    return len(done)


def _compare(hands: Hands, begun: Operation | None, plain: Path, found: Path) -> None:
    there, before = picture(str(found)), picture(str(plain))
    unlike = differences(before, there)
    if not unlike or begun is None:
        assert not unlike, "\n".join(unlike)
        return
    old = _bytes(plain, before)
    hands.perform(begun)
    after = picture(str(plain))
    if begun[0] in WRITES:
        _assert_mixed(old, _bytes(plain, after), _bytes(found, there), begun)
    else:
        assert not differences(after, there), f"neither before nor after {begun}:\n" + "\n".join(unlike)


def _bytes(root: Path, shown: dict[str, Picture]) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path, entry in shown.items() if entry.mode & 0o170000 == 0o100000}


def _assert_mixed(old: dict[str, bytes], new: dict[str, bytes], found: dict[str, bytes], begun: Operation) -> None:
    """Assert that every byte is that of before or of after."""
    assert old.keys() == new.keys() == found.keys()
    for path, content in found.items():
        size = max(len(old[path]), len(new[path]))
        before, after = old[path].ljust(size, b"\0"), new[path].ljust(size, b"\0")
        assert len(old[path]) <= len(content) <= size, f"{path} has {len(content)} bytes in the middle of {begun}"
        assert all(byte in pair for byte, *pair in zip(content, before, after, strict=False)), f"{path} is wrong in the middle of {begun}"


if __name__ == "__main__":
    main(*sys.argv[1:])
