"""Loading and saving beside the safetensors package, ztensor 2 and NumPy's own files.

    python benches/compare.py [FOLDER] [MEBIBYTES]

Each row is the median of several runs, the packages in turn, files in the cache of the system. Beside the
time of each other package is its ratio to ours, the median over the turns: 2.00x took twice as long.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import safetensors.numpy
from safetensors import safe_open

import tensorfmt

try:
    import ztensor
    import ztensor.numpy
except ImportError:
    ztensor = None

RUNS = 7


def row(
    what: str, ways: dict[str, Callable[[], object]], runs: int = RUNS, before: Callable[[], object] | None = None
) -> None:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(runs + 1):
        for name, way in ways.items():
            if before is not None:
                before()
            start = time.perf_counter()
            made = way()
            spent = time.perf_counter() - start
            del made
            # The first turn warms up.
            if turn:
                times[name].append(spent)
    ours = times["tensorfmt"]
    cells = []
    for name, each in times.items():
        ratio = statistics.median(a / b for a, b in zip(each, ours))
        beside = "" if each is ours else f" ({ratio:.2f}x)"
        cells.append(f"{name} {1000 * statistics.median(each):.2f} ms{beside}")
    print(f"{what:28} {',  '.join(cells)}", flush=True)


def touch(arrays: dict[str, np.ndarray]) -> float:
    """Reads all of a view, since a map that nobody looks at costs nothing."""
    return sum(int(a.reshape(-1).view(np.uint64).sum(dtype=np.uint64)) for a in arrays.values())


def imports() -> None:
    def bare(code: str) -> Callable[[], object]:
        run = [sys.executable, "-c", code]
        return lambda: subprocess.run(run, check=True)

    ways = {
        "python": bare("pass"),
        "tensorfmt": bare("import tensorfmt"),
        "safetensors": bare("import safetensors"),
        "ztensor": bare("import ztensor"),
    }
    if ztensor is None:
        del ways["ztensor"]
    row("import", ways, 15)
    ways = {
        "tensorfmt": bare("import tensorfmt.numpy, numpy"),
        "safetensors": bare("import safetensors.numpy"),
        "numpy": bare("import numpy"),
    }
    row("import, with NumPy", ways, 15)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    mebibytes = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    rng = np.random.default_rng(1)
    count = 64
    arrays = {
        f"layers.{i}.weight": rng.random((mebibytes << 18) // count, dtype="float32") for i in range(count)
    }
    st, zt, npy = folder / "x.safetensors", folder / "x.zt", folder / "x.npy"
    zt2 = folder / "x2.zt"
    safetensors.numpy.save_file(arrays, st)
    tensorfmt.save(arrays, zt)
    np.save(npy, np.concatenate(list(arrays.values())))
    print(f"{mebibytes} MiB in {count} tensors, {os.cpu_count()} cores, NumPy {np.__version__}")

    ways: dict[str, Callable[[], object]] = {
        "tensorfmt": lambda: tensorfmt.load(st),
        "tensorfmt .zt": lambda: tensorfmt.load(zt),
        "safetensors": lambda: safetensors.numpy.load_file(st),
        "np.load": lambda: np.load(npy),
    }
    row("load all, copies", ways)
    ways = {
        "tensorfmt": lambda: touch(tensorfmt.load(st, mmap=True)),
        "np.load": lambda: touch({"x": np.load(npy, mmap_mode="r")}),
    }
    row("load all, views, read once", ways)
    ways = {
        "tensorfmt": lambda: tensorfmt.load(st, mmap=True),
        "np.load": lambda: np.load(npy, mmap_mode="r"),
    }
    if ztensor is not None:
        # Its arrays are views of a map.
        ztensor.numpy.save_file(arrays, zt2)
        ways["ztensor"] = lambda: ztensor.numpy.load_file(zt2)
    row("load all, views", ways)

    def gone() -> None:
        """Every file is a new one, and what one leaves for the disk to write is not for the next to wait for."""
        for name in ("out1", "out2", "out3.npz", "out4"):
            (folder / name).unlink(missing_ok=True)
        os.sync()

    for durable in (True, False):
        ways = {
            "tensorfmt": lambda: tensorfmt.save(arrays, folder / "out1", format="safetensors", durable=durable),
            "safetensors": lambda: safetensors.numpy.save_file(arrays, folder / "out2"),
            "np.savez": lambda: np.savez(folder / "out3.npz", **arrays),
        }
        if ztensor is not None:
            ways["ztensor"] = lambda: ztensor.numpy.save_file(arrays, folder / "out4")
        row(f"save all{', durable' if durable else ''}", ways, RUNS, gone)
    gone()
    del arrays

    small = {f"layers.{i}.weight": rng.random(65536, dtype="float32") for i in range(1000)}
    many, npz = folder / "many.safetensors", folder / "many.npz"
    safetensors.numpy.save_file(small, many)
    np.savez(npz, **small)
    name = "layers.777.weight"

    def theirs() -> object:
        with safe_open(many, framework="np") as f:
            return f.get_tensor(name)

    def ours() -> object:
        with tensorfmt.open(many) as f:
            return f[name].numpy()

    def mapped() -> object:
        with tensorfmt.open(many, mmap=True) as f:
            return f[name].numpy()

    ways = {
        "tensorfmt": ours,
        "tensorfmt mmap": mapped,
        "safetensors": theirs,
        "np.load": lambda: np.load(npz)[name],
    }
    row("one tensor of 1,000", ways, 50)
    row("all of 1,000", {"tensorfmt": lambda: tensorfmt.load(many),
                         "safetensors": lambda: safetensors.numpy.load_file(many)})  # fmt: skip
    imports()


if __name__ == "__main__":
    main()
