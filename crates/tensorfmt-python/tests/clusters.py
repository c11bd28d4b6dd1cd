"""The examples for engines, with the engines themselves: `cargo xtask clusters` runs this.

A source with holes is converted by one process, then by four workers, then by four of which one is killed on the
way; all sets are the same, byte for byte. What it took is printed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensorfmt

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BYTES = int(os.environ.get("TENSORFMT_CLUSTER_BYTES") or 8 << 30)
TENSORS, PARTS, WORKERS = 64, 16, 4
SETS = ["out.safetensors.index.json", "out.aeroset.json"]
ENGINES = ["ray", "dask"]
STARTED = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:7.1f} s  {text}", flush=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the source; what is in it is large, and is not kept."""
    folder = tmp_path_factory.mktemp("clusters")
    make(folder / "in.safetensors")
    yield folder
    shutil.rmtree(folder)


def make(path: Path) -> None:
    """A file of tensors that are mostly holes, with some values in each."""
    each = BYTES // TENSORS
    header = {
        f"layer.{i}.weight": {
            "dtype": "F32",
            "shape": [each // 4096, 1024],
            "data_offsets": [i * each, (i + 1) * each],
        }
        for i in range(TENSORS)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(5)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        start = file.tell()
        for i in range(TENSORS):
            file.seek(start + i * each + int(rng.integers(each - (1 << 16)) // 4 * 4))
            file.write(rng.random(1 << 14, "float32").tobytes())
        file.truncate(start + TENSORS * each)
    held = path.stat().st_blocks * 512
    say(f"the source: {path.stat().st_size} bytes, of which the disk holds {held}")


def differs(a: Path, b: Path) -> str:
    """What is not the same in two folders."""
    names = sorted(path.name for path in a.iterdir())
    if names != sorted(path.name for path in b.iterdir()):
        return f"{names} {sorted(path.name for path in b.iterdir())}"
    for name in names:
        with (a / name).open("rb") as one, (b / name).open("rb") as other:
            while True:
                piece = one.read(8 << 20)
                if piece != other.read(8 << 20):
                    return name
                if not piece:
                    break
    return ""


class Watcher(threading.Thread):
    """Notes when the first part is begun, and kills the first worker that is seen in the middle of one, if asked."""

    def __init__(self, folder: Path, enough: int, kills: bool) -> None:
        super().__init__(daemon=True)
        self.folder, self.enough, self.kills = folder, enough, kills
        self.begun: float | None = None
        self.killed: int | None = None
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.002) and (self.begun is None or (self.kills and self.killed is None)):
            for path in self.folder.iterdir():
                named = re.fullmatch(r"\.tensorfmt-(\d+)-.*\.tmp", path.name)
                if named and self.begun is None:
                    self.begun = time.monotonic()
                try:
                    if named and self.kills and path.stat().st_size > self.enough:
                        os.kill(int(named[1]), signal.SIGKILL)
                        self.killed = int(named[1])
                        break
                except OSError:
                    continue


def run(engine: str, source: Path, target: Path, kills: bool) -> tuple[float, float]:
    """Runs an example, and returns how long it took, and until the first part was begun."""
    target.parent.mkdir()
    watcher = Watcher(target.parent, BYTES // PARTS // 8, kills)
    watcher.start()
    command = [sys.executable, EXAMPLES / f"{engine}_convert.py", source, target]
    command += ["--no-verify", f"--parts={PARTS}", f"--workers={WORKERS}"]
    began = time.monotonic()
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    took = time.monotonic() - began
    watcher.over.set()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == os.fspath(target)
    assert ended.stdout.count("tensors, ") == PARTS
    assert (watcher.killed is not None) == kills, "no worker was slow enough to be killed"
    return took, (watcher.begun or began) - began


@pytest.mark.parametrize("name", SETS)
def test_engines_write_what_one_process_does(folder: Path, name: str) -> None:
    source, one = folder / "in.safetensors", folder / "one"
    times: dict[str, float] = {}
    for label, threads in (("one process, one thread", 1), ("one process", 0)):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir()
        began = time.monotonic()
        tensorfmt.convert(source, one / name, parts=PARTS, threads=threads, verify=False)
        times[label] = time.monotonic() - began
        say(f"{name}: {label}: {times[label]:.1f} s")
    for engine in ENGINES:
        for kills in (False, True):
            several = folder / "several"
            took, start = run(engine, source, several / name, kills)
            what = f"{engine}, {WORKERS} workers" + (", one of them killed" if kills else "")
            one_thread = times["one process, one thread"]
            gain = f"{one_thread / took:.2f} times as fast as one thread, {one_thread / (took - start):.2f} without"
            assert differs(one, several) == "", what
            shutil.rmtree(several)
            say(f"{name}: {what}: {took:.1f} s with {start:.1f} s to start, {gain}; the same bytes")
    shutil.rmtree(one)
