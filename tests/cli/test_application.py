"""How command lines become exit codes and sentences."""

import pytest

from shardfs.cli import admin, main
from shardfs.cli.application import INTERRUPTED, new_application, run_application
from shardfs.errors import DeviceFailed, SetupError, UsageError


def run(error: BaseException | None, words: tuple[str, ...] = ()) -> int:
    """Run a program whose only command raises this, or returns 7."""
    app = new_application("a program")

    def command(option: str = "") -> int:
        if error is not None:
            raise error
        return 7

    app.callback()(lambda: None)
    app.command("go")(command)
    return run_application(app, "program", ["go", *words])


@pytest.mark.parametrize(("error", "code"), [(SetupError, 1), (UsageError, 2), (DeviceFailed, 1)])
def test_an_error_is_one_sentence_and_a_code(error: type[Exception], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(error("It is so.")) == code
    assert capsys.readouterr() == ("", "program: It is so.\n")


def test_the_commands_own_code_is_the_exit_code() -> None:
    assert run(None) == 7


def test_an_unknown_option_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(None, ("--nonsense",)) == 2
    assert capsys.readouterr() == ("", "program: No such option: --nonsense\n")


def test_ctrl_c() -> None:
    assert run(KeyboardInterrupt()) == INTERRUPTED


@pytest.mark.parametrize("program", [main.main, admin.main])
def test_help_and_no_arguments(program: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(program)
    assert program(["--help"]) == 0 and "Commands:" in capsys.readouterr().out
    assert program([]) == 2 and "Commands:" in capsys.readouterr().err
    assert program(["nonsense"]) == 2 and capsys.readouterr().err.endswith("No such command 'nonsense'.\n")


AS_COMMANDS = [(["/v", "/m", "-o", "rw"], "mount"), (["./v", "m"], "mount"), (["umount", "/m"], "umount"), (["--help"], "--help")]


@pytest.mark.parametrize(("words", "command"), AS_COMMANDS)
def test_what_mount8_calls_is_a_mount(words: list[str], command: str) -> None:
    assert main.as_command(words)[0] == command
