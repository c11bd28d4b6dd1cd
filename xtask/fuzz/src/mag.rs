//! magnetron's `.mag`.

use mag_format::{Archive, Builder, Checksum, ReadOptions};

use crate::{Input, parse_with, read_back, written};

/// With the checksum of the records and without, since hardly an input has a right one.
pub fn parse(bytes: &[u8]) {
    let mut options = ReadOptions::default();
    let checked = parse_with!(mag_format, bytes, &options, |_| true);
    options.check_records = false;
    let archive = parse_with!(mag_format, bytes, &options, |_| true);
    assert!(checked.is_none() || archive.is_some());
    for meta in archive.iter().flat_map(Archive::metadata) {
        assert!(
            archive
                .as_ref()
                .unwrap()
                .metadata_entry(meta.key())
                .is_some()
        );
    }
}

/// Tensors and metadata.
pub fn roundtrip(input: &Input) {
    let mut builder = Builder::new();
    if input.flag(0) {
        builder.checksum(Checksum::Ieee);
    }
    let tensors = input.add_all(|tensor, data| builder.tensor(&*tensor.name, data).map(drop));
    let mut metadata = 0;
    for (key, value) in &input.integers {
        metadata += usize::from(builder.metadata(&**key, *value).is_ok());
    }
    for (key, value) in &input.floats {
        metadata += usize::from(builder.metadata(&**key, *value).is_ok());
    }
    let Some(file) = written!(&builder) else {
        return;
    };
    let archive = Archive::from_bytes(file).expect("what was written is read");
    read_back!(&archive, &tensors);
    assert_eq!(archive.metadata().len(), metadata);
    for (entry, (name, tensor)) in archive.entries().iter().zip(&tensors) {
        assert_eq!((entry.name(), entry.shape()), (*name, tensor.shape()));
    }
}
