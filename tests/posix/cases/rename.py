"""rename(2) and renameat2(2)."""

import errno
import os
from pathlib import Path

from shardfs.testing.renameat2 import RENAME_EXCHANGE, RENAME_NOREPLACE, rename2
from tests.posix.table import case, fails, opened, pattern, tree, write


@case
def moves_a_file(path: Path) -> None:
    """Inode, content and attributes go along, the old name is gone."""
    os.mkdir(path / "d")
    write(path / "a", b"content", 0o640)
    before = os.stat(path / "a")
    os.rename(path / "a", path / "d" / "b")
    after = os.stat(path / "d" / "b")
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
    assert tree(path) == ["d", "d/b"] and (path / "d" / "b").read_bytes() == b"content"


@case
def replaces_a_file(path: Path) -> None:
    """The target's name has the source's file at every moment, its old inode is gone."""
    for size in (10, 2 << 20):
        write(path / "a", pattern(size, 1))
        write(path / "b", pattern(size, 2))
        source = os.stat(path / "a").st_ino
        os.rename(path / "a", path / "b")
        assert os.stat(path / "b").st_ino == source
        assert tree(path) == ["b"] and (path / "b").read_bytes() == pattern(size, 1)


@case
def an_open_target_stays_readable(path: Path) -> None:
    """Whoever has the replaced file open goes on with it; whoever has the source open follows it."""
    write(path / "a", b"new")
    write(path / "b", b"old")
    with opened(path / "b", os.O_RDWR) as old, opened(path / "a", os.O_RDWR) as new:
        os.rename(path / "a", path / "b")
        assert os.fstat(old).st_nlink == 0 and os.fstat(new).st_nlink == 1
        assert os.read(old, 9) == b"old"
        os.pwrite(old, b"OLD", 0)
        os.pwrite(new, b"NEW", 0)
        assert os.pread(old, 9, 0) == b"OLD"
    assert (path / "b").read_bytes() == b"NEW"


@case
def unsynced_content_follows_a_rename(path: Path) -> None:
    """Write, rename while open, write again, close: all of it is under the new name."""
    with opened(path / "a", os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b"before ")
        os.rename(path / "a", path / "b")
        os.write(fd, b"after")
    assert (path / "b").read_bytes() == b"before after"


@case
def kinds_must_agree(path: Path) -> None:
    """A file never replaces a directory nor a directory a file; only an empty directory is replaced."""
    write(path / "file")
    os.mkdir(path / "empty")
    os.makedirs(path / "full" / "x")
    os.mkdir(path / "source")
    with fails(errno.EISDIR):
        os.rename(path / "file", path / "empty")
    with fails(errno.ENOTDIR):
        os.rename(path / "source", path / "file")
    with fails(errno.ENOTEMPTY, errno.EEXIST):
        os.rename(path / "source", path / "full")
    os.rename(path / "source", path / "empty")
    os.rename(path / "full", path / "empty")
    assert tree(path) == ["empty", "empty/x", "file"]


@case
def missing_and_misplaced(path: Path) -> None:
    """ENOENT, ENOTDIR and EINVAL for what cannot be renamed."""
    write(path / "f")
    os.makedirs(path / "d" / "e")
    for source, target, number in (
        ("missing", "x", errno.ENOENT),
        ("f", "missing/x", errno.ENOENT),
        ("f", "f/x", errno.ENOTDIR),
        ("f/x", "y", errno.ENOTDIR),
        ("d", "d/e/x", errno.EINVAL),
        ("d", "d/x", errno.EINVAL),
        ("d/e", "d", errno.ENOTEMPTY),
    ):
        with fails(number):
            os.rename(path / source, path / target)
    assert tree(path) == ["d", "d/e", "f"]


@case
def onto_itself_changes_nothing(path: Path) -> None:
    """Renaming a name to itself, or to another link of its inode, does nothing and succeeds."""
    write(path / "a", b"x")
    os.link(path / "a", path / "b")
    os.rename(path / "a", path / "a")
    os.rename(path / "a", path / "b")
    assert tree(path) == ["a", "b"] and os.stat(path / "a").st_nlink == 2
    os.mkdir(path / "d")
    os.rename(path / "d", path / "d")
    assert os.path.isdir(path / "d")


@case
def drops_one_link_of_the_target(path: Path) -> None:
    """Replacing one of several links leaves the others."""
    write(path / "a", b"new")
    write(path / "b", b"old")
    os.link(path / "b", path / "c")
    os.rename(path / "a", path / "b")
    assert os.stat(path / "c").st_nlink == 1
    assert (path / "c").read_bytes() == b"old" and (path / "b").read_bytes() == b"new"


@case
def moves_a_symlink_itself(path: Path) -> None:
    """Neither the source nor the target symlink is followed."""
    write(path / "f", b"x")
    os.symlink("f", path / "s")
    os.rename(path / "s", path / "t")
    assert os.readlink(path / "t") == "f"
    os.rename(path / "f", path / "t")
    assert not os.path.islink(path / "t") and tree(path) == ["t"]


@case
def directory_link_counts_follow(path: Path) -> None:
    """Moving a directory moves one link from the old parent to the new; replacing one drops a link."""
    for name in ("a/x", "b/y", "b/z"):
        os.makedirs(path / name)
    os.rename(path / "a" / "x", path / "b" / "x")
    assert (os.stat(path / "a").st_nlink, os.stat(path / "b").st_nlink) == (2, 5)
    os.rename(path / "b" / "x", path / "b" / "y")
    assert os.stat(path / "b").st_nlink == 4


