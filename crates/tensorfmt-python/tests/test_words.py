"""What documentation says is what happens."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensorfmt

HERE = Path(__file__).resolve().parents[1]
MODULES = ["tensorfmt", "tensorfmt._archive", "tensorfmt._save", "tensorfmt._verbs"]
MODULES += ["tensorfmt._compat", "tensorfmt._convert", "tensorfmt._plan"]


@pytest.fixture
def beside(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples find these files where they run."""
    monkeypatch.chdir(model.parent)
    tensorfmt.convert(model, "model.mag")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, beside: None) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted > 1


def test_readme(beside: None) -> None:
    result = doctest.testfile(os.fspath(HERE / "README.md"), module_relative=False)
    assert result.failed == 0 and result.attempted > 8


def test_the_example_runs(tmp_path: Path) -> None:
    run = [sys.executable, "-W", "error", os.fspath(HERE / "examples" / "tour.py"), os.fspath(tmp_path)]
    said = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert "w float32 (2, 3) 24" in said and "36 of 36 bytes" not in said.splitlines()[0]


def test_all_that_is_public_is_documented() -> None:
    for name in tensorfmt.__all__:
        value = getattr(tensorfmt, name)
        if name == "__version__":
            continue
        assert inspect.getdoc(value), name
        if isinstance(value, type) and value.__module__.startswith("tensorfmt"):
            for part, member in vars(value).items():
                if not part.startswith("_") and callable(member):
                    assert inspect.getdoc(member), f"{name}.{part}"
