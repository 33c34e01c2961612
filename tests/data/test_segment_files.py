"""Files of segments: who pins one keeps it open, of the others only so many are."""

from pathlib import Path

import pytest

from shardfs.data import segment_files
from shardfs.data.segment_files import Segment, SegmentFiles, parse_segment_name, segment_name
from shardfs.errors import NotFound
from shardfs.ids import DiskId, SegmentId

from .tight import TightStorage


@pytest.fixture
def segments(tmp_path: Path) -> list[Segment]:
    found = []
    for number in range(6):
        path = tmp_path / segment_name(SegmentId(number))
        path.write_bytes(bytes([number]))
        found.append(Segment(SegmentId(number), DiskId(0), str(path), 1, 1))
    return found


def test_names_come_back_and_others_are_refused() -> None:
    assert segment_name(SegmentId(0x1F)) == "seg-000000000000001f"
    assert parse_segment_name(segment_name(SegmentId(0x1F))) == 0x1F
    assert [parse_segment_name(name) for name in ("seg-1f", "seg-000000000000001F", "seg-000000000000001f.bak", "notes")] == [None] * 4


def test_a_pinned_file_stays_open_whatever_else_is_opened(
    storage: TightStorage, segments: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files, "IDLE_FILES", 2)
    files = SegmentFiles(storage)
    with files.pinned(segments[0]):
        pass
    file = files.pin(segments[0])
    for segment in segments[1:]:
        with files.pinned(segment):
            pass
    assert file.pread(1, 0) == b"\0" and files.pin_open(segments[0]) is file
    assert [segment.segment for segment in segments if segment.file] == [0, 4, 5]
    files.close(segments)
    assert not any(segment.file for segment in segments)


def test_the_one_used_longest_ago_is_closed_first(storage: TightStorage, segments: list[Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "IDLE_FILES", 2)
    files = SegmentFiles(storage)
    for number in (0, 1, 0, 2):
        with files.pinned(segments[number]):
            pass
    assert [segment.segment for segment in segments if segment.file] == [0, 2]
    assert files.pin_open(segments[1]) is None
    files.close(segments)


def test_a_pinned_file_is_not_detached(storage: TightStorage, segments: list[Segment]) -> None:
    files = SegmentFiles(storage)
    with files.pinned(segments[0]) as file:
        assert not files.detach(segments[0])
        assert file.pread(1, 0) == b"\0"
    assert files.detach(segments[0]) and segments[0].file is None
    assert files.detach(segments[1]), "one that is not open is as good as closed"
    storage.remove(segments[0].path)
    with pytest.raises(NotFound):
        files.pin(segments[0])
