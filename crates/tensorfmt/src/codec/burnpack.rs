use std::any::Any;
use std::borrow::Cow;
use std::io;
use std::path::Path;

use burnpack_format::{
    Archive, BoolStore, Builder, Compat, DTypeCode, Entry, Layout, QuantGeneration, Scalar, TensorOptions,
    ScalarEntry,
};
use tensor_core::codec::{Ticker, walk};
use tensor_core::{Cast, DType, FileId, Misfit, Order, Patch, Source, Value, WriteOptions};

use super::{About, Capabilities, Describe, DescribeEntry, Native, Prepared, Write, one_file};
use crate::convert::record::Record;
use crate::convert::{BurnpackGeneration, Loss, LossKind, Model, ModelTensor, Options, Unreadable, shrinking};
use crate::{Error, ReadOptions, Result};

/// The attribute that keeps a dtype which only burnpack spells: `Flex32`, `Bool(u8)`, `Bool(u32)`.
const DTYPE: &str = "burnpack.dtype";
/// The attribute, and the key of listings, of a parameter id.
const PARAM_ID: &str = "param_id";

/// Opens a file.
pub(crate) fn open(source: impl Source + 'static, options: &ReadOptions) -> Result<Archive> {
    Ok(Archive::from_source(source, &own_options(options))?)
}

fn own_options(options: &ReadOptions) -> burnpack_format::ReadOptions {
    let mut own = burnpack_format::ReadOptions::default();
    options.set_limits(|name, value| own.limits.set(name, value));
    own
}

impl Describe for Archive {
    fn version_name(&self) -> String {
        self.generation().name().into()
    }

    fn read_files(&self) -> Vec<FileId> {
        one_file(self.file())
    }

    fn model_tensor(&self, entry: Entry<'_>, about: About) -> ModelTensor {
        let wide = entry.bool_store() == Some(BoolStore::U32);
        let data = if wide {
            self.bools(entry)
        } else {
            self.stored(entry)
        };
        let mut tensor = super::tensor(
            entry.name(),
            entry.dtype(),
            entry
                .dtype()
                .map_or_else(|| entry.stored_dtype(), |dtype| dtype.name().into()),
            entry.shape(),
            entry.order(),
            data.map_err(Unreadable::of),
        );
        if entry.dtype() == Some(DType::Opaque) {
            tensor.dtype_name = "qfloat".into();
        }
        if about == About::Values {
            return tensor;
        }
        if let Some(id) = entry.param_id() {
            tensor.attributes.push((PARAM_ID.into(), id.into()));
        }
        let spelled = entry.dtype_code();
        if let DTypeCode::Flex32 | DTypeCode::Bool(BoolStore::U8 | BoolStore::U32) = spelled {
            tensor
                .attributes
                .push((DTYPE.into(), spelled.to_string().into()));
        }
        // What is read as one byte each may be more in the file.
        if about == About::Home || wide {
            let own = (self.clone(), entry.position());
            tensor.native = Some(Native::Burnpack(Box::new(own)));
        }
        tensor
    }

    fn patch(&self, writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        match writer.as_any().downcast_ref::<Builder>() {
            Some(builder) => Ok(builder.edit(self)?),
            None => Ok(Err(Misfit::Layout("another format"))),
        }
    }

    fn add_to(&self, model: &mut Model) {
        let signed = self.scalars().iter();
        let signed = signed.filter(|scalar| matches!(scalar.value(), Scalar::Int(_)));
        model.signed = signed.map(|scalar| scalar.name().to_owned()).collect();
    }

    /// Text entries, then scalars. A scalar whose name is taken by a text is `scalar:NAME`.
    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        let texts = self
            .metadata()
            .iter()
            .map(|meta| (meta.key().into(), meta.value().into()));
        let scalar = |scalar: &ScalarEntry| {
            let name = match self.metadata_entry(scalar.name()) {
                Some(_) => format!("scalar:{}", scalar.name()),
                None => scalar.name().to_owned(),
            };
            (name, value(scalar.value()))
        };
        texts.chain(self.scalars().iter().map(scalar)).collect()
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let layout = match self.layout() {
            Layout::Packed => "packed",
            _ => "aligned",
        };
        let scalar = |scalar: &ScalarEntry| {
            let kind = Value::Map(vec![(scalar.value().kind().into(), value(scalar.value()))]);
            (Value::from(scalar.name()), kind)
        };
        vec![
            ("layout", layout.into()),
            ("trailing_bytes", self.trailing_bytes().into()),
            (
                "scalars",
                Value::Map(self.scalars().iter().map(scalar).collect()),
            ),
        ]
    }
}

fn value(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Int(value) => Value::from(*value),
        Scalar::UInt(value) => Value::from(*value),
        Scalar::Float(value) => Value::from(*value),
        Scalar::Bool(value) => Value::from(*value),
        _ => Value::Null,
    }
}

