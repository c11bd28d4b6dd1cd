//! `.safetensors`.

use safetensors_format::{Archive, Builder, ReadOptions};

use crate::{Input, parse_with, read_back, written};

/// What opens is also written again.
pub fn parse(bytes: &[u8]) {
    let options = ReadOptions::default();
    let archive = parse_with!(safetensors_format, bytes, &options, |_| true);
    if let Some(archive) = archive {
        for meta in archive.metadata() {
            assert!(archive.metadata_entry(meta.key()).is_some());
        }
        copy(&archive);
    }
}

/// Whatever can be read can be copied, unknown dtypes and keys too, and is then the same.
fn copy(archive: &Archive) {
    let mut builder = Builder::new();
    for entry in archive.entries() {
        builder.copy(archive, entry).expect("was read");
    }
    let again = Archive::from_bytes(builder.to_vec().expect("was read")).expect("was written");
    assert_eq!(again.entries().len(), archive.entries().len());
    for (old, new) in archive.entries().iter().zip(again.entries()) {
        assert_eq!((old.name(), old.shape()), (new.name(), new.shape()));
        assert_eq!(old.dtype_code(), new.dtype_code());
        assert!(old.extras().eq(new.extras()));
        for (old, new) in old.extras().zip(new.extras()) {
            assert_eq!(format!("{:?}", old.value()), format!("{:?}", new.value()));
        }
        let (old, new) = (archive.stored(old).unwrap(), again.stored(new).unwrap());
        assert!(crate::in_windows(&*old).unwrap() == crate::in_windows(&*new).unwrap());
    }
}

/// Tensors and metadata.
pub fn roundtrip(input: &Input) {
    let mut builder = Builder::new();
    let tensors = input.add_all(|tensor, data| builder.tensor(&*tensor.name, data).map(drop));
    let mut metadata = 0;
    for (key, value) in &input.texts {
        metadata += usize::from(builder.metadata(&**key, &**value).is_ok());
    }
    let Some(file) = written!(&builder) else {
        return;
    };
    let archive = Archive::from_bytes(file).expect("what was written is read");
    read_back!(&archive, &tensors);
    assert_eq!(archive.metadata().len(), metadata);
    for (entry, (name, tensor)) in archive.entries().iter().zip(&tensors) {
        assert_eq!((entry.name(), entry.shape()), (*name, tensor.shape()));
        let size = tensor.dtype().size().unwrap_or(1);
        assert_eq!(entry.offset() % size, 0);
    }
}
