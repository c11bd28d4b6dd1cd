"""Conversions whose parts others run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tensorfmt

SETS = ["set.safetensors.index.json", "set.aeroset.json"]


def written(folder: Path) -> dict[str, bytes]:
    """What is in a folder, by the names of files."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model of tensors of several sizes."""
    rng = np.random.default_rng(3)
    arrays = {f"layer.{i}.weight": rng.random((1 + 9 * i, 5), "float32") for i in range(9)}
    path = tmp_path / "large.safetensors"
    tensorfmt.save(arrays, path, metadata={"step": "3"})
    return path


@pytest.mark.parametrize("name", SETS)
def test_parts_and_a_join_are_what_convert_writes(large: Path, tmp_path: Path, name: str) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    one.mkdir(), several.mkdir()
    options = {
        "cast": {"*": "f16", "layer.1.*": "bf16"},
        "filter": lambda name: "5" not in name,
        "rename": lambda name: name.replace("layer", "block"),
        "metadata": {"step": 4, "note": "007"},
    }
    losses = tensorfmt.convert(large, one / name, parts=3, **options)
    plan = tensorfmt.plan(large, several / name, parts=3, **options)
    assert plan.losses == losses and len(plan) == 3
    parts = plan.parts()
    assert [part.number for part in parts] == [1, 2, 3] and sum(part.tensors for part in parts) == 8
    assert os.listdir(several) == []
    for i in (2, 0, 1, 0):
        assert plan.run(i, threads=1) == parts[i]
        assert os.path.exists(parts[i].file) and not (several / name).exists()
    assert plan.join() is True
    assert plan.join() is False
    assert written(several) == written(one)
    with tensorfmt.open(plan.target) as f:
        assert len(f) == 8 and "block.0.weight" in f


WORKER = """
    import pickle, sys
    import tensorfmt
    plan = pickle.load(sys.stdin.buffer)
    try:
        print(plan.run(int(sys.argv[1])))
    except tensorfmt.Error as error:
        print(type(error).__name__, error)
"""


def worker(plan: bytes, part: int) -> str:
    """What a process in another folder says that is given a plan and the number of a part."""
    command = [sys.executable, "-c", textwrap.dedent(WORKER), str(part)]
    run = subprocess.run(command, input=plan, capture_output=True, check=True, cwd="/")
    return run.stdout.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="the root is named otherwise")
def test_a_plan_goes_to_another_process(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = tensorfmt.plan(large.name, SETS[0], parts=2, rename={"layer.0.weight": "first"})
    copy = pickle.loads(pickle.dumps(plan))
    assert (copy.fingerprint, copy.parts(), copy.target) == (plan.fingerprint, plan.parts(), plan.target)
    for part in (1, 0):
        assert worker(pickle.dumps(plan), part).startswith(f"<tensorfmt.PlannedPart {part + 1}/2 ")
    assert plan.join()
    assert "first" in tensorfmt.load(SETS[0])


@pytest.mark.skipif(sys.platform == "win32", reason="the root is named otherwise")
def test_an_input_that_changed_since_is_refused(large: Path, tmp_path: Path) -> None:
    target = tmp_path / SETS[0]
    plan = tensorfmt.plan(large, target, parts=2)
    plan.run(0)
    before = written(tmp_path)
    arrays = tensorfmt.load(large)
    # Of the same names and shapes.
    tensorfmt.save({name: a + np.float32(1) for name, a in arrays.items()}, large, metadata={"step": "3"})
    said = worker(pickle.dumps(plan), 1)
    assert said.startswith("InvalidFile ") and "--fingerprint" in said and "has changed" in said, said
    after = written(tmp_path)
    assert {**before, large.name: b""} == {**after, large.name: b""}
    large.unlink()
    assert worker(pickle.dumps(plan), 1).startswith("FileMissing ")
    with pytest.raises(FileNotFoundError):
        plan.run(1)


def test_only_the_parts_of_the_plan_are_joined(large: Path, tmp_path: Path) -> None:
    target = tmp_path / SETS[1]
    old = tensorfmt.plan(large, target, parts=2, overwrite=False)
    for i in range(2):
        old.run(i)
    plan = tensorfmt.plan(large, target, parts=2, cast="f16", overwrite=False)
    assert plan.fingerprint != old.fingerprint
    with pytest.raises(tensorfmt.InvalidFile, match="of another plan"):
        plan.join()
    with pytest.raises(tensorfmt.UsageError, match="another file"):
        plan.run(0)
    assert not target.exists()
    plan = tensorfmt.plan(large, target, parts=2, cast="f16")
    plan.run(0)
    with pytest.raises(tensorfmt.InvalidFile, match="part 2/2"):
        plan.join()
    plan.run(1)
    assert plan.join() and tensorfmt.load(target)["layer.1.weight"].dtype == np.float16
    # Nothing waits, and what is there can't be of this one.
    fewer = tensorfmt.plan(large, target, parts=1, filter="layer.1.*")
    with pytest.raises(tensorfmt.UsageError, match="another set"):
        fewer.join()


def test_what_makes_no_sense_is_said(large: Path, tmp_path: Path) -> None:
    target = tmp_path / SETS[0]
    for parts in (0, 10, -1):
        with pytest.raises(tensorfmt.UsageError):
            tensorfmt.plan(large, target, parts=parts)
    with pytest.raises(tensorfmt.UsageError, match="in one piece"):
        tensorfmt.plan(large, tmp_path / "x.safetensors", parts=2)
    with pytest.raises(TypeError, match="unexpected"):
        tensorfmt.plan(large, target, parts=2, casts="f16")
    with pytest.raises(FileNotFoundError):
        tensorfmt.plan(tmp_path / "none.mag", target, parts=2)
    some = tmp_path / "a.safetensors"
    tensorfmt.save({"a": np.zeros(3, "complex64"), "b": np.zeros(1)}, some)
    with pytest.raises(tensorfmt.Unsupported, match="complex64|c64"):
        tensorfmt.plan(some, tmp_path / SETS[1], parts=1)
    with pytest.raises(tensorfmt.Unsupported, match="strict"):
        tensorfmt.plan(some, tmp_path / SETS[1], parts=1, skip_unsupported=True, strict=True)
    plan = tensorfmt.plan(large, target, parts=9)
    for part in (9, -1):
        with pytest.raises(tensorfmt.UsageError, match="counted from 0 to 8"):
            plan.run(part)
    with pytest.raises(TypeError):
        plan.run("1")
    with pytest.raises(tensorfmt.InvalidFile, match="none of its parts"):
        plan.join()
    assert repr(plan).startswith("<tensorfmt.Plan ") and plan.fingerprint[:12] in repr(plan)
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "large.safetensors"]


def test_what_killed_workers_left_is_taken_away_when_asked(large: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    plan = tensorfmt.plan(large, folder / SETS[0], parts=1)
    plan.run(0)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        left = folder / f".tensorfmt-{ended.pid}-abcdef.tmp"
    left.write_bytes(b"half")
    assert plan.join() and left.exists()
    assert plan.join(remove_leftovers=True) is False and not left.exists()
