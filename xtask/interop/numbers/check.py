"""Holds casts of the command line against NumPy and ml_dtypes, sharing no code with us.

    pip install numpy ml_dtypes
    cargo build --release -p tensorfmt-cli
    python check.py

Every code of each 8-bit float kind, and every f16 and bf16, is cast to f32 and to each other kind; the
other way 2^16 values of f32 around every boundary between two neighbours, with zeros, subnormals,
infinities and NaNs of many payloads. The results have to be equal bit by bit. Prints a table; exits 1
if anything differs. `TENSORFMT_BIN` names another command.

f64 is left out on purpose: ml_dtypes rounds it to f32 first, which rounds twice. f16 is compared by way
of f64, as NumPy's f32 to f16 leaves a signalling NaN signalling on some processors.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

np.seterr(all="ignore")

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMMAND = os.environ.get("TENSORFMT_BIN", str(ROOT / "target" / "release" / "tensorfmt"))
# Our name, the header's, NumPy's.
KINDS = {
    "f8_e4m3fn": ("F8_E4M3", ml_dtypes.float8_e4m3fn),
    "f8_e5m2": ("F8_E5M2", ml_dtypes.float8_e5m2),
    "f8_e4m3fnuz": ("F8_E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
    "f8_e5m2fnuz": ("F8_E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
    "f8_e8m0": ("F8_E8M0", ml_dtypes.float8_e8m0fnu),
    "f16": ("F16", np.float16),
    "bf16": ("BF16", ml_dtypes.bfloat16),
    "f32": ("F32", np.float32),
}
PER_BOUNDARY = 1 << 16


def write(path, name, array):
    data = array.tobytes()
    header = {"w": {"dtype": KINDS[name][0], "shape": [array.size], "data_offsets": [0, len(data)]}}
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def cast(folder, name, array, to):
    """What the command line makes of `array`."""
    source, target = folder / "in.safetensors", folder / "out.safetensors"
    write(source, name, array)
    call = [COMMAND, "convert", source, target, "--cast", to, "--force", "--quiet"]
    subprocess.run(call, check=True, capture_output=True)
    whole = target.read_bytes()
    start = struct.unpack("<Q", whole[:8])[0]
    entry = json.loads(whole[8 : 8 + start])["w"]
    if entry["dtype"] != KINDS[to][0]:
        raise ValueError(f"{name} to {to}: the result is {entry['dtype']}")
    return np.frombuffer(whole[8 + start :], dtype=KINDS[to][1])


def expected(array, to):
    if to == "f16":
        return array.astype(np.float64).astype(np.float16)
    return array.astype(np.float32).astype(KINDS[to][1])


def bits(array):
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[array.dtype.itemsize])


def codes(name):
    size = np.dtype(KINDS[name][1]).itemsize
    return np.arange(1 << 8 * size, dtype=f"u{size}").view(KINDS[name][1])


def boundaries(to):
    """Where two neighbours of a kind meet, both signs, as ordered bits of f32."""
    values = codes(to).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    # Beyond the last: as far again as the step before it.
    last = values[-1] + (values[-1] - values[-2]) / 2
    points = np.concatenate([middles, [last, -last, 1.5 * values[-1], 0.0]])
    return np.unique(points.astype(np.float32))


def around(points, width):
    """The `width` values of f32 around each point."""
    signed = points.view(np.int32).astype(np.int64)
    ordered = np.where(signed < 0, np.int64(-(1 << 31)) - signed, signed)
    all_of_them = (ordered[:, None] + np.arange(-width // 2, width // 2)).ravel()
    back = np.where(all_of_them < 0, np.int64(-(1 << 31)) - all_of_them, all_of_them)
    return np.unique((back & 0xFFFFFFFF).astype(np.uint32))


def special():
    """Zeros, the ends of the subnormals, infinities, NaNs of many payloads."""
    low = np.arange(0, 1 << 15, dtype=np.uint32)
    payloads = 0x7F800000 + np.arange(0, 1 << 23, 97, dtype=np.uint32)
    subnormals = np.arange(0, 1 << 23, 1013, dtype=np.uint32)
    some = np.concatenate([low, payloads, 0x7F800000 + low[:256], subnormals, [0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7FFFFFFF]])
    return np.concatenate([some, some | 0x80000000]).astype(np.uint32)


def compare(row, array, to, got):
    different = int(np.count_nonzero(bits(got) != bits(expected(array, to))))
    row["values"] += array.size
    row["differences"] += different
    if different:
        at = np.flatnonzero(bits(got) != bits(expected(array, to)))[0]
        row["first"] = f"{bits(array)[at]:#x} gave {bits(got)[at]:#x}, not {bits(expected(array, to))[at]:#x}"


def main():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in list(KINDS)[:-1]:
            for to in KINDS:
                if to != name:
                    rows.append({"from": name, "to": to, "values": 0, "differences": 0})
                    compare(rows[-1], codes(name), to, cast(folder, name, codes(name), to))
        for to in list(KINDS)[:-1]:
            rows.append({"from": "f32", "to": to, "values": 0, "differences": 0})
            # The halves have too many boundaries for as many values at each of them.
            points = boundaries(to)
            width = PER_BOUNDARY if points.size < 1000 else 64
            for part in np.array_split(points, max(1, points.size * width // (1 << 24))):
                values = around(part, width).view(np.float32)
                compare(rows[-1], values, to, cast(folder, "f32", values, to))
            values = special().view(np.float32)
            compare(rows[-1], values, to, cast(folder, "f32", values, to))
    versions = f"numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}"
    print(f"{'from':12} {'to':12} {'values':>10} {'differences':>12}  ({versions})")
    for row in rows:
        print(f"{row['from']:12} {row['to']:12} {row['values']:10} {row['differences']:12}  {row.get('first', '')}".rstrip())
    differences = sum(row["differences"] for row in rows)
    print(f"{sum(row['values'] for row in rows)} values, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
