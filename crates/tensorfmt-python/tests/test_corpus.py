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
# What the buffer protocol has no letter for.
PROTOCOL = {"bfloat16"}


@pytest.mark.parametrize(("path", "manifest"), CASES, ids=NAMES)
def test_corpus(path: Path, manifest: dict) -> None:
    verdict = manifest["verdict"]
    if verdict == "unsupported" and "generation" in manifest:
        # Another generation of the format, which is read by now; or else it says so.
        try:
            tensorfmt.open(path).close()
        except tensorfmt.Unsupported:
            return
        verdict = "in part" if manifest.get("tensors") else "readable"
    if verdict == "accept":
        if path.read_bytes()[:2] == b".." or path.parent.name.startswith("set_link"):
            pytest.skip("made of links, which this copy of the corpus doesn't have")
        with tensorfmt.open(path) as f:
            look_at(f, manifest)
        if not is_set(path):
            with tensorfmt.open(path, mmap=True) as f:
                look_at(f, manifest)
    elif verdict == "in part":
        with tensorfmt.open(path) as f:
            named = {said["name"] for said in manifest["tensors"]}
            look_at(f, manifest, named)
            for tensor in f.values():
                # Of the others some dtypes are known by now.
                if tensor.name not in named and tensor.dtype not in ("complex64", "float8_e4m3fn"):
                    with pytest.raises(tensorfmt.Unsupported) as caught:
                        tensor.numpy()
                    assert caught.value.tensor == tensor.name
    elif verdict == "readable":
        with tensorfmt.open(path) as f:
            assert [t.numpy().shape for t in f.values()] == [t.shape for t in f.values()]
    else:
        report = tensorfmt.verify(path, strict=True)
        assert not report.ok, report
        if report["error"]:
            with pytest.raises(tensorfmt.Error) as caught:
                tensorfmt.open(path)
            said = report["error"]
            assert (caught.value.kind, caught.value.rule) == (said["kind"], said["rule"])
            assert caught.value.offset == said["offset"]
            assert said["kind"] == "unsupported" or verdict == "reject"


def is_set(path: Path) -> bool:
    return path.name.endswith(".index.json") or path.name.endswith(".aeroset.json")


def look_at(f: tensorfmt.Archive, manifest: dict, named: set[str] | None = None) -> None:
    tensors = manifest.get("tensors") or []
    assert named is not None or len(f) == len(tensors)
    # Two tensors may have one name, so that it is the order that tells.
    by_name = {tensor.name: tensor for tensor in f.values()}
    found = f.values() if len(by_name) < len(f) else [by_name[said["name"]] for said in tensors]
    for said, tensor in zip(tensors, found, strict=True):
        assert tensor.name == said["name"]
        shape = said["shape"] + ([said["batch"]] if said.get("batch", 1) > 1 else [])
        # Files that were made of GGUF ones say their dims the other way round.
        assert list(tensor.shape) in (shape, shape[::-1] if "gguf" in str(f.path) else shape)
        name = SPELLINGS.get(said["dtype"])
        if name is None:
            continue
        assert tensor.dtype == name
        if said.get("sha256", "") is None:
            # The index of a set has no data of its own.
            with pytest.raises(tensorfmt.Unsupported):
                tensor.numpy()
            continue
        data = tensor.tobytes()
        # Bools of four bytes each are read as one.
        as_stored = tensor.encoding != "raw" or tensor.stored_bytes == tensor.nbytes
        if "sha256" in said and as_stored:
            assert hashlib.sha256(data).hexdigest() == said["sha256"], tensor
        if tensor.ndim > 64 or tensor.nbytes == 0 and not numpy_has(tensor):
            with pytest.raises(tensorfmt.Unsupported, match="NumPy"):
                tensor.numpy()
            continue
        array = tensor.numpy()
        assert array.shape == tensor.shape and array.dtype.name == name
        same_everywhere(tensor, array, data)


def numpy_has(tensor: tensorfmt.Tensor) -> bool:
    """Whether NumPy takes such dims, of which one is 0."""
    try:
        np.empty(tensor.shape, f"V{tensor.itemsize}")
    except ValueError:
        return False
    return True


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
