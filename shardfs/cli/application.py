"""What the two programs have in common: how a command line becomes an exit code and at most one sentence."""

import sys
from collections.abc import Sequence

import typer

from shardfs.errors import ShardfsError, UsageError

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def new_application(summary: str) -> typer.Typer:
    """Return a program without commands yet."""
    return typer.Typer(help=summary, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def run_application(application: typer.Typer, name: str, words: Sequence[str], failed: int = FAILED, usage: int = USAGE) -> int:
    """Run one command line and return the exit code; what goes wrong is said in one sentence on stderr."""
    try:
        code = application(list(words), prog_name=name, standalone_mode=False)
    except UsageError as error:
        return _complain(name, str(error), usage)
    except ShardfsError as error:
        return _complain(name, str(error), failed)
    except typer.TyperException as error:
        return _complain(name, error.format_message(), usage if error.exit_code == USAGE else failed)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _complain(name: str, sentence: str, code: int) -> int:
    print(f"{name}: {sentence}", file=sys.stderr)
    return code
