"""The end of an inode: its last link goes, and later, when nobody has it open or knows it any more, it is freed.

In between it is an orphan: its key in the orphan table says so durably, and the next start frees what a crash left.
"""

from shardfs.core.session import Session
from shardfs.core.transaction import Transaction
from shardfs.format import keys
from shardfs.format.values import Inode, InodeFlag
from shardfs.ids import Ino, ino_shard


class Reclaimer:
    """Drops links and frees inodes. Loop thread only."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def drop_link(self, tx: Transaction, inode: Inode, links: int, now_ns: int) -> None:
        """Take links from a transaction's inode; without any left it becomes an orphan. `collect` must follow."""
        inode.nlink -= links
        inode.ctime_ns = now_ns
        assert inode.nlink >= 0
        if inode.nlink == 0:
            tx.change((ino_shard(inode.ino), keys.orphan_key(inode.ino), b""))

    def collect(self, ino: Ino) -> None:
        """Free an inode if it has no link and nobody has it open or knows it."""
        session = self._session
        if session.handles.is_open(ino) or session.volume.inodes.is_known(ino):
            return
        inode = session.volume.inodes.find(ino)
        if inode is not None and inode.nlink == 0:
            self.free(ino)

    def free(self, ino: Ino) -> None:
        """Delete an orphan with all that belongs to it."""
        session = self._session
        shard = ino_shard(ino)
        tx = Transaction(session.volume, "free")
        inode = tx.inode(ino)
        session.content.release(tx, inode)
        if inode.flags & InodeFlag.HAS_XATTR:
            for key in session.volume.view.scan_keys(shard, keys.xattr_prefix(ino)):
                tx.change((shard, key, None))
        tx.change((shard, keys.orphan_key(ino), None))
        tx.remove_inode(ino)
        tx.commit()
        session.content.forget(ino)
