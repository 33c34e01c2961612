"""The program `shardfs-admin`: looking into running mounts."""

import sys
from collections.abc import Sequence

from shardfs.cli.application import new_application, run_application
from shardfs.cli.status import status_command

app = new_application("shardfs-admin: look into mounted volumes.")
app.callback()(lambda: None)
app.command("status")(status_command)


def main(words: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    return run_application(app, "shardfs-admin", words)


def run() -> None:
    """Be the program."""
    sys.exit(main(sys.argv[1:]))