impl<'a> DescribeEntry<'a> for Entry<'a> {
    fn stored_bytes(self) -> Option<u64> {
        self.stored_len()
    }

    fn stored_dtype(self) -> Cow<'a, str> {
        match self.dtype_code() {
            DTypeCode::QFloat(_) => Cow::Borrowed("qfloat"),
            code => Cow::Owned(code.to_string()),
        }
    }

    fn extras(self) -> Vec<(&'static str, Value)> {
        let mut extras = Vec::new();
        if let Some(id) = self.param_id() {
            extras.push((PARAM_ID, id.into()));
        }
        match self.dtype_code() {
            DTypeCode::Flex32 => extras.push(("stored_dtype", "Flex32".into())),
            DTypeCode::Bool(store) => extras.push(("bool_store", store.name().into())),
            _ => {}
        }
        if let Some(scheme) = self.scheme() {
            extras.push(("scheme", scheme.to_string().into()));
        }
        extras
    }
}

/// The archive that a tensor comes from, and its entry there.
fn own(native: Option<&Native>) -> Option<(&Archive, Entry<'_>)> {
    match native {
        Some(Native::Burnpack(own)) => {
            let (archive, position) = &**own;
            Some((archive, archive.entries().get(*position)?))
        }
        _ => None,
    }
}

/// How many elements of a bool held as u32 are neither 0 nor 1, and so don't fit a byte.
///
/// # Errors
/// What reading the elements fails with.
pub(crate) fn wide_truths(native: Option<&Native>) -> Result<u64> {
    let Some((archive, entry)) = own(native) else {
        return Ok(0);
    };
    if entry.bool_store() != Some(BoolStore::U32) {
        return Ok(0);
    }
    let mut count = 0;
    let stored = archive.stored(entry)?;
    walk::<Error>(&stored, 0..stored.size(), &Ticker::default(), |piece| {
        let wide = |bytes: &&[u8]| !matches!(bytes, [0 | 1, 0, 0, 0]);
        count += piece.chunks_exact(4).filter(wide).count() as u64;
        Ok(())
    })?;
    Ok(count)
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
    ranks: 0..=usize::MAX,
    empty: true,
    order: Order::RowMajor,
    checksums: false,
    name: |_| None,
};

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    let mut builder = Builder::new();
    let compat = match options.burnpack {
        Some(BurnpackGeneration::V0_20) => Compat::V0_20,
        Some(BurnpackGeneration::V0_21) => Compat::V0_21,
        Some(BurnpackGeneration::V0_22) => Compat::Current,
        None => Compat::AsSpelled,
    };
    builder.compat(compat);
    let packed = |tensor: &Prepared| {
        own(tensor.native.as_ref()).is_some_and(|(archive, _)| archive.layout() == Layout::Packed)
    };
    if tensors.iter().any(packed) {
        let reason = "aligned as from Burn 0.20 on, no longer packed";
        losses.push(Loss::new(LossKind::Generation, "layout", reason));
    }
    let plain_bools = compat == Compat::AsSpelled && has_plain_bools(model, &tensors);
    add_metadata(model, &tensors, compat, &mut builder, losses);
    // Empty tensors share their place with the next one, and the index is sorted by name.
    for pair in tensors.windows(2) {
        if let [first, second] = pair {
            if first.data.size() == 0 && first.name > second.name {
                let reason = "an empty tensor has no place of its own in a burnpack file";
                losses.push(Loss::new(LossKind::Order, &first.name, reason));
            }
        }
    }
    for tensor in shrinking(tensors) {
        add_tensor(tensor, compat, plain_bools, &mut builder, losses)?;
    }
    // What the generation can't hold is refused now.
    Builder::encoded_len(&builder)?;
    Ok(builder)
}

/// The metadata, and what of it and of the tensors travels in the record.
fn add_metadata(
    model: &Model,
    tensors: &[Prepared],
    compat: Compat,
    builder: &mut Builder,
    losses: &mut Vec<Loss>,
) {
    let mut record = Record::default();
    for (key, value) in &model.metadata {
        record.note_order(key);
        let name = key.strip_prefix("scalar:").unwrap_or(key);
        let is_signed = model.signed.iter().any(|signed| signed == name);
        let scalar = scalar_of(value, is_signed);
        let written = match scalar.filter(|_| !matches!(compat, Compat::V0_20 | Compat::V0_21)) {
            Some(scalar) => builder.scalar(name, scalar).map(|_| ()),
            None => {
                losses.extend(Record::loss_of(key, value));
                let text = record.text_of(key, value);
                builder.metadata(key, text).map(|_| ())
            }
        };
        if let Err(error) = written {
            losses.push(Loss::new(LossKind::Metadata, key, error.to_string()));
        }
    }
    for tensor in tensors {
        let elsewhere = |(key, _): &&(String, Value)| key != PARAM_ID && key != DTYPE;
        let rest = tensor.attributes.iter().filter(elsewhere).cloned();
        record.attributes(&tensor.name, &rest.collect::<Vec<_>>());
    }
    if let Some(text) = record.to_text() {
        if builder.metadata(Record::KEY, text).is_err() {
            losses.push(Record::has_no_place());
        }
    }
}

