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
    let mut made = tensors(count, "[4]", 16).with_own();
    let shard = "crowd-00001-of-00001.safetensors";
    let map: Vec<String> = (0..count)
        .map(|at| format!(r#""{}":"{shard}""#, name(at)))
        .collect();
    let total = count * 16;
    let index = format!(
        r#"{{"metadata":{{"total_size":{total}}},"weight_map":{{{}}}}}"#,
        map.join(",")
    );
    for (name, _) in &mut made.files {
        shard.clone_into(name);
    }
    let index = (
        "crowd.safetensors.index.json".to_owned(),
        index.into_bytes(),
    );
    made.files.insert(0, index);
    made.index_len = made.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    made
}
