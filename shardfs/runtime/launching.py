"""Starting a mount: detached, or in the foreground."""

import logging
import os
import signal
from collections.abc import Callable

from shardfs.errors import SetupError
from shardfs.runtime.preparing import Prepared
from shardfs.runtime.processes import prepare_process, spawn
from shardfs.runtime.report import Report, receive_report
from shardfs.runtime.supervisor import Supervisor


def launch(prepared: Prepared) -> None:
    """Start the mount in the background and return when it answers; raises `SetupError` after everything is undone."""
    arguments = prepared.arguments
    report_fd, supervisor_fd = os.pipe()
    told = arguments.for_supervisor(lock_fd=prepared.lock_fd, report_fd=supervisor_fd)
    with open(_new_log(arguments.paths.log), "wb") as log:
        supervisor = spawn("supervisor", told, (prepared.lock_fd, supervisor_fd), stderr=log.fileno())
    os.close(supervisor_fd)
    try:
        report = receive_report(report_fd) or Report(f"the supervisor died before the mount was ready; see {arguments.paths.log}")
        report.check()
        _check_answers(arguments.mountpoint)
    except BaseException:  # also Ctrl-C
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait()
        prepared.undo()
        raise
    os.close(prepared.lock_fd)


def _check_answers(mountpoint: str) -> None:
    try:
        os.stat(mountpoint)
    except OSError as error:
        raise SetupError(f"the mount at {mountpoint} does not answer ({error.strerror}); see the log beside its state file") from error


def run_foreground(prepared: Prepared, ready: Callable[[], None]) -> None:
    """Be the supervisor of the mount until it ends; `ready` is called when it answers. Raises `SetupError` for a bad start."""
    reports: list[Report] = []

    def report(told: Report) -> None:
        reports.append(told)
        if not told.error:
            ready()

    prepare_process("shardfs-superv")
    logging.getLogger(__name__).info("in the foreground; Ctrl-C unmounts")
    Supervisor(prepared.arguments.for_supervisor(lock_fd=prepared.lock_fd), report).run()
    if reports[0].error:
        prepared.undo()
    reports[0].check()


def _new_log(path: str) -> str:
    """Keep one older log, and return the path for a new one."""
    if os.path.exists(path):
        os.replace(path, f"{path}.old")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return path
