//! primitiv's models, parameters and optimizers.

use primitiv_format::{Archive, Builder, ReadOptions};

use crate::{Input, parse_with, read_back, written};

/// With and without bytes after the object.
pub fn parse(bytes: &[u8]) {
    let mut options = ReadOptions::default();
    let strict = parse_with!(primitiv_format, bytes, &options, |_| true);
    options.allow_trailing = true;
    let archive = parse_with!(primitiv_format, bytes, &options, |_| true);
    assert!(strict.is_none() || archive.is_some());
    if let Some(archive) = strict {
        let _ = archive.object();
        copy(&archive);
    }
}

/// Whatever can be read can be written again, and is then the same.
fn copy(archive: &Archive) {
    let Some(mut builder) = Builder::like(archive) else {
        return;
    };
    for entry in archive {
        builder.copy(archive, entry).expect("was read");
    }
    let again = Archive::from_bytes(builder.to_vec().expect("was read")).expect("was written");
    assert_eq!(again.entries().len(), archive.entries().len());
    for (left, right) in again.entries().iter().zip(archive.entries()) {
        assert_eq!((left.name(), left.shape()), (right.name(), right.shape()));
        assert!(left.path().eq(right.path()) && left.stat() == right.stat());
        assert!(again.read(left).unwrap() == archive.read(right).unwrap());
    }
}

/// Models, parameters and tensors, with statistics.
pub fn roundtrip(input: &Input) {
    let mut builder = match input.options[0] % 4 {
        0 => Builder::parameter_file(),
        1 => Builder::tensor_file(),
        _ => Builder::new(),
    };
    builder.split_names(input.flag(8)).sort(input.flag(9));
    let named = input.options[0] % 4 > 1;
    let mut stats = 0;
    let tensors = input.add_all(|tensor, data| {
        if tensor.options[0] % 4 == 1 {
            stats += usize::from(builder.stat(&*tensor.name, data).is_ok());
            // It is no parameter, and so not looked for by its name.
            return Err(());
        }
        builder.tensor(&*tensor.name, data).map(drop).map_err(drop)
    });
    let Some(file) = written!(&builder) else {
        return;
    };
    let archive = Archive::from_bytes(file).expect("what was written is read");
    assert_eq!(archive.entries().len(), tensors.len() + stats);
    if stats == 0 && named && archive.same_named().next().is_none() {
        read_back!(&archive, &tensors);
    }
}
