"""docs/SEMANTICS.md: every paragraph that states something names its tests, and every test that it names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "SEMANTICS.md"
REFERENCE = re.compile(r"`\[([^\]]+)\]`")
SELF_EVIDENT = ("#", "|", "Each paragraph", "1. ")
"""How blocks begin that state nothing about the file system: headings, tables (their tests follow), the page about itself."""


def blocks(text: str) -> list[str]:
    """Return the paragraphs of a page."""
    return [block.strip() for block in text.split("\n\n") if block.strip()]


def unproved(text: str) -> list[str]:
    """Return the paragraphs that name no test."""
    return [block for block in blocks(text) if not block.startswith(SELF_EVIDENT) and not REFERENCE.search(block)]


def missing(text: str) -> list[str]:
    """Return the tests that the page names and that are not there."""
    return [name for name in REFERENCE.findall(text) if not exists(name)]


def exists(name: str) -> bool:
    """Say whether there is a test module, a test function in one, or a POSIX case of this name."""
    path, _, function = name.partition("::")
    if not path.startswith("tests/"):
        module, _, function = name.partition(".")
        path = f"tests/posix/cases/{module}.py"
    file = ROOT / path
    if not file.is_file():
        return False
    names = {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}
    return not function or function in names


def test_every_statement_names_its_tests() -> None:
    assert unproved(PAGE.read_text()) == []


def test_every_named_test_exists() -> None:
    assert missing(PAGE.read_text()) == []


@pytest.mark.parametrize("name", ["tests/house/test_semantics.py", "tests/house/test_semantics.py::blocks", "content.direct_io"])
def test_known_names_are_found(name: str) -> None:
    assert exists(name)


def test_a_planted_fault_is_found() -> None:
    assert unproved("# A\n\nFiles fly.\n\nThey land. `[content.direct_io]`") == ["Files fly."]
    assert missing("`[content.no_such_case]` `[tests/none.py::test_x]`") == ["content.no_such_case", "tests/none.py::test_x"]
