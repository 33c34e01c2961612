"""The server of a mount: the process that speaks to the kernel and decides everything about the volume."""

import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence

from shardfs.core.filesystem import FileSystem
from shardfs.core.formatting import read_settings
from shardfs.core.loop import EventLoop
from shardfs.core.opening import OpenOptions, open_volume
from shardfs.errors import ShardfsError
from shardfs.fuse.pyfuse3_transport import Pyfuse3Transport
from shardfs.meta.links import SocketLinks
from shardfs.meta.shard import Shard
from shardfs.runtime.arguments import ServerArguments
from shardfs.runtime.control import ControlServer
from shardfs.runtime.guard import Guard
from shardfs.runtime.processes import settle_in
from shardfs.runtime.report import Report, send_report
from shardfs.runtime.status import ask_loop, mount_status
from shardfs.storage.real import RealStorage

_log = logging.getLogger(__name__)


def main(words: list[str]) -> int:
    """Serve one mount from its start to its end; return the exit code: 0 if everything is durable."""
    arguments = ServerArguments.from_command_line(words)
    settle_in("shardfs-server", arguments.oom_score_adj)
    unreported = [arguments.report_fd]

    def report(told: Report) -> None:
        if unreported:
            send_report(unreported.pop(), told)

    try:
        serve(arguments, lambda: report(Report()))
    except ShardfsError as error:
        _log.error("the server ends: %s", error)
        report(Report.failure(error))
        return 1
    except Exception as error:
        _log.exception("the server ends by a bug in shardfs")
        report(Report(f"the server failed by a bug in shardfs: {error!r}; see {arguments.paths.log}"))
        return 70
    return 0


def serve(arguments: ServerArguments, ready: Callable[[], None]) -> None:
    """Open the volume, mount, serve until the mount is gone or SIGTERM comes, and make everything durable.

    `ready` is called when the mount answers.
    """
    Guard(arguments).start()
    loop = EventLoop()
    filesystem = _open(arguments, loop)
    transport = Pyfuse3Transport(filesystem, loop, ready)
    transport.mount(arguments.volume, arguments.mountpoint, arguments.mount_options)

    def status(_request: object) -> dict[str, object]:
        return mount_status(arguments, ask_loop(loop, filesystem.status))

    try:
        with ControlServer(arguments.paths.control, {"status": status}):
            signal.signal(signal.SIGTERM, lambda _number, _frame: loop.post(transport.stop))
            transport.serve()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
        filesystem.shutdown()
    finally:
        transport.close()
    loop.close()
    _log.info("%s is unmounted and durable", arguments.volume)


def _open(arguments: ServerArguments, loop: EventLoop) -> FileSystem:
    storage = RealStorage()
    settings = read_settings(storage, arguments.volume)
    options = OpenOptions(
        slots_path=arguments.paths.slots, with_acl=arguments.mount_options.acl, slot_budget_bytes=settings.slot_budget_bytes
    )

    def make_link(_shards: Sequence[Shard]) -> SocketLinks:
        links = SocketLinks(arguments.paths.workers, arguments.assignment, loop.post)
        links.start()
        return links

    return open_volume(storage, arguments.volume, loop, make_link, time.time_ns, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
