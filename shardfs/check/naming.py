"""Names of inodes and entries for people: paths from the volume's root, as far as they can be told."""

from shardfs.errors import CorruptValue
from shardfs.format import keys
from shardfs.format.values import Inode, decode_inode
from shardfs.ids import ROOT_INO, Ino, ino_shard
from shardfs.meta.view import View


def printable(name: bytes) -> str:
    """Return a name of any bytes as text on one line."""
    text = name.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def find_inode(view: View, ino: Ino) -> Inode | None:
    """Return an inode; None if there is none with this number, or it cannot be read."""
    shard = ino_shard(ino)
    if shard >= len(view.shards):
        return None
    try:
        value = view.get(shard, keys.inode_key(ino))
        return None if value is None else decode_inode(ino, value)
    except CorruptValue:
        return None


class Names:
    """Tells paths by the parent and name that each inode holds."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._directories: dict[Ino, str | None] = {ROOT_INO: ""}

    def inode(self, ino: Ino) -> str:
        """Return what to call an inode: its path if there is one, and its number."""
        path = "/" if ino == ROOT_INO else self._climb(ino)
        return f"inode {ino}" if path is None else f"{path} (inode {ino})"

    def entry(self, parent: Ino, name: bytes) -> str:
        """Return what to call a directory entry."""
        if parent not in self._directories:
            self._directories[parent] = self._climb(parent)
        directory = self._directories[parent]
        return f"{printable(name)!r} in directory {parent}" if directory is None else f"{directory}/{printable(name)}"

    def _climb(self, ino: Ino) -> str | None:
        names: list[str] = []
        seen: set[Ino] = set()
        while (above := self._directories.get(ino)) is None:
            inode = None if ino in seen else find_inode(self._view, ino)
            if inode is None or not inode.name:
                return None
            seen.add(ino)
            names.append(printable(inode.name))
            ino = inode.parent
        return "/".join((above, *reversed(names)))
