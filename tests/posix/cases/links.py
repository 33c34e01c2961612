"""Hard links, symbolic links, link counts."""

import errno
import os
import stat
from pathlib import Path

from tests.posix.table import case, fails, opened, tree, write


@case
def hard_links_are_one_file(path: Path) -> None:
    """All names show the same inode, content, attributes and count."""
    os.mkdir(path / "d")
    write(path / "a", b"one")
    os.link(path / "a", path / "d" / "b")
    os.chmod(path / "a", 0o600)
    first, second = os.stat(path / "a"), os.stat(path / "d" / "b")
    assert first == second and first.st_nlink == 2
    write(path / "d" / "b", b"two")
    assert (path / "a").read_bytes() == b"two"


@case
def the_file_lives_until_its_last_link(path: Path) -> None:
    """Removing names in any order counts down and keeps the content."""
    write(path / "0", b"content")
    for number in range(1, 20):
        os.link(path / str(number // 2), path / str(number))
    assert os.stat(path / "0").st_nlink == 20
    for number in range(19):
        os.unlink(path / str(number))
        assert os.stat(path / "19").st_nlink == 19 - number
    assert (path / "19").read_bytes() == b"content"


@case
def link_refused(path: Path) -> None:
    """Directories cannot be linked, targets must not exist, sources must."""
    write(path / "f")
    os.mkdir(path / "d")
    for source, target, number in (
        ("d", "x", errno.EPERM),
        ("f", "f", errno.EEXIST),
        ("f", "d", errno.EEXIST),
        ("missing", "x", errno.ENOENT),
        ("f", "missing/x", errno.ENOENT),
        ("f", "f/x", errno.ENOTDIR),
        ("f/x", "x", errno.ENOTDIR),
    ):
        with fails(number):
            os.link(path / source, path / target)
    assert tree(path) == ["d", "f"] and os.stat(path / "f").st_nlink == 1


@case
def link_while_open_and_unsynced(path: Path) -> None:
    """A file being written can be linked; both names have all of it at the end."""
    with opened(path / "a", os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b"first ")
        os.link(path / "a", path / "b")
        os.write(fd, b"second")
        os.unlink(path / "a")
        os.write(fd, b" third")
    assert (path / "b").read_bytes() == b"first second third"


@case
def links_of_other_kinds(path: Path) -> None:
    """Fifos and symlinks have hard links, too; a symlink is linked itself, not its target."""
    os.mkfifo(path / "fifo")
    os.link(path / "fifo", path / "fifo2")
    assert os.stat(path / "fifo2").st_nlink == 2
    os.symlink("target", path / "s")
    os.link(path / "s", path / "s2", follow_symlinks=False)
    assert os.readlink(path / "s2") == "target" and os.lstat(path / "s").st_nlink == 2
    os.unlink(path / "s")
    assert os.readlink(path / "s2") == "target"


@case
def symlinks_keep_any_target(path: Path) -> None:
    """Targets of 1 to 4,095 bytes come back exactly; lstat shows their length."""
    for target in (b"x", b"a/b/../c//", b"\xff\xfe\n", b"t" * 255, b"d/" * 500, b"t" * 4095):
        name = os.fsencode(path) + b"/s"
        os.symlink(target, name)
        assert os.readlink(name) == target
        found = os.lstat(name)
        assert stat.S_ISLNK(found.st_mode) and found.st_size == len(target) and found.st_mode & 0o777 == 0o777
        os.unlink(name)


@case
def symlink_refused(path: Path) -> None:
    """Targets of 4,096 bytes, empty targets and existing names are refused; only symlinks can be read."""
    write(path / "f")
    with fails(errno.ENAMETOOLONG):
        os.symlink("t" * 4096, path / "s")
    with fails(errno.ENOENT):
        os.symlink("", path / "s")
    with fails(errno.EEXIST):
        os.symlink("x", path / "f")
    for name in ("f", "."):
        with fails(errno.EINVAL):
            os.readlink(path / name)
    with fails(errno.ENOENT):
        os.readlink(path / "missing")


@case
def symlinks_are_followed(path: Path) -> None:
    """Relative, absolute, nested and upward targets resolve; calls that must not follow do not."""
    os.makedirs(path / "a" / "b")
    write(path / "a" / "f", b"x")
    os.symlink("a", path / "dir")
    os.symlink("../f", path / "a" / "b" / "up")
    os.symlink(path / "dir" / "b" / "up", path / "absolute")
    assert (path / "absolute").read_bytes() == (path / "dir" / "b" / "up").read_bytes() == b"x"
    os.unlink(path / "absolute")
    with fails(errno.ENOTDIR):
        os.rmdir(path / "dir")
    assert (path / "a" / "f").exists()


@case
def loops_are_found(path: Path) -> None:
    """Circles give ELOOP; forty links in a row still resolve."""
    os.symlink("loop", path / "loop")
    os.symlink("pong", path / "ping")
    os.symlink("ping", path / "pong")
    for name in ("loop", "ping", "ping/x"):
        with fails(errno.ELOOP):
            os.stat(path / name)
    write(path / "l0", b"end")
    for number in range(1, 42):
        os.symlink(f"l{number - 1}", path / f"l{number}")
    assert (path / "l40").read_bytes() == b"end"
    with fails(errno.ELOOP):
        os.stat(path / "l41")


@case
def directories_count_their_children(path: Path) -> None:
    """A directory has 2 links plus one per directory in it; files add none."""
    os.mkdir(path / "d")
    assert os.stat(path / "d").st_nlink == 2
    for number in range(5):
        os.mkdir(path / "d" / str(number))
        write(path / "d" / f"f{number}")
    assert os.stat(path / "d").st_nlink == 7
    for number in range(5):
        os.rmdir(path / "d" / str(number))
        assert os.stat(path / "d").st_nlink == 6 - number


@case
def symlink_cannot_be_truncated_or_opened_for_nothing(path: Path) -> None:
    """A symlink to a directory behaves as the directory, one to a file as the file."""
    os.mkdir(path / "d")
    write(path / "f", b"12345")
    os.symlink("d", path / "to-d")
    os.symlink("f", path / "to-f")
    with fails(errno.EISDIR):
        os.truncate(path / "to-d", 0)
    os.truncate(path / "to-f", 2)
    assert (path / "f").read_bytes() == b"12"
    assert os.listdir(path / "to-d") == []
