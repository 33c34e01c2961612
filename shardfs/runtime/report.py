"""How the start of a mount went: one message, from the server through the supervisor to the command."""

import json
import os
from dataclasses import asdict, dataclass

from shardfs.errors import SetupError, UsageError


@dataclass(frozen=True)
class Report:
    """The mount answers, or a sentence says why there is none."""

    error: str = ""
    is_usage: bool = False

    @classmethod
    def failure(cls, error: Exception) -> "Report":
        """Return the report of a start that failed."""
        return cls(str(error) or type(error).__name__, isinstance(error, UsageError))

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error:
            raise UsageError(self.error) if self.is_usage else SetupError(self.error)


def send_report(fd: int, report: Report) -> None:
    """Write the message and close the descriptor. Nobody may be left to read it."""
    try:
        os.write(fd, json.dumps(asdict(report)).encode())
    except BrokenPipeError:
        return
    finally:
        os.close(fd)


def receive_report(fd: int) -> Report | None:
    """Read the message to its end and close the descriptor; None if the sender died without one."""
    with open(fd, "rb") as file:
        content = file.read()
    return Report(**json.loads(content)) if content else None
