"""Reading the journal back when a server starts: which operations count, and is anything damaged?

Segments form a *chain*: each header names the one before it and the LSN with which it goes on. A chain ends at its
oldest side where the predecessor was recycled. What counts depends on what happened since the journal was written:

- In the same boot only processes died, and every byte that was written is there: all operations of the chain count.
  The last frame may be torn, nothing else.
- In another boot the page cache was lost: what counts ends at the newest intact sync frame's LSN that the chain
  reaches without a gap. Whatever was written behind it is dropped, as it was never promised.

A power loss in the middle of a sync may keep the sync frame and lose frames that it covers. So damage is told from a
torn sync by the LSN that each sync frame names as durable *before* it: a chain that does not reach it is corrupt. In
the same boot it must reach all that any sync frame and any successor names.

After a power loss the newest segments may lack their header or their name, or the ones in between may. A chain
without a sync frame that counts is one that no finished sync reached; it is dropped for the next older one.

The LSNs of dropped operations are used again. That is safe: a shard gets only durable operations, and the header of
the segment that the next server begins says which LSN it goes on with, so that no later replay sees the dropped ones.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from shardfs.errors import CorruptJournal
from shardfs.format.frames import (
    HEADER_BLOCK_BYTES,
    FrameKind,
    JournalHeader,
    Operation,
    SyncMark,
    decode_frames,
    decode_journal_header,
    decode_operation,
    find_syncs,
)
from shardfs.ids import Epoch, Lsn
from shardfs.journal.segments import segment_sequence
from shardfs.storage.files import Storage

_NO_LIMIT: Final = 1 << 64


class ReplayedSegment(NamedTuple):
    """A segment that was read: its intact operations end at `end_lsn`; `syncs` are all its intact sync frames."""

    path: str
    header: JournalHeader
    end_lsn: Lsn
    syncs: tuple[SyncMark, ...]

    @property
    def start_lsn(self) -> int:
        """The last LSN of the chain before this segment."""
        return self.header.first_lsn - 1


@dataclass(frozen=True)
class Replayed:
    """What the journal holds.

    Operations `first_lsn` to `last_lsn` are there and count. Those up to `synced_lsn` survive a power loss together
    with their data. `chain` are the segments they are in, oldest first, each with the end of what counts of it; `stale`
    the paths of all other segments.
    `last_sequence` and `last_epoch` are the highest that were ever used. `torn` says what was dropped, if anything.
    """

    storage: Storage
    first_lsn: Lsn
    last_lsn: Lsn
    synced_lsn: Lsn
    last_sequence: int
    last_epoch: Epoch
    same_boot: bool
    torn: str | None
    chain: tuple[ReplayedSegment, ...]
    stale: tuple[str, ...]

    def operations(self, after: Lsn = Lsn(0)) -> Iterator[tuple[Lsn, Operation]]:
        """Yield the operations with an LSN above `after` in order. To be used up before the first recycling."""
        next_lsn = max(self.first_lsn, after + 1)
        for segment in self.chain:
            if next_lsn > segment.end_lsn:
                continue
            for frame in decode_frames(_read(self.storage, segment.path), segment.header):
                if frame.kind is FrameKind.OPERATION and next_lsn <= frame.lsn <= segment.end_lsn:
                    yield frame.lsn, decode_operation(frame.payload)
                    next_lsn = frame.lsn + 1
        assert next_lsn > self.last_lsn, "a journal that was replayed does not change"

    def check_against(self, newest_applied: Lsn) -> None:
        """Raise CorruptJournal if a shard has applied an operation that is not there: it was durable once."""
        if newest_applied > self.last_lsn:
            raise CorruptJournal(
                f"the journal ends with operation {self.last_lsn}, but a shard has applied up to {newest_applied}:"
                " the end of the journal is lost; run fsck on the volume"
            )


class _Found(NamedTuple):
    """The segments of a directory by sequence; of the damaged ones only the path is known."""

    intact: dict[int, ReplayedSegment]
    damaged: dict[int, str]


class _Extent(NamedTuple):
    """How far a chain goes.

    `reached` is the end of what is there without a gap, `synced` the newest sync frame's LSN within that (None: there
    is none), `proven` what must be there in any case, `newest` the highest LSN of which any trace is there.
    """

    reached: int
    synced: int | None
    proven: int
    newest: int


def replay(storage: Storage, directory: str, volume_id: bytes) -> Replayed:
    """Find what counts in the journal of this volume.

    Raises CorruptJournal if something is damaged that must be there, or if there is no journal of this volume.
    """
    found = _load(storage, directory, volume_id)
    if not found.intact:
        raise CorruptJournal(f"{directory} holds no intact journal segment of this volume; is it the right directory?")
    newest = found.intact[max(found.intact)].header
    same_boot = newest.boot_id == storage.boot_id()
    chain, extent = _choose(found, directory, same_boot)
    assert extent.synced is not None and extent.synced <= extent.reached
    last_lsn = extent.reached if same_boot else extent.synced
    kept = tuple(
        segment._replace(end_lsn=Lsn(end))
        for segment, end in zip(chain, _ends(chain, last_lsn), strict=True)
        if segment.header.first_lsn <= last_lsn
    )
    paths = [segment.path for segment in found.intact.values()] + list(found.damaged.values())
    return Replayed(
        storage=storage,
        first_lsn=chain[0].header.first_lsn,
        last_lsn=Lsn(last_lsn),
        synced_lsn=Lsn(extent.synced),
        last_sequence=max(found.intact.keys() | found.damaged.keys()),
        last_epoch=newest.epoch,
        same_boot=same_boot,
        torn=_torn(last_lsn, extent.newest),
        chain=kept,
        stale=tuple(sorted(set(paths) - {segment.path for segment in kept})),
    )


def _torn(last_lsn: int, newest: int) -> str | None:
    if newest <= last_lsn:
        return None
    return f"operations {last_lsn + 1} to {newest} were never synced; the power loss took them"


def _load(storage: Storage, directory: str, volume_id: bytes) -> _Found:
    """Read every segment of the directory."""
    found = _Found({}, {})
    for name in storage.list_dir(directory):
        sequence = segment_sequence(name)
        if sequence is None:
            continue
        path = os.path.join(directory, name)
        content = _read(storage, path)
        try:
            header = decode_journal_header(content[:HEADER_BLOCK_BYTES])
        except CorruptJournal:
            found.damaged[sequence] = path
            continue
        if header.volume_id == volume_id and header.sequence == sequence:
            found.intact[sequence] = _scan(path, header, content)
        else:
            found.damaged[sequence] = path
    return found


def _read(storage: Storage, path: str) -> bytes:
    file = storage.open(path)
    try:
        return file.pread(file.stat().size, 0)
    finally:
        file.close()


def _scan(path: str, header: JournalHeader, content: bytes) -> ReplayedSegment:
    operations = sum(frame.kind is FrameKind.OPERATION for frame in decode_frames(content, header))
    return ReplayedSegment(path, header, Lsn(header.first_lsn - 1 + operations), tuple(find_syncs(content, header)))


def _choose(found: _Found, directory: str, same_boot: bool) -> tuple[list[ReplayedSegment], _Extent]:
    """Return the newest chain that a sync reached, and its extent, with what is known from newer ones."""
    proven = newest = 0
    for chain in _chains(found):
        extent = _extent(chain, same_boot)
        proven, newest = max(proven, extent.proven), max(newest, extent.newest)
        if extent.synced is not None or same_boot:
            break
    damaged = found.damaged.get(chain[0].header.previous_sequence)
    if damaged is not None:
        raise CorruptJournal(f"the header of journal segment {damaged} is damaged; run fsck on the volume")
    if extent.synced is None:
        raise CorruptJournal(f"no intact sync frame is left of the journal in {directory}; run fsck on the volume")
    if extent.reached < proven:
        raise CorruptJournal(
            f"the journal in {directory} is damaged at operation {extent.reached + 1}, but operations up to {proven}"
            " were written completely; run fsck on the volume"
        )
    return chain, extent._replace(newest=newest)


def _chains(found: _Found) -> Iterator[list[ReplayedSegment]]:
    """Yield the chains, the newest first, each with its oldest segment first."""
    below = max(found.intact) + 1
    while tops := [sequence for sequence in found.intact if sequence < below]:
        chain = [found.intact[max(tops)]]
        while (previous := found.intact.get(chain[0].header.previous_sequence)) is not None:
            chain.insert(0, previous)
        yield chain
        below = chain[0].header.previous_sequence


def _ends(chain: Sequence[ReplayedSegment], last_lsn: int) -> list[int]:
    """Return for each segment the last LSN of it that counts: its successor begins behind it."""
    return [min(segment.start_lsn, last_lsn) for segment in chain[1:]] + [last_lsn]


def _extent(chain: Sequence[ReplayedSegment], same_boot: bool) -> _Extent:
    start = reached = chain[0].start_lsn
    ends = _ends(chain, chain[-1].end_lsn)
    for segment, end in zip(chain, ends, strict=True):
        if segment.start_lsn != reached:
            break
        reached = min(segment.end_lsn, end)
    limits = [*ends[:-1], _NO_LIMIT]
    syncs = [sync for segment, end in zip(chain, limits, strict=True) for sync in segment.syncs if sync.through <= end]
    named = [sync.through for sync in syncs]
    synced = max((through for through in named if start <= through <= reached), default=None)
    must = [*named, *(segment.start_lsn for segment in chain)] if same_boot else [sync.durable for sync in syncs]
    return _Extent(reached, synced, max(must, default=0), max([reached, *ends, *named]))
