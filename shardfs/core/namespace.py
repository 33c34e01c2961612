"""Operations on names: look-up, creation and removal, links.

Invariants:

- An operation changes its directory, its inode and the directory's inode in one record.
- `nlink` of a directory is 2 + its subdirectories; of anything else the number of its entries.
- `children` of a directory is the number of its entries, so rmdir needs no scan.
"""

import stat

from shardfs.core.attributes import AttributeOperations
from shardfs.core.directories import Splitter
from shardfs.core.interface import Attributes, Caller, kind_of
from shardfs.core.reclaim import Reclaimer
from shardfs.core.session import Session
from shardfs.core.transaction import Transaction
from shardfs.errors import Exists, InvalidArgument, IsDirectory, NameTooLong, NotDirectory, NotEmpty, NotFound, NotPermitted, TooManyLinks
from shardfs.format import keys
from shardfs.format.values import Entry, Inode, decode_entry
from shardfs.ids import Ino
from shardfs.limits import LINK_MAX, NAME_MAX_BYTES, SYMLINK_MAX_BYTES


class NameOperations:
    """The operations on names, but for rename. Loop thread only."""

    def __init__(self, session: Session, attributes: AttributeOperations, reclaimer: Reclaimer, splitter: Splitter) -> None:
        self._session = session
        self._attributes = attributes
        self._reclaimer = reclaimer
        self._splitter = splitter

    def directory(self, ino: Ino) -> Inode:
        """Return the inode of a directory; raises `NotDirectory`, or `NotFound` if it was removed."""
        inode = self._session.inode(ino)
        if not stat.S_ISDIR(inode.mode):
            raise NotDirectory(f"inode {ino} is not a directory")
        return inode

    def living_directory(self, ino: Ino) -> Inode:
        """Return the inode of a directory that can take new names; raises `NotFound` if it was removed."""
        inode = self.directory(ino)
        if inode.nlink == 0:
            raise NotFound(f"directory {ino} was removed and takes no new names")
        return inode

    def find(self, parent: Inode, name: bytes) -> Entry | None:
        """Return the entry with this name, or None."""
        if len(name) > NAME_MAX_BYTES:
            raise NameTooLong(f"a name of {len(name)} bytes is too long, {NAME_MAX_BYTES} are allowed")
        h = keys.name_hash(parent.ino, name)
        shard = keys.entry_shard(parent.ino, parent.split_below_h, h, self._session.volume.shards)
        value = self._session.volume.view.get(shard, keys.entry_key(parent.ino, h, name))
        return None if value is None else decode_entry(value)

    def get(self, parent: Inode, name: bytes) -> Entry:
        """Return the entry with this name; raises `NotFound`."""
        entry = self.find(parent, name)
        if entry is None:
            raise NotFound(f"directory {parent.ino} has no entry {name!r}")
        return entry

    def lookup(self, _caller: Caller, parent: Ino, name: bytes) -> Attributes | None:
        """Return the attributes of an entry's inode, None if there is no such entry."""
        entry = self.find(self.directory(parent), name)
        return None if entry is None else self._known(self._session.inode(entry.ino))

    def _known(self, inode: Inode) -> Attributes:
        self._session.volume.inodes.note_lookup(inode.ino)
        return self._session.content.attributes(inode)

    def mknod(self, caller: Caller, parent: Ino, name: bytes, mode: int, rdev: int) -> Attributes:
        """Create a regular file, fifo, socket or device node."""
        if stat.S_IFMT(mode) == 0:
            mode |= stat.S_IFREG
        if stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
            raise InvalidArgument("mknod makes no directories or symlinks")
        return self._known(self.add(caller, parent, name, mode, "mknod", rdev=rdev))

    def mkdir(self, caller: Caller, parent: Ino, name: bytes, mode: int) -> Attributes:
        """Create a directory."""
        return self._known(self.add(caller, parent, name, stat.S_IFDIR | stat.S_IMODE(mode), "mkdir"))

    def symlink(self, caller: Caller, parent: Ino, name: bytes, target: bytes) -> Attributes:
        """Create a symlink."""
        if len(target) > SYMLINK_MAX_BYTES:
            raise NameTooLong(f"a symlink target of {len(target)} bytes is too long, {SYMLINK_MAX_BYTES} are allowed")
        return self._known(self.add(caller, parent, name, stat.S_IFLNK | 0o777, "symlink", target=target))

    def readlink(self, _caller: Caller, ino: Ino) -> bytes:
        """Return a symlink's target."""
        inode = self._session.inode(ino)
        if not stat.S_ISLNK(inode.mode):
            raise InvalidArgument(f"inode {ino} is not a symlink")
        return inode.target

    def add(self, caller: Caller, parent_ino: Ino, name: bytes, mode: int, kind: str, *, rdev: int = 0, target: bytes = b"") -> Inode:
        """Create an inode and the entry that names it; return the inode."""
        session = self._session
        parent = self.living_directory(parent_ino)
        if self.find(parent, name) is not None:
            raise Exists(f"directory {parent_ino} has an entry {name!r} already")
        session.admit(grows=True)
        now_ns = session.now_ns()
        tx = Transaction(session.volume, kind, caller.request)
        directory = tx.inode(parent_ino)
        inode = self._new_inode(caller, directory, name, mode, now_ns)
        inode.rdev, inode.target, inode.size = rdev, target, len(target)
        self._attributes.inherit_acl(tx, directory, inode)
        tx.add_inode(inode)
        tx.add_entry(directory, name, Entry(inode.ino, kind_of(mode)), now_ns)
        directory.nlink += stat.S_ISDIR(mode)
        tx.commit()
        self._splitter.consider(directory)
        return inode

    def _new_inode(self, caller: Caller, directory: Inode, name: bytes, mode: int, now_ns: int) -> Inode:
        volume = self._session.volume
        h = keys.name_hash(directory.ino, name)
        shard = keys.entry_shard(directory.ino, directory.split_below_h, h, volume.shards)
        gid = caller.gid
        if directory.mode & stat.S_ISGID:
            gid = directory.gid
            mode |= stat.S_ISGID if stat.S_ISDIR(mode) else 0
        inode = Inode(volume.numbers.new_ino(shard), mode, caller.uid, gid, parent=directory.ino, name=name)
        inode.nlink = 2 if stat.S_ISDIR(mode) else 1
        inode.atime_ns = inode.mtime_ns = inode.ctime_ns = now_ns
        return inode

    def link(self, caller: Caller, ino: Ino, new_parent: Ino, new_name: bytes) -> Attributes:
        """Give an inode that is no directory one more name."""
        session = self._session
        inode = session.inode(ino)
        if stat.S_ISDIR(inode.mode):
            raise NotPermitted(f"inode {ino} is a directory and takes no further name")
        if self.find(self.living_directory(new_parent), new_name) is not None:
            raise Exists(f"directory {new_parent} has an entry {new_name!r} already")
        if inode.nlink == 0:
            raise NotFound(f"inode {ino} was unlinked")
        if inode.nlink >= LINK_MAX:
            raise TooManyLinks(f"inode {ino} has {inode.nlink} links already")
        session.admit(grows=True)
        session.content.prepare_move(inode, with_all_below=False)
        now_ns = session.now_ns()
        tx = Transaction(session.volume, "link", caller.request)
        linked = tx.inode(ino)
        linked.nlink += 1
        linked.ctime_ns = now_ns
        directory = tx.inode(new_parent)
        tx.add_entry(directory, new_name, Entry(ino, kind_of(inode.mode)), now_ns)
        tx.commit()
        self._splitter.consider(directory)
        return self._known(linked)

    def unlink(self, caller: Caller, parent: Ino, name: bytes) -> None:
        """Remove the entry of anything but a directory."""
        session = self._session
        entry = self.get(self.directory(parent), name)
        if stat.S_ISDIR(session.inode(entry.ino).mode):
            raise IsDirectory(f"{name!r} in directory {parent} is a directory; rmdir removes it")
        session.admit(grows=False)
        now_ns = session.now_ns()
        tx = Transaction(session.volume, "unlink", caller.request)
        tx.remove_entry(tx.inode(parent), name, now_ns)
        self._reclaimer.drop_link(tx, tx.inode(entry.ino), 1, now_ns)
        tx.commit()
        self._reclaimer.collect(entry.ino)

    def rmdir(self, caller: Caller, parent: Ino, name: bytes) -> None:
        """Remove an empty directory."""
        session = self._session
        entry = self.get(self.directory(parent), name)
        victim = self.directory(entry.ino)
        if victim.children:
            raise NotEmpty(f"directory {name!r} in directory {parent} has {victim.children} entries")
        session.admit(grows=False)
        now_ns = session.now_ns()
        tx = Transaction(session.volume, "rmdir", caller.request)
        directory = tx.inode(parent)
        tx.remove_entry(directory, name, now_ns)
        directory.nlink -= 1
        self._reclaimer.drop_link(tx, tx.inode(entry.ino), victim.nlink, now_ns)
        tx.commit()
        self._reclaimer.collect(entry.ino)
