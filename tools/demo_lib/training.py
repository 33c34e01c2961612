"""A small convolutional network and its training loop."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from tools.demo_lib.digits import ImageFolder

WORKERS = 2
BATCH = 64


def make_loader(split: Path, *, shuffle: bool) -> DataLoader:
    """Return a loader over one split of the image folder, with worker processes."""
    return DataLoader(ImageFolder(split), batch_size=BATCH, shuffle=shuffle, num_workers=WORKERS)


def make_network() -> nn.Module:
    """Return the untrained network: two convolutions, wide enough that its checkpoint has some megabytes."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


@dataclass
class Training:
    """A network with its optimizer and how far it has come."""

    network: nn.Module = field(default_factory=make_network)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)

    def run_epoch(self, loader: DataLoader) -> float:
        """Train for one epoch; return the seconds it took."""
        start = time.perf_counter()
        self.network.train()
        for images, labels in loader:
            self.run_batch(images, labels)
        self.epoch += 1
        return time.perf_counter() - start

    def run_batch(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Learn from one batch."""
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.network(images), labels).backward()
        self.optimizer.step()


def accuracy(network: nn.Module, loader: DataLoader) -> float:
    """Return the share of samples that the network names correctly."""
    network.eval()
    right = total = 0
    with torch.no_grad():
        for images, labels in loader:
            right += int((network(images).argmax(1) == labels).sum())
            total += len(labels)
    return right / total
