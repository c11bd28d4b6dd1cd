use std::any::Any;
use std::borrow::Cow;
use std::io;
use std::path::Path;

use tensor_core::{FileId, Kind, Misfit, Order, Patch, Source, Value, WriteOptions};
use ztensor_format::{
    Algorithm, Archive, BuildError, Builder, Checksum, Encoding, Endianness, Entry, Generation,
    TensorOptions,
};

use super::{About, Capabilities, Describe, DescribeEntry, Native, Prepared, Write, lose_generation, lose_metadata, one_file};
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options, Unreadable, shrinking};
use crate::{Error, Format, ReadOptions, Result};

/// Opens a file.
pub(crate) fn open(source: impl Source + 'static, options: &ReadOptions) -> Result<Archive> {
    Ok(Archive::from_source(source, &own_options(options))?)
}

fn own_options(options: &ReadOptions) -> ztensor_format::ReadOptions {
    let mut own = ztensor_format::ReadOptions::default();
    own.check_data = options.check_data;
    options.set_limits(|name, value| own.limits.set(name, value));
    own
}

impl Describe for Archive {
    fn version_name(&self) -> String {
        self.version().to_string()
    }

    fn read_files(&self) -> Vec<FileId> {
        one_file(self.file())
    }

    fn model_tensor(&self, entry: Entry<'_>, about: About) -> ModelTensor {
        // What has no values that can be read still has bytes.
        let (data, unread) = match self.data(entry) {
            Err(error) if error.kind() == Kind::Unsupported => {
                (self.stored(entry), Some(error.to_string()))
            }
            data => (data, None),
        };
        let is_unread = unread.is_some();
        let mut tensor = super::tensor(
            entry.name(),
            entry.dtype().filter(|_| !is_unread),
            entry
                .dtype()
                .map_or_else(|| entry.stored_dtype(), |dtype| dtype.name().into()),
            entry.shape(),
            entry.order(),
            data.map_err(Unreadable::of),
        );
        tensor.unread = unread;
        if about == About::Values {
            return tensor;
        }
        if self.generation() != Generation::V0_1 {
            // None of it is a field of 0.1, and what 0.1 can't hold must be reported as a loss.
            let custom = entry.custom().into_iter();
            tensor.attributes = custom
                .map(|field| (field.key().to_owned(), field.value()))
                .collect();
            for (key, value) in object_of(entry, true) {
                if !tensor.attributes.iter().any(|(taken, _)| taken == key) {
                    tensor.attributes.push((key.into(), value));
                }
            }
            tensor.checksum = entry.checksum().map(|checksum| checksum.to_string());
            return tensor;
        }
        tensor.checksum = entry.checksum().map(|checksum| checksum.to_string());
        let mut native = TensorOptions::new();
        for field in entry.custom() {
            tensor.attributes.push((field.key().into(), field.value()));
            // What was read is well-formed and no standard field, so this does not fail.
            let _ = native.set_custom_cbor(field.key(), field.cbor().clone());
        }
        if about != About::Home {
            return tensor;
        }
        if entry.encoding() == Encoding::Zstd {
            native = native.with_zstd(0);
        }
        if let Some(endianness) = entry.endianness() {
            native = native.with_endianness(endianness);
        }
        native = native.with_checksum(match entry.checksum() {
            Some(Checksum::Crc32c(_)) => Algorithm::Crc32c,
            Some(Checksum::Sha256(_)) => Algorithm::Sha256,
            _ => Algorithm::None,
        });
        let as_stored = is_unread || entry.encoding() != Encoding::Raw;
        tensor.native = Some(match as_stored {
            true => Native::ZtensorStored(Box::new((native, self.clone(), entry.name().to_owned()))),
            false => Native::Ztensor(Box::new(native)),
        });
        tensor
    }

    fn patch(&self, writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        match writer.as_any().downcast_ref::<Builder>() {
            Some(builder) => Ok(builder.edit(self)?),
            None => Ok(Err(Misfit::Layout("another format"))),
        }
    }

    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        let mut pairs: Vec<_> = self
            .metadata()
            .iter()
            .map(|field| (field.key().to_owned(), field.value()))
            .collect();
        let is_taken = pairs.iter().any(|(key, _)| key == GENERATOR);
        if let Some(generator) = self.generator().filter(|_| !is_taken) {
            pairs.insert(0, (GENERATOR.into(), generator.into()));
        }
        pairs
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let mut facts = Vec::new();
        if let Some(text) = self.version_text() {
            facts.push(("manifest_version", text.into()));
        }
        if !self.shards().is_empty() {
            let shard = |shard: &ztensor_format::Shard| {
                let digest = shard.digest().to_string();
                let about = vec![
                    ("size".into(), shard.size().into()),
                    ("digest".into(), digest.into()),
                ];
                (Value::from(shard.label()), Value::Map(about))
            };
            facts.push((
                "shards",
                Value::Map(self.shards().iter().map(shard).collect()),
            ));
        }
        if self.is_data_shard() {
            facts.push(("data_shard", true.into()));
        }
        facts
    }
}

/// What a file of version 1.0 says about its writer, beside its attributes.
const GENERATOR: &str = "generator";

/// What a component says about the object it is a part of, under the keys of listings.
fn object_of(entry: Entry<'_>, dims: bool) -> Vec<(&'static str, Value)> {
    let (Some(object), Some(component)) = (entry.object(), entry.component()) else {
        return Vec::new();
    };
    let mut pairs = vec![
        ("object", object.into()),
        ("component", component.into()),
        ("format", entry.layout_name().into()),
    ];
    if let Some(shape) = entry.object_shape().filter(|_| dims) {
        let dims = shape.dims().iter().map(|&dim| dim.into());
        pairs.push(("object_shape", Value::List(dims.collect())));
    }
    pairs
}

