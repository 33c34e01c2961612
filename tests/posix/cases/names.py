"""Names and paths: any bytes, every length, dots, depth."""

import errno
import os
from pathlib import Path

from shardfs.testing.renameat2 import RENAME_NOREPLACE, rename2
from tests.posix.table import Call, case, fails, opened, write


@case
def a_name_may_hold_any_byte(path: Path) -> None:
    """Each byte but NUL and slash is a valid name and comes back from a listing unchanged."""
    names = {bytes([value]) for value in range(1, 256)} - {b"/", b"."}
    names |= {b"n" + bytes([value]) * 3 for value in range(1, 256) if value != 0x2F}
    for name in names:
        write(os.fsencode(path) + b"/" + name, name)
    assert set(os.listdir(os.fsencode(path))) == names
    for name in names:
        with open(os.fsencode(path) + b"/" + name, "rb") as file:
            assert file.read() == name


@case
def names_that_only_look_alike_differ(path: Path) -> None:
    """No folding of case or Unicode form, no trimming."""
    names = ["a", "A", "a ", " a", "a.", "\u00e9", "e\u0301", "...", "..a", "a\n"]
    for name in names:
        os.close(os.open(path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    assert sorted(os.listdir(path)) == sorted(names)


@case
def the_longest_name(path: Path) -> None:
    """255 bytes work for every kind of entry; 256 are ENAMETOOLONG in every call."""
    for kind, letter in enumerate("fdslr"):
        name = path / (letter * 255)
        if kind == 0:
            write(name, b"x")
        elif kind == 1:
            os.mkdir(name)
        elif kind == 2:
            os.symlink("x", name)
        elif kind == 3:
            os.link(path / ("f" * 255), name)
        else:
            os.rename(path / ("l" * 255), name)
    assert sorted(map(len, os.listdir(path))) == [255] * 4


@case
def a_name_too_long(path: Path) -> None:
    """256 bytes are ENAMETOOLONG wherever they stand."""
    write(path / "f")
    long = path / ("x" * 256)
    calls: list[Call] = [
        lambda: os.stat(long),
        lambda: os.open(long, os.O_CREAT | os.O_WRONLY),
        lambda: os.mkdir(long),
        lambda: os.rmdir(long),
        lambda: os.unlink(long),
        lambda: os.symlink("x", long),
        lambda: os.readlink(long),
        lambda: os.link(path / "f", long),
        lambda: os.link(long, path / "g"),
        lambda: os.rename(path / "f", long),
        lambda: os.rename(long, path / "f"),
        lambda: rename2(bytes(path / "f"), bytes(long), RENAME_NOREPLACE),
        lambda: os.mkfifo(long),
        lambda: os.chmod(long, 0o600),
        lambda: os.truncate(long, 0),
        lambda: os.utime(long),
        lambda: os.stat(long / "below"),
    ]
    for call in calls:
        with fails(errno.ENAMETOOLONG):
            call()
    assert os.listdir(path) == ["f"]


@case
def the_longest_path(path: Path) -> None:
    """A path of 4,095 bytes works, one of 4,096 is ENAMETOOLONG."""
    current = str(path)
    while len(current) < 4095 - 256:
        current += "/" + "d" * 200
        os.mkdir(current)
    longest = current + "/" + "f" * (4095 - len(current) - 1 - 1)
    rest = 4095 - len(longest)
    longest += "f" * rest
    assert len(longest) == 4095
    if len(os.path.basename(longest)) > 255:
        current += "/" + "d" * 100
        os.mkdir(current)
        longest = current + "/" + "f" * (4095 - len(current) - 1)
    write(longest, b"deep")
    assert Path(longest).read_bytes() == b"deep"
    with fails(errno.ENAMETOOLONG):
        os.stat(longest + "f")


@case
def a_deep_tree(path: Path) -> None:
    """A tree deeper than any path is long can be built, walked up and removed."""
    depth = 300
    directory = os.open(path, os.O_RDONLY)
    handles = [directory]
    for level in range(depth):
        os.mkdir(f"level-{level}", dir_fd=directory)
        directory = os.open(f"level-{level}", os.O_RDONLY, dir_fd=directory)
        handles.append(directory)
    for level in range(depth, 0, -1):
        parent = os.open("..", os.O_RDONLY, dir_fd=handles[level])
        assert os.fstat(parent).st_ino == os.fstat(handles[level - 1]).st_ino
        os.close(parent)
        os.close(handles[level])
        os.rmdir(f"level-{level - 1}", dir_fd=handles[level - 1])
    os.close(handles[0])


@case
def dots(path: Path) -> None:
    """`.` and `..` resolve, and cannot be made, removed or renamed."""
    os.mkdir(path / "d")
    write(path / "d" / "f")
    assert os.stat(f"{path}/d/..").st_ino == os.stat(path).st_ino
    assert os.stat(f"{path}/d/./../d/.").st_ino == os.stat(path / "d").st_ino
    for name in (".", ".."):
        with fails(errno.EEXIST):
            os.mkdir(f"{path}/d/{name}")
        with fails(errno.EBUSY, errno.EINVAL):
            os.rename(f"{path}/d/{name}", path / "e")
        with fails(errno.EISDIR):
            os.unlink(f"{path}/d/{name}")
    with fails(errno.EINVAL):
        os.rmdir(f"{path}/d/.")
    with fails(errno.ENOTEMPTY):
        os.rmdir(f"{path}/d/..")


@case
def the_parent_follows_a_rename(path: Path) -> None:
    """`..` of a moved directory is its new parent, also for a process that stands in it."""
    os.makedirs(path / "a" / "moved")
    os.mkdir(path / "b")
    with opened(path / "a" / "moved", os.O_RDONLY) as moved:
        os.rename(path / "a" / "moved", path / "b" / "moved")
        assert os.stat("..", dir_fd=moved).st_ino == os.stat(path / "b").st_ino
        assert os.readlink(f"/proc/self/fd/{moved}") == str(path / "b" / "moved")


@case
def a_removed_working_directory(path: Path) -> None:
    """Nothing can be made in a directory that is removed while it is open."""
    os.mkdir(path / "d")
    with opened(path / "d", os.O_RDONLY) as directory:
        os.rmdir(path / "d")
        assert os.fstat(directory).st_nlink == 0
        assert os.listdir(directory) == []
        with fails(errno.ENOENT):
            os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=directory)
        with fails(errno.ENOENT):
            os.mkdir("d", dir_fd=directory)
