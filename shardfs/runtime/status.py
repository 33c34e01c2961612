"""What a running mount tells of itself."""

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from shardfs.core.loop import Loop
from shardfs.errors import Overloaded
from shardfs.runtime.arguments import MountArguments
from shardfs.runtime.processes import rss_bytes
from shardfs.runtime.state import ProcessState, read_state

ANSWER_S = 3.0
"""How long the loop thread may take to answer."""

_Result = TypeVar("_Result")


def ask_loop(loop: Loop, question: Callable[[], _Result], timeout_s: float = ANSWER_S) -> _Result:
    """Run a function on the loop thread and return its result; raises `Overloaded` if that takes too long."""
    future: Future[_Result] = Future()

    def answer() -> None:
        try:
            future.set_result(question())
        except Exception as error:  # raised where it was asked
            future.set_exception(error)

    loop.post(answer)
    try:
        return future.result(timeout_s)
    except FutureTimeout as error:
        raise Overloaded(f"the server is too busy to answer within {timeout_s:g} s; try again") from error


def mount_status(arguments: MountArguments, figures: dict[str, object]) -> dict[str, object]:
    """Return the status of a mount, from its state file and the file system's own figures."""
    state = read_state(arguments.paths.state)
    processes = state.processes if state else ()
    acl = arguments.mount_options.acl
    return {
        "healthy": bool(processes) and is_complete(processes, arguments.workers),
        "mountpoint": arguments.mountpoint,
        "volume": arguments.volume,
        "transport": arguments.transport,
        "profile": arguments.profile,
        "features": {"acl": acl, "live_restart": False, "notify_store": False, "passthrough": False, "zero_message_open": False},
        "processes": [describe_process(process) for process in processes],
        "options": arguments.options,
        **figures,
    }


def is_complete(processes: tuple[ProcessState, ...], workers: int) -> bool:
    """Return whether every process that a mount needs is there and alive."""
    alive = [process.role for process in processes if process.process.is_alive]
    return sorted(alive) == sorted(["supervisor", "server", *["worker"] * workers])


def describe_process(process: ProcessState) -> dict[str, object]:
    """Return one process for people and tools; one that has ended has no uptime and no memory."""
    is_alive = process.process.is_alive
    return {
        "role": process.role,
        "pid": process.pid,
        "uptime_s": round(process.process.uptime_s, 1) if is_alive else 0.0,
        "restarts": process.restarts,
        "rss_bytes": rss_bytes(process.pid) if is_alive else 0,
    }
