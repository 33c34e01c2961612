"""The message that tells how a start went."""

import os

import pytest

from shardfs.errors import SetupError, UsageError
from shardfs.runtime.report import Report, receive_report, send_report


@pytest.mark.parametrize("report", [Report(), Report.failure(SetupError("no")), Report.failure(UsageError("wrong"))])
def test_it_goes_through_a_pipe(report: Report) -> None:
    reader, writer = os.pipe()
    send_report(writer, report)
    assert receive_report(reader) == report


def test_a_sender_that_died_has_told_nothing() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    assert receive_report(reader) is None


def test_nobody_may_be_left_to_read_it() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    send_report(writer, Report())


def test_errors_are_raised_as_what_they_were() -> None:
    Report().check()
    with pytest.raises(UsageError, match="wrong"):
        Report.failure(UsageError("wrong")).check()
    with pytest.raises(SetupError, match="no") as caught:
        Report.failure(OSError("no")).check()
    assert not isinstance(caught.value, UsageError)
