use sha2::{Digest, Sha256};

use super::{Made, name, single};
use crate::aero::{Chunk, chunk, file, json, text, tidx, uint};

/// Bytes that all tensors of a crowd share.
const SHARED: usize = 16 << 10;

/// An index of so many tensors of bytes, all over the first ones of shard 0.
fn index(count: usize, len: usize) -> Vec<u8> {
    index_of(count, len, 0, name)
}

/// The same with so many bytes from the start of one to the start of the next.
fn index_of(count: usize, len: usize, apart: usize, name: fn(usize) -> String) -> Vec<u8> {
    let entries = (0..count).map(|at| (name(at), 5, 0));
    index_with(count, len, apart, entries)
}

/// An index of so many tensors of this name, dtype and shard each.
fn index_with(
    count: usize,
    len: usize,
    apart: usize,
    entries: impl Iterator<Item = (String, u8, u8)>,
) -> Vec<u8> {
    let (shape, len) = (uint(len as u64), uint(len as u64));
    let mut index = [&[0x81][..], &text("tensors"), &[0xDD]].concat();
    index.extend(
        u32::try_from(count)
            .expect("a count of 32 bits")
            .to_be_bytes(),
    );
    for (at, (name, dtype, shard)) in entries.enumerate() {
        index.push(0x86);
        let pairs: [(&str, &[u8]); 6] = [
            ("name", &text(name)),
            ("dtype", &[dtype]),
            ("shape", &[&[0x91][..], &shape].concat()),
            ("shard_id", &[shard]),
            ("data_off", &uint((at * apart) as u64)),
            ("data_len", &len),
        ];
        for (key, value) in pairs {
            index.extend(text(key));
            index.extend(value);
        }
    }
    index
}

fn shard(len: usize) -> Chunk {
    chunk(b"WTSH", 0x2, "weights.shard0", vec![1; len])
}

/// A name as models have them.
fn long_name(at: usize) -> String {
    format!("model.layers.{:06}.mlp.w{:05}", at / 8, at % 8)
}

/// The same as [`empty`] with names as models have them.
pub(super) fn names(count: usize) -> Made {
    one_file(&[tidx(index_of(count, 0, 0, long_name)), shard(64)])
}

/// Tensors of 16 bytes each, one after the other.
pub(super) fn small(count: usize) -> Made {
    let index = index_of(count, 16, 16, long_name);
    one_file(&[tidx(index), shard(16 * count)]).with_own()
}

fn one_file(chunks: &[Chunk]) -> Made {
    single("aero", file(chunks))
}

pub(super) fn empty(count: usize) -> Made {
    one_file(&[tidx(index(count, 0)), shard(64)])
}

pub(super) fn compressed(count: usize) -> Made {
    let index = index(count, 0);
    let frame = zstd::bulk::compress(&index, 3).expect("memory to compress in");
    let mut file = crate::aero::assemble(&[tidx(frame), shard(64)], false);
    file.set_u32_at("0.flags", 0x4 | 0x1);
    file.set_u64_at("0.ulen", index.len() as u64);
    file.set_bytes_at("0.hash", blake3::hash(&index).as_bytes());
    let mut made = single("aero", file.into_vec());
    made.index_len = made.index_len.max(index.len() as u64);
    made
}

pub(super) fn shared(count: usize) -> Made {
    let made = one_file(&[tidx(index(count, SHARED)), shard(SHARED)]);
    made.with_data(count, SHARED)
}

pub(super) fn keys(count: usize) -> Made {
    let pairs: Vec<String> = (0..count)
        .map(|at| format!(r#""{}":"""#, name(at)))
        .collect();
    let pairs = json(&format!("{{{}}}", pairs.join(",")));
    one_file(&[tidx(index(1, 1)), shard(64), pairs])
}

pub(super) fn set_empty(count: usize) -> Made {
    set(count, 0)
}

pub(super) fn set_shared(count: usize) -> Made {
    set(count, SHARED).with_data(count, SHARED)
}

/// Tensors of one byte, none with a hash of its own, in a shard that has another one than it says.
pub(super) fn damaged(count: usize) -> Made {
    let mut made = one_file(&[tidx(index(count, 1)), shard(64)]);
    spoil(made.files.iter_mut());
    made
}

/// A set with such a part; its own SHA-256 is wrong too.
pub(super) fn set_damaged(count: usize) -> Made {
    let mut made = set(count, 1);
    spoil(made.files.iter_mut().skip(1).take(1));
    made
}

/// Flips a bit of the last byte of files, which is of the shard.
fn spoil<'a>(files: impl Iterator<Item = &'a mut (String, Vec<u8>)>) {
    for last in files.filter_map(|(_, bytes)| bytes.last_mut()) {
        *last ^= 1;
    }
}

/// How many parts the set has whose tensors are other ones than it says: more than are open at once.
const PARTS: usize = 6;

/// A set whose parts have tensors of the same names and another dtype.
pub(super) fn set_other(count: usize) -> Made {
    let shard_of = |at: usize| u8::try_from(at % PARTS).expect("few parts");
    let all = (0..count).map(|at| (name(at), 5, shard_of(at)));
    let index = index_with(count, 0, 0, all);
    let part = |number: usize| {
        let own = (0..count).filter(|at| at % PARTS == number);
        let index = index_with(own.clone().count(), 0, 0, own.map(|at| (name(at), 4, 0)));
        file(&[tidx(index), shard(64)])
    };
    set_of((0..PARTS).map(part).collect(), file(&[tidx(index)]))
}

/// One part with everything, and the index beside it; all tensors are the same bytes.
fn set(count: usize, len: usize) -> Made {
    let index_file = file(&[tidx(index(count, len))]);
    let part = file(&[tidx(index(count, len)), shard(len.max(64))]);
    set_of(vec![part], index_file)
}

/// The set of parts that have one shard each.
fn set_of(parts: Vec<Vec<u8>>, index_file: Vec<u8>) -> Made {
    let listed = |name: &str, bytes: &[u8], more: &str| {
        let digest = Sha256::digest(bytes);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let len = bytes.len();
        format!(r#"{{"path":"{name}","sha256":"{digest}","size_bytes":{len}{more}}}"#)
    };
    let part_name = |number: usize| format!("part-{number:03}.aero");
    let list: Vec<String> = parts
        .iter()
        .enumerate()
        .map(|(number, part)| {
            let shards = format!(r#","shards":[{number}]"#);
            listed(&part_name(number), part, &shards)
        })
        .collect();
    let (list, index) = (list.join(","), listed("index.aero", &index_file, ""));
    let json = format!(
        r#"{{"format":{{"name":"AEROSET","version":[0,1]}},"parts":[{list}],"global_tidx":{index}}}"#
    );
    let mut files = vec![("crowd.aeroset.json".to_owned(), json.into_bytes())];
    let numbered = parts.into_iter().enumerate();
    files.extend(numbered.map(|(number, part)| (part_name(number), part)));
    files.push(("index.aero".to_owned(), index_file));
    // The part and the index say the same, and both are read.
    let index_len = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    Made {
        files,
        index_len,
        data_len: 0,
        own: false,
    }
}
