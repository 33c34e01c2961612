"""What a check with ``--data`` adds: everything that has a checksum is read, packed files and the shards' pages."""

from collections.abc import Iterable, Iterator

from shardfs.check.content_findings import DamagedPayload, RecordHeaderMismatch
from shardfs.check.contents import Contents, Packed
from shardfs.check.disks import SegmentFile, opened, read_record
from shardfs.check.findings import Finding
from shardfs.check.naming import Names
from shardfs.check.volume_findings import DamagedShard
from shardfs.format.records import RecordHeader
from shardfs.ids import SegmentId
from shardfs.meta.shard import Shard, verify_shard
from shardfs.storage.files import BackingFile, Storage


def check_pages(shards: Iterable[Shard]) -> Iterator[Finding]:
    """Yield the shards whose pages do not hang together, though their keys could be read."""
    for shard in shards:
        if problems := verify_shard(shard.path):
            yield DamagedShard(f"{shard.path}: {problems[0]}")


def check_payloads(storage: Storage, contents: Contents, names: Names) -> Iterator[Finding]:
    """Read every packed file, segment by segment, and yield those that are damaged."""
    for segment, file, rows in contents.packed():
        with opened(storage, file.path) as content:
            for row in rows:
                if finding := _check_row(content, segment, file, row, names):
                    yield finding


def _check_row(content: BackingFile, segment: SegmentId, file: SegmentFile, row: Packed, names: Names) -> Finding | None:
    header, payload = read_record(content, row.place(segment))
    if payload is not None and header is not None and _belongs(header, row):
        return None
    where = names.inode(row.ino) if row.ino else f"record {row.record}"
    if payload is None:
        return DamagedPayload(where, file.path, row.offset)
    return RecordHeaderMismatch(where, file.path, row.offset)


def _belongs(header: RecordHeader, row: Packed) -> bool:
    """Say whether a record's header is that of this record; what it says of the file may be older."""
    described = (header.record, header.length_bytes, header.payload_checksum, len(header.name))
    return described == (row.record, row.length_bytes, row.checksum, row.name_bytes)
