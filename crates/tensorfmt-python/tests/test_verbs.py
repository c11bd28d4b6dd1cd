"""What the command line does, from Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import tensorfmt


def test_verify(model: Path, tmp_path: Path) -> None:
    report = tensorfmt.verify(model)
    assert report.ok and report["format"] == "safetensors" and report["error"] is None
    path = tmp_path / "x.aero"
    tensorfmt.convert(model, path)
    assert tensorfmt.verify(path).ok
    data = bytearray(path.read_bytes())
    place = data.index(np.arange(6, dtype="f4").tobytes())
    data[place] ^= 1
    path.write_bytes(data)
    report = tensorfmt.verify(path)
    assert not report.ok and any(item["outcome"] == "failed" for item in report["items"])
    path.write_bytes(data[:40])
    assert tensorfmt.verify(path)["error"]["kind"] == "invalid"
    with pytest.raises(FileNotFoundError):
        tensorfmt.verify(tmp_path / "none.mag")


def test_diff_hash_stats_inspect(model: Path, tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    other = tmp_path / "x.mag"
    tensorfmt.convert(model, other)
    assert tensorfmt.diff(model, other).ok
    assert tensorfmt.hash(model)["model"] == tensorfmt.hash(other)["model"]
    changed = {**arrays, "w": arrays["w"] + np.float32(1e-3)}
    tensorfmt.save(changed, other)
    report = tensorfmt.diff(model, other)
    assert not report.ok and [t["name"] for t in report["tensors"]] == ["w"]
    assert tensorfmt.diff(model, other, atol=1e-2).ok
    assert tensorfmt.diff(model, other, filter=lambda name: name == "b").ok
    assert tensorfmt.diff(model, other, exclude="w").ok
    assert tensorfmt.hash(model, algorithm="sha256", filter="b")["tensors"][0]["name"] == "b"
    with pytest.raises(tensorfmt.UsageError):
        tensorfmt.hash(model, algorithm="md4")
    with pytest.raises(tensorfmt.UsageError):
        tensorfmt.hash(model, filter=lambda name: False)
    found = tensorfmt.stats(model)["tensors"]
    assert [t["name"] for t in found] == ["w", "b"] and found[0]["max"] == 5.0
    assert tensorfmt.inspect(model)["tensors"][1]["dtype"] == "f32"


def test_convert(model: Path, tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    out = tmp_path / "x.safetensors"
    losses = tensorfmt.convert(model, out, cast="f16", filter=lambda n: n == "w", rename=str.upper,
                               metadata={"epoch": 2, "note": "007"})  # fmt: skip
    assert losses == []
    with tensorfmt.open(out) as f:
        assert list(f) == ["W"] and f["W"].dtype == "float16"
        assert f.metadata["note"] == "007" and f.metadata["step"] == "3"
    tensorfmt.convert(model, out, cast={"b": "bf16"}, rename={"w": "v"})
    with tensorfmt.open(out) as f:
        assert f["b"].dtype == "bfloat16" and f["v"].dtype == "float32"
    losses = tensorfmt.convert(model, tmp_path / "x.model")
    assert [(loss.kind, loss.item) for loss in losses] == [("metadata", "step")]
    with pytest.raises(tensorfmt.Unsupported):
        tensorfmt.convert(model, tmp_path / "y.model", strict=True)
    assert not (tmp_path / "y.model").exists()
    with pytest.raises(tensorfmt.UsageError, match="exists"):
        tensorfmt.convert(model, out, overwrite=False)
    with pytest.raises(tensorfmt.UsageError):
        tensorfmt.convert(model, out, filter="nothing*")
    with pytest.raises(FileNotFoundError):
        tensorfmt.convert(tmp_path / "none.mag", out)
    a, b = tmp_path / "a.mag", tmp_path / "-b.mag"
    tensorfmt.save({"a": arrays["w"]}, a)
    tensorfmt.save({"-b": arrays["b"]}, b)
    tensorfmt.convert([a, b], out)
    assert list(tensorfmt.load(out)) == ["a", "-b"]
    tensorfmt.convert([a, b], out, filter=lambda name: name == "-b")
    assert list(tensorfmt.load(out)) == ["-b"]
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert tensorfmt.verify("-b.mag").ok
        tensorfmt.convert("-b.mag", "-c.zt")
        assert (tmp_path / "-c.zt").exists()
    finally:
        os.chdir(here)


def test_progress_with_tqdm(model: Path, tmp_path: Path) -> None:
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(unit="B", disable=False, file=open(os.devnull, "w")) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        tensorfmt.convert(model, tmp_path / "x.mag", progress=progress)
        assert bar.n == bar.total > 0
        bar.fp.close()


SCRIPT = """
    import os, sys, threading, signal, time
    import numpy as np, tensorfmt
    folder = sys.argv[1]
    work = {
        "save": lambda: tensorfmt.save(big, folder + "/out.aero"),
        "convert": lambda: tensorfmt.convert(folder + "/in.safetensors", folder + "/out.zt", zstd=19),
        "hash": lambda: [tensorfmt.hash(folder + "/in.safetensors", algorithm="sha256") for _ in range(99)],
    }[sys.argv[2]]
    # What can't be compressed takes long.
    big = {"w": np.random.default_rng(1).integers(0, 255, 300 << 20, "uint8")}
    if sys.argv[2] != "save":
        tensorfmt.save(big, folder + "/in.safetensors", durable=False)
    main = os.getpid()
    threading.Timer(0.05, lambda: os.kill(main, signal.SIGINT)).start()
    start = time.monotonic()
    try:
        work()
    except KeyboardInterrupt:
        print("stopped", time.monotonic() - start)
    else:
        print("done", time.monotonic() - start)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("what", ["save", "convert", "hash"])
