"""Other programs on the mount: copies, lock files, databases, git."""

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from tests.posix.table import in_child, opened, pattern


def test_copies_keep_everything(shared_dir: Path, open_tmp: Path) -> None:
    """shutil.copy2, copytree and move, in both directions."""
    for number, size in enumerate((0, 10, 70_000, 3 << 20)):
        source = open_tmp / "source" / f"{number}"
        source.parent.mkdir(exist_ok=True)
        source.write_bytes(pattern(size))
        os.setxattr(source, "user.origin", b"here")
        os.utime(source, ns=(10**18 + 1, 10**18 + number))
        shutil.copy2(source, shared_dir / f"{number}")
        copied = os.stat(shared_dir / f"{number}")
        assert (copied.st_mtime_ns, copied.st_size) == (10**18 + number, size)
        assert os.getxattr(shared_dir / f"{number}", "user.origin") == b"here"
    shutil.copytree(open_tmp / "source", shared_dir / "tree")
    shutil.move(shared_dir / "tree", open_tmp / "back")
    assert sorted(os.listdir(open_tmp / "back")) == ["0", "1", "2", "3"] and not (shared_dir / "tree").exists()
    assert (open_tmp / "back" / "3").read_bytes() == pattern(3 << 20)


def test_archives(shared_dir: Path) -> None:
    """tar packs and unpacks a tree with links, times and sparse files."""
    tree = shared_dir / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "file").write_bytes(pattern(100_000))
    os.link(tree / "file", tree / "sub" / "hard")
    os.symlink("../file", tree / "sub" / "soft")
    with opened(tree / "sparse", os.O_WRONLY | os.O_CREAT) as fd:
        os.ftruncate(fd, 10 << 20)
    subprocess.run(["tar", "-cSf", "tree.tar", "tree"], cwd=shared_dir, check=True)
    (shared_dir / "out").mkdir()
    subprocess.run(["tar", "-xf", "../tree.tar"], cwd=shared_dir / "out", check=True)
    subprocess.run(["diff", "-r", "tree", "out/tree"], cwd=shared_dir, check=True)
    assert os.stat(shared_dir / "out" / "tree" / "file").st_nlink == 2


def test_file_lock(shared_dir: Path) -> None:
    """`filelock` excludes processes from one another."""

    def refused() -> None:
        with pytest.raises(Timeout), FileLock(shared_dir / "lock", timeout=0.05):
            raise AssertionError("the lock was given twice")

    def add() -> None:
        for _ in range(20):
            with FileLock(shared_dir / "lock"):
                value = int((shared_dir / "count").read_text())
                (shared_dir / "count").write_text(str(value + 1))

    (shared_dir / "count").write_text("0")
    with FileLock(shared_dir / "lock"):
        in_child(refused)
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            add()
            os._exit(0)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
    assert (shared_dir / "count").read_text() == "80"


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite(journal: str, shared_dir: Path) -> None:
    """Three processes insert at once; nothing is lost and the database is whole."""
    database = shared_dir / "data.sqlite"
    connection = sqlite3.connect(database)
    assert connection.execute(f"pragma journal_mode={journal}").fetchone() == (journal,)
    connection.execute("create table rows (writer integer, number integer, unique (writer, number))")
    connection.commit()

    pids = []
    for writer in range(3):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _insert(database, writer)
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 3
    assert connection.execute("select count(*) from rows").fetchone() == (180,)
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()


def _insert(database: Path, writer: int) -> None:
    connection = sqlite3.connect(database, timeout=60)
    for number in range(60):
        with connection:
            connection.execute("insert into rows values (?, ?)", (writer, number))
    connection.close()


def test_git(shared_dir: Path) -> None:
    """init, commit, branch, merge, gc, clone and fsck."""

    def git(*words: str, where: str = "work") -> str:
        settings = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main", "-c", "safe.directory=*"]
        directory = shared_dir / where
        return subprocess.run(["git", *settings, *words], cwd=directory, check=True, capture_output=True, text=True).stdout

    (shared_dir / "work").mkdir()
    git("init", "-q")
    for number in range(40):
        (shared_dir / "work" / f"d{number % 4}").mkdir(exist_ok=True)
        (shared_dir / "work" / f"d{number % 4}" / f"f{number}").write_bytes(pattern(200 * number))
    git("add", ".")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "side")
    (shared_dir / "work" / "new").write_text("new\n")
    git("add", ".")
    git("commit", "-qm", "second")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "merged", "side")
    git("gc", "-q")
    git("clone", "-q", "work", "copy", where=".")
    assert git("status", "--porcelain") == git("status", "--porcelain", where="copy") == ""
    git("fsck", "--strict", where="copy")
    assert (shared_dir / "copy" / "d3" / "f39").read_bytes() == pattern(200 * 39)
