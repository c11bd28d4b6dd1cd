"""Beside the safetensors package: the same calls have the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorfmt
import tensorfmt.numpy

safetensors = pytest.importorskip("safetensors")
import safetensors.numpy  # noqa: E402


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.safetensors"
    tensors = {
        "b": np.arange(24, dtype="float32").reshape(4, 3, 2),
        "a": np.array([True, False]),
        "c": np.arange(5, dtype="int64"),
        "scalar": np.array(3, dtype="uint8"),
        "empty": np.zeros((0, 2), "float16"),
    }
    safetensors.numpy.save_file(tensors, path, metadata={"k": "v"})
    return path


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def test_safe_open(file: Path) -> None:
    theirs = safetensors.safe_open(file, framework="np")
    with tensorfmt.safe_open(file, framework="np") as ours, theirs as theirs:
        assert sorted(ours.keys()) == sorted(theirs.keys())
        assert list(ours.keys()) == list(theirs.keys())
        assert ours.offset_keys() == theirs.offset_keys()
        assert ours.metadata() == theirs.metadata() == {"k": "v"}
        for name in theirs.keys():
            assert same(ours.get_tensor(name), theirs.get_tensor(name))
            a, b = ours.get_slice(name), theirs.get_slice(name)
            assert a.get_shape() == b.get_shape() and a.get_dtype() == b.get_dtype()


@pytest.mark.parametrize("index", [np.s_[:], np.s_[1:3], np.s_[2:], np.s_[:-1], np.s_[1:3, 1:],
                                   np.s_[:, 2], np.s_[0:2, :, 1:2], np.s_[...], np.s_[3:1],
                                   np.s_[1], np.s_[-1, 0]])  # fmt: skip
def test_slices(file: Path, index: object) -> None:
    whole = safetensors.numpy.load_file(file)["b"]
    with tensorfmt.safe_open(file, "numpy") as ours:
        found = ours.get_slice("b")[index]
        assert same(np.asarray(found), np.asarray(whole[index]))
    try:
        with safetensors.safe_open(file, "numpy") as theirs:
            expected = theirs.get_slice("b")[index]
    except Exception:
        # It takes fewer kinds.
        return
    assert same(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("index", [np.s_[::2], np.s_[::-1], np.s_[3:0:-2], np.s_[1::2, ::2], np.s_[::-3, 0]])
def test_slices_with_steps(file: Path, index: object) -> None:
    whole = safetensors.numpy.load_file(file)["b"]
    with tensorfmt.safe_open(file, "numpy") as ours:
        assert same(ours.get_slice("b")[index], whole[index])


def test_save_and_load(file: Path, tmp_path: Path) -> None:
    theirs = safetensors.numpy.load_file(file)
    ours = tensorfmt.load_file(file)
    assert ours.keys() == theirs.keys() and all(same(ours[n], theirs[n]) for n in ours)
    for name in ("ours.safetensors", "ours.bin"):
        path = tmp_path / name
        assert tensorfmt.save_file(theirs, path, metadata={"k": "v"}) is None
        back = safetensors.numpy.load_file(path)
        assert back.keys() == theirs.keys() and all(same(back[n], theirs[n]) for n in back)
        with safetensors.safe_open(path, framework="np") as f:
            assert f.metadata() == {"k": "v"}
    data = tensorfmt.numpy.save(theirs, {"k": "v"})
    assert safetensors.numpy.load(data).keys() == theirs.keys()
    loaded = tensorfmt.numpy.load(safetensors.numpy.save(theirs))
    assert all(same(loaded[n], theirs[n]) for n in theirs)


def test_errors_are_of_the_same_kind(file: Path, tmp_path: Path) -> None:
    for package in (safetensors, tensorfmt):
        with pytest.raises(FileNotFoundError):
            package.safe_open(tmp_path / "none", framework="np")
        with pytest.raises(Exception):
            with package.safe_open(file, framework="np") as f:
                f.get_tensor("none")
        with pytest.raises(Exception):
            package.safe_open(file, framework="cobol")


def test_other_formats(tmp_path: Path) -> None:
    values = {"w": np.arange(6, dtype="float32").reshape(2, 3)}
    for ending in ("mag", "zt", "bpk", "aero", "model"):
        path = tmp_path / f"x.{ending}"
        tensorfmt.save_file(values, path)
        with tensorfmt.safe_open(path, "np") as f:
            assert same(np.ascontiguousarray(f.get_tensor("w")), values["w"])
            assert f.metadata() is None and f.get_slice("w").get_dtype() == "F32"
            assert same(f.get_slice("w")[:, 1:], values["w"][:, 1:])


def test_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import safetensors.torch
    import tensorfmt.torch

    path = tmp_path / "x.safetensors"
    tensors = {
        "a": torch.arange(6).reshape(2, 3).to(torch.bfloat16),
        "t": torch.arange(6.0).reshape(2, 3).T,
        "g": torch.ones(3, requires_grad=True),
        "m": torch.tensor([True, False]),
        "f8": torch.ones(4).to(torch.float8_e4m3fn),
        "c": torch.ones(2, dtype=torch.complex64).conj(),
        "s": torch.tensor(2),
        "e": torch.zeros(0, 3),
    }
    tensorfmt.torch.save_file(tensors, path)
    for back in (safetensors.torch.load_file(path), tensorfmt.torch.load_file(path)):
        assert back.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape
            flat = lambda t: t.detach().resolve_conj().contiguous().view(torch.uint8) if t.ndim else t
            assert torch.equal(flat(back[name]), flat(tensor)), name
    with tensorfmt.open(path) as f:
        mine = torch.from_dlpack(f["a"])
        assert torch.equal(mine, tensors["a"])
        mine[0, 0] = 5
        assert torch.equal(torch.from_dlpack(f["a"][1:]), tensors["a"][1:])
    with tensorfmt.safe_open(path, "pt") as f:
        assert torch.equal(f.get_tensor("t"), tensors["t"])
        assert torch.equal(f.get_slice("a")[1:], tensors["a"][1:])
    column = tmp_path / "x.model"
    tensorfmt.torch.save_file({"w": tensors["t"]}, column)
    assert torch.equal(tensorfmt.torch.load_file(column)["w"], tensors["t"])


def test_jax(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    path = tmp_path / "x.safetensors"
    values = jax.numpy.arange(6, dtype="bfloat16").reshape(2, 3)
    tensorfmt.save({"w": values}, path)
    with tensorfmt.open(path) as f:
        assert (jax.numpy.from_dlpack(f["w"]) == values).all()
    with tensorfmt.safe_open(path, "jax") as f:
        assert (f.get_tensor("w") == values).all()
