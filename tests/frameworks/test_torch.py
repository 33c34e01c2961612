"""PyTorch on the mount: data loaders, checkpoints, distributed checkpoints, safetensors."""

from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = 300

LOADER = """
    import sys
    from pathlib import Path
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Samples(Dataset):
        def __init__(self, root):
            self.paths = sorted(Path(root).glob("*/*.bin"))

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            data = self.paths[index].read_bytes()
            return torch.frombuffer(bytearray(data), dtype=torch.uint8).sum(), index

    if __name__ == "__main__":
        root, context = sys.argv[1:]
        data = Samples(root)
        for epoch in range(2):
            loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2, multiprocessing_context=context)
            seen = {int(index): int(total) for totals, indices in loader for total, index in zip(totals, indices)}
            assert len(seen) == len(data)
            assert all(total == sum(data.paths[index].read_bytes()) for index, total in seen.items())
        print(len(data))
"""

SAVE_AND_LOAD = """
    import sys
    from pathlib import Path
    import torch

    root = Path(sys.argv[1])
    state = {"small": torch.arange(100), "large": torch.randn(700, 1000), "epoch": 3, "name": "model"}
    for attempt in range(3):
        torch.save(state, root / "checkpoint.tmp")
        (root / "checkpoint.tmp").rename(root / "checkpoint.pt")
    for mmap in (False, True):
        loaded = torch.load(root / "checkpoint.pt", mmap=mmap)
        assert all(torch.equal(loaded[name], state[name]) for name in ("small", "large"))
        assert loaded["epoch"] == 3 and loaded["name"] == "model"
        loaded["large"].add_(1)  # a private mapping
    assert torch.equal(torch.load(root / "checkpoint.pt")["large"], state["large"])
    shared = torch.from_file(str(root / "shared.bin"), shared=True, size=50_000, dtype=torch.float32)
    shared.fill_(2.5)
    del shared
    assert float(torch.from_file(str(root / "shared.bin"), size=50_000, dtype=torch.float32).sum()) == 125_000
"""

DISTRIBUTED = """
    import os
    import sys
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    import torch.multiprocessing as mp

    def rank_main(rank, root, store):
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        torch.manual_seed(rank)
        state = {f"rank{rank}": torch.randn(500, 700), "shared": torch.arange(1000), "step": 7}
        for step in range(2):
            dcp.save(state, checkpoint_id=os.path.join(root, f"step-{step}"))
        loaded = {f"rank{rank}": torch.zeros(500, 700), "shared": torch.zeros(1000, dtype=torch.int64), "step": 0}
        dcp.load(loaded, checkpoint_id=os.path.join(root, "step-1"))
        assert torch.equal(loaded[f"rank{rank}"], state[f"rank{rank}"])
        assert torch.equal(loaded["shared"], state["shared"]) and loaded["step"] == 7
        dist.barrier()
        dist.destroy_process_group()

    if __name__ == "__main__":
        mp.spawn(rank_main, args=(sys.argv[1], sys.argv[2]), nprocs=2)
        assert os.path.exists(os.path.join(sys.argv[1], "step-1", ".metadata"))
"""

SAFETENSORS = """
    import sys
    from pathlib import Path
    import numpy
    import torch
    from safetensors import safe_open
    from safetensors.numpy import save_file as save_arrays
    from safetensors.torch import load_file, save_file

    root = Path(sys.argv[1])
    tensors = {f"layer{number}": torch.randn(300, 400) for number in range(5)}
    save_file(tensors, root / "model.safetensors", metadata={"step": "12"})
    assert all(torch.equal(value, tensors[name]) for name, value in load_file(root / "model.safetensors").items())
    with safe_open(root / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"step": "12"}
        assert torch.equal(file.get_slice("layer3")[10:20], tensors["layer3"][10:20])
    arrays = {"a": numpy.arange(10_000, dtype=numpy.float64)}
    save_arrays(arrays, root / "arrays.safetensors")
    numpy.save(root / "array.npy", arrays["a"])
    mapped = numpy.load(root / "array.npy", mmap_mode="r+")
    mapped[5] = -1
    mapped.flush()
    assert numpy.load(root / "array.npy")[5] == -1
    archive = numpy.memmap(root / "raw", dtype="int32", mode="w+", shape=(100_000,))
    archive[:] = numpy.arange(100_000)
    archive.flush()
    assert int(numpy.fromfile(root / "raw", dtype="int32").sum()) == 99_999 * 50_000
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_data_loader(context: str, shared_dir: Path, run_program: Callable[..., str]) -> None:
    for number in range(SAMPLES):
        path = shared_dir / f"class{number % 10}" / f"{number}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes([number % 256]) * (1000 + number * 50))
    assert run_program(LOADER, shared_dir, context).strip() == str(SAMPLES)


def test_save_and_load(shared_dir: Path, run_program: Callable[..., str]) -> None:
    run_program(SAVE_AND_LOAD, shared_dir)


def test_distributed_checkpoint(shared_dir: Path, tmp_path: Path, run_program: Callable[..., str]) -> None:
    run_program(DISTRIBUTED, shared_dir, tmp_path / "store")


def test_rendezvous_through_a_file_on_the_mount(shared_dir: Path, run_program: Callable[..., str]) -> None:
    """Ranks find each other by a locked file, as `init_method="file://..."` does."""
    run_program(DISTRIBUTED, shared_dir, shared_dir / "store")


def test_safetensors_and_numpy(shared_dir: Path, run_program: Callable[..., str]) -> None:
    run_program(SAFETENSORS, shared_dir)
