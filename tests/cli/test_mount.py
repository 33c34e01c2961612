"""`shardfs mount`: what it says, and every kind of bad input, which is told in one sentence and changes nothing."""

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from xxhash import xxh3_64_digest

from shardfs.cli.main import main
from shardfs.core.formatting import SUPERBLOCK
from shardfs.fuse.mountpoints import DEVICE_VARIABLE
from shardfs.runtime.paths import DIRECTORY_VARIABLE, slots_path
from tests.cli.surroundings import BIN, Surroundings
from tests.posix.table import USER, as_user


def test_it_formats_what_is_not_there_mounts_and_says_both(here: Surroundings) -> None:
    ended = here.mount("--workers", "1")
    formatted, mounted = ended.stdout.splitlines()
    assert ended.returncode == 0 and ended.stderr == ""
    assert formatted == f"shardfs: {here.volume} formatted (16 shards)"
    assert mounted == f"shardfs: {here.volume} mounted at {here.mountpoint} (pyfuse3, 16 shards, 1 worker)"
    (here.mountpoint / "file").write_text("content")
    assert here.run("umount", here.mountpoint).returncode == 0
    again = here.mount()
    assert again.stdout.count("\n") == 1 and (here.mountpoint / "file").read_text() == "content"


def test_an_empty_directory_becomes_a_volume(here: Surroundings) -> None:
    here.volume.mkdir()
    assert "formatted" in here.mount().stdout


