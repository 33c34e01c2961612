"""The server's watch over its supervisor: when that dies, another one is started and takes over."""

import logging
import os
import select
import threading
import time

from shardfs.runtime.arguments import ServerArguments
from shardfs.runtime.children import Backoff
from shardfs.runtime.processes import ProcessName, name_process, own_name, spawn

_log = logging.getLogger(__name__)


class Guard:
    """A thread that always keeps one supervisor alive. It shares nothing with the loop thread."""

    def __init__(self, arguments: ServerArguments) -> None:
        self._arguments = arguments
        self._thread = threading.Thread(target=self._run, name="shardfs-guard", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def _run(self) -> None:
        supervisor = ProcessName.parse(self._arguments.supervisor)
        backoff = Backoff()
        restarts = 0
        while True:
            _wait_for(supervisor)
            restarts += 1
            _log.warning("the supervisor (pid %d) has died; starting another one", supervisor.pid)
            time.sleep(backoff.next_delay_s(supervisor.uptime_s))
            supervisor = self._start_another(restarts)

    def _start_another(self, restarts: int) -> ProcessName:
        lock_fd = self._arguments.lock_fd
        told = self._arguments.for_supervisor(lock_fd=lock_fd, server=own_name().text(), restarts=restarts)
        started = spawn("supervisor", told, (lock_fd,), again=True)
        name = name_process(started.pid)
        assert name is not None, "a child stays until it is reaped"
        return name


def _wait_for(process: ProcessName) -> None:
    """Return when the process has ended, and reap it if it was a child."""
    pidfd = process.open_pidfd()
    if pidfd is None:
        return
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    os.close(pidfd)
    try:
        os.waitpid(process.pid, os.WNOHANG)
    except ChildProcessError:
        return  # it was the command's child
