"""The setuid and setgid bits: inheritance, and what takes them away."""

import os
import stat
from pathlib import Path

from tests.posix.table import OTHER, USER, as_user, case, opened, write


def _mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@case
def a_setgid_directory_passes_its_group_on(path: Path) -> None:
    """Entries made in a setgid directory get its group, directories the bit as well."""
    os.mkdir(path / "d")
    os.chown(path / "d", USER, OTHER)
    os.chmod(path / "d", 0o2777)

    def work() -> None:
        write(path / "d" / "f")
        os.mkdir(path / "d" / "sub", 0o755)
        os.symlink("x", path / "d" / "s")
        os.mkfifo(path / "d" / "p")

    as_user(work, USER, USER)
    assert {os.lstat(path / "d" / name).st_gid for name in ("f", "sub", "s", "p")} == {OTHER}
    assert _mode(path / "d" / "sub") & stat.S_ISGID and not _mode(path / "d" / "f") & stat.S_ISGID
    write(path / "d" / "sub" / "deep")
    assert os.stat(path / "d" / "sub" / "deep").st_gid == OTHER


@case
def a_new_executable_cannot_smuggle_setgid(path: Path) -> None:
    """A file made with setgid and group x in a setgid directory of a foreign group loses the bit."""
    os.mkdir(path / "d")
    os.chown(path / "d", USER, OTHER)
    os.chmod(path / "d", 0o2777)
    as_user(lambda: os.close(os.open(path / "d" / "f", os.O_CREAT | os.O_WRONLY, 0o2775)), USER, USER)
    assert not _mode(path / "d" / "f") & stat.S_ISGID


@case
def chown_takes_setid_away(path: Path) -> None:
    """Changing the owner of an executable clears setuid and setgid, also when root does it."""
    for uid, gid in ((OTHER, -1), (-1, OTHER), (OTHER, OTHER)):
        write(path / "f")
        os.chmod(path / "f", 0o6755)
        os.chown(path / "f", uid, gid)
        assert _mode(path / "f") == 0o755
        os.unlink(path / "f")


@case
def chown_of_a_directory_keeps_its_bits(path: Path) -> None:
    """A directory's setgid and sticky bits stay."""
    os.mkdir(path / "d")
    os.chmod(path / "d", 0o3775)
    os.chown(path / "d", OTHER, OTHER)
    assert _mode(path / "d") == 0o3775


@case
def setgid_without_group_x_stays_over_chown(path: Path) -> None:
    """Setgid on a file that the group may not execute is no privilege, and root's chown keeps it."""
    write(path / "f")
    os.chmod(path / "f", 0o2744)
    os.chown(path / "f", OTHER, OTHER)
    assert _mode(path / "f") == 0o2744


@case
def a_user_write_takes_setid_away(path: Path) -> None:
    """Writing or cutting a setuid file without privilege clears the bits; reading does not."""

    def append() -> None:
        with opened(path / "f", os.O_WRONLY | os.O_APPEND) as fd:
            os.write(fd, b"x")

    for work, expected in (
        (append, 0o777),
        (lambda: os.truncate(path / "f", 1), 0o777),
        (lambda: os.close(os.open(path / "f", os.O_WRONLY | os.O_TRUNC)), 0o777),
        (lambda: os.close(os.open(path / "f", os.O_RDONLY)), 0o6777),
    ):
        write(path / "f", b"0123456789")
        os.chmod(path / "f", 0o6777)
        as_user(work, OTHER)
        assert _mode(path / "f") == expected
        os.unlink(path / "f")


@case
def a_root_write_keeps_setid(path: Path) -> None:
    """Root's writes leave the bits."""
    write(path / "f", b"0123456789")
    os.chmod(path / "f", 0o6755)
    with opened(path / "f", os.O_WRONLY) as fd:
        os.write(fd, b"x")
    assert _mode(path / "f") == 0o6755


@case
def setgid_needs_membership(path: Path) -> None:
    """A user who sets setgid on a file of a group that is not his gets the mode without the bit."""
    write(path / "f")
    os.chown(path / "f", USER, OTHER)
    as_user(lambda: os.chmod(path / "f", 0o2755), USER, USER)
    assert _mode(path / "f") == 0o755
    as_user(lambda: os.chmod(path / "f", 0o2755), USER, USER, groups=(OTHER,))
    assert _mode(path / "f") == 0o2755


@case
def a_users_chown_takes_setid_away(path: Path) -> None:
    """An owner who gives his executable to another of his groups loses the bits."""
    write(path / "f")
    os.chown(path / "f", USER, USER)
    os.chmod(path / "f", 0o6755)
    as_user(lambda: os.chown(path / "f", -1, OTHER), USER, USER, groups=(OTHER,))
    assert _mode(path / "f") == 0o755


@case
def link_and_rename_keep_the_bits(path: Path) -> None:
    """Names are not content."""
    write(path / "f")
    os.chmod(path / "f", 0o6755)
    os.link(path / "f", path / "g")
    os.rename(path / "f", path / "h")
    assert _mode(path / "h") == _mode(path / "g") == 0o6755
