use std::any::Any;
use std::borrow::Cow;
use std::io;
use std::path::Path;

use primitiv_format::{Archive, BuildError, Builder, DataType, Entry, Object, Optimizer, TensorOptions};
use tensor_core::{DType, FileId, Misfit, Order, Patch, SinkError, Source, Value, WriteOptions};

use super::{About, Capabilities, Describe, DescribeEntry, Native, Prepared, Write, lose_attributes, lose_metadata, one_file};
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options, PrimitivObject, Refusal, Unreadable, none_left, refusal, shrinking};
use crate::{Error, ReadOptions, Result};

/// The attribute that says how many of a tensor's last dim are its batch.
const BATCH: &str = "primitiv.batch";

/// Opens a file.
pub(crate) fn open(source: impl Source + 'static, options: &ReadOptions) -> Result<Archive> {
    Ok(Archive::from_source(source, &own_options(options))?)
}

fn own_options(options: &ReadOptions) -> primitiv_format::ReadOptions {
    let mut own = primitiv_format::ReadOptions::default();
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
        let mut tensor = super::tensor(
            entry.name(),
            entry.dtype(),
            entry.stored_dtype(),
            entry.shape(),
            entry.order(),
            self.data(entry).map_err(Unreadable::of),
        );
        if entry.batch() != 1 {
            tensor.attributes.push((BATCH.into(), entry.batch().into()));
        }
        tensor.is_stat = entry.stat().is_some();
        // A statistic has the address of its parameter, and must never be written at it.
        tensor.native = (about == About::Home && !tensor.is_stat)
            .then(|| Native::Primitiv(entry.path().map(str::to_owned).collect()));
        tensor
    }

    fn patch(&self, _writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        let message = "names and data of a primitiv file follow each other without a gap";
        Ok(Err(Misfit::Layout(message)))
    }

    fn add_to(&self, model: &mut Model) {
        model.primitiv = match self.data_type() {
            DataType::Model => Some(PrimitivObject::Model),
            DataType::Parameter => Some(PrimitivObject::Parameter),
            DataType::Optimizer => Some(PrimitivObject::Optimizer),
            DataType::Tensor => Some(PrimitivObject::Tensor),
            _ => None,
        };
        if self.data_type() == DataType::Shape {
            let message = "a primitiv Shape file holds no tensor; `inspect --json` shows it";
            model.nothing = Some(message.into());
        }
    }

    /// The configurations of an optimizer; nothing else has metadata.
    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        let mut pairs = Vec::new();
        self.each_pair(&mut |key, value| pairs.push((key.to_owned(), value.clone())));
        pairs
    }

    fn each_pair(&self, take: &mut dyn FnMut(&str, &Value)) {
        let Object::Optimizer(optimizer) = self.object() else {
            return;
        };
        for (key, value) in optimizer.uints() {
            take(key, &value.into());
        }
        for (key, value) in optimizer.floats() {
            let value = Value::Float(value.into());
            // The two maps may have a key in common.
            match optimizer.get_uint(key) {
                Some(_) => take(&format!("float:{key}"), &value),
                None => take(key, &value),
            }
        }
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let mut facts = vec![("data_type", self.data_type().name().into())];
        match self.object() {
            Object::Shape { dims, batch } => {
                let dims = dims.dims().iter().map(|&dim| Value::from(dim)).collect();
                facts.push(("dims", Value::List(dims)));
                facts.push(("batch", batch.into()));
            }
            Object::Optimizer(optimizer) => {
                let kind = optimizer
                    .kind()
                    .map_or(Value::Null, |kind| kind.name().into());
                facts.push(("optimizer", kind));
            }
            _ => {}
        }
        facts
    }
}

impl<'a> DescribeEntry<'a> for Entry<'a> {
    fn stored_dtype(self) -> Cow<'a, str> {
        Cow::Borrowed(DType::F32.name())
    }

    fn stored_bytes(self) -> Option<u64> {
        self.stored_len()
    }

    fn extras(self) -> Vec<(&'static str, Value)> {
        let path = self.path().map(Value::from).collect();
        let mut extras = vec![("path", Value::List(path))];
        if let Some(stat) = self.stat() {
            extras.push(("stat", stat.into()));
        }
        if self.batch() != 1 {
            extras.push(("batch", self.batch().into()));
        }
        extras
    }
}

/// The object that was read, as long as all that is left of the model fits in one.
fn same_object(model: &Model, tensors: &[Prepared]) -> Option<PrimitivObject> {
    let object = model.primitiv?;
    let mut parameters = tensors.iter().filter(|one| one.native.is_some());
    let nameless = |one: &Prepared| one.name.is_empty();
    let is_one = parameters.next().is_some_and(nameless) && parameters.next().is_none();
    let fits = match object {
        PrimitivObject::Parameter => is_one,
        PrimitivObject::Tensor => is_one && tensors.len() == 1,
        PrimitivObject::Optimizer => tensors.is_empty(),
        PrimitivObject::Model => true,
    };
    fits.then_some(object)
}

/// What a primitiv target writes.
#[derive(Debug)]
pub(crate) enum Writer {
    Tensors(Builder),
    Optimizer(Optimizer),
}

impl Write for Writer {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn encoded_len(&self, _data_len: u64) -> Option<u64> {
        match self {
            Self::Tensors(builder) => builder.encoded_len().ok(),
            Self::Optimizer(optimizer) => optimizer.to_vec().ok().map(|bytes| bytes.len() as u64),
        }
    }

    fn write_to(&self, out: &mut dyn io::Write, options: &WriteOptions<'_>) -> Result<()> {
        match self {
            Self::Tensors(builder) => Ok(builder.write_to_with(out, options)?),
            Self::Optimizer(optimizer) => {
                Ok(out.write_all(&optimizer.to_vec()?).map_err(SinkError::Io)?)
            }
        }
    }

