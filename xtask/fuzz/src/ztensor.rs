//! zTensor's `.zt`.

use ztensor_format::{Algorithm, Archive, Builder, Endianness, ReadOptions, TensorOptions};

use crate::{Input, parse_with, read_back, written};

/// As it is.
pub fn parse(bytes: &[u8]) {
    let archive = parse_with!(ztensor_format, bytes, &ReadOptions::default(), |_| true);
    for entry in archive.iter().flat_map(Archive::entries) {
        for field in entry.custom() {
            field.value();
        }
    }
}

/// Raw and compressed tensors with checksums, byte orders and custom fields.
pub fn roundtrip(input: &Input) {
    let mut builder = Builder::new();
    let tensors = input.add_all(|tensor, data| {
        let [encoding, checksum, endianness, custom] = tensor.options;
        let mut options = TensorOptions::new();
        if encoding % 2 == 1 {
            options = options.with_zstd(i32::from(encoding) % 8 - 3);
        }
        if endianness % 4 == 1 {
            options = options.with_endianness(Endianness::Big);
        }
        options = options.with_checksum(match checksum % 3 {
            0 => Algorithm::None,
            1 => Algorithm::Crc32c,
            _ => Algorithm::Sha256,
        });
        let fields = input.texts.iter().take(usize::from(custom % 4));
        for (key, value) in fields {
            options = options.with_custom(&**key, &**value)?;
        }
        builder.tensor_with(&*tensor.name, data, options).map(drop)
    });
    let Some(file) = written!(&builder) else {
        return;
    };
    let archive = Archive::from_bytes(file).expect("what was written is read");
    read_back!(&archive, &tensors);
    for (entry, (name, tensor)) in archive.entries().iter().zip(&tensors) {
        assert_eq!((entry.name(), entry.shape()), (*name, tensor.shape()));
    }
}
