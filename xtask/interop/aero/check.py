"""Holds .aero files against the rules of the format's strict readers, sharing no code with us.

    pip install blake3 zstandard msgpack
    python check.py FILE.aero...

Prints a line per file; exits 1 if any breaks a rule. The rules are those of docs/formats/aero.md,
and what a strict writer keeps beside them: zero padding, payloads at multiples of 16, the order,
names and flags of chunks, one zstd frame with its content size.
"""

import json
import struct
import sys

import blake3
import msgpack
import zstandard

SIZES = {0: 2, 1: 4, 2: 2, 3: 8, 4: 1, 5: 1, 6: 2, 7: 2, 8: 4, 9: 4, 10: 8, 11: 8, 12: 1}
RANK = {b"IHSH": 0, b"MJSN": 1, b"MMSG": 2, b"TIDX": 3, b"WTSH": 4, b"PHSH": 4}
FLAGS = {b"IHSH": {8}, b"MJSN": {0, 1}, b"MMSG": {0, 1}, b"TIDX": {4, 5}, b"WTSH": {2}, b"PHSH": {8}}


def digest(data):
    return blake3.blake3(bytes(data)).digest()


def need(condition, what):
    if not condition:
        raise ValueError(what)


def unpack(data):
    return msgpack.unpackb(data, raw=False, strict_map_key=False)


def check(data):
    need(data[:4] == b"AERO", "magic")
    major, minor, size, toc, toc_len, names, names_len, flags = struct.unpack_from("<HHIQQQQQ", data, 4)
    need((major, minor, size, flags) == (0, 1, 96, 0), "version, header_size or file_flags")
    need(data[68:96] == bytes(28), "reserved")
    count, zero, zeros = struct.unpack_from("<IIQ", data, toc)
    need(toc == 96 and toc_len == 16 + 80 * count and zero == zeros == 0, "table")
    need(names == toc + toc_len and names_len % 8 == 0, "string table")
    end, rank, keys, chunks = names + names_len, 0, set(), []
    for i in range(count):
        at = toc + 16 + 80 * i
        fourcc, bits, offset, length, ulen, name_off, name_len, zero = struct.unpack_from("<4sIQQQIIQ", data, at)
        start = names + name_off
        need(zero == 0 and name_off + name_len < names_len and data[start + name_len] == 0, "name")
        name = data[start : start + name_len].decode()
        need((fourcc, name) not in keys, f"{name} twice")
        keys.add((fourcc, name))
        need(fourcc in RANK and bits in FLAGS[fourcc] and RANK[fourcc] >= rank, f"{name}: order or flags")
        rank = RANK[fourcc]
        need(offset % 16 == 0 and offset >= end and not any(data[end:offset]), f"{name}: place or padding")
        end = offset + length
        need(end <= len(data), f"{name}: past the end")
        payload = data[offset:end]
        if bits & 1:
            need(zstandard.frame_content_size(payload) == ulen, f"{name}: content size")
            decoder = zstandard.ZstdDecompressor().decompressobj()
            payload = decoder.decompress(payload)
            need(decoder.eof and not decoder.unused_data, f"{name}: not one frame")
        need(len(payload) == ulen, f"{name}: ulen")
        need(digest(payload) == data[at + 48 : at + 80], f"{name}: hash")
        chunks.append((fourcc, name, payload))
    need(end == len(data), "bytes behind the last chunk")
    of = {(fourcc, name): payload for fourcc, name, payload in chunks}
    tensors = []
    for i, (fourcc, name, payload) in enumerate(chunks):
        if fourcc == b"IHSH":
            need(i == 0 and name == "control.integrity" and len(payload) == 256, "IHSH place or size")
            unpacker = msgpack.Unpacker(raw=False)
            unpacker.feed(payload)
            value = unpacker.unpack()
            need(not any(payload[unpacker.tell() :]) and value["algo"] == "blake3-256", "IHSH")
            [[start, stop]] = value["covered_ranges"]
            need(start == 0 and names + names_len <= stop <= len(data), "IHSH range")
            covered = bytearray(data[:stop])
            for j in range(count):
                covered[toc + 64 + 80 * j : toc + 96 + 80 * j] = bytes(32)
            need(digest(covered) == value["digest"], "IHSH digest")
        elif fourcc == b"MJSN":
            need(isinstance(json.loads(payload), dict) and payload.isascii(), "MJSN")
        elif fourcc == b"MMSG":
            value = unpack(payload)
            need(value["format"] == {"name": "AERO", "version": [0, 1]}, "MMSG format")
            need(all(isinstance(value["model"][k], str) for k in ("name", "architecture")), "MMSG model")
            for role in value["chunks"]:
                need(chunks[role["toc_index"]][0] == role["fourcc"].encode(), "MMSG toc_index")
            for shard in value["shards"]:
                weights = chunks[shard["toc_index"]]
                need(weights[1] == f"weights.shard{shard['shard_id']}", "MMSG shard")
                need(len(weights[2]) == shard["size_bytes"], "MMSG size_bytes")
        elif fourcc == b"TIDX":
            tensors = unpack(payload)["tensors"]
        elif fourcc == b"PHSH":
            value = unpack(payload)
            need(name == value["shard_name"] + ".phsh" and chunks[i - 1][1] == value["shard_name"], "PHSH")
            shard, page = of[b"WTSH", value["shard_name"]], value["page_size"]
            pages = [digest(shard[at : at + page]) for at in range(0, len(shard), page)]
            need(value["digests"] == pages, "PHSH digests")
    need(len({tensor["name"] for tensor in tensors}) == len(tensors), "a tensor's name twice")
    weights = any(fourcc == b"WTSH" for fourcc, _, _ in chunks)
    for tensor in tensors:
        name, start, length = tensor["name"], tensor["data_off"], tensor["data_len"]
        need(list(tensor)[:7] == ["name", "dtype", "shape", "shard_id", "data_off", "data_len", "flags"], f"{name}: keys")
        need(len(tensor["shape"]) <= 32 and len(name.encode()) <= 4096, f"{name}: limits")
        elements = 1
        for dim in tensor["shape"]:
            need(0 <= dim < 1 << 63, f"{name}: dim")
            elements *= dim
        if tensor["dtype"] != 0x8000:
            need(length == elements * SIZES[tensor["dtype"]], f"{name}: data_len")
        if weights:
            shard = of[b"WTSH", f"weights.shard{tensor['shard_id']}"]
            need(start + length <= len(shard), f"{name}: range")
            if "hash_b3" in tensor:
                need(digest(shard[start : start + length]).hex() == tensor["hash_b3"], f"{name}: hash_b3")
    return f"{count} chunks, {len(tensors)} tensors"


def main():
    broken = False
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            data = file.read()
        try:
            print(f"{path}: ok, {check(data)}")
        except Exception as error:
            broken = True
            print(f"{path}: {type(error).__name__}: {error}")
    return 1 if broken or len(sys.argv) < 2 else 0


sys.exit(main())
