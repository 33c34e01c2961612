"""Group commit: makes everything up to one moment durable, for all who wait, with as few syncs as possible.

One commit runs at a time. It begins on the loop thread, where `through`, the newest record, and the files that those
records depend on are fixed in one moment; the syncs run on an I/O thread; the end is on the loop thread again. Who asks
in the meantime gets the next one.

The order on the disk is what makes a commit: first the data that records up to `through` point to, then the journal's
sync frame and its fdatasync. So no record is ever durable before its data.
"""

import logging
from dataclasses import dataclass, field

from shardfs.core.turn import Waiting
from shardfs.core.volume import Volume
from shardfs.errors import NotFound
from shardfs.format.values import SoloPlace
from shardfs.ids import Ino, Lsn
from shardfs.observe import points

log = logging.getLogger(__name__)


@dataclass
class _Run:
    """One commit under way."""

    through: Lsn
    solos: dict[Ino, SoloPlace]
    waiters: list[Waiting] = field(default_factory=list)


class GroupCommit:
    """Starts commits and tells who waits. Loop thread only, but for the syncs themselves."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._waiters: list[Waiting] = []
        self._solos: dict[Ino, SoloPlace] = {}
        self._running: _Run | None = None

    @property
    def is_idle(self) -> bool:
        """Whether everything is durable and no commit is under way."""
        journal = self._volume.journal
        return self._running is None and not self._solos and journal.durable_lsn == journal.last_lsn

    def include(self, ino: Ino, place: SoloPlace) -> None:
        """Let the next commit sync this solo file: a record in the journal depends on its data."""
        self._solos[ino] = place

    def exclude(self, ino: Ino) -> None:
        """Take back `include`: the file's content is gone."""
        self._solos.pop(ino, None)

    def request(self) -> Waiting:
        """Return what is answered when everything so far is durable, or with the error that prevents it."""
        if self.is_idle:
            return Waiting.done()
        waiting = Waiting()
        self._waiters.append(waiting)
        if self._running is None:
            self._start()
        return waiting

    def _start(self) -> None:
        run = self._running = _Run(self._volume.journal.last_lsn, self._solos, self._waiters)
        self._solos, self._waiters = {}, []
        self._volume.loop.run_blocking(lambda: self._sync(run), lambda _result, error: self._ended(run, error))

    def _sync(self, run: _Run) -> None:
        """Do the syncs of a commit (I/O thread)."""
        volume = self._volume
        volume.segments.sync()
        volume.solos.sync()
        for place in run.solos.values():
            self._sync_solo(place)
        points.reach("commit.after_data_sync")
        volume.journal.sync(run.through)
        points.reach("commit.after_journal_sync")

    def _sync_solo(self, place: SoloPlace) -> None:
        # A descriptor of its own: the file may be closed by its last user while the sync runs. An error of an
        # earlier write-back that nobody has seen yet is reported to a new descriptor too (errseq_sample in the kernel).
        try:
            file = self._volume.solos.open(place)
        except NotFound as missing:  # somebody removed it by hand: that file is lost, and the others' commits go on
            log.error("there is nothing left to sync: %s", missing)
            return
        try:
            self._volume.solos.sync_file(file)
        finally:
            file.close()

    def _ended(self, run: _Run, error: Exception | None) -> None:
        self._running = None
        self._volume.counters.add("commit.runs")
        if error is None:
            error = self._made_durable(run.through)
        else:
            log.error("commit through record %d failed: %s", run.through, error)
            self._solos = run.solos | self._solos
        for waiting in run.waiters:
            waiting.resolve(None, error)
        if self._waiters and self._running is None:
            self._start()

    def _made_durable(self, through: Lsn) -> Exception | None:
        """Draw the consequences; who waits gets an answer whatever happens here."""
        try:
            self._volume.numbers.durable(through)
            self._volume.free_durable(through)
        except Exception as bug:
            log.exception("a bug in shardfs after the commit through record %d", through)
            return bug
        return None
