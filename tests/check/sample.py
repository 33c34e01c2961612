"""What lies on the volume that tests of fsck damage: one of everything."""

from pathlib import Path

from shardfs.ids import ROOT_INO
from tests.check.volumes import PACK_THRESHOLD_BYTES, ROOT, SPLIT_ENTRIES, TestVolume

CONTENT = b"packed content. " * 40
LARGE = bytes(range(256)) * (PACK_THRESHOLD_BYTES // 128)


class Sample(TestVolume):
    """A volume with a few files, unmounted cleanly. The attributes are inode numbers."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        with self.mounted() as mounted:
            self.folder = mounted.make_directory(ROOT_INO, b"folder")
            self.inner = mounted.make_directory(self.folder, b"inner")
            self.leaf = mounted.make_file(self.inner, b"leaf", b"l" * 3000)
            self.packed = mounted.make_file(self.folder, b"packed", CONTENT)
            self.other = mounted.make_file(self.folder, b"other", CONTENT[::-1])
            self.empty = mounted.make_file(self.folder, b"empty")
            self.solo = mounted.make_file(ROOT_INO, b"solo", LARGE)
            self.linked = mounted.make_file(ROOT_INO, b"linked", CONTENT[:100])
            mounted.link(self.linked, self.folder, b"second name")
            mounted.call("setxattr", ROOT, self.packed, b"user.kind", b"sample", 0)
            self.wide = mounted.make_directory(ROOT_INO, b"wide")
            for number in range(3 * SPLIT_ENTRIES):
                mounted.make_file(self.wide, b"%d" % number, b"%d" % number)
            mounted.loop.advance(5)

    def assert_repairs(self, *expected: str, data: bool = False) -> None:
        """Assert that a check finds exactly this, that all of it is repaired, and that nothing is found afterwards."""
        found = self.check(data=data).found
        assert sorted(finding.kind for finding in found) == sorted(expected), [finding.message for finding in found]
        assert all(finding.message for finding in found)
        report = self.repair(data=data)
        assert set(found) <= set(report.repaired) and report.has_repaired_errors
        assert [finding.message for finding in report.left] == []
        assert self.check(data=True).found == ()
        assert self.repair().found == ()

    def assert_stays(self, *expected: str, data: bool = False) -> None:
        """Assert that a check finds exactly this, and that a repair leaves it as it is."""
        found = self.check(data=data).found
        assert sorted(finding.kind for finding in found) == sorted(expected), [finding.message for finding in found]
        assert all(finding.message for finding in found)
        report = self.repair(data=data)
        assert set(report.left) == set(found) and report.has_errors_left and not report.has_repaired_errors
        assert set(self.check(data=data).found) == set(found)
