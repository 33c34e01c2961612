"""Three ways to save a training and to restore it, as training code commonly does.

Each kind is a pair: ``save(training, path)`` and ``restore(training, path)``, which fills a new training. ``safetensors``
holds tensors only, so its optimizer state starts anew.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from tools.demo_lib.training import Training

State = dict[str, Any]


class Kind(NamedTuple):
    """How one kind of checkpoint is saved and restored."""

    save: Callable[[Training, Path], None]
    restore: Callable[[Training, Path], None]


def get_state(training: Training) -> State:
    """Return everything that a resumed training needs."""
    return {"model": training.network.state_dict(), "optimizer": training.optimizer.state_dict(), "epoch": training.epoch}


def set_state(training: Training, state: State) -> None:
    """Make the training what `state` says."""
    training.network.load_state_dict(state["model"])
    training.optimizer.load_state_dict(state["optimizer"])
    training.epoch = state["epoch"]


def save_torch(training: Training, path: Path) -> None:
    """Save with `torch.save` under a temporary name, sync, and rename."""
    partial = path.with_suffix(".tmp")
    with partial.open("wb") as file:
        torch.save(get_state(training), file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def restore_torch(training: Training, path: Path) -> None:
    """Restore with `torch.load`, the tensors mapped from the file."""
    set_state(training, torch.load(path, mmap=True, weights_only=True))


def save_distributed(training: Training, path: Path) -> None:
    """Save with `torch.distributed.checkpoint` into a directory."""
    model, optimizer = get_state_dict(training.network, training.optimizer)
    dcp.save({"model": model, "optimizer": optimizer, "epoch": training.epoch}, checkpoint_id=path, no_dist=True)


def restore_distributed(training: Training, path: Path) -> None:
    """Restore in place what `torch.distributed.checkpoint` saved."""
    model, optimizer = get_state_dict(training.network, training.optimizer)
    state: State = {"model": model, "optimizer": optimizer, "epoch": 0}
    dcp.load(state, checkpoint_id=path, no_dist=True)
    set_state_dict(training.network, training.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    training.epoch = state["epoch"]


def save_safetensors(training: Training, path: Path) -> None:
    """Save the network's tensors with safetensors."""
    save_file(training.network.state_dict(), path, metadata={"epoch": str(training.epoch)})


def restore_safetensors(training: Training, path: Path) -> None:
    """Restore the network's tensors, which safetensors maps from the file."""
    training.network.load_state_dict(load_file(path))


KINDS = {
    "torch.save": Kind(save_torch, restore_torch),
    "distributed.checkpoint": Kind(save_distributed, restore_distributed),
    "safetensors": Kind(save_safetensors, restore_safetensors),
}
