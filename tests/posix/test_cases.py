"""Every POSIX case on a plain directory and on the mount."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.posix.cases import CASES
from tests.posix.table import Case

KNOWN_DEVIATIONS = {
    "acls.the_umask_yields_to_a_default_list": "the pyfuse3 transport cannot ask the kernel to leave the umask to the file system",
}
"""What the mount does otherwise, and why; `docs/SEMANTICS.md` says so to users."""


def _rows(cases: list[Case], *, deviating: bool) -> list[object]:
    marks = {name: [pytest.mark.xfail(reason=reason)] for name, reason in KNOWN_DEVIATIONS.items() if deviating}
    return [pytest.param(case, id=case.name, marks=marks.get(case.name, [])) for case in cases]


@pytest.fixture(autouse=True)
def tidy_process() -> Iterator[None]:
    """Modes in the table are as written, and a case closes what it opens: else the mount stays busy."""
    old = os.umask(0o022)
    handles = os.listdir("/proc/self/fd")
    yield
    os.umask(old)
    assert os.listdir("/proc/self/fd") == handles, "a case left handles open"


@pytest.mark.parametrize("case", _rows(CASES, deviating=False))
def test_plain_directory(case: Case, open_tmp: Path) -> None:
    """The table is right: a local file system passes it."""
    case.run(open_tmp)


@pytest.mark.parametrize("case", _rows([case for case in CASES if not case.acl], deviating=True))
def test_mount(case: Case, shared_dir: Path) -> None:
    """The mount behaves as the table says."""
    case.run(shared_dir)


@pytest.mark.parametrize("case", _rows([case for case in CASES if case.acl], deviating=True))
def test_mount_with_acl(case: Case, acl_dir: Path) -> None:
    """A mount with `-o acl` keeps POSIX access control lists."""
    case.run(acl_dir)


@pytest.mark.long
@pytest.mark.parametrize("case", _rows([case for case in CASES if not case.acl], deviating=True))
def test_plain_cases_with_acl(case: Case, acl_dir: Path) -> None:
    """With `-o acl` everything else stays as it is."""
    case.run(acl_dir)
