"""The rule that no test is skipped: what cannot run here fails and says why, so that a green run means what it says.

An expected failure (`xfail`, strict) is not a skip. A skip while collecting (`importorskip`) counts as one.
"""

from collections.abc import Generator

import pytest

ADVICE = "skipped, which this project counts as a failure: install what is missing, or mark the test `long`. "


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skip into that of a failure; leave any other as it is."""
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = ADVICE + str(report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse skips of tests."""
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse skips of whole modules."""
    report = yield
    refuse_skip(report)
    return report
