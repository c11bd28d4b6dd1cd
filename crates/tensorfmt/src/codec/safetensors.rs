use std::borrow::Cow;

use safetensors_format::{Archive, Builder, DTypeCode, Entry, Set};
use tensor_core::{DType, FileId, Order, Value};

use super::{About, Capabilities, Describe, DescribeEntry, Native, Prepared};
use crate::Result;
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options, Record, Unreadable, shrinking};

impl Describe for Archive {
    fn version_name(&self) -> String {
        "1".into()
    }

    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        self.metadata()
            .iter()
            .map(|meta| (meta.key().into(), meta.value().into()))
            .collect()
    }
}

impl Describe for Set {
    fn version_name(&self) -> String {
        "set".into()
    }

    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        self.metadata()
            .iter()
            .map(|meta| (meta.key().into(), meta.value().into()))
            .collect()
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let mut facts = vec![("shards", (self.shards().len() as u64).into())];
        let said: Vec<(Value, Value)> = self
            .index_metadata()
            .map(|(key, value)| (key.into(), value))
            .collect();
        if !said.is_empty() {
            facts.push(("index", Value::Map(said)));
        }
        facts
    }
}

impl<'a> DescribeEntry<'a> for Entry<'a> {
    fn stored_bytes(self) -> Option<u64> {
        self.stored_len()
    }

    fn stored_dtype(self) -> Cow<'a, str> {
        Cow::Borrowed(self.dtype_code().name())
    }

    fn extras(self) -> Vec<(&'static str, Value)> {
        let pairs = Entry::extras(self).map(|extra| (extra.key().into(), extra.value()));
        let pairs: Vec<(Value, Value)> = pairs.collect();
        match pairs.is_empty() {
            true => Vec::new(),
            false => vec![("extra", Value::Map(pairs))],
        }
    }
}

/// A tensor with its bytes as they are stored, whatever its dtype.
pub(crate) fn model_tensor(archive: &Archive, entry: Entry<'_>, about: About) -> ModelTensor {
    let mut tensor = super::tensor(
        entry.name(),
        entry.dtype(),
        match entry.dtype() {
            Some(dtype) if dtype != DType::Opaque => dtype.name().into(),
            _ => entry.stored_dtype(),
        },
        entry.shape(),
        entry.order(),
        archive.stored(entry).map_err(Unreadable::of),
    );
    // Keys of the tensor's own are to be told where they are lost.
    let has_extras = || Entry::extras(entry).next().is_some();
    if about == About::Home || about == About::Elsewhere && has_extras() {
        let own = (archive.clone(), entry.position());
        tensor.native = Some(Native::Safetensors(Box::new(own)));
    }
    tensor
}

/// The same of a set, where the shard that has the tensor stands for the file.
pub(crate) fn set_tensor(set: &Set, entry: Entry<'_>, about: About) -> ModelTensor {
    match set.archive_of(entry) {
        Ok(archive) => model_tensor(archive, entry, about),
        // An entry of another set, which nothing here hands out.
        Err(error) => super::tensor(
            entry.name(),
            entry.dtype(),
            entry.stored_dtype(),
            entry.shape(),
            entry.order(),
            Err(Unreadable::of(error)),
        ),
    }
}

/// The archive that a tensor comes from, and its entry there.
fn own(native: &Native) -> Option<(&Archive, Entry<'_>)> {
    match native {
        Native::Safetensors(own) => {
            let (archive, position) = &**own;
            Some((archive, archive.entries().get(*position)?))
        }
        #[allow(unreachable_patterns, reason = "a build may have one codec only")]
        _ => None,
    }
}

/// The keys of a tensor's own.
pub(crate) fn extras(native: &Native) -> impl Iterator<Item = (String, Value)> {
    let entry = own(native).map(|(_, entry)| entry);
    let extras = entry.into_iter().flat_map(Entry::extras);
    extras.map(|extra| (extra.key().to_owned(), extra.value()))
}

/// What is lost of a tensor that leaves the format.
pub(crate) fn lose_extras(name: &str, native: &Native, losses: &mut Vec<Loss>) {
    for (key, _) in extras(native) {
        let reason = "a key of the tensor's own, which only a safetensors file has";
        let item = format!("{name}: {key}");
        losses.push(Loss::new(LossKind::Attribute, item, reason));
    }
}

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    holds: |dtype| DTypeCode::from_dtype(dtype).is_some(),
    ranks: 0..=usize::MAX,
    empty: true,
    order: Order::RowMajor,
    checksums: false,
    name: |name| (name == "__metadata__").then(|| "the name is the header's own".into()),
};

/// What the index of a set says about it that doesn't follow from its tensors.
pub(crate) fn said_by_index(set: &Set) -> Vec<String> {
    let keys = set.index_metadata().map(|(key, _)| key);
    keys.filter(|key| *key != "total_parameters")
        .map(str::to_owned)
        .collect()
}

/// A set, with the shards that its source has unless other ones are asked for.
pub(crate) fn build_set(
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    let starts = match options.max_shard_bytes {
        None => shard_starts(&tensors),
        Some(_) => Vec::new(),
    };
    let mut builder = build(model, tensors, options, losses)?;
    if let Some(bytes) = options.max_shard_bytes {
        builder.max_shard_bytes(bytes);
    }
    builder.shards_start_at(starts);
    Ok(builder)
}

/// Where the tensors of each file begin, where they come from several files of the format one after the
/// other.
fn shard_starts(tensors: &[Prepared]) -> Vec<usize> {
    let mut files: Vec<&FileId> = Vec::new();
    let mut starts = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        let file = match &tensor.native {
            Some(Native::Safetensors(own)) => own.0.file(),
            #[allow(unreachable_patterns, reason = "a build may have one codec only")]
            _ => None,
        };
        match (file, files.last()) {
            (Some(file), Some(last)) if *last == file => {}
            (Some(file), _) if !files.contains(&file) => {
                files.push(file);
                starts.push(at);
            }
            // Mixed, or from elsewhere.
            _ => return Vec::new(),
        }
    }
    match files.len() {
        0 | 1 => Vec::new(),
        _ => starts,
    }
}

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    _options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    let mut builder = Builder::new();
    let mut record = Record::default();
    for (key, value) in &model.metadata {
        losses.extend(Record::loss_of(key, value));
        builder.metadata(key, record.text_of(key, value))?;
    }
    for tensor in &tensors {
        record.attributes(&tensor.name, &tensor.attributes);
    }
    if let Some(text) = record.to_text() {
        if builder.metadata(Record::KEY, text).is_err() {
            losses.push(Record::has_no_place());
        }
    }
    for tensor in shrinking(tensors) {
        let (name, dtype, shape) = (tensor.name, tensor.dtype, tensor.shape);
        match tensor.native.as_ref().and_then(own) {
            Some((archive, entry)) => {
                if entry.dtype().unwrap_or(DType::Opaque) == dtype && *entry.shape() == shape {
                    builder.copy_as(name, archive, entry)?;
                    continue;
                }
                builder.deferred(name, dtype, shape, tensor.order, tensor.data)?;
                builder.extras_like(entry)?;
            }
            _ => {
                builder.deferred(name, dtype, shape, tensor.order, tensor.data)?;
            }
        }
    }
    Ok(builder)
}
