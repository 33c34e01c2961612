"""The settings in a volume's ``shardfs.toml``: what people may change between two mounts."""

import tomllib
from dataclasses import dataclass

from shardfs.errors import SetupError
from shardfs.limits import MIB, SLOT_BUDGET_BYTES

DEFAULT_TOML = f"""\
# Settings of this shardfs volume, read at mount. Lines that begin with # show the defaults.

[mount]
# workers = 0                 # metadata worker processes; 0: one per core, at most 4
# slot_budget_mib = {SLOT_BUDGET_BYTES // MIB}       # shared memory for files that are being written
"""

MIN_SLOT_BUDGET_MIB = 16


@dataclass(frozen=True)
class Settings:
    """What a mount reads from ``shardfs.toml``. `workers` 0 means by the number of cores."""

    workers: int = 0
    slot_budget_bytes: int = SLOT_BUDGET_BYTES


def parse_settings(text: str, path: str) -> Settings:
    """Return the settings in a file's text; raises `SetupError` for anything that is not known or out of range."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path} is not valid TOML ({error}); mend it") from error
    mount = tables.pop("mount", {})
    workers = mount.pop("workers", 0)
    budget_mib = mount.pop("slot_budget_mib", SLOT_BUDGET_BYTES // MIB)
    unknown = [*tables, *mount]
    if unknown:
        raise SetupError(f"{path}: unknown setting {unknown[0]!r}; remove it")
    if not isinstance(workers, int) or workers < 0:
        raise SetupError(f"{path}: workers must be a number from 0 on, not {workers!r}")
    if not isinstance(budget_mib, int) or budget_mib < MIN_SLOT_BUDGET_MIB:
        raise SetupError(f"{path}: slot_budget_mib must be a number from {MIN_SLOT_BUDGET_MIB} on, not {budget_mib!r}")
    return Settings(workers, budget_mib * MIB)
