"""A metadata worker as a process; what it does is `shardfs.meta.worker`."""

import logging
import sys

from shardfs.core.formatting import shards_dir
from shardfs.errors import ShardfsError
from shardfs.meta.worker import serve_worker
from shardfs.runtime.arguments import WorkerArguments
from shardfs.runtime.processes import settle_in

_log = logging.getLogger(__name__)


def main(words: list[str]) -> int:
    """Serve until told to leave or left alone; return the exit code."""
    arguments = WorkerArguments.from_command_line(words)
    settle_in("shardfs-worker", arguments.oom_score_adj)
    try:
        serve_worker(arguments.paths.workers, shards_dir(arguments.volume), arguments.index, arguments.assignment[arguments.index])
    except ShardfsError as error:
        _log.error("worker %d cannot serve: %s", arguments.index, error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
