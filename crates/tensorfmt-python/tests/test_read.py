"""Opening and reading."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import tensorfmt
from conftest import ENDINGS, FORMATS


def test_what_an_archive_says(model: Path) -> None:
    with tensorfmt.open(model) as f:
        assert (f.format, f.version, f.metadata) == ("safetensors", "1", {"step": "3"})
        assert len(f) == 2 and "w" in f and "x" not in f and 3 not in f
        assert list(f) == f.keys() == ["w", "b"]
        w = f["w"]
        assert (w.shape, w.dtype, w.nbytes, w.order, w.ndim, w.size) == ((2, 3), "float32", 24, "C", 2, 6)
        assert np.dtype("float32") == w.dtype
        assert f.get("w").shape == (2, 3) and f.get("x") is None and f.get("x", 5) == 5
        assert repr(w) == '<tensorfmt.Tensor "w" float32 (2, 3)>'
        assert len(w) == 2 and os.fspath(f.path) == os.fspath(model)
        assert [name for name, _ in f.items()] == ["w", "b"]


def test_arrays_are_own_or_views(model: Path, arrays: dict[str, np.ndarray]) -> None:
    with tensorfmt.open(model) as f:
        own = f["w"].numpy()
        assert own.flags.writeable and (own == arrays["w"]).all()
        own[0, 0] = 9
        assert f["w"].numpy()[0, 0] == 0
        with pytest.raises(ValueError, match="mmap=True"):
            f["w"].numpy(copy=False)
        assert (np.asarray(f["w"]) == arrays["w"]).all()
        assert np.asarray(f["w"], dtype="float64").dtype == np.float64
    with tensorfmt.open(model, mmap=True) as f:
        view = f["w"].numpy()
        again = f["w"].numpy(copy=False)
        assert not view.flags.writeable and not view.flags.owndata
        assert view.ctypes.data == again.ctypes.data
        mine = f["w"].numpy(copy=True)
        assert mine.flags.writeable
        shared = np.from_dlpack(f["w"])
        assert shared.ctypes.data == view.ctypes.data and not shared.flags.writeable
    # Views outlive the archive.
    gc.collect()
    assert (view == arrays["w"]).all() and (shared == arrays["w"]).all()


def test_rows_are_read_alone(model: Path, arrays: dict[str, np.ndarray]) -> None:
    w = arrays["w"]

    class Counting(io.BytesIO):
        read_bytes = 0

        def read(self, size: int = -1) -> bytes:
            self.read_bytes += size
            return super().read(size)

    file = Counting(model.read_bytes())
    with tensorfmt.open(file) as f:
        before = file.read_bytes
        part = f["w"][1:2]
        assert part.shape == (1, 3) and part.nbytes == 12 and file.read_bytes == before
        assert (part.numpy() == w[1:2]).all()
        assert file.read_bytes == before + 12
        assert (f["w"][1].numpy() == w[1]).all() and f["w"][-1].shape == (3,)
        assert (f["w"][0:2][1:2].numpy() == w[1:2]).all()
        assert f["w"][5:9].shape == (0, 3) and f["w"][5:9].numpy().shape == (0, 3)
        assert f["w"][np.int64(1)].shape == (3,)
        with pytest.raises(IndexError):
            f["w"][2]
        with pytest.raises(IndexError, match="step"):
            f["w"][::2]
        with pytest.raises(TypeError, match="numpy"):
            f["w"][0, 1]


@pytest.mark.parametrize("format", FORMATS)
def test_column_major_is_not_copied(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"x.{ENDINGS[format]}"
    values = np.arange(24, dtype="float32").reshape(2, 3, 4)
    tensorfmt.save({"w": values}, path)
    with tensorfmt.open(path, mmap=True) as f:
        array = f["w"].numpy()
        assert (array == values).all() and array.shape == (2, 3, 4)
        if format == "primitiv":
            assert f["w"].order == "F" and array.flags.f_contiguous and not array.flags.owndata
            assert memoryview(f["w"]).f_contiguous
        assert (f["w"][1:2].numpy() == values[1:2]).all()
        assert (np.from_dlpack(f["w"]) == values).all()


def test_files_in_memory(model: Path, arrays: dict[str, np.ndarray]) -> None:
    data = model.read_bytes()
    for file in (data, bytearray(data), memoryview(data), io.BytesIO(data), np.frombuffer(data, "u1")):
        with tensorfmt.open(file) as f:
            assert (f["w"].numpy() == arrays["w"]).all()
    f = tensorfmt.open(data)
    assert not f["w"].numpy().flags.owndata
    changing = bytearray(data)
    f = tensorfmt.open(changing)
    changing[:] = bytes(len(changing))
    assert (f["w"].numpy() == arrays["w"]).all()
    with model.open("rb") as file, tensorfmt.open(file) as f:
        assert (f["b"].numpy() == arrays["b"]).all()
    for wrong in (3, None, ["x"]):
        with pytest.raises(TypeError, match="path"):
            tensorfmt.open(wrong)


def test_a_file_object_that_fails_is_heard(model: Path) -> None:
    class Failing(io.BytesIO):
        broken = False

        def read(self, size: int = -1) -> bytes:
            if self.broken:
                raise RuntimeError("the wire is cut")
            return super().read(size)

    file = Failing(model.read_bytes())
    f = tensorfmt.open(file)
    file.broken = True
    with pytest.raises(RuntimeError, match="the wire is cut"):
        f["w"].numpy()


def test_errors(tmp_path: Path, model: Path) -> None:
    with tensorfmt.open(model) as f:
        with pytest.raises(KeyError, match='did you mean .*"w"') as caught:
            f["W"]
        assert isinstance(caught.value, tensorfmt.NoSuchTensor)
        assert (caught.value.kind, caught.value.tensor) == ("build", "W")
        assert pickle.loads(pickle.dumps(caught.value)).tensor == "W"
    with pytest.raises(ValueError, match="closed"):
        f["w"]
    assert f.closed
    with pytest.raises(FileNotFoundError) as missing:
        tensorfmt.open(tmp_path / "none.mag")
    assert isinstance(missing.value, tensorfmt.FileError) and missing.value.errno == 2
    assert missing.value.filename.endswith("none.mag") and missing.value.kind == "io"
    with pytest.raises(IsADirectoryError):
        tensorfmt.open(tmp_path)
    bad = tmp_path / "bad.mag"
    bad.write_bytes(b"MAG!" + bytes(60))
    with pytest.raises(ValueError) as invalid:
        tensorfmt.open(bad)
    error = invalid.value
    assert isinstance(error, (tensorfmt.InvalidFile, tensorfmt.Unsupported))
    assert error.rule and str(bad) in str(error)
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    with pytest.raises(tensorfmt.InvalidFile, match="PNG"):
        tensorfmt.open(tmp_path / "x.png")
    with pytest.raises(tensorfmt.LimitExceeded, match="max_tensor_count"):
        tensorfmt.open(model, limits={"max_tensor_count": 1})
    with pytest.raises(tensorfmt.UsageError, match="max_wishes"):
        tensorfmt.open(model, limits={"max_wishes": 1})


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensorfmt.save({"w": np.zeros(1 << 20, "u1")}, path)
    with tensorfmt.open(path) as f:
        os.truncate(path, 1000)
        with pytest.raises(OSError, match="shorter"):
            f["w"].numpy()
        with pytest.raises(OSError, match="shorter"):
            f["w"].tobytes()
        with pytest.raises(OSError, match="shorter"):
            np.from_dlpack(f["w"])


def test_pickles_and_copies(model: Path, arrays: dict[str, np.ndarray]) -> None:
    f = tensorfmt.open(model)
    for other in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
        assert (other["w"].numpy() == arrays["w"]).all()
    for tensor in (f["w"], f["w"][1:], f["w"][1], f["w"].astype("float64")):
        other = pickle.loads(pickle.dumps(tensor))
        assert (other.numpy() == tensor.numpy()).all() and other.dtype == tensor.dtype
        assert (copy.deepcopy(tensor).numpy() == tensor.numpy()).all()
    with pytest.raises(TypeError, match="opened by a path"):
        pickle.dumps(tensorfmt.open(model.read_bytes()))


def test_threads_read_one_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.zt"
    arrays = {f"t{i}": np.full(100_000, i, "int32") for i in range(8)}
    tensorfmt.convert(saved(tmp_path, arrays), path, zstd=3)
    wrong = []
    with tensorfmt.open(path) as f:

        def read() -> None:
            for name, array in arrays.items():
                if not (f[name].numpy() == array).all():
                    wrong.append(name)

        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    path = folder / "saved.safetensors"
    tensorfmt.save(arrays, path)
    return path


def test_casts(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = tmp_path / "x.safetensors"
    values = np.array([1.5, -2.0, 0.0], dtype=ml_dtypes.bfloat16)
    tensorfmt.save({"w": values, "n": np.arange(3)}, path)
    with tensorfmt.open(path) as f:
        assert f["w"].dtype == "bfloat16" and f["w"].numpy().dtype == ml_dtypes.bfloat16
        wide = f["w"].astype("float32")
        assert wide.dtype == "float32" and wide.nbytes == 12
        assert wide.numpy().tolist() == [1.5, -2.0, 0.0]
        assert f["w"][1:].astype("float32").numpy().tolist() == [-2.0, 0.0]
        with pytest.raises(tensorfmt.UsageError):
            f["w"].astype("int8")
        with pytest.raises(tensorfmt.UsageError):
            f["w"].astype("float31")


def test_without_ml_dtypes_there_is_a_way(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = tmp_path / "x.safetensors"
    tensorfmt.save({"w": np.array([1.5], dtype=ml_dtypes.bfloat16)}, path)
    script = """
        import sys
        sys.modules["ml_dtypes"] = None
        import tensorfmt
        f = tensorfmt.open(sys.argv[1])
        try:
            f["w"].numpy()
        except tensorfmt.Unsupported as error:
            assert "install ml_dtypes" in str(error), error
        else:
            raise SystemExit("it was read")
        assert f["w"].astype("float32").numpy()[0] == 1.5
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), path], check=True)


