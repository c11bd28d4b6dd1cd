"""What the tests share: a folder with small files, and where the corpus is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import tensorfmt

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("TENSORFMT_CORPUS") or ROOT / ".." / "shared" / "corpus")
FORMATS = ["mag", "ztensor", "burnpack", "aero", "primitiv", "safetensors"]
ENDINGS = {
    "mag": "mag",
    "ztensor": "zt",
    "burnpack": "bpk",
    "aero": "aero",
    "primitiv": "model",
    "safetensors": "safetensors",
}


def corpus() -> list[tuple[Path, dict]]:
    """Each file of the corpus with its manifest."""
    if not CORPUS.is_dir():
        if os.environ.get("TENSORFMT_REQUIRE_CORPUS") == "1":
            raise AssertionError(f"no corpus at {CORPUS}")
        print(f"no corpus at {CORPUS}; TENSORFMT_CORPUS names it")
        return []
    cases = []
    for path in sorted(CORPUS.rglob("*.json")):
        data = path.with_name(path.name.removesuffix(".json"))
        if path.name.endswith(".aeroset.json") or not data.is_file():
            continue
        manifest = json.loads(path.read_bytes())
        if isinstance(manifest, dict) and manifest.get("verdict"):
            cases.append((data, manifest))
    assert cases
    return cases


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    """What every format can hold."""
    return {
        "w": np.arange(6, dtype="float32").reshape(2, 3),
        "b": np.array([0.5, -1.0, 2.0], dtype="float32"),
    }


@pytest.fixture
def model(tmp_path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """A safetensors file of these."""
    path = tmp_path / "model.safetensors"
    tensorfmt.save(arrays, path, metadata={"step": "3"})
    return path
