"""The file system: one method per operation, gathered from the modules that implement them.

All methods run on the loop thread. Each answers at once, or returns a `Waiting`, or raises `Blocked` before it has
changed anything, or raises a `ShardfsError`. See `shardfs.core.turn`.
"""

import logging
import time
from collections.abc import Iterable

from shardfs.core.attributes import AttributeOperations
from shardfs.core.directories import DirectoryOperations, Splitter
from shardfs.core.files import FileOperations
from shardfs.core.interface import Statfs
from shardfs.core.namespace import NameOperations
from shardfs.core.reclaim import Reclaimer
from shardfs.core.renaming import RenameOperations
from shardfs.core.session import Session
from shardfs.core.turn import Waiting
from shardfs.core.volume import Volume
from shardfs.errors import Overloaded, ShardfsError
from shardfs.ids import Ino
from shardfs.limits import ADMISSION_WAIT_S, COMMIT_INTERVAL_S, OVERLAY_MAX_KEYS

log = logging.getLogger(__name__)


class FileSystem:
    """A mounted volume. Loop thread only."""

    def __init__(self, volume: Volume, *, with_acl: bool = False, overlay_max_keys: int = OVERLAY_MAX_KEYS) -> None:
        session = self._session = Session(volume, overlay_max_keys)
        self._volume = volume
        self._refilling = False
        self.reclaimer = Reclaimer(session)
        splitter = Splitter(session)
        attributes = AttributeOperations(session, with_acl=with_acl)
        names = NameOperations(session, attributes, self.reclaimer, splitter)
        files = FileOperations(session, names, attributes, self.reclaimer)
        directories = DirectoryOperations(session)

        self.lookup = names.lookup
        self.mknod = names.mknod
        self.mkdir = names.mkdir
        self.symlink = names.symlink
        self.readlink = names.readlink
        self.link = names.link
        self.unlink = names.unlink
        self.rmdir = names.rmdir
        self.rename = RenameOperations(session, names, self.reclaimer, splitter).rename
        self.getattr = attributes.getattr
        self.setattr = attributes.setattr
        self.getxattr = attributes.getxattr
        self.setxattr = attributes.setxattr
        self.listxattr = attributes.listxattr
        self.removexattr = attributes.removexattr
        self.create = files.create
        self.open = files.open
        self.read = files.read
        self.write = files.write
        self.fsync = files.fsync
        self.release = files.release
        self.opendir = directories.opendir
        self.readdir = directories.readdir
        self.fsyncdir = files.fsyncdir
        self.releasedir = files.release

    @property
    def session(self) -> Session:
        """The state that the operations share."""
        return self._session

    def forget(self, forgotten: Iterable[tuple[Ino, int]]) -> None:
        """Take back look-ups that the kernel forgets, and free inodes that nothing holds any more."""
        for ino, count in forgotten:
            if self._volume.inodes.forget(ino, count):
                try:
                    self.reclaimer.collect(ino)
                except ShardfsError as error:  # nobody waits for an answer; the next mount frees it
                    log.error("inode %d is unlinked but not yet freed: %s", ino, error)

    def note_lookups(self, inos: Iterable[Ino]) -> None:
        """Count one look-up for each inode whose row went to the kernel with its attributes."""
        for ino in inos:
            self._volume.inodes.note_lookup(ino)

    def statfs(self) -> Statfs:
        """Return how large the volume is and what is free."""
        return self._session.space.statfs(self._volume.inode_count)

    def sync(self) -> Waiting:
        """Make every operation so far durable, with all content."""
        self._session.content.seal_all()
        self._session.content.solos.sync_all_with_next_commit()
        return self._session.commits.request()

    def start(self) -> None:
        """Begin the work that recurs."""
        self._tick()

    def _tick(self) -> None:
        """Once a second: commit what is new, hand what is durable to the workers, keep the pools filled."""
        if self._session.is_closed:
            return
        volume = self._volume
        try:
            self._session.content.packer.seal_idle(self._session.now_ns())
        except ShardfsError as error:  # it is tried again in a second, and the files are still in their slots
            log.error("idle files could not be sealed: %s", error)
        self._session.commits.request().on_done(self._deliver)
        if not self._refilling:  # a saturated disk must not let refills take all I/O threads
            self._refilling = True
            volume.in_background(self._refill, "spare files could not be made")
        volume.loop.call_later(COMMIT_INTERVAL_S, self._tick)

    def _deliver(self, _result: object, error: Exception | None) -> None:
        if error is None:
            self._volume.delivery.pump(self._volume.journal.durable_lsn)

    def _refill(self) -> None:
        volume = self._volume
        try:
            volume.journal.prepare()
            volume.segments.refill()
            volume.solos.refill()
        finally:
            self._refilling = False

    def shutdown(self) -> None:
        """Make everything durable, bring all shards up to date, and close the volume. Raises if that fails."""
        session, volume = self._session, self._volume
        for ino in session.content.solos.inos():
            session.content.solos.settle(ino)
        session.is_closed = True
        deadline_s = time.monotonic() + ADMISSION_WAIT_S
        self._commit_all()
        while len(volume.overlay) or volume.background or not session.commits.is_idle:
            volume.loop.wait(0.05)
            self._commit_all()
            if time.monotonic() > deadline_s:
                raise Overloaded(f"the shards of {volume.path} did not take the last records; the next mount replays them")
        volume.segments.close()
        self._close(clean=True)

    def _commit_all(self) -> None:
        self.wait(self.sync(), "the last commit")
        self._volume.delivery.pump(self._volume.journal.durable_lsn)

    def wait(self, waiting: Waiting, what: str) -> None:
        """Run the loop until an answer is there; raises its error, or `Overloaded` if it does not come in time."""
        errors: list[Exception | None] = []
        waiting.on_done(lambda _result, error: errors.append(error))
        deadline_s = time.monotonic() + ADMISSION_WAIT_S
        while not errors:
            self._volume.loop.wait(0.05)
            if time.monotonic() > deadline_s:
                raise Overloaded(f"{what} on {self._volume.path} took longer than {ADMISSION_WAIT_S:.0f} s; the disk does not answer")
        if errors[0] is not None:
            raise errors[0]

    def abandon(self) -> None:
        """Let go of all files without bringing anything up to date; the next opening recovers, as after a crash."""
        self._close(clean=False)

    def _close(self, *, clean: bool) -> None:
        session, volume = self._session, self._volume
        session.is_closed = True
        volume.link.close()
        volume.journal.close()
        for ino in session.content.solos.inos():
            session.content.solos.close(ino)
        if clean and not volume.slots.dirty_count:
            volume.slots.remove()
        else:
            volume.slots.close()
        for shard in volume.view.shards:
            shard.close()

    def status(self) -> dict[str, object]:
        """Return figures of the running mount, for people and tools."""
        volume, session = self._volume, self._session
        return {
            "volume_id": volume.superblock.volume_id.hex(),
            "shards": volume.shards,
            "journal": {
                "last_lsn": volume.journal.last_lsn,
                "durable_lsn": volume.journal.durable_lsn,
                "segments": volume.journal.segments,
                "size_bytes": volume.journal.size_bytes,
            },
            "overlay": {"changes": len(volume.overlay), "limit": session.overlay_max_keys},
            "failing_shards": {str(shard): str(error) for shard, error in volume.delivery.failures.items()},
            "slots": {"dirty": volume.slots.dirty_count, "dirty_bytes": volume.slots.dirty_bytes},
            "inodes_cached": len(volume.inodes),
            "handles": len(session.handles),
            "counters": volume.counters.snapshot(),
        }
