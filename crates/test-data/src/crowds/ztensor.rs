use super::{Made, name, single};
use crate::LeBuffer;
use crate::xxh3;
use crate::ztensor::{Cbor, dims, head, text, uint, zstd_run};
use crate::ztensor_generations::{V1, V2, seek};

const MIB: usize = 1 << 20;
/// Bytes that all tensors of a crowd share.
const SHARED: usize = 16 << 10;

/// A map of so many pairs, each with the value that is made for it.
fn crowd(count: usize, value: &Cbor) -> Cbor {
    let mut map = head(5, count as u64);
    for at in 0..count {
        map.extend(text(&name(at)));
        map.extend(value);
    }
    map
}

fn map(pairs: &[(&str, &[u8])]) -> Cbor {
    let mut map = head(5, pairs.len() as u64);
    for (key, value) in pairs {
        map.extend(text(key));
        map.extend(*value);
    }
    map
}

/// Version 0.1: a blob at 64, then one entry after the other, all over it.
fn flat(count: usize, blob: &[u8], encoding: &str, len: usize) -> Made {
    let dense = ("layout", text("dense"));
    flat_with(count, blob, (encoding, len), 0, &[dense])
}

/// The same with other keys than that of the layout, and where bytes are `apart` a blob for each, so many bytes
/// from the start of one to the start of the next.
fn flat_with(
    count: usize,
    blob: &[u8],
    (encoding, len): (&str, usize),
    apart: usize,
    more: &[(&str, Cbor)],
) -> Made {
    let mut file = LeBuffer::new();
    file.text("ZTEN0001").pad_to(64, 0).bytes(blob);
    if apart > 0 {
        for _ in 1..count {
            file.pad_to(apart, 0).bytes(blob);
        }
    }
    let mut index = head(4, count as u64);
    for at in 0..count {
        let (name, offset) = (text(&name(at)), uint((64 + at * apart) as u64));
        let (size, dtype) = (uint(blob.len() as u64), text("uint8"));
        let (shape, encoding) = (dims(&[len as u64]), text(encoding));
        let mut pairs: Vec<(&str, &[u8])> = vec![
            ("name", &name),
            ("offset", &offset),
            ("size", &size),
            ("dtype", &dtype),
        ];
        pairs.extend(more.iter().map(|(key, value)| (*key, &**value)));
        pairs.extend([("shape", &*shape), ("encoding", &*encoding)]);
        index.extend(map(&pairs));
    }
    file.bytes(&index).u64(index.len() as u64);
    single("zt", file.into_vec()).with_data(count, len)
}

pub(super) fn flat_empty(count: usize) -> Made {
    flat(count, &[], "raw", 0)
}

pub(super) fn flat_small(count: usize) -> Made {
    let dense = ("layout", text("dense"));
    flat_with(count, &[1; 16], ("raw", 16), 64, &[dense]).with_own()
}

pub(super) fn flat_bare(count: usize) -> Made {
    flat_with(count, &[], ("raw", 0), 0, &[])
}

pub(super) fn flat_damaged(count: usize) -> Made {
    let more = [
        ("layout", text("dense")),
        ("checksum", text("crc32c:0x00000001")),
    ];
    flat_with(count, &[1; 64], ("raw", 64), 0, &more)
}

pub(super) fn flat_shared(count: usize) -> Made {
    flat(count, &[1; SHARED], "raw", SHARED)
}

pub(super) fn flat_blob(count: usize) -> Made {
    flat(count, &zstd_run(8, 1), "zstd", MIB)
}

/// Version 1: a blob at 64 and the manifest; the magic again unless the version is 1.0.
fn version_1(blob: &[u8], manifest: &[u8], twice: bool) -> Made {
    let mut file = LeBuffer::new();
    file.bytes(V1).pad_to(64, 0).bytes(blob);
    file.bytes(manifest).u64(manifest.len() as u64);
    if twice {
        file.bytes(V1);
    }
    single("zt", file.into_vec())
}

pub(super) fn v10_empty(count: usize) -> Made {
    // What is called otherwise than the format's own has no dtype: so many objects of one each.
    let component = map(&[("offset", &uint(64)), ("length", &uint(0))]);
    let object = map(&[
        ("dtype", &text("float32")),
        ("shape", &dims(&[0])),
        ("format", &text("dense")),
        ("components", &map(&[("data", &component)])),
    ]);
    let objects = crowd(count, &object);
    version_1(
        &[],
        &map(&[("version", &text("1.0.0")), ("tensors", &objects)]),
        false,
    )
}

