"""The house rules on form, held by reading the sources: sizes, docstrings, errors, marks of unfinished work, links.

`Source` is one file of the repository; each rule is a function from a source to lines that say what is wrong.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE_MAX_LINES = 400
TEST_MODULE_MAX_LINES = 700
FUNCTION_MAX_LINES = 50
FOLDERS = (".ci", "docs", "shardfs", "tests", "tools")
PRINTERS = ("shardfs/cli/", "tools/")

UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + r"X)\b")
TRACKER = re.compile(r"\bissues? #?\d+|\bticket #?\d+", re.IGNORECASE)
SOMEBODYS_PATH = re.compile(r"(?<![\w/.$}-])/(?:work|home/\w+|root|Users)/")
MARKDOWN_LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED_PATH = re.compile(r"`((?:shardfs|tests|tools|docs|\.ci)/[\w./-]+)`|(?<![\w/.])([A-Z]{3,}\.md)\b")

type_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Source(NamedTuple):
    """One file: its path relative to the repository, and its text."""

    path: str
    text: str


def read_sources(root: Path) -> list[Source]:
    """Return every text file that belongs to the repository."""
    files = [file for file in root.iterdir() if file.is_file() and file.suffix in (".py", ".md", ".toml")]
    files += [file for folder in FOLDERS for file in (root / folder).rglob("*") if file.is_file()]
    kept = sorted(file for file in files if "__pycache__" not in file.parts)
    return [Source(file.relative_to(root).as_posix(), file.read_text(errors="replace")) for file in kept]


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method."""
    return (node for node in ast.walk(tree) if isinstance(node, type_of_function))


def sizes(source: Source) -> Iterator[str]:
    """Modules and functions stay short; a docstring is not counted against its function."""
    lines = source.text.count("\n")
    most = TEST_MODULE_MAX_LINES if source.path.startswith("tests/") else MODULE_MAX_LINES
    if lines > most:
        yield f"{source.path}: {lines} lines, at most {most}"
    for function in functions(ast.parse(source.text)):
        first = function.body[0]
        documented = ast.get_docstring(function) is not None
        length = (function.end_lineno or 0) - function.lineno + 1
        length -= (first.end_lineno or 0) - first.lineno + 1 if documented else 0
        if length > FUNCTION_MAX_LINES:
            yield f"{source.path}: {function.name} has {length} lines, at most {FUNCTION_MAX_LINES}"


def docstrings(source: Source) -> Iterator[str]:
    """Every module says what it is for, and every public class and function of the package does."""
    tree = ast.parse(source.text)
    if source.text.strip() and ast.get_docstring(tree) is None:
        yield f"{source.path}: no docstring"
    if source.path.startswith("tests/"):
        return
    classes = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *classes):
        for node in body:
            if isinstance(node, (*type_of_function, ast.ClassDef)) and node.name[0] != "_" and not ast.get_docstring(node):
                yield f"{source.path}: {node.name} has no docstring"


def prints(source: Source) -> Iterator[str]:
    """Only commands and tools print; everything else logs."""
    if source.path.startswith(PRINTERS):
        return
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{source.path}:{node.lineno}: prints"


def swallowed_errors(source: Source) -> Iterator[str]:
    """No bare except, and none that takes every error and does nothing with it."""
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield f"{source.path}:{node.lineno}: bare except"
        elif ast.unparse(node.type) in ("Exception", "BaseException") and isinstance(node.body[0], ast.Pass):
            yield f"{source.path}:{node.lineno}: swallows every error"


def unfinished(source: Source) -> Iterator[str]:
    """What is not done is not marked in the code: it is done, or it is written in the list of limits."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{source.path}:{number}: {found[0]}"


def outside_references(source: Source) -> Iterator[str]:
    """Reasons are given where they are needed: no tracker numbers, no paths of somebody's machine."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for pattern in (TRACKER, SOMEBODYS_PATH):
            if found := pattern.search(line):
                yield f"{source.path}:{number}: {found[0]!r} means nothing to a reader elsewhere"


