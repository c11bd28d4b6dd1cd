use std::borrow::Cow;

use tensor_core::{DType, Order, Value};
use ztensor_format::{
    Algorithm, Archive, BuildError, Builder, Checksum, Encoding, Endianness, Entry, TensorOptions,
};

use super::{Capabilities, Describe, DescribeEntry, Native, Prepared, lose_metadata};
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options};
use crate::{Error, Result};

impl Describe for Archive {
    fn version_name(&self) -> String {
        self.version().into()
    }
}

impl DescribeEntry for Entry {
    fn stored_bytes(&self) -> Option<u64> {
        Some(self.stored_len())
    }

    fn stored_dtype(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.dtype_name())
    }

    fn encoding(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.encoding_name())
    }

    fn extras(&self) -> Vec<(&'static str, Value)> {
        let mut extras = Vec::new();
        if !self.layout().is_dense() {
            extras.push(("layout", self.layout_name().into()));
        }
        if let Some(endianness) = self.endianness() {
            extras.push(("data_endianness", endianness.name().into()));
        }
        if let Some(checksum) = self.checksum() {
            extras.push(("checksum", checksum.to_string().into()));
        }
        if self.has_custom() {
            let custom = self.custom();
            let pair =
                |field: &ztensor_format::CustomField| (Value::from(field.key()), field.value());
            extras.push(("custom", Value::Map(custom.iter().map(pair).collect())));
        }
        extras
    }
}

/// A tensor with its custom fields.
pub(crate) fn model_tensor(archive: &Archive, entry: &Entry) -> ModelTensor {
    let mut tensor = super::tensor(
        entry.name(),
        entry.dtype(),
        entry
            .dtype()
            .map_or_else(|| entry.stored_dtype(), |dtype| dtype.name().into()),
        entry.shape(),
        entry.order(),
        archive.data(entry).map_err(|error| error.to_string()),
    );
    let mut native = TensorOptions::new();
    for field in entry.custom() {
        tensor.attributes.push((field.key().into(), field.value()));
        // What was read is well-formed and no standard field, so this does not fail.
        if let Ok(with) = native
            .clone()
            .custom_cbor(field.key(), field.cbor().clone())
        {
            native = with;
        }
    }
    if entry.encoding() == Encoding::Zstd {
        native = native.zstd(0);
    }
    if let Some(endianness) = entry.endianness() {
        native = native.endianness(endianness);
    }
    native = native.checksum(match entry.checksum() {
        Some(Checksum::Crc32c(_)) => Algorithm::Crc32c,
        Some(Checksum::Sha256(_)) => Algorithm::Sha256,
        _ => Algorithm::None,
    });
    tensor.checksum = entry.checksum().map(|checksum| checksum.to_string());
    tensor.native = Some(Native::Ztensor(native));
    tensor
}

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    holds: |dtype| dtype.is_float() || dtype.is_integer() || dtype == DType::Bool,
    ranks: 0..=usize::MAX,
    empty: true,
    order: Order::RowMajor,
    name: |_| None,
};

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    lose_metadata(
        model,
        "a zTensor 0.1 file has no metadata of its own",
        losses,
    );
    let mut builder = Builder::new();
    for tensor in tensors {
        let Prepared {
            name,
            dtype,
            shape,
            order,
            data,
            attributes,
            native,
        } = tensor;
        let mut how = match native {
            Some(Native::Ztensor(native)) => native,
            _ => {
                let mut how = TensorOptions::new();
                for (key, value) in attributes {
                    match how.clone().custom(&key, value) {
                        Ok(with) => how = with,
                        Err(error) => losses.push(Loss::new(
                            LossKind::Attribute,
                            format!("{name}: {key}"),
                            error.to_string(),
                        )),
                    }
                }
                how
            }
        };
        if let Some(level) = options.zstd {
            // Compressed data has one byte order.
            how = how.endianness(Endianness::Little).zstd(level);
        }
        if let Some(checksum) = options.checksum {
            how = how.checksum(match checksum {
                crate::convert::Checksum::None => Algorithm::None,
                crate::convert::Checksum::Crc32c => Algorithm::Crc32c,
                crate::convert::Checksum::Sha256 => Algorithm::Sha256,
            });
        }
        match builder.deferred_with(name, dtype, shape, order, data, how) {
            Ok(_) => {}
            Err(ztensor_format::Error::Build(error @ BuildError::ZstdLevel { .. })) => {
                return Err(Error::Usage(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(builder)
}