def test_import_needs_no_numpy(model: Path) -> None:
    script = """
        import sys, tensorfmt
        f = tensorfmt.open(sys.argv[1])
        assert memoryview(f["w"]).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert not {"numpy", "typing", "json"} & set(sys.modules), set(sys.modules)
    """
    subprocess.run([sys.executable, "-S", "-c", textwrap.dedent(script), model], check=True,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip


def memory() -> int:
    text = Path("/proc/self/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="where Linux tells")
def test_nothing_leaks(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "out.mag"

    def work(times: int) -> None:
        for _ in range(times):
            with tensorfmt.open(model) as f:
                f["w"].numpy()
                memoryview(f["w"])
                np.from_dlpack(f["w"])
                f["w"].__dlpack__()
                f["b"][1:].tobytes()
                f.metadata
                try:
                    f["x"]
                except KeyError:
                    pass

    def save(times: int) -> None:
        values = {"w": np.ones((4, 5), "float32"), "v": memoryview(b"1234").cast("i")}
        for _ in range(times):
            tensorfmt.save(values, other, durable=False)

    work(500)
    save(50)
    gc.collect()
    before, objects = memory(), len(gc.get_objects())
    work(10_000)
    save(500)
    gc.collect()
    assert len(gc.get_objects()) - objects < 200
    assert memory() - before < 4 << 20