    fn write_file(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()> {
        match self {
            Self::Tensors(builder) => Ok(builder.write_file_with(path, options)?),
            Self::Optimizer(optimizer) => Ok(optimizer.write_file_with(path, options)?),
        }
    }
}

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    holds: |dtype| dtype == DType::F32,
    // More than 8 where the rest is ones; the builder has the last word.
    ranks: 0..=usize::MAX,
    empty: false,
    order: Order::ColumnMajor,
    checksums: false,
    name: |_| None,
};

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Writer> {
    let object = options.primitiv.or_else(|| same_object(model, &tensors));
    let object = object.unwrap_or_default();
    if object == PrimitivObject::Optimizer {
        return optimizer(model, &tensors, options, losses).map(Writer::Optimizer);
    }
    lose_metadata(model, "a primitiv file of tensors has no metadata", losses);
    let mut builder = match object {
        PrimitivObject::Parameter => Builder::parameter_file(),
        PrimitivObject::Tensor => Builder::tensor_file(),
        _ => Builder::new(),
    };
    builder.split_names(!options.whole_names).sort(false);
    let mut filling = Filling {
        builder,
        object,
        parameter: None,
    };
    for tensor in shrinking(tensors) {
        filling.add(tensor, losses)?;
    }
    let builder = filling.builder;
    builder.check().map_err(|error| match error {
        primitiv_format::Error::Build(error @ BuildError::PathConflict { .. }) => {
            // Where the caller of a conversion finds what the builder speaks of.
            let text = format!("{error} (`whole_names`, --whole-names on the command line)");
            refusal(text)
        }
        error => error.into(),
    })?;
    Ok(Writer::Tensors(builder))
}

/// A builder, and the parameter that was added last, which statistics belong to.
struct Filling {
    builder: Builder,
    object: PrimitivObject,
    parameter: Option<String>,
}

impl Filling {
    fn add(&mut self, tensor: Prepared, losses: &mut Vec<Loss>) -> Result<()> {
        let batch = match tensor.attributes.iter().find(|(key, _)| key == BATCH) {
            Some((_, Value::Int(batch))) => u32::try_from(*batch).unwrap_or(1),
            _ => 1,
        };
        let Prepared {
            name,
            spec,
            data,
            native,
            attributes,
        } = tensor;
        if batch == 1 && spec.shape().dims().last() == Some(&1) {
            let reason = format!("trailing ones of {} are not stored", spec.shape());
            losses.push(Loss::new(LossKind::Shape, &name, reason));
        }
        // `NAME:KEY` right after `NAME` is a statistic of it: so is one named on the way out.
        // What is known to be a parameter stays one, however it is named.
        let stat = match (&native, self.parameter.as_deref()) {
            (None, Some(parameter)) => stat_key(parameter, &name).map(str::to_owned),
            _ => None,
        };
        // Values of parameters have no batch.
        let is_batched = stat.is_some() || self.object == PrimitivObject::Tensor;
        let kept: &[&str] = if is_batched { &[BATCH] } else { &[] };
        let reason = "a primitiv file says nothing but the shape";
        lose_attributes(&name, &attributes, kept, reason, losses);
        let with = TensorOptions::new().with_batch(if is_batched { batch } else { 1 });
        if let Some(key) = stat {
            self.builder.deferred_stat_with(key, spec, data, with)?;
            return Ok(());
        }
        match native {
            Some(Native::Primitiv(path)) if !path.is_empty() => {
                self.builder.deferred(&*path, spec, data)?;
            }
            _ => {
                if self.object != PrimitivObject::Model && !name.is_empty() {
                    let reason = "the one tensor of such a file has no name";
                    losses.push(Loss::new(LossKind::Name, &name, reason));
                }
                self.builder.deferred_with(&name, spec, data, with)?;
            }
        }
        self.parameter = Some(name);
        Ok(())
    }
}

/// The `KEY` of `NAME:KEY`, where `NAME` is this parameter.
fn stat_key<'a>(parameter: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(parameter)?.strip_prefix(':')
}

/// An optimizer from metadata: integers of 32 bits, and floats that are as exact as f32.
fn optimizer(
    model: &Model,
    tensors: &[Prepared],
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Optimizer> {
    let reason = "a primitiv Optimizer file holds no tensors";
    if !options.skip_unsupported && !tensors.is_empty() {
        let refusal = |tensor: &Prepared| Refusal {
            tensor: tensor.name.clone(),
            dtype: tensor.spec.dtype().to_string(),
            reason: reason.into(),
            damaged: false,
            remedy: None,
        };
        return Err(Error::Refused(tensors.iter().map(refusal).collect()));
    }
    if !options.allow_empty && !tensors.is_empty() {
        return Err(none_left(tensors.len()));
    }
    for tensor in tensors {
        losses.push(Loss::new(LossKind::Tensor, &tensor.name, reason));
    }
    let mut optimizer = Optimizer::new();
    for (key, value) in &model.metadata {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "only exact values are taken"
        )]
        let is_written = match value {
            Value::Int(value) => match u32::try_from(*value) {
                Ok(value) => optimizer.uint(key, value).map(|_| true)?,
                Err(_) => false,
            },
            Value::Float(value) if f64::from(*value as f32) == *value || value.is_nan() => {
                let key = key.strip_prefix("float:").unwrap_or(key);
                optimizer.float(key, *value as f32).map(|_| true)?
            }
            _ => false,
        };
        if !is_written {
            let reason = "an Optimizer file holds 32-bit integers and floats only";
            losses.push(Loss::new(LossKind::Metadata, key, reason));
        }
    }
    Ok(optimizer)
}
