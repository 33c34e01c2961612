"""Mount options: what `-o` may say, and what libfuse is given for it."""

from dataclasses import dataclass

from shardfs.errors import UsageError

SUBTYPE = "shardfs"
FSTYPE = f"fuse.{SUBTYPE}"
"""The type of a mount as the kernel names it."""

_DEFAULTS = frozenset({"rw", "default_permissions", "defaults", "async", "relatime"})
_FSTAB_ONLY = frozenset({"auto", "noauto", "user", "nouser", "users", "nousers", "owner", "group", "nofail", "_netdev"})
_KERNEL_FLAGS = frozenset({"suid", "nosuid", "dev", "nodev", "exec", "noexec", "noatime", "nodiratime"})
_OPPOSITES = {"suid": "nosuid", "dev": "nodev", "exec": "noexec"}
_OWN = frozenset({"allow_other", "ro", "acl", "nonempty"})


@dataclass(frozen=True)
class MountOptions:
    """The options of one mount. `kernel_flags` are the generic ones, such as ``nosuid``; the last of two opposites is kept.

    `nonempty`: the mount may hide what is in the directory that it covers.
    """

    allow_other: bool = False
    readonly: bool = False
    acl: bool = False
    kernel_flags: tuple[str, ...] = ()
    nonempty: bool = False

    def text(self) -> str:
        """Return the options as `parse_options` takes them."""
        named = {"allow_other": self.allow_other, "ro": self.readonly, "acl": self.acl, "nonempty": self.nonempty}
        return ",".join([name for name, given in named.items() if given] + list(self.kernel_flags))


def parse_options(text: str) -> MountOptions:
    """Read a comma-separated list; raises `UsageError` for an unknown option. What only concerns /etc/fstab is skipped."""
    given: dict[str, None] = {}
    for option in filter(None, text.split(",")):
        if option in _DEFAULTS | _FSTAB_ONLY or option.startswith("x-"):
            if option == "rw":
                given.pop("ro", None)
        elif option in _KERNEL_FLAGS | _OWN:
            given.pop(_opposite(option), None)
            given[option] = None
        else:
            known = ", ".join(sorted(_OWN | _KERNEL_FLAGS | {"rw"}))
            raise UsageError(f"unknown mount option {option!r}; known are {known}")
    flags = tuple(sorted(given.keys() & _KERNEL_FLAGS))
    return MountOptions("allow_other" in given, "ro" in given, "acl" in given, flags, "nonempty" in given)


def _opposite(option: str) -> str:
    return option[2:] if option.startswith("no") else _OPPOSITES.get(option, "")


def libfuse_options(volume: str, options: MountOptions, privileged: bool) -> set[str]:
    """Return the options for libfuse.

    libfuse mounts with nosuid and nodev unless told otherwise, which only root may do (mount_flags in lib/mount.c):
    a mount of root's honours setuid files and device nodes as any local file system does.
    """
    told = {"default_permissions", f"fsname={escape_option(volume)}", f"subtype={SUBTYPE}", *options.kernel_flags}
    if options.allow_other:
        told.add("allow_other")
    if options.readonly:
        told.add("ro")
    if privileged:
        told |= {flag for flag in ("suid", "dev") if _OPPOSITES[flag] not in told}
    return told


def escape_option(value: str) -> str:
    """Return a value as libfuse's option parser takes it: commas and backslashes escaped, other bytes in octal."""
    plain = frozenset(range(0x21, 0x7F)) - {ord(","), ord("\\")}
    encoded = value.encode(errors="surrogateescape")
    return "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in encoded)
