"""The settings in a volume's ``shardfs.toml``: what people may change between two mounts."""

import tomllib
from dataclasses import dataclass

from shardfs.errors import SetupError
from shardfs.ids import MAX_SHARDS
from shardfs.limits import MIB, SLOT_BUDGET_BYTES

DEFAULT_TOML = f"""\
# Settings of this shardfs volume, read at mount. Lines that begin with # show the defaults.

[mount]
# workers = 0                 # metadata worker processes; 0: one per core, at most 4
# slot_budget_mib = {SLOT_BUDGET_BYTES // MIB}       # shared memory for files that are being written
"""

KNOWN = ("workers", "slot_budget_mib")
MIN_SLOT_BUDGET_MIB, MAX_SLOT_BUDGET_MIB = 16, 65_536


@dataclass(frozen=True)
class Settings:
    """What a mount reads from ``shardfs.toml``. `workers` 0 means by the number of cores."""

    workers: int = 0
    slot_budget_bytes: int = SLOT_BUDGET_BYTES


def parse_settings(content: bytes, path: str) -> Settings:
    """Return the settings in a file's content; raises `SetupError` for anything that is not known or out of range."""
    try:
        tables = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"{path} is not valid TOML ({error}); mend it, or remove it to use the defaults") from error
    mount = tables.pop("mount", {})
    if not isinstance(mount, dict):
        raise SetupError(f"{path}: mount is a table of settings that begins with a line [mount]; mend it")
    if tables:
        raise SetupError(f"{path}: {next(iter(tables))!r} is not known; settings stand below a line [mount]: {', '.join(KNOWN)}")
    workers = mount.pop("workers", 0)
    budget_mib = mount.pop("slot_budget_mib", SLOT_BUDGET_BYTES // MIB)
    if mount:
        raise SetupError(f"{path}: unknown setting {next(iter(mount))!r}; known are {', '.join(KNOWN)}")
    _check_number(path, "workers", workers, 0, MAX_SHARDS)
    _check_number(path, "slot_budget_mib", budget_mib, MIN_SLOT_BUDGET_MIB, MAX_SLOT_BUDGET_MIB)
    return Settings(workers, budget_mib * MIB)


def _check_number(path: str, name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise SetupError(f"{path}: {name} must be a number from {least} to {most}, not {value!r}; mend it")
