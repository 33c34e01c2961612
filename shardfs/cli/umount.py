"""`shardfs umount`: unmount, and wait until everything is durable."""

from typing import Annotated

import typer

from shardfs.client.unmounting import unmount_and_wait


def umount_command(mountpoint: Annotated[str, typer.Argument(metavar="MOUNTPOINT", help="Where a volume is mounted.")]) -> None:
    """Unmount a volume; returns when everything is durable and every process of the mount is gone."""
    unmount_and_wait(mountpoint)