/// One object of other than the dense format with so many components, all over the blob.
fn object_1(
    version: &str,
    count: usize,
    blob: &[u8],
    component: &Cbor,
    rank: usize,
    beside: usize,
) -> Made {
    let mut shape = head(4, rank as u64);
    shape.resize(shape.len() + rank, 1);
    let components = crowd(count, component);
    let beside = map(&[("note", &text(&"x".repeat(beside)))]);
    let object = map(&[
        ("shape", &shape),
        ("format", &text("other")),
        ("attributes", &beside),
        ("components", &components),
    ]);
    let objects = map(&[("o", &object)]);
    let manifest = map(&[("version", &text(version)), ("objects", &objects)]);
    version_1(blob, &manifest, true)
}

fn component(len: u64) -> Cbor {
    map(&[
        ("dtype", &text("u8")),
        ("offset", &uint(64)),
        ("length", &uint(len)),
    ])
}

pub(super) fn v11_empty(count: usize) -> Made {
    object_1("1.1.0", count, &[], &component(0), 2, 0)
}

pub(super) fn v11_dims(count: usize) -> Made {
    object_1("1.1.0", count, &[], &component(0), 1_000_000, 0)
}

pub(super) fn v11_attributes(count: usize) -> Made {
    object_1("1.1.0", count, &[], &component(0), 2, 1_000_000)
}

pub(super) fn v12_attributes(count: usize) -> Made {
    object_1("1.2.0", count, &[], &component(0), 2, 1_000_000)
}

pub(super) fn v12_blob(count: usize) -> Made {
    let blob = zstd_run(8, 1);
    let component = map(&[
        ("dtype", &text("u8")),
        ("offset", &uint(64)),
        ("length", &uint(blob.len() as u64)),
        ("encoding", &text("zstd")),
        ("uncompressed_length", &uint(MIB as u64)),
    ]);
    let made = object_1("1.2.0", count, &blob, &component, 2, 0);
    made.with_data(count, MIB)
}

pub(super) fn v12_keys(count: usize) -> Made {
    let manifest = map(&[
        ("version", &text("1.2.0")),
        ("attributes", &crowd(count, &uint(1))),
        ("objects", &map(&[])),
    ]);
    version_1(&[], &manifest, true)
}

/// Version 2: a blob at 4096, the manifest at the next multiple, the footer.
fn version_2(blob: &[u8], manifest: &[u8]) -> Made {
    let mut file = LeBuffer::new();
    file.bytes(V2).pad_to(4096, 0).bytes(blob).pad_to(4096, 0);
    let offset = file.len() as u64;
    file.bytes(manifest).u64(offset).u64(manifest.len() as u64);
    file.u64(xxh3(manifest)).u32(2).u32(0).bytes(V2);
    single("zt", file.into_vec())
}

/// One object of another layout with so many parts; keys ascend by their encoded bytes.
fn object_2(count: usize, blob: &[u8], part: &Cbor, beside: usize) -> Made {
    let beside = map(&[("note", &text(&"x".repeat(beside)))]);
    let object = map(&[
        ("parts", &crowd(count, part)),
        ("shape", &dims(&[1, 1])),
        ("layout", &text("other")),
        ("attributes", &beside),
    ]);
    version_2(blob, &map(&[("objects", &map(&[("o", &object)]))]))
}

fn part(offset: u64, len: u64) -> Cbor {
    map(&[("blob", &dims(&[offset, len])), ("dtype", &text("u8"))])
}

pub(super) fn v2_empty(count: usize) -> Made {
    object_2(count, &[], &part(4096, 0), 0)
}

pub(super) fn v2_attributes(count: usize) -> Made {
    object_2(count, &[], &part(4096, 0), 1_000_000)
}

pub(super) fn v2_objects(count: usize) -> Made {
    let object = map(&[
        ("parts", &map(&[("data", &part(4096, 0))])),
        ("shape", &dims(&[0])),
        ("layout", &text("dense")),
    ]);
    version_2(&[], &map(&[("objects", &crowd(count, &object))]))
}

pub(super) fn v2_seekable(count: usize) -> Made {
    let frame = zstd_run(8, 1);
    let len = u32::try_from(MIB).expect("a MiB");
    let blob = seek(&[(&frame, len)], |_| {});
    let part = map(&[
        ("blob", &dims(&[4096, blob.len() as u64])),
        ("dtype", &text("u8")),
        ("encoding", &text("zt.zstd-seekable/1")),
        ("decoded_length", &uint(MIB as u64)),
    ]);
    object_2(count, &blob, &part, 0).with_data(count, MIB)
}

pub(super) fn v2_keys(count: usize) -> Made {
    let pairs = crowd(count, &uint(1));
    version_2(&[], &map(&[("objects", &map(&[])), ("attributes", &pairs)]))
}
