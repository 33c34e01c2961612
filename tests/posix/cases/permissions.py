"""Modes, owners, groups and access, as root and as users who own nothing."""

import errno
import os
import stat
from pathlib import Path

from tests.posix.table import OTHER, USER, Call, as_user, case, fails, opened, umask, write


@case
def the_umask_counts(path: Path) -> None:
    """New files, directories and fifos lose the umask's bits."""
    with umask(0o027):
        os.close(os.open(path / "f", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(path / "d", 0o777)
        os.mkfifo(path / "p", 0o666)
    assert [stat.S_IMODE(os.stat(path / name).st_mode) for name in "fdp"] == [0o640, 0o750, 0o640]


@case
def chmod_keeps_all_twelve_bits(path: Path) -> None:
    """Root may set every bit on files and directories, and the kind never changes."""
    write(path / "f")
    os.mkdir(path / "d")
    for name in ("f", "d"):
        kind = stat.S_IFMT(os.stat(path / name).st_mode)
        for mode in (0o0, 0o7777, 0o4755, 0o2755, 0o1777, 0o644):
            os.chmod(path / name, mode)
            assert os.stat(path / name).st_mode == kind | mode


@case
def each_class_has_its_bits(path: Path) -> None:
    """Owner, group and others are judged by their own three bits, the first class that fits decides."""
    write(path / "f", b"x")
    os.chown(path / "f", USER, USER)
    cases = (
        (0o600, USER, USER, True),
        (0o066, USER, USER, False),
        (0o060, OTHER, USER, True),
        (0o606, OTHER, USER, False),
        (0o006, OTHER, OTHER, True),
        (0o660, OTHER, OTHER, False),
    )
    for mode, uid, gid, allowed in cases:
        os.chmod(path / "f", mode)
        as_user(lambda allowed=allowed: _may_open(path / "f", allowed), uid, gid)  # type: ignore[misc]
    os.chmod(path / "f", 0o060)
    as_user(lambda: _may_open(path / "f", True), OTHER, OTHER, groups=(USER,))


def _may_open(path: Path, allowed: bool) -> None:
    if allowed:
        os.close(os.open(path, os.O_RDWR))
        return
    with fails(errno.EACCES):
        os.open(path, os.O_RDWR)


@case
def directories_need_x_to_pass_and_w_to_change(path: Path) -> None:
    """Search, list and change are separate permissions."""
    os.mkdir(path / "d")
    write(path / "d" / "f", b"x")
    os.chown(path / "d", USER, USER)

    def search_only() -> None:
        assert (path / "d" / "f").read_bytes() == b"x"
        with fails(errno.EACCES):
            os.listdir(path / "d")
        with fails(errno.EACCES):
            os.unlink(path / "d" / "f")

    def read_only() -> None:
        assert os.listdir(path / "d") == ["f"]
        with fails(errno.EACCES):
            os.stat(path / "d" / "f")

    def no_write() -> None:
        calls: tuple[Call, ...] = (
            lambda: write(path / "d" / "new"),
            lambda: os.mkdir(path / "d" / "new"),
            lambda: os.symlink("x", path / "d" / "new"),
            lambda: os.link(path / "d" / "f", path / "d" / "new"),
            lambda: os.rename(path / "d" / "f", path / "d" / "new"),
            lambda: os.unlink(path / "d" / "f"),
            lambda: os.mkfifo(path / "d" / "new"),
        )
        for call in calls:
            with fails(errno.EACCES, errno.EPERM):
                call()

    for mode, work in ((0o100, search_only), (0o400, read_only), (0o500, no_write)):
        os.chmod(path / "d", mode)
        as_user(work)


@case
def a_user_owns_what_he_makes(path: Path) -> None:
    """New entries have the caller's user and group."""
    os.chmod(path, 0o777)

    def work() -> None:
        write(path / "f")
        os.mkdir(path / "d")
        os.symlink("x", path / "s")
        os.mkfifo(path / "p")

    as_user(work, USER, OTHER)
    for name in "fdsp":
        found = os.lstat(path / name)
        assert (found.st_uid, found.st_gid) == (USER, OTHER), name


@case
def only_the_owner_changes_mode_and_owner(path: Path) -> None:
    """Others get EPERM; the owner may give the file to a group of his, to no other and to no other user."""
    write(path / "f")
    os.chown(path / "f", USER, USER)

    def stranger() -> None:
        calls: tuple[Call, ...] = (lambda: os.chmod(path / "f", 0o777), lambda: os.chown(path / "f", OTHER, -1))
        for call in calls:
            with fails(errno.EPERM):
                call()

    def owner() -> None:
        os.chmod(path / "f", 0o606)
        os.chown(path / "f", -1, OTHER)
        for uid, gid in ((OTHER, -1), (-1, 7)):
            with fails(errno.EPERM):
                os.chown(path / "f", uid, gid)

    as_user(stranger, OTHER)
    as_user(owner, USER, USER, groups=(OTHER,))
    found = os.stat(path / "f")
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (USER, OTHER, 0o606)


@case
def chown_of_links(path: Path) -> None:
    """lchown changes the symlink, chown its target; -1 leaves a number alone."""
    write(path / "f")
    os.symlink("f", path / "s")
    os.lchown(path / "s", 5, 6)
    os.chown(path / "s", 7, -1)
    link, target = os.lstat(path / "s"), os.stat(path / "f")
    assert (link.st_uid, link.st_gid) == (5, 6)
    assert (target.st_uid, target.st_gid) == (7, os.getegid())


@case
def large_owner_numbers(path: Path) -> None:
    """Owners use all 32 bits but the last."""
    write(path / "f")
    os.chown(path / "f", 2**32 - 2, 2**32 - 3)
    found = os.stat(path / "f")
    assert (found.st_uid, found.st_gid) == (2**32 - 2, 2**32 - 3)


@case
def a_sticky_directory_protects_its_files(path: Path) -> None:
    """In a sticky directory only the owner of an entry or of the directory removes or renames it."""
    os.chmod(path, 0o1777)
    as_user(lambda: _make_pair(path), USER)

    def stranger() -> None:
        calls: tuple[Call, ...] = (
            lambda: os.unlink(path / "f"),
            lambda: os.rmdir(path / "d"),
            lambda: os.rename(path / "f", path / "x"),
            lambda: os.rename(path / "mine", path / "f"),
        )
        for call in calls:
            with fails(errno.EPERM, errno.EACCES):
                call()

    as_user(lambda: write(path / "mine"), OTHER)
    as_user(stranger, OTHER)
    as_user(lambda: os.rename(path / "f", path / "g"), USER)
    as_user(lambda: os.unlink(path / "g"), USER)
    os.chown(path, OTHER, OTHER)
    as_user(lambda: os.rmdir(path / "d"), OTHER)
    assert os.listdir(path) == ["mine"]


def _make_pair(path: Path) -> None:
    write(path / "f")
    os.mkdir(path / "d")


@case
def access_asks_with_the_real_user(path: Path) -> None:
    """access(2) tells what the mode allows; root needs at least one x bit to execute."""
    write(path / "f", b"", 0o600)
    os.chown(path / "f", USER, USER)
    os.chmod(path / "f", 0o640)

    def owner() -> None:
        assert os.access(path / "f", os.R_OK | os.W_OK) and not os.access(path / "f", os.X_OK)

    def member() -> None:
        assert os.access(path / "f", os.R_OK) and not os.access(path / "f", os.W_OK)

    def stranger() -> None:
        assert os.access(path / "f", os.F_OK) and not os.access(path / "f", os.R_OK)

    as_user(owner, USER)
    as_user(member, OTHER, USER)
    as_user(stranger, OTHER)
    assert os.access(path / "f", os.R_OK | os.W_OK) and not os.access(path / "f", os.X_OK)
    assert not os.access(path / "missing", os.F_OK)


@case
def access_is_judged_at_open(path: Path) -> None:
    """A handle goes on working after the mode or the owner took the right away."""
    os.chmod(path, 0o777)

    def work() -> None:
        with opened(path / "f", os.O_RDWR | os.O_CREAT, 0o600) as fd:
            os.chmod(path / "f", 0o000)
            assert os.write(fd, b"still") == 5 and os.pread(fd, 9, 0) == b"still"
            with fails(errno.EACCES):
                os.open(path / "f", os.O_RDONLY)

    as_user(work)


@case
def no_atime_is_for_owners(path: Path) -> None:
    """O_NOATIME on another's file is EPERM."""
    write(path / "f", b"x", 0o644)
    with opened(path / "f", os.O_RDONLY | os.O_NOATIME) as fd:
        assert os.read(fd, 1) == b"x"

    def stranger() -> None:
        with fails(errno.EPERM):
            os.open(path / "f", os.O_RDONLY | os.O_NOATIME)

    as_user(stranger)


@case
def a_mode_change_is_seen_at_once(path: Path) -> None:
    """After chmod, chown or a group change the next access of another process is judged by the new state."""
    write(path / "f", b"x", 0o600)
    for _ in range(3):
        as_user(lambda: _may_open(path / "f", False))
        os.chmod(path / "f", 0o666)
        as_user(lambda: _may_open(path / "f", True))
        os.chmod(path / "f", 0o600)
        as_user(lambda: _may_open(path / "f", False))
        os.chown(path / "f", USER, -1)
        as_user(lambda: _may_open(path / "f", True))
        os.chown(path / "f", 0, -1)
