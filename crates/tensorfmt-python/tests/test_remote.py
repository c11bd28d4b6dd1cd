"""Files on web servers and in object stores, and options for these."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import numpy as np
import pytest

import tensorfmt

SECRET = "hunter2-0123456789"


class Handler(BaseHTTPRequestHandler):
    """Answers ranges of the files of a folder, at any depth of path, and notes what it was asked."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, with_body: bool) -> None:
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        path = self.server.folder / self.path.partition("?")[0].rpartition("/")[2]
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data, begin = path.read_bytes(), 0
        size, asked = len(data), self.headers.get("Range")
        if asked and self.server.ranges:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin = int(first) if first else max(size - int(last), 0)
            data = data[begin : int(last) + 1 if first and last else size]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{begin + len(data) - 1}/{size}")
        else:
            self.send_response(200)
        self.send_header("ETag", f'"{path.stat().st_mtime_ns:x}-{size:x}"')
        self.send_header("Last-Modified", "Sat, 01 Feb 2025 00:00:00 GMT")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.ranges = True
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server(model: Path) -> Iterator[Server]:
    """A server of the folder of the model."""
    with Server(model.parent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def s3(server: Server, **more: object) -> dict[str, object]:
    """Options for a store of S3's protocol at a server."""
    return {"endpoint_url": server.address, "region": "us-east-1", **more}


def test_a_web_server(server: Server, model: Path, arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    address = f"{server.address}/a/model.safetensors"
    with tensorfmt.open(address) as f:
        assert (f.address, f.path, f.mmap, list(f)) == (address, None, False, ["w", "b"])
        assert repr(f).startswith(f'<tensorfmt.Archive "{address}": ')
        assert (f["w"][1:].numpy() == arrays["w"][1:]).all()
        again = pickle.loads(pickle.dumps(f))
        assert (again["b"].numpy() == arrays["b"]).all()
        tensor = pickle.loads(pickle.dumps(f["w"]))
        assert (tensor.numpy() == arrays["w"]).all()
    assert {name: a.tolist() for name, a in tensorfmt.load(address).items()} == {
        name: a.tolist() for name, a in arrays.items()
    }
    here = tmp_path / "here.mag"
    tensorfmt.convert(address, here, filter=lambda name: name == "w")
    assert (tensorfmt.load(here)["w"] == arrays["w"]).all()
    tensorfmt.convert(address, here)
    assert tensorfmt.verify(address).ok and tensorfmt.diff(address, here).ok
    assert tensorfmt.hash(address)["model"] == tensorfmt.hash(model)["model"]
    assert tensorfmt.stats(address)["tensors"] == tensorfmt.stats(model)["tensors"]
    assert tensorfmt.inspect(address)["metadata"] == {"step": "3"}
    plan = tensorfmt.plan(address, tmp_path / "set.aeroset.json", parts=2)
    copy = pickle.loads(pickle.dumps(plan))
    for part in range(2):
        copy.run(part)
    assert plan.join() and (tensorfmt.load(plan.target)["w"] == arrays["w"]).all()


def test_what_a_server_can_t_give_is_said(server: Server, model: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not found") as caught:
        tensorfmt.open(f"{server.address}/none.mag")
    assert isinstance(caught.value, tensorfmt.FileError)
    for verb in (tensorfmt.verify, tensorfmt.hash, tensorfmt.stats, tensorfmt.inspect):
        with pytest.raises(FileNotFoundError):
            verb(f"{server.address}/none.mag")
    with pytest.raises(tensorfmt.UsageError, match="mapped"):
        tensorfmt.open(f"{server.address}/model.safetensors", mmap=True)
    with pytest.raises(tensorfmt.Unsupported, match="web servers"):
        tensorfmt.convert(model, f"{server.address}/x.mag")
    server.ranges = False
    (model.parent / "large.safetensors").write_bytes(model.read_bytes() + bytes(1 << 20))
    with pytest.raises(tensorfmt.Unsupported, match="download it first"):
        tensorfmt.open(f"{server.address}/large.safetensors")


def test_secrets_are_not_shown(server: Server) -> None:
    host = server.address.removeprefix("http://")
    address = f"http://me:{SECRET}@{host}/model.safetensors?X-Signature={SECRET}"
    with tensorfmt.open(address) as f:
        assert f.address == f"{server.address}/model.safetensors?..."
        assert SECRET not in repr(f) and len(f) == 2
        assert len(pickle.loads(pickle.dumps(f))) == 2
    for call in (
        lambda: tensorfmt.open(address.replace("model.", "none.")),
        lambda: tensorfmt.verify(address.replace("model.", "none.")),
        lambda: tensorfmt.open(address, storage_options={"secret": SECRET}),
        lambda: tensorfmt.open("s3://a/b.zt", storage_options=s3(server, secrte=SECRET)),
        lambda: tensorfmt.open("s3://a/b.zt", storage_options=s3(server, anon=SECRET)),
        lambda: tensorfmt.open("s3://a/b.zt", storage_options=s3(server, key=SECRET, secret=SECRET)),
        lambda: tensorfmt.hash("s3://a/b.zt", storage_options=s3(server, key=SECRET, secret=SECRET)),
        lambda: tensorfmt.open("s3://a/b.zt", storage_options={"secret": [SECRET]}),
    ):
        with pytest.raises((tensorfmt.Error, TypeError)) as caught:
            call()
        assert SECRET not in str(caught.value) and SECRET not in repr(caught.value)


def test_a_store_with_options(server: Server, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "s3://bucket/folder/model.safetensors"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-environment")

    def signed(options: dict[str, object]) -> tuple[str, str, str | None]:
        """Path, authorization and token of the last request."""
        server.asked.clear()
        with tensorfmt.open(address, storage_options=options) as f:
            assert len(f) == 2
            pickle.loads(pickle.dumps(f)).close()
        assert len({headers.get("authorization", "").partition("/")[0] for _, _, headers in server.asked}) == 1
        _, path, headers = server.asked[-1]
        return path, headers.get("authorization", ""), headers.get("x-amz-security-token")

    path, authorization, token = signed(s3(server, key="mine", secret=SECRET))
    assert path == "/bucket/folder/model.safetensors"
    # A token of the environment is not that of the key.
    assert "Credential=mine/" in authorization and "/us-east-1/s3/" in authorization and token is None
    assert signed(s3(server, key="mine", secret=SECRET, token="temporary"))[2] == "temporary"
    client = {"endpoint_url": server.address, "region_name": "eu-west-9"}
    path, authorization, token = signed({"client_kwargs": client})
    assert "Credential=of-the-environment/" in authorization and "/eu-west-9/" in authorization
    assert token == "of-the-environment"
    assert signed(s3(server, anon=True))[1:] == ("", None)
    own = {"aws_endpoint": server.address, "aws_allow_http": True, "AWS_REGION": "a-b-1", "skip_signature": 1}
    assert signed(own)[1:] == ("", None)
    options = s3(server, anon=True)
    assert tensorfmt.verify(address, storage_options=options).ok
    assert tensorfmt.hash(address, storage_options=options) == {
        **tensorfmt.hash(model),
        **({"path": address} if "path" in tensorfmt.hash(model) else {}),
    }
    assert tensorfmt.stats(address, storage_options=options)["tensors"][0]["max"] == 5.0
    assert tensorfmt.inspect(address, storage_options=options)["format"] == "safetensors"
    assert tensorfmt.diff(address, model, storage_options=options).ok
    assert list(tensorfmt.load(address, storage_options=options)) == ["w", "b"]
    out = model.parent / "out.aeroset.json"
    plan = tensorfmt.plan(address, out, parts=1, storage_options=options)
    pickle.loads(pickle.dumps(plan)).run(0)
    assert plan.join() and tensorfmt.diff(address, out, storage_options=options, tensors_only=True).ok


def test_options_that_are_for_nothing_are_errors(model: Path, server: Server) -> None:
    with pytest.raises(tensorfmt.UsageError, match="none is given"):
        tensorfmt.open(model, storage_options={"anon": True})
    with pytest.raises(tensorfmt.UsageError, match="none is given"):
        tensorfmt.convert(model, model.parent / "x.mag", storage_options={"anon": True})
    with pytest.raises(tensorfmt.UsageError, match='"account_name"; there are anon, aws_access_key_id'):
        tensorfmt.verify("s3://a/b.zt", storage_options={"account_name": "x"})
    with pytest.raises(tensorfmt.UsageError, match="which have none"):
        tensorfmt.open(f"{server.address}/model.safetensors", storage_options={"anon": True})
    # Of several stores one has it.
    with pytest.raises(tensorfmt.Error) as caught:
        tensorfmt.diff("s3://a/b.zt", "az://a/b.zt", storage_options=s3(server, anon=True, account_name="x"))
    assert "no setting" not in str(caught.value)
    assert len(tensorfmt.load(model, storage_options={})) == 2


def test_file_objects_of_fsspec(model: Path, arrays: dict[str, np.ndarray]) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/folder/model.safetensors", model.read_bytes())
    with fsspec.open("memory://folder/model.safetensors") as file, tensorfmt.open(file) as f:
        assert (f["w"].numpy() == arrays["w"]).all() and f.path is None
    for at in (f"file://{model}", f"filecache::file://{model}", f"simplecache::file://{model}"):
        with fsspec.open(at, "rb") as file:
            assert (tensorfmt.load(file)["b"] == arrays["b"]).all(), at
    assert tensorfmt.open(f"file://{model}").format == "safetensors"
