use std::any::Any;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors_format::{Archive, Builder, DTypeCode, Entry, Set, TensorOptions};
use tensor_core::{
    DType, FileId, Misfit, Order, Parts, Patch, SetOutput, Source, Value, WriteOptions,
};

use super::{
    About, Capabilities, Describe, DescribeEntry, Native, Prepared, SetPart, Write, one_file,
};
use crate::{ReadOptions, Result};
use crate::convert::record::Record;
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options, Unreadable, shrinking};

/// Opens a file.
pub(crate) fn open(source: impl Source + 'static, options: &ReadOptions) -> Result<Archive> {
    Ok(Archive::from_source(source, &own_options(options))?)
}

fn own_options(options: &ReadOptions) -> safetensors_format::ReadOptions {
    let mut own = safetensors_format::ReadOptions::default();
    own.salvage = options.salvage;
    options.set_limits(|name, value| own.limits.set(name, value));
    own
}

impl Describe for Archive {
    fn version_name(&self) -> String {
        "1".into()
    }

    fn read_files(&self) -> Vec<FileId> {
        one_file(self.file())
    }

    fn model_tensor(&self, entry: Entry<'_>, about: About) -> ModelTensor {
        let mut tensor = super::tensor(
            entry.name(),
            entry.dtype(),
            match entry.dtype() {
                Some(dtype) if dtype != DType::Opaque => dtype.name().into(),
                _ => entry.stored_dtype(),
            },
            entry.shape(),
            entry.order(),
            self.stored(entry).map_err(Unreadable::of),
        );
        // Extra keys of the tensor must be reported where they are lost.
        let has_extras = || Entry::extras(entry).next().is_some();
        if about == About::Home || about == About::Elsewhere && has_extras() {
            let own = (self.clone(), entry.position());
            tensor.native = Some(Native::Safetensors(Box::new(own)));
        }
        tensor
    }

    fn patch(&self, writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        match writer.as_any().downcast_ref::<Builder>() {
            Some(builder) => Ok(builder.edit(self)?),
            None => Ok(Err(Misfit::Layout("another format"))),
        }
    }

    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        self.metadata()
            .iter()
            .map(|meta| (meta.key().into(), meta.value().into()))
            .collect()
    }

    fn each_pair(&self, take: &mut dyn FnMut(&str, &Value)) {
        for meta in self.metadata() {
            take(meta.key(), &meta.value().into());
        }
    }
}

impl Describe for Set {
    fn version_name(&self) -> String {
        "set".into()
    }

    fn read_files(&self) -> Vec<FileId> {
        self.file_ids()
    }

    fn is_several(&self) -> bool {
        true
    }

