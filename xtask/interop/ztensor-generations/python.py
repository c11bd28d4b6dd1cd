#!/usr/bin/env python3
"""The Python packages ztensor 1.0.0 to 2.1.1 against tensorfmt. See README.md.

    python python.py write FOLDER               # with a package: files, and what it reads in them
    python python.py compare FOLDER TENSORFMT   # without: whether tensorfmt reads the same

Exits with 1 where anything differs.
"""
import hashlib
import json
import os
import subprocess
import sys

DTYPES = [
    "float64", "float32", "float16", "int64", "int32", "int16", "int8",
    "uint64", "uint32", "uint16", "uint8", "bool",
]
SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bool": "bool",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def arrays(np):
    """Name and array: shapes, no elements, and enough of them for several frames."""
    for dtype in DTYPES:
        values = np.arange(24).reshape(2, 3, 4)
        yield f"{dtype}/ramp", (values % 2 if dtype == "bool" else values).astype(dtype)
    yield "empty", np.zeros((0, 3), dtype="float32")
    yield "long", (np.arange(700_000) % 1000).astype("float32").reshape(700, 1000)


def write(folder):
    import importlib.metadata

    import numpy as np
    import ztensor

    release = importlib.metadata.version("ztensor")
    os.makedirs(folder, exist_ok=True)
    for compress in (False, True):
        path = os.path.join(folder, f"{release}-{'zstd' if compress else 'raw'}.zt")
        if release.startswith("2."):
            write_2(ztensor, np, path, compress)
        else:
            write_1(ztensor, np, path, compress)
        lines = list(read_back(ztensor, np, path))
        with open(path + ".json", "w", encoding="utf8") as out:
            json.dump(lines, out, indent=1)
        print(f"{path}: {len(lines)} tensors")


def write_1(ztensor, np, path, compress):
    with ztensor.Writer(path) as writer:
        for name, array in arrays(np):
            if hasattr(writer, "write_numpy"):
                checksum = "sha256" if compress else "crc32c"
                writer.write_numpy(name, array, compress=compress, checksum=checksum)
            else:
                writer.add_tensor(name, array, compress=compress)
        if hasattr(writer, "add_sparse_csr"):
            values = np.array([1, 2, 3], dtype="float32")
            indices = np.array([0, 2, 1], dtype="uint64")
            indptr = np.array([0, 2, 3], dtype="uint64")
            writer.add_sparse_csr("sparse", values, indices, indptr, (2, 3))


def write_2(ztensor, np, path, compress):
    # The canonical form has no compression.
    writer = ztensor.Writer(path, canonical=not compress)
    encoding = "zt.zstd-seekable/1" if compress else None
    # Its writer wants them sorted.
    for name, array in sorted(arrays(np), key=lambda pair: pair[0]):
        dtype, logical, shape = SHORT[str(array.dtype)], None, array.shape
        if dtype == "bool":
            dtype, logical = "u8", "bool"
        writer.add(name, array.tobytes(), list(shape), dtype, logical, encoding)
    writer.finish()


def read_back(ztensor, np, path):
    """What the release itself reads."""
    source = ztensor.open(path) if hasattr(ztensor, "Source") else ztensor.Reader(path)
    for name, written in arrays(np):
        if hasattr(ztensor, "Source"):
            data = source[name].tobytes()
        elif hasattr(source, "read_numpy"):
            data = source.read_numpy(name).tobytes()
        else:
            with ztensor.Reader(path) as reader:
                data = reader.read_tensor(name).tobytes()
        yield {
            "name": name,
            "dtype": SHORT[str(written.dtype)],
            "shape": list(written.shape),
            "sha256": hashlib.sha256(data).hexdigest(),
            "as_written": data == written.tobytes(),
        }


def run(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def compare(folder, tensorfmt):
    wrong = files = tensors = 0
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".zt"):
            continue
        files += 1
        path = os.path.join(folder, name)
        listed = {tensor["name"]: tensor for tensor in run(tensorfmt, "inspect", "--json", path)["tensors"]}
        hashes = run(tensorfmt, "hash", "--json", "--algorithm", "sha256", path)["tensors"]
        hashes = {tensor["name"]: tensor["digest"] for tensor in hashes}
        if subprocess.run([tensorfmt, "verify", path], capture_output=True).returncode:
            print(f"{name}: verify fails")
            wrong += 1
        with open(path + ".json", encoding="utf8") as expected:
            for tensor in json.load(expected):
                tensors += 1
                got = listed.pop(tensor["name"], {})
                same = all(got.get(key) == tensor[key] for key in ("dtype", "shape"))
                if not same or hashes.get(tensor["name"]) != tensor["sha256"] or not tensor["as_written"]:
                    print(f"{name}: {tensor['name']} differs: {got.get('dtype')} {got.get('shape')}")
                    wrong += 1
        for left in listed:
            if left not in ("sparse/values", "sparse/indices", "sparse/indptr"):
                print(f"{name}: {left} was not written")
                wrong += 1
    print(f"{files} files, {tensors} tensors, {wrong} differences")
    return wrong > 0 or files == 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"] and len(sys.argv) == 3:
        sys.exit(write(sys.argv[2]))
    if sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
        sys.exit(compare(sys.argv[2], sys.argv[3]))
    sys.exit(__doc__)
