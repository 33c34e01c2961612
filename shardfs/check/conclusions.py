"""What the entries and inodes of a volume say together, once all have been seen.

First what is lost is told from what only dangles: a missing inode that has entries below it was a directory, and one
that a record without an owner names was a file; both can be made again. Then each directory gets one seat, the entry
that counts as its place, and following the seats upward finds directories that lie below themselves. At last the counts.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shardfs.check.findings import Finding
from shardfs.check.inode_findings import (
    LostFile,
    OrphanWithLinks,
    OrphanWithoutInode,
    UnmarkedOrphan,
    UnreachableInode,
    UnreadableInode,
    WrongChildCount,
    WrongLinkCount,
)
from shardfs.check.name_findings import (
    DanglingEntry,
    DirectoryCycle,
    DirectoryWithTwoNames,
    EntryWithoutDirectory,
    LostDirectory,
    UnreadableEntry,
    WrongParent,
)
from shardfs.check.naming import find_inode
from shardfs.check.nodes import DIRECTORY, EntryAt, Folder, Node
from shardfs.check.tree import Tree
from shardfs.format.records import RecordHeader
from shardfs.format.values import RecordEntry
from shardfs.ids import ROOT_INO, Ino


class Found(NamedTuple):
    """A record that belongs to no inode, with the header that names the inode it once belonged to."""

    entry: RecordEntry
    header: RecordHeader


class Conclusions:
    """Draws the conclusions from a `Tree`. `claimed` are the inodes whose `found` record makes a file again."""

    def __init__(self, tree: Tree, orphans: set[Ino], found: Mapping[Ino, Found]) -> None:
        self._tree = tree
        self._orphans = orphans
        self._found = found
        self._names = tree.names
        self.claimed: set[Ino] = set()

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong; what makes lost things again comes first."""
        self._tree.unreadable -= self._tree.nodes.keys()
        yield from self._lost_directories()
        yield from self._lost_files()
        yield from self._dangling()
        yield from self._second_names()
        yield from self._cycles()
        yield from self._unreadable_entries()
        yield from self._orphan_marks()
        for ino, node in self._tree.nodes.items():
            yield from self._inode(ino, node)

    def _where(self, at: EntryAt) -> str:
        return self._names.entry(at.parent, at.name)

    def _lost_directories(self) -> Iterator[Finding]:
        tree = self._tree
        lost = {ino for ino in tree.strays if ino not in tree.nodes}
        if ROOT_INO not in tree.nodes:
            lost.add(ROOT_INO)
        for ino in sorted(lost):
            below = tree.strays.get(ino, [])
            names = tree.dangling.get(ino, [])
            at = names.pop(0) if names and ino != ROOT_INO else None
            yield LostDirectory(ino, len(below), sum(self._is_directory(entry) for entry in below), at)
        for ino, below in tree.strays.items():
            if ino in tree.nodes:
                yield from (EntryWithoutDirectory(self._where(at), at) for at in below)

    def _is_directory(self, at: EntryAt) -> bool:
        node = self._tree.nodes.get(at.ino)
        return (at.kind if node is None else node.kind) == DIRECTORY

    def _lost_files(self) -> Iterator[Finding]:
        for ino, names in self._tree.dangling.items():
            if names and ino in self._found and ino not in self._tree.strays:
                self.claimed.add(ino)
                entry, header = self._found[ino]
                yield LostFile(self._where(names[0]), tuple(names), entry, header)

    def _dangling(self) -> Iterator[Finding]:
        tree = self._tree
        for ino, names in tree.dangling.items():
            if ino in self.claimed or (ino in tree.unreadable and ino not in tree.strays):
                continue
            yield from (DanglingEntry(self._where(at), at) for at in names)
        for ino in sorted(tree.unreadable - self.claimed - tree.strays.keys()):
            names = tree.dangling.get(ino, [])
            yield UnreadableInode(f"{self._where(names[0])} (inode {ino})" if names else f"inode {ino}", ino)

    def _second_names(self) -> Iterator[Finding]:
        tree = self._tree
        root = tree.nodes.get(ROOT_INO)
        if isinstance(root, Folder) and root.seat is not None:
            tree.doubles[ROOT_INO].append(root.seat)
            root.seat = None
        for ino, others in tree.doubles.items():
            folder = tree.nodes[ino]
            assert isinstance(folder, Folder)
            names = [at for at in (folder.seat, *others) if at is not None]
            if ino != ROOT_INO:
                folder.seat = next((at for at in names if (at.parent, at.name) == (folder.parent, folder.name)), names[0])
            yield from (DirectoryWithTwoNames(self._where(at), at) for at in names if at is not folder.seat)

    def _cycles(self) -> Iterator[Finding]:
        for folder in self._tree.nodes.values():
            if isinstance(folder, Folder) and not folder.is_placed:
                yield from self._climb(folder)

    def _climb(self, folder: Folder) -> Iterator[Finding]:
        """Follow the seats upward, to where somebody has been or there is no further seat."""
        trail: list[Folder] = []
        above: Node | None = folder
        while isinstance(above, Folder) and not above.is_placed:
            above.is_placed = True
            trail.append(above)
            above = None if above.seat is None else self._tree.nodes.get(above.seat.parent)
        if isinstance(above, Folder) and above in trail:
            cycle = [one.seat for one in trail[trail.index(above) :]]
            at = min((seat for seat in cycle if seat is not None), key=lambda seat: seat.ino)
            next(one for one in trail if one.seat is at).seat = None
            yield DirectoryCycle(at)

    def _unreadable_entries(self) -> Iterator[Finding]:
        """Give damaged entries back to the inodes that have no other name and say that it is theirs."""
        tree = self._tree
        owners = self._nameless() if tree.unreadable_entries else {}
        for (parent, name), at in tree.unreadable_entries.items():
            ino = owners.get((parent, name))
            if ino is None:
                yield UnreadableEntry(self._names.entry(parent, name), at)
                continue
            node, directory = tree.nodes[ino], tree.nodes.get(parent)
            node.links += 1
            if isinstance(node, Folder):
                node.seat = at._replace(ino=ino, kind=node.kind)
                if isinstance(directory, Folder):
                    directory.found_folders += 1
            yield UnreadableEntry(self._names.entry(parent, name), at._replace(ino=ino, kind=node.kind))

    def _nameless(self) -> dict[tuple[Ino, bytes], Ino]:
        """Return the inodes without a link, by where they say they are."""
        found = {}
        for ino, node in self._tree.nodes.items():
            if not node.links and node.nlink and (inode := find_inode(self._tree.view, ino)):
                found[inode.parent, inode.name] = ino
        return found

    def _orphan_marks(self) -> Iterator[Finding]:
        tree = self._tree
        for ino in sorted(self._orphans):
            node = tree.nodes.get(ino)
            if node is None:
                if ino not in tree.unreadable:
                    yield OrphanWithoutInode(ino)
            elif node.links or not _is_given_up(node):
                yield OrphanWithLinks(self._names.inode(ino), ino)

    def _inode(self, ino: Ino, node: Node) -> Iterator[Finding]:
        if not node.links and ino != ROOT_INO:
            is_given_up = _is_given_up(node)
            if ino not in self._orphans:
                yield UnmarkedOrphan(ino) if is_given_up else UnreachableInode(self._names.inode(ino), ino)
            if is_given_up:
                return
        elif not isinstance(node, Folder) and node.nlink != node.links:
            yield WrongLinkCount(self._names.inode(ino), ino, node.nlink, node.links)
        if isinstance(node, Folder):
            yield from self._folder(ino, node)

    def _folder(self, ino: Ino, folder: Folder) -> Iterator[Finding]:
        if folder.nlink != 2 + folder.found_folders:
            yield WrongLinkCount(self._names.inode(ino), ino, folder.nlink, 2 + folder.found_folders)
        if folder.children != folder.found_children:
            yield WrongChildCount(self._names.inode(ino), ino, folder.children, folder.found_children)
        seat = folder.seat
        if seat is not None and folder.links and (seat.parent, seat.name) != (folder.parent, folder.name):
            yield WrongParent(self._where(seat), ino, (folder.parent, folder.name), seat.parent, seat.name)


def _is_given_up(node: Node) -> bool:
    """Say whether an inode without a name has been unlinked on purpose, and nothing is left in it."""
    return not node.nlink and not (isinstance(node, Folder) and node.found_children)
