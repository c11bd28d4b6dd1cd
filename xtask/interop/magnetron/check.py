#!/usr/bin/env python3
"""Released versions of magnetron against mag-format: each writes files, reads them back, and what
it read must be what tensorfmt reads.

    cargo build --release -p tensorfmt-cli
    python3 xtask/interop/magnetron/check.py                  # every release that writes snapshots
    python3 xtask/interop/magnetron/check.py 0.1.6 0.2.2      # only these
    python3 xtask/interop/magnetron/check.py --keep FOLDER    # environments and files stay in FOLDER

Each release gets an environment of its own, into which pip installs it. TENSORFMT_BIN names the
command, `target/release/tensorfmt` unless set. Prints a line per release and one per difference;
exits 1 where there is any, and where a release can't be installed.
"""
import ctypes
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import venv

RELEASES = ["0.1.5", "0.1.6", "0.1.7", "0.1.8", "0.1.9", "0.2.0", "0.2.1", "0.2.2"]

# Long names to ours, with the size of an element.
DTYPES = {
    "float32": ("f32", 4), "float16": ("f16", 2), "bfloat16": ("bf16", 2),
    "float8_e4m3fn": ("f8_e4m3fn", 1), "boolean": ("bool", 1), "uint8": ("u8", 1),
    "int8": ("i8", 1), "uint16": ("u16", 2), "int16": ("i16", 2), "uint32": ("u32", 4),
    "int32": ("i32", 4), "uint64": ("u64", 8), "int64": ("i64", 8),
}
SHAPES = [(), (1,), (5,), (2, 3), (4, 1, 3), (2, 2, 1, 2, 3), (1,) * 8]
NAMES = ["a", "blk.0.attn.weight", "grün", "重み", "a/b\\c \"d\"", "n" * 3000]
METADATA = {
    "epoch": 3, "lr": 0.1, "note": "äö \u2028 \U0001F600", "none": None, "ok": True,
    "tags": ["a", 1, None, [2.5, float("nan")]], "nested": {"k": {"x": -7, "e": {}}},
    "nan": float("nan"), "inf": float("inf"), "ninf": float("-inf"),
    "u64": 2**64 - 1, "i64": -(2**63), "i128": 2**70, "big": -(10**60), "": "empty key", "tiny": 5e-324,
}


# What runs within a release.

def write(folder):
    """Writes files into `folder`, reads each back, and prints what was read."""
    import magnetron
    rng = random.Random(20260101)
    dtypes = [name for name in DTYPES if hasattr(magnetron.dtype, name)]
    everything = [(f"{d}.{i}", d, shape) for d in dtypes for i, shape in enumerate(SHAPES)]
    files = {f"dtype_{d}": [(f"{d}.{i}", d, s) for i, s in enumerate(SHAPES)] for d in dtypes}
    files["everything"] = everything
    files["names"] = [(name, "int16", (3,)) for name in NAMES]
    files["many"] = [(f"layer.{i}", "uint8", (1 + i % 7,)) for i in range(1000)]
    if hasattr(magnetron, "Snapshot"):
        store = Pooled(magnetron, rng)
        files["nothing"] = []
    else:
        store = Manifest(magnetron, rng)
        files["odd_names"] = [("", "int8", (2,)), ("a\0b", "int8", (3,))]
        files["no_elements"] = [("e", "float32", (0, 3)), ("w", "float32", (2,)), ("z", "int8", (2, 0))]
    for name, tensors in files.items():
        path = os.path.join(folder, f"{name}.mag")
        print(json.dumps({"file": path, **store.round_trip(path, tensors)}), flush=True)
    if isinstance(store, Pooled):
        path = os.path.join(folder, "transposed.mag")
        print(json.dumps({"file": path, **store.transposed(path)}), flush=True)


def random_bytes(rng, dtype, count):
    if dtype == "boolean":
        return bytes(rng.randrange(2) for _ in range(count))
    return bytes(rng.randrange(256) for _ in range(count * DTYPES[dtype][1]))


