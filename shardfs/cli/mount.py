"""`shardfs mount`: mount a volume, and format it first where nothing is yet."""

from typing import Annotated

import typer

from shardfs.runtime.launching import launch, run_foreground
from shardfs.runtime.preparing import PROFILE, MountRequest, Prepared, prepare


def mount_command(
    volume: Annotated[str, typer.Argument(metavar="VOLUME", help="The volume's directory; formatted first if it is new or empty.")],
    mountpoint: Annotated[str, typer.Argument(metavar="MOUNTPOINT", help="An existing directory.")],
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay in the foreground and log to stderr; Ctrl-C unmounts.")] = False,
    transport: Annotated[str, typer.Option(metavar="auto|direct|pyfuse3", help="How to talk to the kernel.")] = "auto",
    workers: Annotated[int, typer.Option(metavar="M", help="Metadata worker processes; 0: as the volume's settings say.")] = 0,
    profile: Annotated[str, typer.Option(metavar="mixed|dataset", help="What the mount is tuned for.")] = PROFILE,
    options: Annotated[list[str] | None, typer.Option("-o", metavar="OPTIONS", help="Mount options, separated by commas.")] = None,
) -> None:
    """Mount a volume; returns when the mount answers."""
    request = MountRequest(volume, mountpoint, ",".join(options or ()), transport, profile, workers)
    prepared = prepare(request)
    if foreground:
        run_foreground(prepared, lambda: _announce(prepared))
    else:
        launch(prepared)
        _announce(prepared)


def _announce(prepared: Prepared) -> None:
    told = prepared.arguments
    if prepared.formatted:
        print(f"shardfs: {told.volume} formatted ({told.shards} shards)")
    workers = f"{told.workers} worker{'s' if told.workers > 1 else ''}"
    print(f"shardfs: {told.volume} mounted at {told.mountpoint} ({told.transport}, {told.shards} shards, {workers})", flush=True)
