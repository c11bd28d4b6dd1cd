use std::any::Any;
use std::borrow::Cow;
use std::io;
use std::path::Path;

use mag_format::{Archive, Builder, DTypeCode, Entry, Generation, MetaValue, Timestamp};
use tensor_core::{FileId, Misfit, Order, Patch, Source, Value, WriteOptions};

use super::{About, Capabilities, Describe, DescribeEntry, Prepared, Write, lose_attributes, lose_generation, one_file};
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options, Unreadable, shrinking};
use crate::{Format, ReadOptions, Result};

/// Opens a file.
pub(crate) fn open(source: impl Source + 'static, options: &ReadOptions) -> Result<Archive> {
    Ok(Archive::from_source(source, &own_options(options))?)
}

fn own_options(options: &ReadOptions) -> mag_format::ReadOptions {
    let mut own = mag_format::ReadOptions::default();
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

    fn model_tensor(&self, entry: Entry<'_>, _about: About) -> ModelTensor {
        let name = match entry.dtype() {
            Some(dtype) => dtype.name().into(),
            None => entry.stored_dtype(),
        };
        let data = self.data(entry).map_err(Unreadable::of);
        let (dtype, shape, order) = (entry.dtype(), entry.shape(), entry.order());
        super::tensor(entry.name(), dtype, name, shape, order, data)
    }

    fn patch(&self, writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        match writer.as_any().downcast_ref::<Builder>() {
            Some(builder) => Ok(builder.edit(self)?),
            None => Ok(Err(Misfit::Layout("another format"))),
        }
    }

    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        let mut pairs = Vec::new();
        self.each_pair(&mut |key, value| pairs.push((key.to_owned(), value.clone())));
        pairs
    }

    fn each_pair(&self, take: &mut dyn FnMut(&str, &Value)) {
        if let Some(snapshot) = self.snapshot() {
            for (key, value) in snapshot.metadata() {
                take(key, value);
            }
            return;
        }
        for meta in self.metadata().iter() {
            take(meta.key(), &meta.value().into());
        }
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let checksum = self.checksum();
        let mut facts = vec![(
            "checksum",
            checksum.map_or(Value::Null, |checksum| checksum.name().into()),
        )];
        let Some(snapshot) = self.snapshot() else {
            return facts;
        };
        let timestamp = match snapshot.timestamp() {
            Timestamp::Unix(seconds) => Value::from(*seconds),
            Timestamp::Text(text) => text.as_str().into(),
            _ => Value::Null,
        };
        facts.push(("timestamp", timestamp));
        facts.extend(
            [
                (
                    "magnetron_ver",
                    snapshot.magnetron_version().map(Value::from),
                ),
                ("manifest_ver", snapshot.manifest_version().map(Value::from)),
                ("snapshot_ver", snapshot.snapshot_version().map(Value::from)),
            ]
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?))),
        );
        facts
    }
}

impl<'a> DescribeEntry<'a> for Entry<'a> {
    fn stored_bytes(self) -> Option<u64> {
        self.stored_len()
    }

    fn stored_dtype(self) -> Cow<'a, str> {
        Cow::Owned(self.dtype_code().to_string())
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
    holds: |dtype| DTypeCode::from_dtype(dtype).is_some(),
    ranks: 1..=255,
    empty: false,
    order: Order::RowMajor,
    checksums: false,
    name: |name| {
        let fits = (1..=65535).contains(&name.len()) && !name.contains('\0');
        (!fits).then(|| "a mag name has 1 to 65535 bytes and no NUL".into())
    },
};

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    _options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    let written = Generation::Version1.version().to_string();
    lose_generation(model, Format::Mag, &written, losses);
    let mut builder = Builder::new();
    for (key, value) in &model.metadata {
        let number = match value {
            Value::Int(value) => i64::try_from(*value).ok().map(MetaValue::I64),
            Value::Float(value) => Some(MetaValue::F64(*value)),
            Value::Bool(value) => Some(MetaValue::I64((*value).into())),
            _ => None,
        };
        let reason = match number.map(|number| builder.metadata(key, number)) {
            Some(Ok(_)) if matches!(value, Value::Bool(_)) => "held as an integer".to_owned(),
            Some(Ok(_)) => continue,
            Some(Err(error)) => error.to_string(),
            None => "mag metadata holds 64-bit integers and floats only".to_owned(),
        };
        losses.push(Loss::new(LossKind::Metadata, key, reason));
    }
    for tensor in shrinking(tensors) {
        lose_attributes(
            &tensor.name,
            &tensor.attributes,
            &[],
            "a mag file says nothing but dtype and shape",
            losses,
        );
        builder.deferred(tensor.name, tensor.spec, tensor.data)?;
    }
    Ok(builder)
}