def test_the_mount_is_what_the_mount_table_says(here: Surroundings) -> None:
    here.mount("-o", "allow_other,noatime", "-o", "nosuid")
    command = ["findmnt", "-no", "FSTYPE,SOURCE,OPTIONS", str(here.mountpoint)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert told[:2] == ["fuse.shardfs", str(here.volume)]
    options = told[2].split(",")
    assert {"rw", "nosuid", "noatime", "allow_other", "default_permissions"} <= set(options) and "nodev" not in options


def test_setuid_files_and_device_nodes_work_on_a_mount_of_roots(here: Surroundings) -> None:
    here.mount("-o", "allow_other")
    program = here.mountpoint / "id"
    shutil.copy("/usr/bin/id", program)
    os.chown(program, USER, USER)
    os.chmod(program, 0o6755)
    assert subprocess.run([program, "-u"], capture_output=True, text=True, check=True).stdout == f"{USER}\n"
    os.mknod(here.mountpoint / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert (here.mountpoint / "null").read_bytes() == b""


def test_a_readonly_mount(here: Surroundings) -> None:
    here.mount("-o", "ro")
    with pytest.raises(OSError, match="Read-only"):
        (here.mountpoint / "file").touch()


@pytest.mark.parametrize("name", ["with space", "with,comma", "with\\backslash", "ünïcode"])
def test_any_path_will_do(here: Surroundings, name: str) -> None:
    volume, mountpoint = here.base / f"v {name}", here.base / f"m {name}"
    mountpoint.mkdir()
    assert here.run("mount", volume, mountpoint).returncode == 0
    (mountpoint / "file").touch()
    assert here.run("status", mountpoint, program="shardfs-admin").returncode == 0
    assert here.run("umount", mountpoint).returncode == 0


def test_the_helper_of_mount8_mounts_it(here: Surroundings) -> None:
    """Which is what `mount -t fuse.shardfs` runs; it finds `shardfs` by PATH."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", DIRECTORY_VARIABLE: str(here.runtime)}
    command = ["mount.fuse3", str(here.volume), str(here.mountpoint), "-o", "rw,allow_other,nofail", "-t", "fuse.shardfs"]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)
    assert here.picture()[1][0].source == str(here.volume)


def test_in_the_foreground_ctrl_c_unmounts(here: Surroundings) -> None:
    environment = {**os.environ, DIRECTORY_VARIABLE: str(here.runtime)}
    command = [str(BIN / "shardfs"), "mount", str(here.volume), str(here.mountpoint), "--foreground"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert "formatted" in started.stdout.readline() and "mounted at" in started.stdout.readline()
        (here.mountpoint / "file").touch()
        started.send_signal(signal.SIGINT)
        _, logged = started.communicate(timeout=60)
    assert started.returncode == 0 and "is unmounted and durable" in logged
    assert here.picture()[1:] == ([], [])


def test_in_the_foreground_a_bad_start_is_told_the_same_way(here: Surroundings) -> None:
    with here.unchanged():
        here.assert_refused(here.mount("--foreground", "-o", "nonsense"), 2, "unknown mount option 'nonsense'")


# Bad input


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["-o", "ro,nonsense"], ["unknown mount option 'nonsense'", "known are"]),
        (["--nonsense"], ["No such option: --nonsense"]),
        (["--transport", "direct"], ["'direct' is not available", "use auto or pyfuse3"]),
        (["--profile", "dataset"], ["'dataset' is not available", "use mixed"]),
        (["--workers", "999"], ["--workers 999 is out of range"]),
        (["--workers", "x"], ["Invalid value for '--workers'"]),
        (["third"], ["unexpected extra argument"]),
    ],
)
def test_bad_usage(here: Surroundings, words: list[str], parts: list[str]) -> None:
    with here.unchanged():
        here.assert_refused(here.mount(*words), 2, *parts)


def test_a_volume_that_is_already_mounted(here: Surroundings) -> None:
    here.mount()
    (here.base / "other").mkdir()
    with here.unchanged():
        ended = here.run("mount", here.volume, here.base / "other")
        here.assert_refused(ended, 1, f"{here.volume} is already mounted at {here.mountpoint} by pid ", "shardfs umount")
        here.assert_refused(here.mount(), 1, "already mounted at")


def make_missing(here: Surroundings) -> None:
    here.mountpoint.rmdir()


def make_file(here: Surroundings) -> None:
    here.mountpoint.rmdir()
    here.mountpoint.touch()


def make_busy(here: Surroundings) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "somebody", here.mountpoint], check=True)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (make_missing, "does not exist: create it with mkdir"),
        (make_file, "is not a directory: choose a directory"),
        (make_busy, "is busy: somebody is mounted there; unmount it"),
    ],
)
@pytest.mark.parametrize("formatted", [False, True], ids=["new volume", "old volume"])
def test_bad_mount_points(here: Surroundings, make: Callable[[Surroundings], None], part: str, formatted: bool) -> None:
    if formatted:
        here.run("format", here.volume)
    make(here)
    with here.unchanged():
        here.assert_refused(here.mount(), 1, f"the mount point {here.mountpoint} ", part)


def test_mount_point_and_volume_inside_each_other(here: Surroundings) -> None:
    here.run("format", here.volume)
    (here.volume / "inside").mkdir()
    with here.unchanged():
        here.assert_refused(here.run("mount", here.volume, here.volume / "inside"), 1, "lies inside the volume")
        here.assert_refused(here.run("mount", here.mountpoint / "volume", here.mountpoint), 1, "lies inside the mount point")
        here.assert_refused(here.run("mount", here.volume, here.volume), 1, "lies inside the volume")


def test_a_directory_that_is_neither_empty_nor_a_volume(here: Surroundings) -> None:
    here.volume.mkdir()
    (here.volume / "thesis.tex").write_text("mine")
    with here.unchanged():
        here.assert_refused(here.mount(), 1, f"{here.volume} is neither empty nor a shardfs volume; name an empty")


def test_a_file_as_volume(here: Surroundings) -> None:
    here.volume.touch()
    with here.unchanged():
        here.assert_refused(here.mount(), 1, f"the volume {here.volume} cannot be used", "Not a directory")


def test_a_volume_below_nothing(here: Surroundings) -> None:
    with here.unchanged():
        here.assert_refused(here.run("mount", here.base / "missing" / "volume", here.mountpoint), 1, "cannot make the volume")


def change_superblock(here: Surroundings, change: Callable[[bytes], bytes]) -> None:
    here.run("format", here.volume)
    path = here.volume / SUPERBLOCK
    path.write_bytes(change(path.read_bytes()))


def test_a_corrupt_superblock(here: Surroundings) -> None:
    change_superblock(here, lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:])
    with here.unchanged():
        here.assert_refused(here.mount(), 1, f"the superblock {here.volume}/superblock is damaged", "checksum")


def test_a_volume_of_a_newer_format(here: Surroundings) -> None:
    """The version follows the magic, and the checksum of all comes last."""
    change_superblock(here, lambda content: (made := content[:8] + (99).to_bytes(4, "little") + content[12:-8]) + xxh3_64_digest(made))
    with here.unchanged():
        here.assert_refused(here.mount(), 1, "is of format 99", "install a newer")


def test_a_missing_hot_disk(here: Surroundings) -> None:
    disk = here.base / "disk"
    here.run("format", here.volume, "--hot", disk)
    disk.rename(here.base / "away")
    with here.unchanged():
        here.assert_refused(here.mount(), 1, f"the hot disk {disk} of this volume is missing", "mount that disk first")


def test_no_fuse_device(here: Surroundings) -> None:
    with here.unchanged():
        ended = here.mount(**{DEVICE_VARIABLE: str(here.base / "no-fuse")})
        here.assert_refused(ended, 1, f"cannot open {here.base}/no-fuse", "modprobe fuse")


def assert_user_is_refused(here: Surroundings, volume: Path, mountpoint: Path, sentence: str) -> None:
    """Run `shardfs mount` as a user who owns nothing here."""

    def mount() -> None:
        with redirect_stderr(StringIO()) as told:
            code = main(["mount", str(volume), str(mountpoint)])
        assert (code, told.getvalue().count("\n")) == (1, 1) and sentence in told.getvalue(), told.getvalue()

    with redirect_stderr(StringIO()):
        main(["mount", str(here.base / "missing" / "volume"), str(here.base)])  # loads modules that the user may not read
    with here.unchanged():
        as_user(mount)


def test_no_permission(here: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEVICE_VARIABLE, "/dev/null")
    here.run("format", here.volume)
    os.chmod(here.volume, 0o700)
    own = here.base / "own"
    own.mkdir()
    os.chown(own, USER, USER)
    assert_user_is_refused(here, here.volume, own, f"the volume {here.volume} cannot be used (Permission denied)")
    assert_user_is_refused(here, here.base / "new", own, f"cannot make the volume {here.base}/new: {here.base} is missing or not writable")
    assert_user_is_refused(here, own / "volume", here.mountpoint, f"no permission to mount at {here.mountpoint}")


def test_no_permission_to_open_the_device(here: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    device = here.base / "fuse"
    device.touch(0o600)
    monkeypatch.setenv(DEVICE_VARIABLE, str(device))
    assert_user_is_refused(here, here.volume, here.mountpoint, f"no permission to open {device}: ask an administrator")


def test_a_full_disk_at_format(here: Surroundings) -> None:
    small = here.base / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "small", small], check=True)
    (small / "empty").mkdir(0o700)
    for volume in (small / "volume", small / "empty"):
        with here.unchanged():
            here.assert_refused(here.run("mount", volume, here.mountpoint), 1, f"{volume} was not formatted")
            here.assert_refused(here.run("format", volume), 1, f"{volume} was not formatted")


@pytest.mark.parametrize("existed", [False, True])
def test_a_runtime_directory_that_cannot_be_used(here: Surroundings, existed: bool) -> None:
    if existed:
        here.volume.mkdir()
    (here.base / "file").touch()
    with here.unchanged():
        ended = here.mount(**{DIRECTORY_VARIABLE: str(here.base / "file")})
        here.assert_refused(ended, 1, "runtime directory", f"set {DIRECTORY_VARIABLE} to a directory of your own")


@pytest.mark.parametrize("existed", [False, True])
def test_a_start_that_fails_late_undoes_the_format(here: Surroundings, existed: bool) -> None:
    if existed:
        here.volume.mkdir()
    with here.unchanged():
        ended = here.mount(SHARDFS_KILL_AT="commit.after_journal_sync:1")
        here.assert_refused(ended, 1, "the server died before the mount was ready")
    volume_id = next(here.runtime.glob("*.log")).stem
    assert not Path(slots_path(bytes.fromhex(volume_id))).exists()


@pytest.mark.parametrize("where", ["disk", "disk/below", "."])
def test_a_mount_point_that_overlaps_a_hot_disk(here: Surroundings, where: str) -> None:
    """The server would wait for itself for ever."""
    here.run("format", here.volume, "--hot", here.base / "disk")
    (here.base / "disk" / "below").mkdir()
    place = (here.base / where).resolve()
    here.assert_refused(here.run("mount", here.volume, place, "-o", "nonempty"), 1, "choose another mount point")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfe", "is not valid TOML"),
        (b"mount = 3", "begins with a line [mount]"),
        (b"[mount]\nworkers = true", "workers must be a number"),
        (b"[mount]\nslot_budget_mib = 99999999", "slot_budget_mib must be a number"),
        (b"workers = 1", "settings stand below a line [mount]"),
        (b"[mount]\nworker = 1", "known are workers, slot_budget_mib"),
    ],
)
def test_bad_settings(here: Surroundings, content: bytes, sentence: str) -> None:
    here.run("format", here.volume)
    (here.volume / "shardfs.toml").write_bytes(content)
    here.assert_refused(here.mount(), 1, sentence)


def test_a_missing_journal_directory(here: Surroundings) -> None:
    here.run("format", here.volume, "--journal", here.base / "journal")
    (here.base / "journal").rename(here.base / "away")
    here.assert_refused(here.mount(), 1, "the journal of this volume is missing", "mount its disk first")
