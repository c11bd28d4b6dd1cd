"""Every file of the corpus, by its manifest, in every way that Python has to look at it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import tensorfmt
from conftest import CORPUS, corpus

CASES = corpus()
NAMES = [str(path.relative_to(CORPUS)) for path, _ in CASES]
# Names of manifests that NumPy has others for.
SPELLINGS = {
    "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
    "u64": "uint64", "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32",
    "f64": "float64", "bool": "bool",
}  # fmt: skip
# How a file that opens without complaint may be refused: by a check, or when one tensor is read.
PROTOCOL = {"bfloat16"}


@pytest.mark.parametrize(("path", "manifest"), CASES, ids=NAMES)
def test_corpus(path: Path, manifest: dict) -> None:
    verdict = manifest["verdict"]
    if verdict == "accept":
        with tensorfmt.open(path) as f:
            look_at(f, manifest)
        if len(list(path.parent.glob("*.aeroset.json"))) == 0 and not is_set(path):
            with tensorfmt.open(path, mmap=True) as f:
                look_at(f, manifest)
        return
    if verdict == "unsupported":
        with pytest.raises(tensorfmt.Error) as caught:
            open_and_read(path)
        assert caught.value.kind == "unsupported", caught.value
        return
    report = tensorfmt.verify(path, strict=True)
    assert not report.ok, report


def is_set(path: Path) -> bool:
    return path.name.endswith(".index.json") or path.name.endswith(".aeroset.json")


def open_and_read(path: Path) -> None:
    with tensorfmt.open(path) as f:
        for tensor in f.values():
            tensor.numpy()


def look_at(f: tensorfmt.Archive, manifest: dict) -> None:
    tensors = manifest.get("tensors") or []
    assert len(f) == len(tensors)
    for said in tensors:
        tensor = f[said["name"]]
        if "shape" in said:
            assert list(tensor.shape) == said["shape"]
        name = SPELLINGS.get(said["dtype"])
        if name is None:
            continue
        assert tensor.dtype == name
        data = tensor.tobytes()
        if "sha256" in said and len(data) == tensor.nbytes:
            assert hashlib.sha256(data).hexdigest() == said["sha256"], tensor
        array = tensor.numpy()
        assert array.shape == tensor.shape and array.dtype.name == name
        same_everywhere(tensor, array, data)


def same_everywhere(tensor: tensorfmt.Tensor, array: np.ndarray, data: bytes) -> None:
    """NumPy, DLPack of both kinds and the buffer protocol have the same elements."""
    if array.dtype != bool:
        assert array.tobytes(order="A") == data
    assert array.flags.c_contiguous or tensor.order == "F" and array.flags.f_contiguous
    if tensor.dtype in PROTOCOL:
        with pytest.raises(BufferError, match="numpy"):
            memoryview(tensor)
        return
    view = memoryview(tensor)
    assert view.readonly and view.shape == tensor.shape
    bits = array.view(f"u{array.itemsize}") if array.ndim and array.size else None
    other = np.asarray(view)
    assert other.dtype == array.dtype and other.shape == array.shape
    shared = np.from_dlpack(tensor)
    assert shared.dtype == array.dtype and shared.shape == array.shape
    if bits is not None:
        assert (other.view(bits.dtype) == bits).all()
        assert (shared.view(bits.dtype) == bits).all()
