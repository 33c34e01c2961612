"""The supervisor of a mount: starts the other processes, starts workers again that die, and ends what is left.

It does nothing else and holds nothing that the mount needs, so its own death harms nothing: the server starts another
one, which takes over the living processes (`SupervisorArguments.server`).

The end of the server is the end of the mount. If it ended after the mount was taken away, everything is durable;
otherwise the mount is detached, so that nobody is left with a dead one.
"""

import logging
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable

from shardfs.errors import SetupError
from shardfs.fuse.mountinfo import mounts_of
from shardfs.fuse.mountpoints import detach_dead
from shardfs.runtime.arguments import SupervisorArguments
from shardfs.runtime.children import Backoff, Child
from shardfs.runtime.processes import ProcessName, own_name, send_signal, set_oom_score_adj, settle_in, spawn, wait_for_end
from shardfs.runtime.report import Report, receive_report, send_report
from shardfs.runtime.state import MountState, ProcessState, boot_id, read_state, write_state
from shardfs.runtime.watch import Watch

NEVER_KILLED = -1000
"""The `oom_score_adj` of a process that the kernel's memory killer leaves alone."""
STOP_S = 180.0
"""How long a server may take to end; it gives up by itself earlier (see `FileSystem.shutdown`)."""
WORKER_STOP_S = 10.0

_log = logging.getLogger(__name__)