def test_ctrl_c(tmp_path: Path, what: str) -> None:
    run = [sys.executable, "-c", textwrap.dedent(SCRIPT), os.fspath(tmp_path), what]
    said = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    assert said[0] == "stopped", said
    assert float(said[1]) < 5
    assert set(os.listdir(tmp_path)) <= {"in.safetensors"}


def test_other_threads_run_meanwhile(tmp_path: Path) -> None:
    import threading

    path = tmp_path / "x.safetensors"
    tensorfmt.save({"w": np.ones(100 << 20, "uint8")}, path, durable=False)
    turns = 0
    ended = threading.Event()

    def count() -> None:
        nonlocal turns
        while not ended.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = turns
        for _ in range(3):
            tensorfmt.hash(path, algorithm="sha256")
        assert turns - before > 20
    finally:
        ended.set()
        thread.join()


def test_the_program(model: Path, tmp_path: Path) -> None:
    program = Path(sys.executable).parent / ("tensorfmt.exe" if os.name == "nt" else "tensorfmt")
    for command in ([program], [sys.executable, "-m", "tensorfmt"]):
        run = subprocess.run([*command, "inspect", model], capture_output=True, text=True)
        assert run.returncode == 0 and "safetensors" in run.stdout and run.stderr == ""
        run = subprocess.run([*command, "verify", tmp_path / "none"], capture_output=True, text=True)
        assert run.returncode == 3 and run.stderr.startswith("tensorfmt: ")
        assert subprocess.run([*command, "inspekt"], capture_output=True).returncode == 2
        run = subprocess.run([*command, "--version"], capture_output=True, text=True)
        assert run.stdout == f"tensorfmt {tensorfmt.__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_the_program_ends_on_a_signal_as_programs_do(tmp_path: Path) -> None:
    source = tmp_path / "in.safetensors"
    noise = np.random.default_rng(1).integers(0, 255, 100 << 20, "uint8")
    tensorfmt.save({"w": noise}, source, durable=False)
    command = [sys.executable, "-m", "tensorfmt", "convert", "--zstd", "19", source, tmp_path / "out.zt"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Traceback" not in said, (process.returncode, said)
    assert os.listdir(tmp_path) == ["in.safetensors"]
