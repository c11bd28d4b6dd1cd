"""A tour through the package; each step is checked for its types."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tensorfmt


def tour(folder: Path) -> None:
    """Saves, reads, converts and checks a small model."""
    arrays: dict[str, NDArray[np.float32]] = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.zeros(3, dtype=np.float32),
    }
    path = folder / "model.bpk"
    for loss in tensorfmt.save(arrays, path, metadata={"step": 3}):
        print(f"lost: {loss.kind} {loss.item}: {loss.reason}")
    with tensorfmt.open(path) as f:
        for name in f:
            tensor: tensorfmt.Tensor = f[name]
            print(name, tensor.dtype, tensor.shape, tensor.nbytes)
        rows: NDArray[np.float32] = f["w"][1:].numpy()
        shared = np.from_dlpack(f["b"])
        view: memoryview = memoryview(f["w"])
        print(rows, shared, view.shape, f.get("none") is None)

    def progress(done: int, total: int) -> None:
        print(f"{done} of {total} bytes")

    losses: list[tensorfmt.Loss] = tensorfmt.convert(
        path, folder / "model.safetensors", cast={"w": "bf16"}, progress=progress
    )
    report: tensorfmt.Report = tensorfmt.verify(folder / "model.safetensors")
    print(losses, report.ok, tensorfmt.hash(path)["model"])
    with tensorfmt.safe_open(folder / "model.safetensors", framework="np") as g:
        print(g.keys(), g.get_slice("b")[:2])
    try:
        tensorfmt.open(folder / "none.mag")
    except tensorfmt.Error as error:
        print(error.kind, error.rule, error.offset, error.tensor)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        tour(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            tour(Path(scratch))