def described(name, tensor):
    """A tensor that the release holds: its own name of the dtype, and its bytes in memory."""
    data = ctypes.string_at(tensor.data_ptr, tensor.numbytes) if tensor.numbytes else b""
    dtype = str(tensor.dtype).removeprefix("magnetron.dtype.")
    return {
        "name": name, "dtype": dtype, "shape": list(tensor.shape),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


class Pooled:
    """0.1.5 to 0.1.9: tensors by name, no metadata."""

    def __init__(self, magnetron, rng):
        self.magnetron, self.rng = magnetron, rng

    def tensor(self, dtype, shape):
        kind = getattr(self.magnetron.dtype, dtype)
        flat = [self.value(dtype) for _ in range(math.prod(shape))]
        if not shape:
            return self.magnetron.Tensor.scalar(flat[0], dtype=kind)
        return self.magnetron.Tensor(flat, dtype=kind).reshape(shape)

    def value(self, dtype):
        if dtype == "boolean":
            return bool(self.rng.randrange(2))
        if "float" in dtype:
            return self.rng.uniform(-4, 4)
        bits = 8 * DTYPES[dtype][1]
        low = 0 if dtype.startswith("u") else -(1 << (bits - 1))
        # Python's own list of numbers goes through 64 signed bits.
        return self.rng.randrange(low, min(low + (1 << bits), 1 << 63))

    def round_trip(self, path, tensors):
        return self.store(path, [(name, self.tensor(dtype, shape)) for name, dtype, shape in tensors])

    def transposed(self, path):
        tensor = self.tensor("float32", (3, 4))
        return self.store(path, [("t", tensor.transpose(0, 1)), ("after", self.tensor("int32", (2,)))])

    def store(self, path, tensors):
        snapshot = self.magnetron.Snapshot.write(path)
        for name, tensor in tensors:
            snapshot.put_tensor(name, tensor)
        snapshot.close()
        snapshot = self.magnetron.Snapshot.read(path)
        read = [described(key, snapshot.get_tensor(key)) for key in snapshot.tensor_keys()]
        snapshot.close()
        return {"tensors": read, "metadata": {}}


class Manifest:
    """0.2.0 to 0.2.2: declared first, then written; metadata is JSON."""

    def __init__(self, magnetron, rng):
        import magnetron.snapshot
        self.magnetron, self.rng = magnetron, rng

    def round_trip(self, path, tensors):
        writer = self.magnetron.snapshot.SnapshotWriter(path, METADATA)
        for name, dtype, shape in tensors:
            writer.declare(name, shape, getattr(self.magnetron.dtype, dtype))
        writer.seal()
        for name, dtype, shape in tensors:
            writer.write(name, random_bytes(self.rng, dtype, math.prod(shape)))
        writer.close()
        read, metadata = self.magnetron.snapshot.deserialize(path)
        return {"tensors": [described(*pair) for pair in read.items()], "metadata": plain(metadata)}


def plain(value):
    """JSON as tensorfmt prints it: words for what no number of JSON is, text beyond 64 bits."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


# What compares.

def tensorfmt(*arguments):
    command = os.environ.get("TENSORFMT_BIN") or os.path.join("target", "release", "tensorfmt")
    run = subprocess.run([command, *arguments], capture_output=True, check=False)
    if run.returncode:
        raise ValueError(f"{' '.join(arguments[:-1])} exits {run.returncode}: {run.stderr.decode().strip()}")
    return run.stdout


def differences(written):
    path = written["file"]
    tensorfmt("verify", path)
    document = json.loads(tensorfmt("inspect", "--json", path))
    digests = json.loads(tensorfmt("hash", "--json", "--algorithm", "sha256", path))["tensors"]
    digests = {tensor["name"]: tensor["digest"] for tensor in digests}
    ours = {
        tensor["name"]: (tensor["dtype"], tensor["shape"], digests[tensor["name"]])
        for tensor in document["tensors"]
    }
    # 0.1.5 calls its u64 by another name, but has none in its own interface.
    theirs = {
        tensor["name"]: (DTYPES[tensor["dtype"]][0], tensor["shape"], tensor["sha256"])
        for tensor in written["tensors"]
    }
    if len(ours) != len(document["tensors"]) or len(theirs) != len(written["tensors"]):
        yield "a name twice"
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield f"{name!r}: {ours.get(name)} instead of {theirs.get(name)}"
    if document["metadata"] != written["metadata"]:
        yield f"metadata {document['metadata']} instead of {written['metadata']}"


def check(release, folder):
    """How many files and tensors of a release were compared, and how many differ."""
    place = os.path.join(folder, release)
    python = os.path.join(place, "venv", "bin", "python")
    if not os.path.exists(python):
        venv.create(os.path.join(place, "venv"), with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", f"magnetron=={release}"]
    if subprocess.run(pip, check=False).returncode:
        raise ValueError("pip can't install it")
    run = subprocess.run(
        [python, os.path.abspath(__file__), "write", place],
        capture_output=True, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    # A release may greet on standard output.
    lines = [line for line in run.stdout.decode().splitlines() if line.startswith('{"file"')]
    if run.returncode:
        raise ValueError(f"stopped with {run.returncode} after {len(lines)} files: {run.stderr.decode()[-500:]}")
    files = tensors = wrong = 0
    for line in lines:
        written = json.loads(line)
        files, tensors = files + 1, tensors + len(written["tensors"])
        try:
            found = list(differences(written))
        except ValueError as error:
            found = [str(error)]
        for difference in found:
            print(f"{release} {os.path.basename(written['file'])}: {difference}")
        wrong += bool(found)
    return files, tensors, wrong


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["write"]:
        write(arguments[1])
        return 0
    keep = None
    if "--keep" in arguments:
        at = arguments.index("--keep")
        keep = arguments[at + 1]
        del arguments[at:at + 2]
    if any(argument.startswith("-") for argument in arguments):
        print(__doc__)
        return 2
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for release in arguments or RELEASES:
            folder = keep or scratch
            os.makedirs(os.path.join(folder, release), exist_ok=True)
            try:
                files, tensors, wrong = check(release, folder)
            except ValueError as error:
                print(f"magnetron {release}: {error}")
                failed = True
                continue
            print(f"magnetron {release}: {files} files, {tensors} tensors, {wrong} files differ")
            failed |= wrong > 0 or files == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
