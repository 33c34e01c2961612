"""Attributes of inodes: getattr, setattr, and extended attributes with POSIX ACLs among them.

Who may change what is decided before a request comes here: the kernel checks permissions (`default_permissions`).
"""

import stat

from shardfs.core import acl
from shardfs.core.interface import XATTR_CREATE, XATTR_REPLACE, AttributeChanges, Attributes, Caller
from shardfs.core.session import Session
from shardfs.core.transaction import Transaction
from shardfs.errors import AttributeTooLarge, Exists, InvalidArgument, IsDirectory, NoAttribute, NotSupported
from shardfs.format import keys
from shardfs.format.values import Inode, InodeFlag
from shardfs.ids import HandleId, Ino, ino_shard
from shardfs.limits import XATTR_LIST_MAX_BYTES, XATTR_NAME_MAX_BYTES, XATTR_VALUE_MAX_BYTES

CAPABILITY = b"security.capability"
_CLASSES = (b"user.", b"trusted.", b"security.")
_ACLS = (acl.ACCESS, acl.DEFAULT)
TIME_END_NS = 1 << 63


class AttributeOperations:
    """The operations on one inode's attributes. Loop thread only."""

    def __init__(self, session: Session, *, with_acl: bool) -> None:
        self._session = session
        self._with_acl = with_acl

    def getattr(self, _caller: Caller, ino: Ino) -> Attributes:
        """Return an inode's attributes."""
        session = self._session
        return session.content.attributes(session.inode(ino))

    def setattr(self, caller: Caller, ino: Ino, changes: AttributeChanges, handle: HandleId | None) -> Attributes:
        """Change attributes, the size among them, and return the new ones."""
        session = self._session
        inode = session.inode(ino)
        session.admit(grows=bool(changes.size))
        now_ns = session.now_ns()
        if changes.size is not None:
            self._resize(caller, inode, changes.size, now_ns, handle)
        if _changes_inode(changes):
            self._change(caller, ino, changes, now_ns)
        return session.content.attributes(session.inode(ino))

    def _resize(self, caller: Caller, inode: Inode, size: int, now_ns: int, handle: HandleId | None) -> None:
        if stat.S_ISDIR(inode.mode):
            raise IsDirectory(f"inode {inode.ino} is a directory and has no size to set")
        if not stat.S_ISREG(inode.mode):
            raise InvalidArgument(f"inode {inode.ino} is not a regular file and has no size to set")
        if handle is not None and not self._session.handles.get(handle).writable:
            raise InvalidArgument(f"handle {handle} is not open for writing")
        try:
            self._session.content.truncate(inode, size, now_ns)
        finally:
            self._settle_unused(inode.ino)
        self.drop_privileges(inode.ino, caller.uid)

    def _settle_unused(self, ino: Ino) -> None:
        """Leave no slot or open backing file behind where nobody has the file open."""
        handles, content = self._session.handles, self._session.content
        if not handles.has_writers(ino):
            content.settle(ino)
        if not handles.is_open(ino):
            content.close(ino)

    def _change(self, caller: Caller, ino: Ino, changes: AttributeChanges, now_ns: int) -> None:
        tx = Transaction(self._session.volume, "setattr", caller.request)
        inode = tx.inode(ino)
        if changes.mode is not None:
            self._change_mode(tx, inode, changes.mode)
        if changes.uid is not None or changes.gid is not None:
            self._change_owner(tx, inode, changes)
        if changes.atime_ns is not None:
            inode.atime_ns = _storable(changes.atime_ns)
        if changes.mtime_ns is not None:
            inode.mtime_ns = _storable(changes.mtime_ns)
        inode.ctime_ns = now_ns
        tx.commit()
        if changes.mtime_ns is not None:
            self._session.content.set_times(inode, inode.mtime_ns, now_ns)

    def _change_mode(self, tx: Transaction, inode: Inode, mode: int) -> None:
        inode.mode = stat.S_IFMT(inode.mode) | stat.S_IMODE(mode)
        access = self._acl(inode, acl.ACCESS)
        if access:
            self._put(tx, inode, acl.ACCESS, acl.encode_acl(acl.with_mode(access, inode.mode)))

    def _change_owner(self, tx: Transaction, inode: Inode, changes: AttributeChanges) -> None:
        inode.uid = inode.uid if changes.uid is None else changes.uid
        inode.gid = inode.gid if changes.gid is None else changes.gid
        if not stat.S_ISDIR(inode.mode):
            self._strip_privileges(tx, inode)

    def drop_privileges(self, ino: Ino, uid: int) -> None:
        """Take setuid, setgid and file capabilities from a file whose content a user other than root has changed."""
        if uid == 0 or not self._has_privileges(self._session.inode(ino)):
            return
        tx = Transaction(self._session.volume, "setattr")
        self._strip_privileges(tx, tx.inode(ino))
        tx.commit()

    def _has_privileges(self, inode: Inode) -> bool:
        if inode.mode & stat.S_ISUID or _gives_group(inode.mode):
            return True
        return bool(inode.flags & InodeFlag.HAS_XATTR) and self._find(inode, CAPABILITY) is not None

    def _strip_privileges(self, tx: Transaction, inode: Inode) -> None:
        inode.mode &= ~stat.S_ISUID
        if _gives_group(inode.mode):
            inode.mode &= ~stat.S_ISGID
        if inode.flags & InodeFlag.HAS_XATTR and self._find(inode, CAPABILITY) is not None:
            tx.change((ino_shard(inode.ino), keys.xattr_key(inode.ino, CAPABILITY), None))

    def inherit_acl(self, tx: Transaction, parent: Inode, inode: Inode) -> None:
        """Give a new inode what the default ACL of its directory says."""
        default = self._acl(parent, acl.DEFAULT)
        if not default or stat.S_ISLNK(inode.mode):
            return
        inode.mode, access = acl.inherit(default, inode.mode)
        if not acl.is_minimal(access):
            self._put(tx, inode, acl.ACCESS, acl.encode_acl(access))
        if stat.S_ISDIR(inode.mode):
            self._put(tx, inode, acl.DEFAULT, acl.encode_acl(default))

    def _acl(self, inode: Inode, name: bytes) -> list[acl.AclEntry]:
        if not self._with_acl or not inode.flags & InodeFlag.HAS_ACL:
            return []
        value = self._find(inode, name)
        return [] if value is None else acl.decode_acl(value)

    def getxattr(self, ino: Ino, name: bytes) -> bytes:
        """Return the value of an extended attribute; raises `NoAttribute`."""
        inode = self._session.inode(ino)
        self._check_name(name)
        value = self._find(inode, name) if inode.flags & InodeFlag.HAS_XATTR else None
        if value is None:
            raise NoAttribute(f"inode {ino} has no attribute {name!r}")
        return value

    def _find(self, inode: Inode, name: bytes) -> bytes | None:
        return self._session.volume.view.get(ino_shard(inode.ino), keys.xattr_key(inode.ino, name))

    def listxattr(self, caller: Caller, ino: Ino) -> list[bytes]:
        """Return the names of an inode's extended attributes; those of the trusted class only for root."""
        names = self._names(self._session.inode(ino))
        hidden = () if caller.uid == 0 else (b"trusted.",)
        return [name for name in names if not name.startswith(hidden)] if hidden else names

    def _names(self, inode: Inode) -> list[bytes]:
        if not inode.flags & InodeFlag.HAS_XATTR:
            return []
        found = self._session.volume.view.scan_keys(ino_shard(inode.ino), keys.xattr_prefix(inode.ino))
        return [keys.parse_xattr_key(key)[1] for key in found]

    def setxattr(self, caller: Caller, ino: Ino, name: bytes, value: bytes, flags: int) -> None:
        """Set an extended attribute; `flags` may demand that it is new or that it exists."""
        session = self._session
        inode = session.inode(ino)
        self._check_name(name)
        exists = bool(inode.flags & InodeFlag.HAS_XATTR) and self._find(inode, name) is not None
        if flags & XATTR_CREATE and exists:
            raise Exists(f"inode {ino} has an attribute {name!r} already")
        if flags & XATTR_REPLACE and not exists:
            raise NoAttribute(f"inode {ino} has no attribute {name!r} to replace")
        self._check_size(inode, name, value, exists)
        session.admit(grows=True)
        tx = Transaction(session.volume, "setxattr", caller.request)
        changed = tx.inode(ino)
        changed.ctime_ns = session.now_ns()
        if name in _ACLS:
            self._set_acl(tx, changed, name, acl.decode_acl(value))
        else:
            self._put(tx, changed, name, value)
        tx.commit()

    def _check_size(self, inode: Inode, name: bytes, value: bytes, exists: bool) -> None:
        if len(value) > XATTR_VALUE_MAX_BYTES:
            raise AttributeTooLarge(f"the value of {name!r} has {len(value)} bytes, {XATTR_VALUE_MAX_BYTES} are allowed")
        list_bytes = sum(len(other) + 1 for other in self._names(inode)) + (0 if exists else len(name) + 1)
        if list_bytes > XATTR_LIST_MAX_BYTES:
            raise AttributeTooLarge(f"inode {inode.ino} has too many attributes: their names would take {list_bytes} bytes")

    def _set_acl(self, tx: Transaction, inode: Inode, name: bytes, entries: list[acl.AclEntry]) -> None:
        if name == acl.DEFAULT and not stat.S_ISDIR(inode.mode) and entries:
            raise InvalidArgument(f"inode {inode.ino} is not a directory and can have no default ACL")
        if name == acl.ACCESS and entries:
            inode.mode = acl.mode_of(entries, inode.mode)
        if not entries or (name == acl.ACCESS and acl.is_minimal(entries)):
            tx.change((ino_shard(inode.ino), keys.xattr_key(inode.ino, name), None))
        else:
            self._put(tx, inode, name, acl.encode_acl(entries))

    def _put(self, tx: Transaction, inode: Inode, name: bytes, value: bytes) -> None:
        inode.flags |= InodeFlag.HAS_XATTR | (InodeFlag.HAS_ACL if name in _ACLS else 0)
        tx.change((ino_shard(inode.ino), keys.xattr_key(inode.ino, name), value))

    def removexattr(self, caller: Caller, ino: Ino, name: bytes) -> None:
        """Remove an extended attribute; raises `NoAttribute`."""
        session = self._session
        self.getxattr(ino, name)
        session.admit(grows=False)
        tx = Transaction(session.volume, "removexattr", caller.request)
        inode = tx.inode(ino)
        inode.ctime_ns = session.now_ns()
        tx.change((ino_shard(ino), keys.xattr_key(ino, name), None))
        tx.commit()

    def _check_name(self, name: bytes) -> None:
        if name in _ACLS and self._with_acl:
            return
        if not name.startswith(_CLASSES):
            raise NotSupported(f"attributes such as {name!r} are not offered; mount with -o acl for POSIX ACLs")
        if name in _CLASSES:
            raise InvalidArgument(f"{name!r} is a class of attributes and names none")
        if len(name) > XATTR_NAME_MAX_BYTES:
            raise AttributeTooLarge(f"the attribute name of {len(name)} bytes is too long, {XATTR_NAME_MAX_BYTES} are allowed")


def _changes_inode(changes: AttributeChanges) -> bool:
    fields = (changes.mode, changes.uid, changes.gid, changes.atime_ns, changes.mtime_ns)
    return any(field is not None for field in fields)


def _storable(time_ns: int) -> int:
    """Return the nearest time that a signed 64-bit number of nanoseconds can hold: from 1677 to 2262."""
    return max(-TIME_END_NS, min(time_ns, TIME_END_NS - 1))


def _gives_group(mode: int) -> bool:
    """Say whether setgid gives a right here: without group execution it means mandatory locking and stays."""
    return bool(mode & stat.S_ISGID and mode & stat.S_IXGRP)
