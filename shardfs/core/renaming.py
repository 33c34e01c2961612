"""Rename, in all its forms: within and across directories and shards, over existing targets, and exchange.

One record holds both ends, so a rename is atomic wherever they lie.
"""

import stat

from shardfs.core.directories import Splitter
from shardfs.core.interface import RENAME_EXCHANGE, RENAME_NOREPLACE, Caller
from shardfs.core.namespace import NameOperations
from shardfs.core.reclaim import Reclaimer
from shardfs.core.session import Session
from shardfs.core.transaction import Transaction
from shardfs.errors import Exists, InvalidArgument, IsDirectory, NotDirectory, NotEmpty, NotFound
from shardfs.format.values import Entry, Inode
from shardfs.ids import ROOT_INO, Ino


class RenameOperations:
    """Rename. Loop thread only."""

    def __init__(self, session: Session, names: NameOperations, reclaimer: Reclaimer, splitter: Splitter) -> None:
        self._session = session
        self._names = names
        self._reclaimer = reclaimer
        self._splitter = splitter

    def rename(self, caller: Caller, parent: Ino, name: bytes, new_parent: Ino, new_name: bytes, flags: int) -> None:
        """Move an entry, or exchange two; flags as of renameat2(2), but for whiteouts."""
        if flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE) or flags == RENAME_NOREPLACE | RENAME_EXCHANGE:
            raise InvalidArgument(f"rename flags {flags:#x} are not offered")
        source, target = self._ends(parent, name, new_parent, new_name)
        if target is not None and flags & RENAME_NOREPLACE:
            raise Exists(f"directory {new_parent} has an entry {new_name!r} already")
        if flags & RENAME_EXCHANGE:
            if target is None:
                raise NotFound(f"directory {new_parent} has no entry {new_name!r} to exchange")
            self._check_no_loop(source.ino, new_parent)
            self._check_no_loop(target.ino, parent)
            self._exchange(caller, (parent, name, source), (new_parent, new_name, target))
            return
        self._check_no_loop(source.ino, new_parent)
        if target is None or target.ino != source.ino:
            self._move(caller, (parent, name, source), (new_parent, new_name, target))

    def _ends(self, parent: Ino, name: bytes, new_parent: Ino, new_name: bytes) -> tuple[Entry, Entry | None]:
        """Return the entry to move and what is in its new place; both directories are looked at first, as in the kernel."""
        names = self._names
        old_directory, new_directory = names.directory(parent), names.living_directory(new_parent)
        return names.get(old_directory, name), names.find(new_directory, new_name)

    def _check_no_loop(self, moved: Ino, new_parent: Ino) -> None:
        """Refuse to move a directory below itself."""
        if not stat.S_ISDIR(self._session.inode(moved).mode):
            return
        ancestor = new_parent
        while ancestor != ROOT_INO:
            if ancestor == moved:
                raise InvalidArgument(f"directory {moved} cannot move below itself")
            ancestor = self._session.inode(ancestor).parent

    def _check_target(self, moved: Inode, target: Inode) -> None:
        if not stat.S_ISDIR(moved.mode):
            if stat.S_ISDIR(target.mode):
                raise IsDirectory(f"inode {target.ino} is a directory and cannot be replaced by a file")
        elif not stat.S_ISDIR(target.mode):
            raise NotDirectory(f"inode {target.ino} is not a directory and cannot be replaced by one")
        elif target.children:
            raise NotEmpty(f"directory {target.ino} has {target.children} entries and cannot be replaced")

    def _move(self, caller: Caller, source: tuple[Ino, bytes, Entry], target: tuple[Ino, bytes, Entry | None]) -> None:
        session = self._session
        (parent, name, entry), (new_parent, new_name, replaced) = source, target
        if replaced is not None:
            self._check_target(session.inode(entry.ino), session.inode(replaced.ino))
        session.admit(grows=replaced is None)
        self._prepare(entry.ino)
        now_ns = session.now_ns()
        tx = Transaction(session.volume, "rename", caller.request)
        old_directory, new_directory = tx.inode(parent), tx.inode(new_parent)
        moved = tx.inode(entry.ino)
        tx.remove_entry(old_directory, name, now_ns)
        if replaced is None:
            tx.add_entry(new_directory, new_name, entry, now_ns)
        else:
            tx.replace_entry(new_directory, new_name, entry, now_ns)
            self._drop_replaced(tx, new_directory, tx.inode(replaced.ino), now_ns)
        _settle_in(moved, old_directory, new_directory, new_name, now_ns)
        tx.commit()
        if replaced is not None:
            self._reclaimer.collect(replaced.ino)
        self._splitter.consider(new_directory)

    def _drop_replaced(self, tx: Transaction, directory: Inode, replaced: Inode, now_ns: int) -> None:
        if stat.S_ISDIR(replaced.mode):
            directory.nlink -= 1
            self._reclaimer.drop_link(tx, replaced, replaced.nlink, now_ns)
        else:
            self._reclaimer.drop_link(tx, replaced, 1, now_ns)

    def _exchange(self, caller: Caller, one: tuple[Ino, bytes, Entry], other: tuple[Ino, bytes, Entry]) -> None:
        session = self._session
        (parent, name, entry), (new_parent, new_name, new_entry) = one, other
        if entry.ino == new_entry.ino:
            return
        session.admit(grows=False)
        self._prepare(entry.ino)
        self._prepare(new_entry.ino)
        now_ns = session.now_ns()
        tx = Transaction(session.volume, "rename", caller.request)
        directory, new_directory = tx.inode(parent), tx.inode(new_parent)
        tx.replace_entry(directory, name, new_entry, now_ns)
        tx.replace_entry(new_directory, new_name, entry, now_ns)
        _settle_in(tx.inode(entry.ino), directory, new_directory, new_name, now_ns)
        _settle_in(tx.inode(new_entry.ino), new_directory, directory, name, now_ns)
        tx.commit()

    def _prepare(self, ino: Ino) -> None:
        inode = self._session.inode(ino)
        if stat.S_ISDIR(inode.mode):
            self._session.content.prepare_move(inode, with_all_below=True)
        elif stat.S_ISREG(inode.mode):
            self._session.content.prepare_move(inode, with_all_below=False)


def _settle_in(moved: Inode, old_directory: Inode, new_directory: Inode, name: bytes, now_ns: int) -> None:
    """Let a moved inode know its new place, and count subdirectories anew."""
    moved.parent, moved.name, moved.ctime_ns = new_directory.ino, name, now_ns
    if stat.S_ISDIR(moved.mode):
        old_directory.nlink -= 1
        new_directory.nlink += 1