@case
def a_whole_tree_moves(path: Path) -> None:
    """A renamed directory takes everything below it along, open files included."""
    for number in range(30):
        os.makedirs(path / "old" / f"d{number % 3}", exist_ok=True)
        write(path / "old" / f"d{number % 3}" / f"f{number}", b"%d" % number)
    names = tree(path / "old")
    with opened(path / "old" / "d0" / "f0", os.O_RDWR) as fd:
        os.rename(path / "old", path / "new")
        os.pwrite(fd, b"open", 0)
    assert tree(path / "new") == names and not (path / "old").exists()
    assert (path / "new" / "d0" / "f0").read_bytes() == b"open"
    assert (path / "new" / "d2" / "f29").read_bytes() == b"29"


@case
def no_replace(path: Path) -> None:
    """RENAME_NOREPLACE refuses every existing target and moves otherwise."""
    write(path / "a", b"a")
    write(path / "b", b"b")
    os.mkdir(path / "d")
    os.symlink("nowhere", path / "s")
    for target in ("a", "b", "d", "s"):
        with fails(errno.EEXIST):
            rename2(bytes(path / "a"), bytes(path / target), RENAME_NOREPLACE)
    with fails(errno.ENOENT):
        rename2(bytes(path / "missing"), bytes(path / "x"), RENAME_NOREPLACE)
    rename2(bytes(path / "a"), bytes(path / "c"), RENAME_NOREPLACE)
    assert tree(path) == ["b", "c", "d", "s"] and (path / "c").read_bytes() == b"a"


@case
def exchange(path: Path) -> None:
    """RENAME_EXCHANGE swaps any two entries, also of different kinds and parents."""
    os.makedirs(path / "d" / "sub")
    write(path / "a", b"a")
    write(path / "d" / "b", b"b")
    inodes = {name: os.stat(path / name).st_ino for name in ("a", "d/b", "d/sub")}
    rename2(bytes(path / "a"), bytes(path / "d" / "b"), RENAME_EXCHANGE)
    assert (path / "a").read_bytes() == b"b" and (path / "d" / "b").read_bytes() == b"a"
    assert os.stat(path / "d" / "b").st_ino == inodes["a"]
    rename2(bytes(path / "a"), bytes(path / "d" / "sub"), RENAME_EXCHANGE)
    assert os.path.isdir(path / "a") and (path / "d" / "sub").read_bytes() == b"b"
    assert (os.stat(path / "d").st_nlink, os.stat(path).st_nlink) == (2, 4)
    assert os.stat(path / "a" / "..").st_ino == os.stat(path).st_ino


@case
def exchange_refused(path: Path) -> None:
    """Both must exist, neither may be above the other, and the two flags exclude each other."""
    os.makedirs(path / "d" / "e")
    write(path / "f")
    for source, target in (("f", "missing"), ("missing", "f")):
        with fails(errno.ENOENT):
            rename2(bytes(path / source), bytes(path / target), RENAME_EXCHANGE)
    for source, target in (("d", "d/e"), ("d/e", "d")):
        with fails(errno.EINVAL):
            rename2(bytes(path / source), bytes(path / target), RENAME_EXCHANGE)
    with fails(errno.EINVAL):
        rename2(bytes(path / "f"), bytes(path / "d"), RENAME_EXCHANGE | RENAME_NOREPLACE)
    rename2(bytes(path / "f"), bytes(path / "f"), RENAME_EXCHANGE)
    assert tree(path) == ["d", "d/e", "f"]


@case
def exchange_of_non_empty_directories(path: Path) -> None:
    """Full directories swap with all that is in them."""
    os.makedirs(path / "a" / "x")
    os.makedirs(path / "p" / "b" / "y")
    rename2(bytes(path / "a"), bytes(path / "p" / "b"), RENAME_EXCHANGE)
    assert tree(path) == ["a", "a/y", "p", "p/b", "p/b/x"]
    assert os.stat(path / "p" / "b" / "..").st_ino == os.stat(path / "p").st_ino


@case
def between_file_systems(path: Path) -> None:
    """Rename and link to another file system are EXDEV, both ways."""
    write(path / "f", b"x")
    other = Path(f"/dev/shm/shardfs-exdev-{os.getpid()}")
    write(other, b"y")
    try:
        for source, target in ((path / "f", Path(f"{other}-new")), (other, path / "new")):
            with fails(errno.EXDEV):
                os.rename(source, target)
            with fails(errno.EXDEV):
                os.link(source, target)
    finally:
        os.unlink(other)
    assert tree(path) == ["f"]


@case
def temp_then_rename_is_never_torn(path: Path) -> None:
    """A reader that opens the name again and again sees one complete version each time."""
    write(path / "f", pattern(5000, 0))
    pid = os.fork()
    if pid == 0:
        for version in range(1, 100):
            write(path / "tmp", pattern(5000, version))
            os.rename(path / "tmp", path / "f")
        os._exit(0)
    versions = []
    while not os.waitpid(pid, os.WNOHANG)[0]:
        versions.append((path / "f").read_bytes())
    valid = {pattern(5000, version) for version in range(100)}
    assert set(versions) <= valid and (path / "f").read_bytes() == pattern(5000, 99)
