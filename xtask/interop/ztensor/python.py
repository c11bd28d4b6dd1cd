#!/usr/bin/env python3
"""The Python package ztensor 0.1.4 against ztensor-format: an optional second peer.

    python3 -m venv venv && venv/bin/pip install "ztensor==0.1.4" numpy ml_dtypes
    venv/bin/python xtask/interop/ztensor/python.py write FOLDER    # files for tensorfmt to read
    venv/bin/python xtask/interop/ztensor/python.py read FILE...    # files of ours, listed and summed

`write` puts a file per dtype into FOLDER, and beside each a `.sha256` with a line per tensor, the
digest of its little-endian bytes: what `tensorfmt hash --algorithm sha256` prints. `read` prints
the same lines for any file. Exits with 1 where the package refuses a file or a dtype that it has.
"""
import hashlib
import os
import sys

import numpy as np
import ztensor

DTYPES = [
    "float64", "float32", "float16", "int64", "int32", "int16", "int8",
    "uint64", "uint32", "uint16", "uint8", "bool",
]


def digest(array):
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(little.tobytes()).hexdigest()


def tensors(dtype):
    """Two tensors; the package makes a 0-d array one of shape [1]."""
    ramp = np.arange(24).reshape(2, 3, 4) % 2 if dtype == "bool" else np.arange(24).reshape(2, 3, 4)
    return {"ramp": ramp.astype(dtype), "one": np.ones((1,), dtype=dtype)}


def write(folder):
    os.makedirs(folder, exist_ok=True)
    for dtype in DTYPES:
        path = os.path.join(folder, f"{dtype}.zt")
        with ztensor.Writer(path) as writer:
            for name, array in tensors(dtype).items():
                writer.add_tensor(name, array)
        with open(path + ".sha256", "w", encoding="utf8") as lines:
            for name, array in tensors(dtype).items():
                lines.write(f"{digest(array)}  {name}\n")
        print(path)


def read(paths):
    for path in paths:
        print(path)
        with ztensor.Reader(path) as reader:
            for name in reader.get_tensor_names():
                array = np.asarray(reader.read_tensor(name))
                print(f"{digest(array)}  {name} {array.dtype} {list(array.shape)}")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "write":
        write(sys.argv[2])
    elif len(sys.argv) > 2 and sys.argv[1] == "read":
        read(sys.argv[2:])
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
