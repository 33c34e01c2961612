"""The data set: scikit-learn's 1,797 real handwritten digits as an image folder, one PNG per sample.

Layout: ``FOLDER/<split>/<label>/<index>.png``, 8-bit grey, 8 x 8 pixels, every fifth sample in split ``test``.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits


def write_image_folder(folder: Path) -> int:
    """Write the digits below `folder`; return how many."""
    digits = load_digits()
    for index, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        home = folder / ("test" if index % 5 == 0 else "train") / str(label)
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).save(home / f"{index:05}.png")
    return len(digits.target)


class ImageFolder:
    """A map-style data set over one split: sample -> (image of shape 1 x 8 x 8 in 0..1, label)."""

    def __init__(self, split: Path) -> None:
        self._samples = sorted((path, int(path.parent.name)) for path in split.glob("*/*.png"))

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self._samples[index]
        with Image.open(path) as image:
            pixels = np.asarray(image, dtype=np.float32) / 255
        return torch.from_numpy(pixels)[None], label
