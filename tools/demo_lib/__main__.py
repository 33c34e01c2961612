"""The two runs of the demo: train and save; then, in a new process, restore, train on and check what was reached."""

import json
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tools.demo_lib.checkpoints import KINDS, Kind
from tools.demo_lib.digits import write_image_folder
from tools.demo_lib.training import BATCH, Training, accuracy, make_loader

EPOCHS_BEFORE, EPOCHS_AFTER = 2, 3
ACCURACY_EXPECTED = 0.9

Timings = dict[str, Any]


def timed(work: Callable[..., object], *arguments: object) -> float:
    """Call `work`; return the seconds it took."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def train(folder: Path) -> Timings:
    """Write the data set, train, save each kind of checkpoint; return the timings and the accuracy at the save."""
    # What torch does only once must not be in the time of the first epoch.
    Training().run_batch(torch.zeros(BATCH, 1, 8, 8), torch.zeros(BATCH, dtype=torch.long))
    timings: Timings = {"write images": timed(write_image_folder, folder / "digits")}
    loader = make_loader(folder / "digits" / "train", shuffle=True)
    training = Training()
    timings["epochs"] = [training.run_epoch(loader) for _ in range(EPOCHS_BEFORE)]
    timings["accuracy"] = accuracy(training.network, make_loader(folder / "digits" / "test", shuffle=False))
    (folder / "checkpoints").mkdir()
    for name, kind in KINDS.items():
        timings[f"save {name}"] = timed(kind.save, training, folder / "checkpoints" / name)
    return timings


def resume(folder: Path, timings: Timings) -> Timings:
    """Restore each kind of checkpoint into a new training and train on; return the timings with those added."""
    timings["resumed epochs"] = []
    for name, kind in KINDS.items():
        resume_from(folder, timings, name, kind)
    return timings


def resume_from(folder: Path, timings: Timings, name: str, kind: Kind) -> None:
    """Restore one checkpoint: it must name as many digits as when it was saved, and enough after more training."""
    test = make_loader(folder / "digits" / "test", shuffle=False)
    training = Training()
    timings[f"restore {name}"] = timed(kind.restore, training, folder / "checkpoints" / name)
    restored = accuracy(training.network, test)
    if restored != timings["accuracy"]:
        sys.exit(f"{name}: restored with accuracy {restored:.4f}, saved with {timings['accuracy']:.4f}")
    loader = make_loader(folder / "digits" / "train", shuffle=True)
    timings["resumed epochs"] += [training.run_epoch(loader) for _ in range(EPOCHS_AFTER)]
    reached = accuracy(training.network, test)
    print(f"  {name:<23} accuracy {restored:.3f} when saved and when restored, {reached:.3f} after {EPOCHS_AFTER} more epochs")
    if reached < ACCURACY_EXPECTED:
        sys.exit(f"{name}: accuracy {reached:.4f} after resuming, expected at least {ACCURACY_EXPECTED}")


def main(command: str, folder: Path) -> None:
    """Run one of the two commands in `folder` and keep its timings there."""
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(143))
    torch.manual_seed(1)
    torch.set_num_threads(1)  # the loader's workers need the cores, too
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    report = folder / "timings.json"
    timings = train(folder) if command == "train" else resume(folder, json.loads(report.read_text()))
    report.write_text(json.dumps(timings))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
