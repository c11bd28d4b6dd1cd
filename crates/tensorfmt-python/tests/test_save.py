"""Writing."""

from __future__ import annotations

import array
import os
from pathlib import Path

import numpy as np
import pytest

import tensorfmt
from conftest import ENDINGS, FORMATS


def round_trip(tmp_path: Path, value: object, ending: str = "safetensors") -> np.ndarray:
    path = tmp_path / f"x.{ending}"
    assert tensorfmt.save({"w": value}, path) == []
    return tensorfmt.load(path)["w"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(tmp_path: Path, arrays: dict[str, np.ndarray], format: str) -> None:
    path = tmp_path / f"x.{ENDINGS[format]}"
    assert tensorfmt.save(arrays, path) == []
    with tensorfmt.open(path) as f:
        assert f.format == format
    loaded = tensorfmt.load(path)
    assert list(loaded) == list(arrays)
    for name, values in arrays.items():
        assert loaded[name].dtype == values.dtype and (loaded[name] == values).all()
    assert tensorfmt.load(path, names=["b"]).keys() == {"b"}


@pytest.mark.parametrize("ending", ["aeroset.json", "safetensors.index.json"])
def test_sets(tmp_path: Path, arrays: dict[str, np.ndarray], ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    tensorfmt.save(arrays, path)
    loaded = tensorfmt.load(path)
    assert all((loaded[name] == arrays[name]).all() for name in arrays)


ALL = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
       "float32", "float64", "complex64"]  # fmt: skip


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4)])
def test_dtypes_and_shapes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(dtype)
    for made in (values, values.copy(order="F"), values[...], values[()]):
        back = round_trip(tmp_path, made)
        assert back.dtype == dtype and back.shape == shape and (back == values).all()


@pytest.mark.parametrize("ending", ENDINGS.values())
def test_views_of_all_kinds(tmp_path: Path, ending: str) -> None:
    base = np.arange(120, dtype="float32").reshape(4, 5, 6)
    views = [base[::2], base[:, ::-1], base.T, base.transpose(1, 0, 2), base[1:3, 2, ::3],
             np.asfortranarray(base), np.broadcast_to(base[:1], (3, 5, 6)), base[-1:0:-2].T]  # fmt: skip
    for view in views:
        assert (round_trip(tmp_path, view, ending) == view).all()
        # The same through DLPack, whose strides are taken as they are.
        if view.flags.writeable:
            assert (round_trip(tmp_path, OnlyDlpack(view), ending) == view).all()


class OnlyDlpack:
    """An array of another library."""

    def __init__(self, inner: np.ndarray, old: bool = False) -> None:
        self.inner = inner
        self.old = old

    def __dlpack__(self, **options: object) -> object:
        if self.old and options:
            raise TypeError("an unknown argument")
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()