class Supervisor:
    """One supervisor. `report` is called once, when the mount answers or its start has failed."""

    def __init__(self, arguments: SupervisorArguments, report: Callable[[Report], None]) -> None:
        self._arguments = arguments
        self._report = report
        self._watch = Watch()
        self._server: Child | None = None
        self._workers: dict[int, Child] = {}
        self._backoffs: defaultdict[int, Backoff] = defaultdict(Backoff)
        self._report_fd = -1
        self._is_ready = False
        self._failure = ""

    def run(self) -> None:
        """Supervise until the mount has ended and no other process of it is left."""
        arguments = self._arguments
        set_oom_score_adj(NEVER_KILLED)
        self._watch.on_signals((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), self._stop)
        if arguments.server:
            self._take_over(ProcessName.parse(arguments.server))
        else:
            self._start_server()
        for index in range(arguments.workers):
            if index not in self._workers:
                self._start_worker(index, restarts=0)
        self._save_state()
        while self._server is not None:
            self._watch.run_once()
        self._end_workers()
        self._leave()

    # Starting

    def _start_server(self) -> None:
        arguments = self._arguments
        self._report_fd, server_fd = os.pipe()
        told = arguments.for_server(lock_fd=arguments.lock_fd, report_fd=server_fd, supervisor=own_name().text())
        self._watch_server(Child.own("server", 0, spawn("server", told, (arguments.lock_fd, server_fd)), restarts=0))
        os.close(server_fd)
        self._watch.on_readable(self._report_fd, self._server_reported)

    def _watch_server(self, server: Child) -> None:
        self._server = server
        self._watch.on_readable(server.pidfd, self._server_ended)

    def _server_reported(self) -> None:
        """Hand the good news on; bad news when the server has ended and everything is cleaned up."""
        report_fd, self._report_fd = self._report_fd, -1
        self._watch.forget(report_fd)
        report = receive_report(report_fd)
        if report is None or report.error:
            self._failure = report.error if report else f"the server died before the mount was ready; see {self._arguments.paths.log}"
            return
        self._is_ready = True
        self._report(report)

    def _start_worker(self, index: int, restarts: int) -> None:
        told = self._arguments.for_worker(index)
        self._watch_worker(Child.own("worker", index, spawn("worker", told, (), again=restarts > 0), restarts))

    def _watch_worker(self, worker: Child) -> None:
        self._workers[worker.index] = worker
        self._watch.on_readable(worker.pidfd, lambda: self._worker_ended(worker))

    def _take_over(self, server: ProcessName) -> None:
        """Watch the processes that a dead supervisor has left."""
        state = read_state(self._arguments.paths.state)
        left = state.processes if state else (ProcessState("server", 0, server.pid, server.start_ticks, 0),)
        for child in filter(None, (Child.adopted(process) for process in left if process.role != "supervisor")):
            if child.role == "server":
                self._watch_server(child)
            else:
                self._watch_worker(child)
        self._is_ready = True
        _log.warning("took over the mount of %s at %s", self._arguments.volume, self._arguments.mountpoint)

    # Endings

    def _worker_ended(self, worker: Child) -> None:
        self._watch.forget(worker.pidfd)
        del self._workers[worker.index]
        how = worker.reap()
        delay_s = self._backoffs[worker.index].next_delay_s(worker.process.uptime_s)
        which = f"worker {worker.index} (pid {worker.process.pid})"
        _log.warning("%s has ended (%s) and is started again in %.1f s", which, how or "exit code 0", delay_s)
        self._watch.call_later(delay_s, lambda: self._replace_worker(worker))

    def _replace_worker(self, dead: Child) -> None:
        if self._server is not None:
            self._start_worker(dead.index, dead.restarts + 1)
            self._save_state()

    def _server_ended(self) -> None:
        assert self._server is not None
        server, self._server = self._server, None
        self._watch.forget(server.pidfd)
        if self._report_fd >= 0:
            self._server_reported()
        how = server.reap()
        is_mounted = bool(mounts_of(self._arguments.volume))
        if self._is_ready and (is_mounted or (how and server.popen)):
            where = f"the mount of {self._arguments.volume} at {self._arguments.mountpoint}"
            self._failure = f"{where} has ended: its server (pid {server.process.pid}) died ({how}); `shardfs mount` recovers the volume"
            _log.error("%s", self._failure)
        if is_mounted:
            self._detach()

    def _detach(self) -> None:
        try:
            detach_dead(self._arguments.volume)
        except SetupError as error:
            _log.error("the dead mount is left: %s", error)

    def _stop(self) -> None:
        """Let the server unmount and end; it is killed if it takes too long."""
        if self._server is not None:
            server = self._server
            _log.info("stopping the mount of %s at %s", self._arguments.volume, self._arguments.mountpoint)
            send_signal(server.pidfd, signal.SIGTERM)
            self._watch.call_later(STOP_S, lambda: self._kill(server))

    def _kill(self, server: Child) -> None:
        if self._server is server:
            _log.error("the server (pid %d) has not ended within %.0f s and is killed", server.process.pid, STOP_S)
            send_signal(server.pidfd, signal.SIGKILL)

    def _end_workers(self) -> None:
        """End the workers: with the server gone, whatever they have not applied is in the journal."""
        pidfds = [worker.pidfd for worker in self._workers.values()]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pidfd in pidfds:
                send_signal(pidfd, number)
            if wait_for_end(pidfds, WORKER_STOP_S):
                break
        for worker in self._workers.values():
            worker.reap()

    def _leave(self) -> None:
        """Leave nothing behind but the log and the reason of a bad end, and tell who waits for the start."""
        paths = self._arguments.paths
        if self._is_ready and self._failure:
            write_state(paths.state, self._state(()))
        else:
            _unlink(paths.state)
        for path in (paths.control, paths.workers):
            _unlink(path)
        self._watch.close()
        if not self._is_ready:
            self._report(Report(self._failure or "the mount was stopped before it was ready; start it again"))

    # State

    def _save_state(self) -> None:
        own = own_name()
        processes = [ProcessState("supervisor", 0, own.pid, own.start_ticks, self._arguments.restarts)]
        processes += [child.state for child in (self._server, *self._workers.values()) if child is not None]
        write_state(self._arguments.paths.state, self._state(tuple(processes)))

    def _state(self, processes: tuple[ProcessState, ...]) -> MountState:
        told = self._arguments
        return MountState(
            volume=told.volume,
            volume_id=told.volume_id,
            mountpoint=told.mountpoint,
            transport=told.transport,
            profile=told.profile,
            workers=told.workers,
            directory=told.directory,
            boot_id=boot_id(),
            processes=processes,
            failure=self._failure,
        )


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def main(words: list[str]) -> None:
    """Run as a process of its own."""
    arguments = SupervisorArguments.from_command_line(words)
    settle_in("shardfs-superv", arguments.oom_score_adj)
    fd = arguments.report_fd
    Supervisor(arguments, lambda report: send_report(fd, report)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