/// The most dims, and the most bytes of attributes, that are shown for people.
const SHORT: (usize, u64) = (64, 4096);

impl<'a> DescribeEntry<'a> for Entry<'a> {
    fn extras_in_short(self) -> Vec<(&'static str, Value)> {
        let rank = self.object_shape().map_or(0, tensor_core::Shape::rank);
        let custom = self.custom_len();
        if rank <= SHORT.0 && custom <= SHORT.1 {
            return DescribeEntry::extras(self);
        }
        let mut extras = extras(self, rank <= SHORT.0, custom <= SHORT.1);
        if rank > SHORT.0 {
            extras.push(("object_shape", format!("{rank} dims").into()));
        }
        if custom > SHORT.1 {
            extras.push(("custom", format!("{custom} bytes").into()));
        }
        extras
    }

    fn object_name(self) -> Option<&'a str> {
        self.object()
    }

    fn says_as(self, other: Self) -> bool {
        self.object() == other.object()
            && self.object_shape() == other.object_shape()
            && self.layout_name() == other.layout_name()
            && self.has_same_custom(other)
    }

    fn said_once(self) -> u64 {
        let Some(object) = self.object() else {
            return 0;
        };
        let dims = self.object_shape().map_or(0, |shape| shape.rank() as u64);
        dims.saturating_add(self.custom_len())
            .saturating_add(object.len() as u64)
    }

    fn stored_bytes(self) -> Option<u64> {
        self.stored_len()
    }

    fn stored_dtype(self) -> Cow<'a, str> {
        Cow::Borrowed(self.dtype_name())
    }

    fn encoding(self) -> Cow<'a, str> {
        Cow::Borrowed(self.encoding_name())
    }

    fn extras(self) -> Vec<(&'static str, Value)> {
        extras(self, true, true)
    }
}

/// What an entry says, with or without the dims of its object and its custom fields.
fn extras(entry: Entry<'_>, dims: bool, custom: bool) -> Vec<(&'static str, Value)> {
    let mut extras = object_of(entry, dims);
    if let Some(storage) = entry.storage_dtype() {
        extras.push(("storage_dtype", storage.into()));
    }
    if extras.is_empty() && !entry.layout().is_dense() {
        extras.push(("layout", entry.layout_name().into()));
    }
    if let Some(endianness) = entry.endianness() {
        extras.push(("data_endianness", endianness.name().into()));
    }
    if let Some(checksum) = entry.checksum() {
        extras.push(("checksum", checksum.to_string().into()));
    }
    if custom && entry.has_custom() {
        let custom = entry.custom();
        let pair = |field: &ztensor_format::CustomField| (Value::from(field.key()), field.value());
        extras.push(("custom", Value::Map(custom.iter().map(pair).collect())));
    }
    extras
}

/// Whether a tensor is compressed as the options ask for, and has the checksum that they ask for.
pub(crate) fn stored_as(native: &TensorOptions, options: &Options) -> (bool, bool) {
    // Another level may well make another size.
    let compressed = options.zstd == Some(0) && native.is_compressed();
    let checksum = options.checksum.map(algorithm) == Some(native.checksum());
    (compressed, checksum)
}

fn algorithm(checksum: crate::convert::Checksum) -> Algorithm {
    match checksum {
        crate::convert::Checksum::None => Algorithm::None,
        crate::convert::Checksum::Crc32c => Algorithm::Crc32c,
        crate::convert::Checksum::Sha256 => Algorithm::Sha256,
    }
}

impl Write for Builder {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn encoded_len(&self, _data_len: u64) -> Option<u64> {
        Self::encoded_len(self).ok()
    }

    fn write_to(&self, out: &mut dyn io::Write, options: &WriteOptions<'_>) -> Result<()> {
        Ok(self.write_to_with(out, options)?)
    }

    fn write_file(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()> {
        Ok(self.write_file_with(path, options)?)
    }
}

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    holds: |dtype| dtype.is_number() && !dtype.is_float8(),
    ranks: 0..=usize::MAX,
    empty: true,
    order: Order::RowMajor,
    checksums: true,
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
    lose_generation(model, Format::Ztensor, "0.1", losses);
    let mut builder = Builder::new();
    for tensor in shrinking(tensors) {
        let Prepared {
            name,
            spec,
            data,
            attributes,
            native,
        } = tensor;
        let asked = options.zstd.is_some() || options.checksum.is_some();
        let mut how = match native {
            Some(Native::Ztensor(native)) => *native,
            // The option is about values; tensors without values stay unchanged.
            Some(Native::ZtensorStored(own)) => {
                let (how, archive, own_name) = *own;
                match archive.entry(&own_name) {
                    Some(entry) if !asked || archive.data(entry).is_err() => {
                        builder.copy_as(name, &archive, entry)?;
                        continue;
                    }
                    _ => how,
                }
            }
            _ => {
                let mut how = TensorOptions::new();
                for (key, value) in attributes {
                    if let Err(error) = how.set_custom(&key, value) {
                        let item = format!("{name}: {key}");
                        losses.push(Loss::new(LossKind::Attribute, item, error.to_string()));
                    }
                }
                how
            }
        };
        if let Some(level) = options.zstd {
            // Compressed data has one byte order.
            how = how.with_endianness(Endianness::Little).with_zstd(level);
        }
        if let Some(checksum) = options.checksum {
            how = how.with_checksum(algorithm(checksum));
        }
        match builder.deferred_with(name, spec, data, how) {
            Ok(_) => {}
            Err(ztensor_format::Error::Build(error @ BuildError::ZstdLevel { .. })) => {
                return Err(Error::Usage(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(builder)
}
