"""The program `shardfs`: volumes and mounts."""

import sys
from collections.abc import Sequence

from shardfs.cli.application import new_application, run_application
from shardfs.cli.format import format_command
from shardfs.cli.fsck import CANNOT_RUN, fsck_command
from shardfs.cli.fsck import USAGE as FSCK_USAGE
from shardfs.cli.mount import mount_command
from shardfs.cli.umount import umount_command

app = new_application("shardfs: a local file system for training.")
app.command("format")(format_command)
app.command("mount")(mount_command)
app.command("umount")(umount_command)
app.command("fsck")(fsck_command)


def main(words: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    words = as_command(words)
    if words[:1] == ["fsck"]:
        return run_application(app, "shardfs", words, failed=CANNOT_RUN, usage=FSCK_USAGE)
    return run_application(app, "shardfs", words)


def as_command(words: Sequence[str]) -> list[str]:
    """Return the words with `mount` before them if they are what mount(8) calls: ``shardfs VOLUME MOUNTPOINT -o OPTIONS``."""
    return ["mount", *words] if words and "/" in words[0] else list(words)


def run() -> None:
    """Be the program."""
    sys.exit(main(sys.argv[1:]))
