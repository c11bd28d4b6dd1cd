#!/usr/bin/env python3
"""Holds sets of safetensors against the Python libraries that write and read them.

Run by `cargo xtask interop`, which makes an environment with huggingface_hub, safetensors and numpy, and
builds the command line first. Exits 1 on any difference."""

import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from huggingface_hub.serialization import split_state_dict_into_shards_factory
from safetensors import TensorSpec, safe_open, serialize_file
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "target" / "release" / ("tensorfmt.exe" if os.name == "nt" else "tensorfmt")
INDEX = "model.safetensors.index.json"


def run(*arguments):
    ran = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{arguments}: exit {ran.returncode}: {ran.stderr}")
    return ran.stdout


def save_bytes(tensors, path, metadata):
    """Saves tensors of any dtype, each its bytes, in the order that they have."""
    buffers = {name: ctypes.create_string_buffer(data, max(len(data), 1)) for name, (_, _, data) in tensors.items()}
    specs = {
        name: TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[name]), data_len=len(data))
        for name, (dtype, shape, data) in tensors.items()
    }
    serialize_file(specs, path, metadata=metadata)


def write_reference(folder, tensors, max_bytes):
    """A set as the libraries write it: their split, their files, their JSON."""
    split = split_state_dict_into_shards_factory(
        tensors,
        max_shard_size=max_bytes,
        get_storage_size=lambda tensor: tensor.nbytes,
        get_storage_id=lambda tensor: None,
        filename_pattern="model{suffix}.safetensors",
    )
    for name, members in split.filename_to_tensors.items():
        save_file({key: tensors[key] for key in members}, folder / name, metadata={"format": "np"})
    if split.is_sharded:
        index = {"metadata": {**split.metadata}, "weight_map": split.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    return split


def values(folder, names_by_file):
    found = {}
    for name, members in names_by_file.items():
        with safe_open(folder / name, "np") as file:
            assert sorted(file.keys()) == sorted(members), name
            for key in members:
                found[key] = file.get_tensor(key)
    return found


def same_split(seed):
    """The same tensors, written by us and by the libraries: equal split, equal index, equal values."""
    choose = random.Random(seed)
    dtypes = [numpy.float32, numpy.float16, numpy.int64, numpy.uint8, numpy.bool_]
    letters = ["layers", "größe", "a\"b", "\u4e2d", "\U0001f600", "w"]
    tensors = {}
    for number in range(choose.randint(2, 60)):
        shape = [choose.randint(0, 12) for _ in range(choose.randint(0, 3))]
        dtype = choose.choice(dtypes)
        array = numpy.frombuffer(choose.randbytes(int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize), numpy.uint8)
        array = (array % 2).astype(numpy.bool_) if dtype is numpy.bool_ else array.view(dtype)
        tensors[f"{choose.choice(letters)}.{number}"] = array.reshape(shape)
    most = max(tensor.nbytes for tensor in tensors.values())
    limit = choose.choice([most, most + 100, max(most // 2, 1), 4000])
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = Path(folder, "theirs"), Path(folder, "ours")
        theirs.mkdir(), ours.mkdir()
        split = write_reference(theirs, tensors, limit)
        # One file, in the order of the calls, which the libraries' own writer would change.
        plain = {name: (str(array.dtype), list(array.shape), array.tobytes()) for name, array in tensors.items()}
        save_bytes(plain, Path(folder, "one.safetensors"), {"format": "np"})
        listed = [tensor["name"] for tensor in json.loads(run("inspect", "--json", Path(folder, "one.safetensors")))["tensors"]]
        if listed != list(tensors):
            # Their order is ours from here on.
            tensors = {name: tensors[name] for name in listed}
            for file in theirs.iterdir():
                file.unlink()
            split = write_reference(theirs, tensors, limit)
        run("convert", Path(folder, "one.safetensors"), ours / INDEX, "--max-shard-size", limit)
        if split.is_sharded:
            expected, found = (theirs / INDEX).read_bytes(), (ours / INDEX).read_bytes()
            assert expected == found, f"seed {seed}: the index differs"
        found = values(ours, {
            (name if split.is_sharded else "model-00001-of-00001.safetensors"): members
            for name, members in split.filename_to_tensors.items()
        })
        for name, array in tensors.items():
            assert found[name].tobytes() == array.tobytes() and found[name].shape == array.shape, name
        if split.is_sharded:
            run("verify", theirs / INDEX)
            run("diff", theirs / INDEX, ours / INDEX)
            run("diff", theirs / INDEX, Path(folder, "one.safetensors"))
    return split.is_sharded


def real_shape(layers, width, shards, tied):
    """A model as it is shipped, at a small width: bf16, a shard for every few layers, tied weights dropped."""
    choose = numpy.random.default_rng(layers)
    bf16 = lambda *shape: ("bfloat16", list(shape), choose.bytes(2 * int(numpy.prod(shape))))
    tensors = {"model.embed_tokens.weight": bf16(width * 8, width)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        for name in ["q_proj", "k_proj", "v_proj", "o_proj"]:
            tensors[f"{prefix}.self_attn.{name}.weight"] = bf16(width, width)
        for name in ["gate_proj", "up_proj"]:
            tensors[f"{prefix}.mlp.{name}.weight"] = bf16(4 * width, width)
        tensors[f"{prefix}.mlp.down_proj.weight"] = bf16(width, 4 * width)
        tensors[f"{prefix}.input_layernorm.weight"] = bf16(width)
    tensors["model.norm.weight"] = bf16(width)
    metadata = {"format": "pt"}
    if tied:
        metadata["lm_head.weight"] = "model.embed_tokens.weight"
    else:
        tensors["lm_head.weight"] = bf16(width * 8, width)
    total = sum(len(tensor[2]) for tensor in tensors.values())
    split = split_state_dict_into_shards_factory(
        tensors,
        max_shard_size=total // shards,
        get_storage_size=lambda tensor: len(tensor[2]),
        get_storage_id=lambda tensor: None,
        filename_pattern="model{suffix}.safetensors",
    )
    files = split.filename_to_tensors
    assert len(files) >= 30, len(files)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, members in files.items():
            save_bytes({key: tensors[key] for key in members}, folder / name, metadata)
        index = {"metadata": {**split.metadata, "total_parameters": total // 2}, "weight_map": split.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
        listed = json.loads(run("inspect", "--json", folder / INDEX))
        assert len(listed["tensors"]) == len(tensors) and listed["shards"] == len(files)
        run("verify", "--strict", folder / INDEX)
        digests = lambda file: sorted((tensor["name"], tensor["digest"]) for tensor in json.loads(run("hash", "--json", file))["tensors"])
        expected = digests(folder / INDEX)
        run("stats", folder / INDEX)
        for there in ["one.safetensors", "x.zt", "x.bpk", "x.aero", "set.aeroset.json"]:
            run("convert", folder / INDEX, folder / there)
            assert digests(folder / there) == expected, there
            run("diff", folder / INDEX, folder / there)
            back = folder / f"back-{there}"
            back.mkdir()
            run("convert", folder / there, back / INDEX, "--max-shard-size", total // shards)
            assert digests(back / INDEX) == expected, there
            weight_map = json.loads((back / INDEX).read_text())["weight_map"]
            names = {}
            for name, file in weight_map.items():
                names.setdefault(file, []).append(name)
            for file, members in names.items():
                with safe_open(back / file, "np") as shard:
                    assert sorted(shard.keys()) == sorted(members), file
        # mag has no bf16, primitiv nothing but f32: both are told, and take the values as f32.
        for there in ["x.mag", "x.model"]:
            run("convert", folder / INDEX, folder / there, "--cast", "f32")
        copy = folder / "copy"
        copy.mkdir()
        run("convert", folder / INDEX, copy / INDEX)
        for name in files:
            theirs = json.loads((folder / name).read_bytes()[8:].split(b"}}", 1)[0] + b"}}")
            ours = json.loads((copy / name).read_bytes()[8:].split(b"}}", 1)[0] + b"}}")
            assert theirs.keys() == ours.keys(), name
    return len(files), len(tensors)


sharded = sum(same_split(seed) for seed in range(60))
print(f"60 models split, {sharded} of them into shards: index and values as the libraries write them")
for arguments in [(40, 32, 30, True), (64, 24, 40, False)]:
    files, tensors = real_shape(*arguments)
    print(f"a model of {tensors} tensors in {files} shards: read, checked, converted and back, equal digests")
