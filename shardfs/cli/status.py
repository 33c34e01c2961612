"""`shardfs-admin status`: is a mount well, and what is it doing."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from shardfs.cli.application import FAILED
from shardfs.client.mounts import find_mount, mount_status

_MIB = 1 << 20
_HEAD = frozenset({"healthy", "mountpoint", "volume", "transport", "profile", "features", "processes", "error"})


def status_command(
    target: Annotated[str, typer.Argument(metavar="MOUNTPOINT|VOLUME", help="A mount point, its volume, or a path on the mount.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> int:
    """Tell whether a mount is healthy, and its figures. Exits with 1 if it is not."""
    status = mount_status(find_mount(target))
    if as_json:
        print(json.dumps(status, indent=2))
    else:
        _show(status)
    return 0 if status["healthy"] else FAILED


def _show(status: Mapping[str, Any]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(health_line(status), markup=False)
    console.print(_processes(status["processes"]))
    figures = {name: value for name, value in status.items() if name not in _HEAD}
    single = {name: value for name, value in figures.items() if not isinstance(value, Mapping)}
    for title, values in {"mount": single, **{name: value for name, value in figures.items() if isinstance(value, Mapping)}}.items():
        if values:
            console.print(_figures(title, values))


def health_line(status: Mapping[str, Any]) -> str:
    """Return the first line: healthy or not, and what it is about."""
    mount = f"{status['volume']} mounted at {status['mountpoint']} ({status['transport']}, {status['profile']})"
    if status["healthy"]:
        return f"healthy: {mount}"
    return f"NOT HEALTHY: {mount}: {status.get('error') or 'a process is missing; it is started again by itself, see the log'}"


def _processes(processes: list[Mapping[str, Any]]) -> Table:
    table = Table("process", "pid", "up", "restarts", "memory", box=SIMPLE_HEAD)
    for process in processes:
        memory = f"{process['rss_bytes'] / _MIB:.0f} MiB"
        table.add_row(process["role"], str(process["pid"]), f"{process['uptime_s']:.0f} s", str(process["restarts"]), memory)
    return table


def _figures(title: str, values: Mapping[str, Any]) -> Table:
    table = Table(title, "", box=SIMPLE_HEAD)
    for name, value in values.items():
        table.add_row(str(name), str(value))
    return table
