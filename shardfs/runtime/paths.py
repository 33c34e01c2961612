"""Where the processes of a mount meet: the runtime directory and the files of one volume in it."""

import os
import stat
from dataclasses import dataclass

from shardfs.errors import SetupError

DIRECTORY_VARIABLE = "SHARDFS_RUNTIME_DIR"
"""Environment variable that names another runtime directory, for tests and for systems where the usual one is not writable."""

SHARED_MEMORY = "/dev/shm"
_SOCKET_PATH_MAX_BYTES = 107  # sun_path of unix(7), less its final zero


@dataclass(frozen=True)
class RuntimePaths:
    """The files of one volume, all of mode 0600."""

    directory: str
    volume_id: str

    @property
    def state(self) -> str:
        """What the supervisor knows of the mount, as JSON."""
        return self._path("json")

    @property
    def control(self) -> str:
        """The control socket."""
        return self._path("sock")

    @property
    def workers(self) -> str:
        """The socket where metadata workers find the server."""
        return self._path("workers")

    @property
    def log(self) -> str:
        """What the processes of a detached mount log."""
        return self._path("log")

    @property
    def slots(self) -> str:
        """The slot table: on tmpfs, and the same whoever mounts, so that the next mount finds what a killed one left."""
        return slots_path(bytes.fromhex(self.volume_id))

    def _path(self, kind: str) -> str:
        return os.path.join(self.directory, f"{self.volume_id}.{kind}")


def slots_path(volume_id: bytes) -> str:
    """Return where the slot table of a volume is."""
    directory = SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else runtime_directory()
    return os.path.join(directory, f"shardfs-{volume_id.hex()}.slots")


def runtime_directory() -> str:
    """Return the directory of this user's mounts; it may not exist yet."""
    if named := os.environ.get(DIRECTORY_VARIABLE):
        return os.path.abspath(named)
    if os.geteuid() == 0:
        return "/run/shardfs"
    if session := os.environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(session, "shardfs")
    return f"/tmp/shardfs-{os.geteuid()}"


def prepare_paths(volume_id: bytes) -> RuntimePaths:
    """Make the runtime directory (mode 0700) and return the paths; raises `SetupError` if it cannot be trusted or used."""
    paths = RuntimePaths(runtime_directory(), volume_id.hex())
    advice = f"set {DIRECTORY_VARIABLE} to a directory of your own"
    if len(os.fsencode(paths.workers)) > _SOCKET_PATH_MAX_BYTES:
        raise SetupError(f"the path of the runtime directory {paths.directory} is too long for a socket: {advice}")
    try:
        os.makedirs(paths.directory, mode=0o700, exist_ok=True)
        found = os.lstat(paths.directory)
    except OSError as error:
        raise SetupError(f"cannot make the runtime directory {paths.directory} ({error.strerror}): {advice}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise SetupError(f"the runtime directory {paths.directory} is not a directory of mode 0700 that belongs to this user: {advice}")
    return paths
