"""Each row of the layers imports only rows above it, and each third-party library has one home.

The rows are read from the imports themselves, also those inside functions and under ``TYPE_CHECKING``.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "shardfs"

ROWS: tuple[tuple[str, ...], ...] = (
    ("ids", "errors", "limits", "config"),
    ("observe",),
    ("format",),
    ("storage",),
    ("journal",),
    ("meta",),
    ("data",),
    ("tier",),
    ("core",),
    ("fuse",),
    ("check",),
    ("runtime",),
    ("client",),
    ("export",),
    ("cli",),
)
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}

HOMES = {
    "lmdb": "meta/shard.py",
    "msgpack": "format/",
    "xxhash": "format/",
    "pyfuse3": "fuse/",
    "trio": "fuse/",
    "rich": "cli/",
    "typer": "cli/",
}

TESTING = "testing"
"""May import every row and every library; no row imports it."""

ERRNO_FREE = ("format", "journal", "meta", "data", "core")
"""Rows that speak of causes and never of errno; what lies below the transports and above the disk."""
OWN_IO = "meta/shard.py"
"""LMDB does its own I/O, so its home meets errno as `storage` does, and turns it into causes there."""


def imported_modules(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """Yield the dotted name of every module that this source imports; `package` resolves relative imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield module
            if module == "shardfs":
                yield from (f"shardfs.{alias.name}" for alias in node.names)


def row_violation(importer: str, imported: str) -> str | None:
    """Say what is wrong with row `importer` importing row `imported`, or None."""
    if importer not in RANK or imported not in RANK:
        return f"{importer if importer not in RANK else imported} is in no row of the layers"
    if RANK[imported] > RANK[importer]:
        return f"{importer} imports {imported}, which is a row below it"
    return None


def library_violation(path: str, library: str) -> str | None:
    """Say what is wrong with the module at `path` (relative to the package) importing `library`, or None."""
    home = HOMES.get(library)
    if home is None:
        return f"{library} is a third-party library without a home"
    return None if path.startswith(home) else f"{library} is imported outside {home}"


def import_violation(path: str, module: str) -> str | None:
    """Say what is wrong with one import of one module, or None."""
    row = path.split("/")[0].removesuffix(".py")
    top, _, rest = module.partition(".")
    if top == "shardfs":
        imported = rest.split(".")[0]
        if row == TESTING or not imported or row == "__init__":
            return None
        return row_violation(row, imported)
    if top == "errno" and row in ERRNO_FREE and path != OWN_IO:
        return f"{row} imports errno"
    if top in sys.stdlib_module_names or row == TESTING:
        return None
    return library_violation(path, top)


def violations(package: Path) -> list[str]:
    """Return a line for every import in this package that breaks a rule."""
    found = []
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package).as_posix()
        parents = ("shardfs", *Path(path).parent.parts)
        for module in imported_modules(file.read_text(), parents):
            if wrong := import_violation(path, module):
                found.append(f"shardfs/{path}: {wrong}")
    return found


def test_every_import_points_up() -> None:
    assert violations(PACKAGE) == []


def test_every_package_has_a_row() -> None:
    rows = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.name not in ("__init__.py", "__pycache__", "py.typed")}
    assert rows <= RANK.keys() | {TESTING}


def plant(tmp_path: Path, path: str, source: str) -> list[str]:
    """Return the violations of a package of this one module."""
    file = tmp_path / "shardfs" / path
    file.parent.mkdir(parents=True)
    file.write_text(source)
    return violations(tmp_path / "shardfs")


def test_finds_an_import_of_a_lower_row(tmp_path: Path) -> None:
    assert plant(tmp_path, "format/keys.py", "def f():\n    from shardfs.core.turn import Blocked\n") == [
        "shardfs/format/keys.py: format imports core, which is a row below it"
    ]


def test_finds_a_relative_import_of_a_lower_row(tmp_path: Path) -> None:
    assert plant(tmp_path, "format/keys.py", "from ..core import turn\n") == [
        "shardfs/format/keys.py: format imports core, which is a row below it"
    ]


def test_finds_an_import_of_the_testing_row(tmp_path: Path) -> None:
    assert plant(tmp_path, "cli/main.py", "from shardfs import testing\n") == [
        "shardfs/cli/main.py: testing is in no row of the layers"
    ]


def test_finds_a_library_away_from_home(tmp_path: Path) -> None:
    assert plant(tmp_path, "meta/view.py", "import lmdb\n") == ["shardfs/meta/view.py: lmdb is imported outside meta/shard.py"]


def test_finds_a_library_without_a_home(tmp_path: Path) -> None:
    assert plant(tmp_path, "cli/main.py", "import requests\n") == [
        "shardfs/cli/main.py: requests is a third-party library without a home"
    ]


def test_finds_errno_below_the_transports(tmp_path: Path) -> None:
    assert plant(tmp_path, "core/filesystem.py", "import errno\n") == ["shardfs/core/filesystem.py: core imports errno"]


def test_lets_an_import_of_a_higher_row_pass(tmp_path: Path) -> None:
    assert plant(tmp_path, "fuse/errnos.py", "import errno\nimport pyfuse3\nfrom shardfs.errors import NotFound\n") == []