def test_old_capsules(tmp_path: Path) -> None:
    values = np.arange(6, dtype="int16").reshape(2, 3)
    assert (round_trip(tmp_path, OnlyDlpack(values, old=True)) == values).all()

    class Elsewhere(OnlyDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(BufferError, match="another device"):
        round_trip(tmp_path, Elsewhere(values))


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">u2", ">c8", ">f2"])
def test_big_endian(tmp_path: Path, dtype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    back = round_trip(tmp_path, values)
    assert back.dtype == values.dtype.newbyteorder("<") and (back == values).all()
    assert (round_trip(tmp_path, np.asfortranarray(values).T) == values.T).all()
    if "c" not in dtype:
        assert (round_trip(tmp_path, memoryview(values)) == values).all()


def test_ml_dtypes(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
    for name in names:
        values = np.array([[1.0, 2.0], [0.5, 4.0]]).astype(getattr(ml_dtypes, name))
        for made in (values, values.T, values[0, 0], values[::2]):
            back = round_trip(tmp_path, made)
            assert back.dtype == values.dtype and back.tobytes() == made.tobytes()
    with pytest.raises(tensorfmt.Unsupported, match="int4"):
        round_trip(tmp_path, np.zeros(2, ml_dtypes.int4))


def test_the_buffer_protocol(tmp_path: Path) -> None:
    assert round_trip(tmp_path, b"abc").tolist() == [97, 98, 99]
    assert round_trip(tmp_path, bytearray(b"ab")).dtype == "uint8"
    assert round_trip(tmp_path, array.array("d", [1.5, 2.5])).tolist() == [1.5, 2.5]
    assert round_trip(tmp_path, array.array("l", [1])).dtype == f"int{8 * array.array('l').itemsize}"
    grid = memoryview(bytes(range(12))).cast("B", (3, 4))
    assert round_trip(tmp_path, grid).shape == (3, 4)
    assert round_trip(tmp_path, memoryview(b"abcdef")[::2]).tolist() == [97, 99, 101]
    assert round_trip(tmp_path, memoryview(b"")).shape == (0,)
    with pytest.raises(tensorfmt.Unsupported):
        round_trip(tmp_path, memoryview(b"ab").cast("c"))


def test_tensors_of_files_are_copied_without_being_held(tmp_path: Path, model: Path) -> None:
    with tensorfmt.open(model) as f:
        path = tmp_path / "parts.zt"
        tensorfmt.save({"rows": f["w"][1:], "row": f["w"][0], "half": f["b"].astype("float16"), "b": f["b"]}, path)
        w = f["w"].numpy()
        loaded = tensorfmt.load(path)
        assert (loaded["rows"] == w[1:]).all() and (loaded["row"] == w[0]).all()
        assert loaded["half"].dtype == "float16" and loaded["half"].tolist() == [0.5, -1.0, 2.0]
        # Into the place of the file that they are read from.
        tensorfmt.save(f, model)
    assert (tensorfmt.load(model)["w"] == w).all()
    with tensorfmt.open(model, mmap=True) as f:
        view = f["w"].numpy()
        tensorfmt.save({"w": view, "x": f["b"]}, model)
        assert (view == w).all()
    assert list(tensorfmt.load(model)) == ["w", "x"]


def test_what_can_t_be_saved_leaves_nothing(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path / "x.mag"
    wrong = {
        "u8": (np.zeros(2, "uint8"), tensorfmt.Unsupported),
        "objects": (np.array([None]), tensorfmt.Unsupported),
        "text": (np.array(["a"]), tensorfmt.Unsupported),
        "time": (np.array(["2020"], "datetime64[s]"), tensorfmt.Unsupported),
        "long": (np.zeros(1, np.longdouble), tensorfmt.Unsupported),
        "fields": (np.zeros(1, "i4,f4"), tensorfmt.Unsupported),
        "mask": (np.ma.masked_array([1.0], [True]), tensorfmt.UsageError),
        "list": ([1.0, 2.0], TypeError),
        "number": (3, TypeError),
    }
    if np.longdouble is np.float64:
        del wrong["long"]
    for name, (value, error) in wrong.items():
        with pytest.raises(error):
            tensorfmt.save({name: value}, path)
        assert os.listdir(tmp_path) == []
    with pytest.raises(TypeError, match="names are str"):
        tensorfmt.save({1: arrays["w"]}, path)
    with pytest.raises(tensorfmt.UsageError, match="ending"):
        tensorfmt.save(arrays, tmp_path / "x.weights")
    with pytest.raises(tensorfmt.UsageError, match="no format"):
        tensorfmt.save(arrays, path, format="gguf")
    with pytest.raises(OSError):
        tensorfmt.save(arrays, tmp_path / "none" / "x.mag")
    tensorfmt.save(arrays, tmp_path / "x.weights", format="ztensor")
    assert tensorfmt.open(tmp_path / "x.weights").format == "ztensor"
    assert os.listdir(tmp_path) == ["x.weights"]


def test_metadata(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path / "x.bpk"
    about = {"step": 3, "lr": 0.5, "name": "a", "on": True, "big": 1 << 62, "none": None,
             "list": [1, [2, "x"]], "map": {"a": b"\x00\xff"}}  # fmt: skip
    assert tensorfmt.save(arrays, path, metadata=about) == []
    found = tensorfmt.open(path).metadata
    assert found == about and list(found) == list(about) and found["on"] is True
    for ending in ("aero", "safetensors"):
        other = tmp_path / f"x.{ending}"
        assert tensorfmt.save(arrays, other, metadata=about) == []
        assert tensorfmt.open(other).metadata == about
    with pytest.warns(tensorfmt.LossWarning, match="step"):
        losses = tensorfmt.save(arrays, tmp_path / "x.model", metadata={"step": 3})
    assert [(loss.kind, loss.item) for loss in losses] == [("metadata", "step")]
    with pytest.raises(tensorfmt.UsageError, match="object"):
        tensorfmt.save(arrays, path, metadata={"x": object()})
    assert tensorfmt.open(path).metadata == about


def test_progress_and_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    values = {"w": np.ones(5 << 20, "uint8")}
    seen: list[tuple[int, int]] = []
    tensorfmt.save(values, path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5 << 20, 5 << 20) and seen == sorted(seen)
    before = path.read_bytes()

    def fail(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tensorfmt.save({"w": np.zeros(200 << 20, "uint8")}, path, progress=fail)
    # What was there stays, unless the file was complete before anybody was told.
    assert os.listdir(tmp_path) == ["x.safetensors"]
    assert path.stat().st_size in (len(before), (200 << 20) + path.stat().st_size % 4096)