def named_files(source: Source, root: Path = ROOT) -> Iterator[str]:
    """Files named in backticks exist, and so do documents named anywhere."""
    for path, document in NAMED_PATH.findall(source.text):
        name = path or document
        if not any((base / name).exists() for base in (root, root / "docs")):
            yield f"{source.path}: names {name}, which does not exist"


def broken_links(source: Source, root: Path = ROOT) -> Iterator[str]:
    """Links of documents lead to a file, and to a heading in it."""
    folder = (root / source.path).parent
    for link in MARKDOWN_LINK.findall(source.text):
        path, _, anchor = link.partition("#")
        target = folder / path if path else root / source.path
        if "://" not in link and not target.exists():
            yield f"{source.path}: broken link {link}"
        elif anchor and target.suffix == ".md" and "://" not in link and anchor not in anchors(target.read_text()):
            yield f"{source.path}: no heading for {link}"


def anchors(markdown: str) -> set[str]:
    """Return the anchors of a document's headings, as viewers make them: lower case, dashes, no punctuation."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


PYTHON_RULES: tuple[Callable[[Source], Iterator[str]], ...] = (sizes, docstrings, prints, swallowed_errors)
TEXT_RULES: tuple[Callable[[Source], Iterator[str]], ...] = (unfinished, outside_references, named_files)


def violations(source: Source) -> list[str]:
    """Return what every rule finds in one file."""
    rules = list(TEXT_RULES)
    if source.path.endswith(".py"):
        rules += PYTHON_RULES
    if source.path.endswith(".md"):
        rules.append(broken_links)
    return [line for rule in rules for line in rule(source)]


def test_the_repository_is_tidy() -> None:
    assert [line for source in read_sources(ROOT) for line in violations(source)] == []


def test_reads_the_whole_repository() -> None:
    paths = {source.path for source in read_sources(ROOT)}
    assert {"pyproject.toml", "shardfs/ids.py", "tests/house/test_tidy.py", "tools/test", ".ci/run"} <= paths


DOCUMENTED = '"""Module."""\n'
PLANTED = {
    "long module": ("shardfs/a.py", DOCUMENTED + "x = 1\n" * 401, "402 lines"),
    "long function": ("shardfs/a.py", DOCUMENTED + 'def _f():\n    """Doc."""\n' + "    x = 1\n" * 50, "_f has 51 lines"),
    "module without docstring": ("tests/a.py", "x = 1\n", "no docstring"),
    "function without docstring": ("shardfs/a.py", DOCUMENTED + "def f():\n    return 1\n", "f has no docstring"),
    "method without docstring": ("shardfs/a.py", DOCUMENTED + 'class A:\n    """A."""\n    def f(self): return 1\n', "f has no docstring"),
    "print": ("shardfs/core/a.py", DOCUMENTED + "print(1)\n", "prints"),
    "bare except": ("shardfs/a.py", DOCUMENTED + "try:\n    x = 1\nexcept:\n    x = 2\n", "bare except"),
    "swallowed error": ("shardfs/a.py", DOCUMENTED + "try:\n    x = 1\nexcept Exception:\n    pass\n", "swallows every error"),
    "mark of unfinished work": ("shardfs/a.py", DOCUMENTED + "# TO" + "DO later\n", "TO" + "DO"),
    "tracker number": ("docs/a.md", "see issue " + "12\n", "means nothing"),
    "somebody's path": ("docs/a.md", "run /home" + "/me/x\n", "means nothing"),
    "broken link": ("docs/a.md", "[x](missing.md)\n", "broken link"),
    "link to a missing heading": ("docs/a.md", "[x](../LICENSE) [y](../README.md#no-such-heading)\n", "no heading"),
    "named document that does not exist": ("tools/a", "# see NOTHING" + ".md\n", "does not exist"),
    "named file that does not exist": ("docs/a.md", "`shardfs/" + "nothing.py`\n", "does not exist"),
}


@pytest.mark.parametrize(("path", "text", "expected"), PLANTED.values(), ids=PLANTED.keys())
def test_finds_what_is_planted(path: str, text: str, expected: str) -> None:
    found = violations(Source(path, text))
    assert len(found) == 1 and expected in found[0]


def test_lets_commands_print() -> None:
    assert violations(Source("shardfs/cli/a.py", DOCUMENTED + "print(1)\n")) == []