/// A value as a scalar, where the format has one for it.
fn scalar_of(value: &Value, is_signed: bool) -> Option<Scalar> {
    match *value {
        Value::Int(value) => match (u64::try_from(value), i64::try_from(value)) {
            (_, Ok(value)) if is_signed || value < 0 => Some(Scalar::Int(value)),
            (Ok(value), _) => Some(Scalar::UInt(value)),
            _ => None,
        },
        Value::Float(value) => Some(Scalar::Float(value)),
        Value::Bool(value) => Some(Scalar::Bool(value)),
        _ => None,
    }
}

/// A tensor in the spelling that it has, that was asked for, or that the others have.
fn add_tensor(
    tensor: Prepared,
    compat: Compat,
    plain_bools: bool,
    builder: &mut Builder,
    losses: &mut Vec<Loss>,
) -> Result<()> {
    let id = attribute(&tensor, PARAM_ID).and_then(Value::as_u64);
    let spelled = attribute(&tensor, DTYPE)
        .and_then(Value::as_str)
        .map(str::to_owned);
    let Prepared {
        name,
        spec,
        data,
        native,
        ..
    } = tensor;
    let dtype = spec.dtype();
    let mut with = TensorOptions::new();
    if let Some(id) = id {
        with = with.with_param_id(id);
    }
    let coded = |code: DTypeCode| (code, spec.shape().clone());
    match (own(native.as_ref()), spelled.as_deref()) {
        (Some((archive, entry)), _) => {
            losses.extend(respelled(&name, entry.dtype_code(), compat));
            builder.copy_as(&name, archive, entry)?;
        }
        (_, Some("Flex32")) if dtype == DType::F32 => {
            let (code, shape) = coded(DTypeCode::Flex32);
            builder.coded_with(&name, code, shape, data, with)?;
        }
        (_, Some("Bool(u8)")) if dtype == DType::Bool => {
            let (code, shape) = coded(DTypeCode::Bool(BoolStore::U8));
            builder.coded_with(&name, code, shape, data, with)?;
        }
        (_, Some("Bool(u32)")) if dtype == DType::Bool => {
            let wide = Cast::new(data, DType::Bool, DType::U32)
                .map_err(|error| Error::Usage(error.to_string()))?;
            let (code, shape) = coded(DTypeCode::Bool(BoolStore::U32));
            builder.coded_with(&name, code, shape, wide, with)?;
        }
        _ if plain_bools && dtype == DType::Bool && spec.order() == Order::RowMajor => {
            let (code, shape) = coded(DTypeCode::Bool(BoolStore::Legacy));
            builder.coded_with(&name, code, shape, data, with)?;
        }
        _ => {
            builder.deferred_with(&name, spec, data, with)?;
        }
    }
    Ok(())
}

/// Whether bools that come from elsewhere are spelled as Burn 0.20 does: where others of the file
/// are, or the metadata says that this release wrote it.
fn has_plain_bools(model: &Model, tensors: &[Prepared]) -> bool {
    let plain = |tensor: &Prepared| {
        let own = own(tensor.native.as_ref());
        own.is_some_and(|(_, entry)| entry.bool_store() == Some(BoolStore::Legacy))
    };
    let text = |key: &str| {
        let pair = model.metadata.iter().find(|(known, _)| known == key);
        pair.and_then(|(_, value)| value.as_str())
    };
    let old = |version: &str| version.starts_with("0.19.") || version.starts_with("0.20.");
    tensors.iter().any(plain)
        || text("producer") == Some("burn") && text("version").is_some_and(old)
}

/// What becomes of the spelling of a dtype, where it changes.
fn respelled(name: &str, code: &DTypeCode, compat: Compat) -> Option<Loss> {
    if compat == Compat::AsSpelled {
        return None;
    }
    let (from, changes) = match code {
        DTypeCode::Bool(BoolStore::Legacy) => ("0.20", compat != Compat::V0_20),
        DTypeCode::Bool(BoolStore::Native) => ("0.21", compat == Compat::V0_20),
        DTypeCode::QFloat(scheme) => match scheme.generation {
            QuantGeneration::Old => ("0.21", compat == Compat::Current),
            QuantGeneration::New => ("0.22", compat != Compat::Current),
        },
        _ => return None,
    };
    let reason = format!(
        "spelled as Burn {} does, no longer as {from}",
        compat.name()
    );
    changes.then(|| Loss::new(LossKind::Attribute, format!("{name}: dtype"), reason))
}

fn attribute<'a>(tensor: &'a Prepared, key: &str) -> Option<&'a Value> {
    tensor
        .attributes
        .iter()
        .find(|(known, _)| known == key)
        .map(|(_, value)| value)
}

