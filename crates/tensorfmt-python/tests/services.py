"""The package with a real server of S3's protocol, which `cargo xtask remote` starts before it runs this.

The bucket `models` has the files of a folder: TENSORFMT_S3_ENDPOINT and TENSORFMT_S3_FILES name both.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import tensorfmt

FILES = Path(os.environ["TENSORFMT_S3_FILES"])
OPTIONS = {
    "endpoint_url": os.environ["TENSORFMT_S3_ENDPOINT"],
    "key": "testing",
    "secret": "testing",
    "client_kwargs": {"region_name": "us-east-1"},
}
NAMES = ["m.safetensors", "m.zt", "s.safetensors.index.json", "s.aeroset.json"]


@pytest.fixture(autouse=True)
def no_settings_but_those_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", NAMES)
def test_files_there_are_those_here(name: str) -> None:
    there, here = f"s3://models/{name}", FILES / name
    with tensorfmt.open(there, storage_options=OPTIONS) as f, tensorfmt.open(here) as g:
        assert list(f) == list(g) and f.address == there
        assert (f["t5"][7:9].numpy() == g["t5"][7:9].numpy()).all()
        assert (pickle.loads(pickle.dumps(f["t23"])).numpy() == g["t23"].numpy()).all()
    arrays = tensorfmt.load(there, names=["t1", "t2"], storage_options=OPTIONS)
    assert (arrays["t2"] == tensorfmt.load(here, names=["t2"])["t2"]).all()
    assert tensorfmt.verify(there, storage_options=OPTIONS).ok
    assert tensorfmt.diff(there, here, storage_options=OPTIONS).ok
    digests = tensorfmt.hash(there, storage_options=OPTIONS)
    assert digests["model"] == tensorfmt.hash(here)["model"]
    values = tensorfmt.stats(there, filter="t3", storage_options=OPTIONS)
    assert values["tensors"] == tensorfmt.stats(here, filter="t3")["tensors"]


def test_conversions_from_and_to_it(tmp_path: Path) -> None:
    there = "s3://models/python.aero"
    tensorfmt.convert("s3://models/m.zt", there, cast="f16", storage_options=OPTIONS)
    assert tensorfmt.verify(there, storage_options=OPTIONS).ok
    with pytest.raises(tensorfmt.UsageError, match="exists"):
        tensorfmt.convert("s3://models/m.zt", there, overwrite=False, storage_options=OPTIONS)
    plan = tensorfmt.plan(there, tmp_path / "set.aeroset.json", parts=3, storage_options=OPTIONS)
    for part in range(3):
        pickle.loads(pickle.dumps(plan)).run(part)
    assert plan.join()
    assert tensorfmt.diff(there, plan.target, tensors_only=True, storage_options=OPTIONS).ok


def test_what_is_not_there_or_not_allowed_is_said() -> None:
    for place in ("models/none.zt", "none/m.zt"):
        with pytest.raises(FileNotFoundError):
            tensorfmt.open(f"s3://{place}", storage_options=OPTIONS)
