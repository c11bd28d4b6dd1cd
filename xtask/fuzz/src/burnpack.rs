//! Burn's `.bpk`.

use burnpack_format::{Archive, BoolStore, Builder, Compat, Entry, Layout, ReadOptions, TensorOptions};

use crate::{Input, MOST_DECODED, parse_with, read_back, written};

/// In each way that data may lie.
pub fn parse(bytes: &[u8]) {
    for layout in [Layout::default(), Layout::Packed, Layout::Aligned] {
        let mut options = ReadOptions::default();
        options.layout = layout;
        let archive = parse_with!(burnpack_format, bytes, &options, |entry: Entry<'_>| {
            entry.bool_store() != Some(BoolStore::U32)
        });
        if let Some(archive) = archive {
            copy(&archive);
        }
    }
}

/// Whatever can be read can be written again, and is then the same.
fn copy(archive: &Archive) {
    let mut builder = Builder::new();
    let mut copied = Vec::new();
    for entry in archive.entries() {
        let small = entry.nbytes().is_some_and(|len| len <= MOST_DECODED / 4);
        if small && copied.len() < 8 && builder.copy(archive, entry).is_ok() {
            copied.push(entry);
        }
    }
    let again = Archive::from_bytes(builder.to_vec().expect("was read")).expect("was written");
    assert_eq!(again.entries().len(), copied.len());
    for entry in copied {
        let twin = again.entry(entry.name()).expect("was copied");
        assert_eq!(twin.shape(), entry.shape());
        assert_eq!(twin.param_id(), entry.param_id());
        assert_eq!(again.read(twin).unwrap(), archive.read(entry).unwrap());
    }
}

/// Tensors, metadata and scalars, for each release.
pub fn roundtrip(input: &Input) {
    let mut builder = Builder::new();
    builder.compat(match input.options[0] % 4 {
        0 => Compat::V0_20,
        1 => Compat::V0_21,
        _ => Compat::Current,
    });
    let tensors = input.add_all(|tensor, data| {
        let mut options = TensorOptions::new();
        if tensor.options[0] % 2 == 1 {
            options = options.with_param_id(u64::from_le_bytes(input.options));
        }
        builder.tensor_with(&*tensor.name, data, options).map(drop)
    });
    for (key, value) in &input.texts {
        let _ = builder.metadata(&**key, &**value);
    }
    for (name, value) in &input.integers {
        let _ = builder.scalar(&**name, *value);
    }
    for (name, value) in &input.floats {
        let _ = builder.scalar(&**name, *value);
    }
    let Some(file) = written!(&builder) else {
        return;
    };
    let archive = Archive::from_bytes(file).expect("what was written is read");
    read_back!(&archive, &tensors);
    for (name, tensor) in &tensors {
        assert_eq!(archive.entry(name).unwrap().shape(), tensor.shape());
    }
}