    fn model_tensor(&self, entry: Entry<'_>, about: About) -> ModelTensor {
    match self.archive_of(entry) {
        Ok(archive) => archive.model_tensor(entry, about),
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

    fn add_to(&self, model: &mut Model) {
        let keys = self.index_metadata().map(|(key, _)| key);
        let said = keys.filter(|key| *key != "total_parameters");
        model.said_by_index = said.map(str::to_owned).collect();
    }

    fn part_name(&self, entry: Entry<'_>) -> Option<&str> {
        self.shard_of(entry)
    }

    fn unlisted_tensors(&self) -> Vec<(String, String)> {
        let owned = |(shard, name): (&str, &str)| (shard.to_owned(), name.to_owned());
        self.unlisted().map(owned).collect()
    }

    fn odd_facts(&self) -> &[String] {
        self.oddities()
    }

    fn faults_passed(&self) -> Vec<String> {
        self.faults().iter().map(ToString::to_string).collect()
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

impl Write for Builder {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn data_reordered(&self) -> bool {
        Self::data_reordered(self)
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

/// The builder of a set.
#[derive(Debug)]
pub(crate) struct SetWriter(Builder);

impl Write for SetWriter {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn files_beside(&self, path: &Path) -> Vec<PathBuf> {
        self.0.set_files(path).unwrap_or_default()
    }

    fn encoded_len(&self, _data_len: u64) -> Option<u64> {
        self.0.encoded_set_len().ok()
    }

    fn write_file(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()> {
        Ok(self.0.write_set_with(path, options)?)
    }

    fn write_set(
        &self,
        name: &str,
        out: &mut dyn SetOutput,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        Ok(self.0.write_set_to(name, out, options)?)
    }

    fn write_part(
        &self,
        part: usize,
        out: &mut dyn io::Write,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        Ok(self.0.write_part_to(part, out, options)?)
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

/// A set, with the shards that its source has unless other ones are asked for.
pub(crate) fn build_set(
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    starts: Option<Vec<usize>>,
    losses: &mut Vec<Loss>,
) -> Result<SetWriter> {
    let starts = match (starts, options.max_shard_bytes) {
        (Some(starts), _) => starts,
        (None, None) => shard_starts(&tensors),
        (None, Some(_)) => Vec::new(),
    };
    let mut builder = build(model, tensors, options, losses)?;
    if let Some(bytes) = options.max_shard_bytes {
        builder.max_shard_bytes(bytes);
    }
    builder.shards_start_at(starts);
    Ok(SetWriter(builder))
}

/// The index of shards that were written alone, with its bytes.
pub(crate) fn join(path: &Path, parts: Vec<SetPart>) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let shard = |part: SetPart| Ok::<_, crate::Error>((part.name, Archive::open(part.path)?));
    let index = Set::index_of(parts.into_iter().map(shard))?;
    Ok(vec![(path.to_path_buf(), index.into_bytes())])
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
        let (name, spec) = (tensor.name, tensor.spec);
        match tensor.native.as_ref().and_then(own) {
            Some((archive, entry)) => {
                let dtype = entry.dtype().unwrap_or(DType::Opaque);
                if dtype == spec.dtype() && entry.shape() == spec.shape() {
                    builder.copy_as(name, archive, entry)?;
                    continue;
                }
                let options = TensorOptions::new().with_extras_of(entry);
                builder.deferred_with(name, spec, tensor.data, options)?;
            }
            _ => {
                builder.deferred(name, spec, tensor.data)?;
            }
        }
    }
    Ok(builder)
}

/// Whether a file is the index of a set of safetensors: by its name, or by the beginning of its JSON.
pub(crate) fn is_set(source: &dyn Source, path: &Path) -> Result<bool> {
    /// As much as comes before the map of a file whose other keys are few.
    const HEAD: u64 = 4096;
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_ascii_lowercase());
    if name.is_some_and(|name| name.ends_with(".index.json")) {
        return Ok(true);
    }
    let head = source.read(0..source.size().min(HEAD))?;
    let is_json = head.trim_ascii_start().starts_with(b"{");
    let map = b"\"weight_map\"";
    Ok(is_json && head.windows(map.len()).any(|window| window == map))
}

/// Opens a set.
pub(crate) fn open_set(path: &Path, options: &ReadOptions) -> Result<Set> {
    Ok(Set::open_with(path, &own_options(options))?)
}

/// Opens a set whose shards are not on this disk.
pub(crate) fn open_parts(
    name: &str,
    source: impl Source,
    parts: Arc<dyn Parts>,
    options: &ReadOptions,
) -> Result<Set> {
    Ok(Set::from_parts(name, source, &*parts, &own_options(options))?)
}

/// Opens a set; its index names no addresses.
pub(crate) fn open_linked(path: &Path, _links: Arc<dyn Parts>, options: &ReadOptions) -> Result<Set> {
    open_set(path, options)
}

/// The names of the files that the text of an index names.
#[cfg(feature = "remote")]
pub(crate) fn names_in(index: &serde_json::Value) -> Vec<String> {
    let map = index.get("weight_map").and_then(|map| map.as_object());
    let names = map.into_iter().flat_map(serde_json::Map::values);
    names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}
