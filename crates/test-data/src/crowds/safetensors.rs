use super::{Made, name, single};
use crate::safetensors::file;

fn tensors(count: usize, shape: &str, len: usize) -> Made {
    let tensor = |at: usize| {
        let (name, start) = (name(at), at * len);
        let end = start + len;
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}"#)
    };
    let header: Vec<String> = (0..count).map(tensor).collect();
    let header = format!("{{{}}}", header.join(","));
    single("safetensors", file(header, &vec![0; count * len]))
}

pub(super) fn empty(count: usize) -> Made {
    tensors(count, "[0]", 0)
}

pub(super) fn small(count: usize) -> Made {
    tensors(count, "[4]", 16).with_own()
}

pub(super) fn keys(count: usize) -> Made {
    let pairs: Vec<String> = (0..count)
        .map(|at| format!(r#""{}":"""#, name(at)))
        .collect();
    let header = format!(r#"{{"__metadata__":{{{}}}}}"#, pairs.join(","));
    single("safetensors", file(header, &[]))
}

pub(super) fn rank(count: usize) -> Made {
    let shape = vec!["1"; count].join(",");
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{shape}],"data_offsets":[0,1]}}}}"#);
    single("safetensors", file(header, &[7]))
}

/// A shard with everything, and the index beside it.
pub(super) fn set(count: usize) -> Made {
    let made = tensors(count, "[4]", 16);
    let names = (0..count).map(|at| (name(at), 1));
    indexed(names, count * 16, shards_of([made])).with_own()
}

/// The same, of a shard that has none of the tensors.
pub(super) fn set_missing(count: usize) -> Made {
    let made = single("safetensors", file("{}", &[]));
    let names = (0..count).map(|at| (name(at), 1));
    indexed(names, 0, shards_of([made]))
}

/// Two shards of one tensor each, and so many keys of metadata with another value in each.
pub(super) fn set_keys(count: usize) -> Made {
    let shard = |number: usize| {
        let pairs: Vec<String> = (0..count)
            .map(|at| format!(r#""{}":"{number}""#, name(at)))
            .collect();
        let tensor = format!(r#""{number}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#);
        let header = format!(r#"{{"__metadata__":{{{}}},{tensor}}}"#, pairs.join(","));
        single("safetensors", file(header, &[7]))
    };
    let names = [1, 2].map(|number| (number.to_string(), number));
    indexed(names.into_iter(), 2, shards_of([shard(1), shard(2)]))
}

/// The files of shards, under the names that they have in a set.
fn shards_of<const N: usize>(made: [Made; N]) -> Vec<(String, Vec<u8>)> {
    let files = made.into_iter().flat_map(|made| made.files);
    files
        .enumerate()
        .map(|(at, (_, bytes))| (shard_name(at + 1, N), bytes))
        .collect()
}

fn shard_name(number: usize, of: usize) -> String {
    format!("crowd-{number:05}-of-{of:05}.safetensors")
}

/// A set of these shards, whose index has each name in the shard of this number.
fn indexed(
    names: impl Iterator<Item = (String, usize)>,
    total: usize,
    shards: Vec<(String, Vec<u8>)>,
) -> Made {
    let of = shards.len();
    let map: Vec<String> = names
        .map(|(name, number)| format!(r#""{name}":"{}""#, shard_name(number, of)))
        .collect();
    let index = format!(
        r#"{{"metadata":{{"total_size":{total}}},"weight_map":{{{}}}}}"#,
        map.join(",")
    );
    let mut files = vec![(
        "crowd.safetensors.index.json".to_owned(),
        index.into_bytes(),
    )];
    files.extend(shards);
    let index_len = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    Made {
        files,
        index_len,
        data_len: 0,
        own: false,
    }
}
