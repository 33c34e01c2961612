"""What the operations of one mount share, and the conditions under which a change may begin."""

import logging
from dataclasses import dataclass, field

from shardfs.core.commit import GroupCommit
from shardfs.core.content import Content
from shardfs.core.handles import HandleTable
from shardfs.core.numbers import SEQUENCE_KEY, SEQUENCE_SHARD, encode_bound
from shardfs.core.space import SpaceGauge
from shardfs.core.transaction import Transaction
from shardfs.core.turn import BlockedOnWaiting, Waiting
from shardfs.core.volume import Volume
from shardfs.errors import Overloaded
from shardfs.format.values import Inode
from shardfs.ids import Ino, Lsn
from shardfs.limits import ADMISSION_WAIT_S, OVERLAY_MAX_BYTES, OVERLAY_MAX_KEYS

log = logging.getLogger(__name__)

MIN_NUMBERS_LEFT = 1024
"""Numbers that must be left for an operation to begin, besides one for each dirty slot: it takes fewer."""


@dataclass
class Session:
    """The state of a mount above the volume. Loop thread only."""

    volume: Volume
    overlay_max_keys: int = OVERLAY_MAX_KEYS
    commits: GroupCommit = field(init=False)
    content: Content = field(init=False)
    handles: HandleTable = field(init=False)
    space: SpaceGauge = field(init=False)
    is_closed: bool = False
    _drained: list[Waiting] = field(default_factory=list)

    def __post_init__(self) -> None:
        volume = self.volume
        self.commits = GroupCommit(volume)
        self.content = Content(volume, self.commits)
        self.handles = HandleTable()
        self.space = SpaceGauge(volume)
        volume.delivery.on_applied(self._applied)

    def now_ns(self) -> int:
        """Return the time to stamp on a change."""
        return self.volume.now_ns()

    def inode(self, ino: Ino) -> Inode:
        """Return an inode, which the caller must not change; raises `NotFound`."""
        return self.volume.inodes.get(ino)

    @property
    def has_room(self) -> bool:
        """Whether background work may add to the overlay."""
        overlay = self.volume.overlay
        return len(overlay) <= self.overlay_max_keys and overlay.held_bytes <= OVERLAY_MAX_BYTES

    def admit(self, *, grows: bool) -> None:
        """Let a change of the metadata begin, or raise: `Blocked` while a queue is full, `NoSpace` if it needs room.

        `grows` is False for what frees space, which must go on when the disk is full.
        """
        volume = self.volume
        if not self.has_room:
            raise BlockedOnWaiting(self._when_drained())
        needed = self.numbers_needed
        if volume.numbers.wants_more(needed):
            self.raise_number_bound()
        if volume.numbers.left < needed:
            raise BlockedOnWaiting(self.commits.request())
        if grows:
            self.space.require()

    @property
    def numbers_needed(self) -> int:
        """How many numbers must be left: sealing takes one for each slot, at a close or a sync that waits for nothing."""
        return MIN_NUMBERS_LEFT + self.volume.slots.dirty_count

    def raise_number_bound(self) -> None:
        """Journal a higher bound of the numbers; it counts from the next commit."""
        volume = self.volume
        bound = volume.numbers.next_bound()
        tx = Transaction(volume, "reserve")
        tx.change((SEQUENCE_SHARD, SEQUENCE_KEY, encode_bound(bound)))
        volume.numbers.raised(bound, tx.commit())

    def _when_drained(self) -> Waiting:
        waiting = Waiting()
        self._drained.append(waiting)
        self.volume.counters.add("overlay.full")
        self.volume.loop.call_later(ADMISSION_WAIT_S, lambda: self._give_up(waiting))
        self.commits.request().on_done(self._deliver)
        return waiting

    def _give_up(self, waiting: Waiting) -> None:
        """Fail an operation that has waited long enough for room in the overlay."""
        if waiting.is_done:
            return
        self._drained.remove(waiting)
        error = Overloaded(f"the shards of {self.volume.path} have taken no records for {ADMISSION_WAIT_S:.0f} s; see the workers' logs")
        log.error("an operation is given up: %s", error)
        waiting.resolve(None, error)

    def _deliver(self, _result: object, error: Exception | None) -> None:
        if error is not None:
            self._release_drained(error)
        else:
            self.volume.delivery.pump(self.volume.journal.durable_lsn)

    def _applied(self) -> None:
        """Workers have applied something: recycle the journal, and let operations begin again that waited for room."""
        volume = self.volume
        durable = volume.journal.durable_lsn
        oldest = min(volume.overlay.oldest_pending_lsn() or durable + 1, durable + 1)
        volume.in_background(lambda: volume.journal.recycle(Lsn(oldest)), "the journal could not be recycled and grows")
        if self.has_room:
            self._release_drained(None)
        elif self._drained:
            self.commits.request().on_done(self._deliver)

    def _release_drained(self, error: Exception | None) -> None:
        drained, self._drained = self._drained, []
        for waiting in drained:
            waiting.resolve(None, error)

