use std::any::Any;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aero_format::{
    Archive, Builder, Chunk, DTypeCode, Entry, IndexStyle, JoinedPart, MetaEntry, Set, Style, TensorOptions,
};
use serde_json::{Value as Json, json};
use tensor_core::{
    DType, FileId, Misfit, Order, Parts, Patch, SetOutput, Source, Value, WriteOptions,
};

use super::{
    About, Capabilities, Describe, DescribeEntry, Native, Prepared, SetPart, Write, one_file,
};
use crate::json::hex;
use crate::convert::record::Record;
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options, Unreadable, shrinking};
use crate::format::looks_like;
use crate::{Error, Format, ReadOptions, Result};

/// The key under which a conversion to this format keeps a tensor's flags.
const FLAGS: &str = "aero.flags";
const QUANT_ID: &str = "quant_id";

/// Opens a file.
pub(crate) fn open(source: impl Source + 'static, options: &ReadOptions) -> Result<Archive> {
    Ok(Archive::from_source(source, &own_options(options))?)
}

fn own_options(options: &ReadOptions) -> aero_format::ReadOptions {
    let mut own = aero_format::ReadOptions::default();
    own.salvage = options.salvage;
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
        let data = match entry.dtype() {
            Some(_) => self.data(entry),
            None => self.stored(entry),
        };
        let data = data.map_err(Unreadable::of);
        described(entry, data, || self.extra(entry), about)
    }

    fn patch(&self, writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        match writer.as_any().downcast_ref::<Builder>() {
            Some(builder) => Ok(builder.edit(self)?),
            None => Ok(Err(Misfit::Layout("another format"))),
        }
    }

    fn add_to(&self, model: &mut Model) {
        model.aero = Some(Style::of(self));
    }

    fn has_reversed_dims(&self) -> bool {
        has_gguf_dims(&self.metadata_pairs())
    }

    fn index_len(&self) -> u64 {
    let chunks = self.chunks().iter();
    chunks
        .filter(|chunk| chunk.fourcc() != aero_format::FourCc::WTSH)
        .fold(0, |sum, chunk| sum.saturating_add(chunk.ulen()))
}

    /// The JSON metadata.
    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        pairs(self.metadata().unwrap_or_default()).collect()
    }

    fn metadata_fault(&self) -> Option<crate::Error> {
        self.metadata().err().map(Into::into)
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let uuid = hex(self.uuid());
        let chunks = self.chunks().iter().map(describe).collect();
        vec![("uuid", uuid.into()), ("chunks", Value::List(chunks))]
    }
}

fn describe(chunk: &Chunk) -> Value {
    Value::Map(vec![
        ("fourcc".into(), chunk.fourcc().to_string().into()),
        ("name".into(), chunk.name().into()),
        ("flags".into(), chunk.flags().into()),
        ("offset".into(), chunk.offset().into()),
        ("length".into(), chunk.length().into()),
        ("ulen".into(), chunk.ulen().into()),
    ])
}

impl Describe for Set {
    fn version_name(&self) -> String {
        "set".into()
    }

    fn read_files(&self) -> Vec<FileId> {
        let paths = self.files().into_iter();
        paths.filter_map(|path| FileId::of(path).ok()).collect()
    }

    fn is_several(&self) -> bool {
        true
    }

    fn model_tensor(&self, entry: Entry<'_>, about: About) -> ModelTensor {
        let data = match entry.dtype() {
            Some(_) => self.data(entry),
            None => self.stored(entry),
        };
        let data = data.map_err(Unreadable::of);
        described(entry, data, || self.extra(entry), about)
    }

    fn add_to(&self, model: &mut Model) {
        model.aero = Some(Style::of_set(self));
    }

    fn has_reversed_dims(&self) -> bool {
        has_gguf_dims(&self.metadata_pairs())
    }

    fn part_name(&self, entry: Entry<'_>) -> Option<&str> {
        self.part_of(entry)
    }

    fn unlisted_tensors(&self) -> Vec<(String, String)> {
        self.unlisted()
    }

    /// What the set says, and what its parts say.
    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        let parts: Vec<_> = pairs(self.part_metadata().unwrap_or_default()).collect();
        let said = |key: &str, value: &Value| {
            parts
                .iter()
                .any(|(known, same)| known == key && same == value)
        };
        // A set must name its model; a name that a part repeats, or a placeholder, is no metadata.
        let mut own: Vec<_> = pairs(self.metadata().to_vec()).collect();
        own.retain(|(key, value)| {
            let also = match key.as_str() {
                "model.name" => "model_name",
                "model.architecture" => "architecture",
                key => key,
            };
            value.as_str() != Some("unknown") && !said(also, value)
        });
        for (key, value) in parts {
            if !own.iter().any(|(known, _)| *known == key) {
                own.push((key, value));
            }
        }
        own
    }

    fn metadata_fault(&self) -> Option<crate::Error> {
        self.part_metadata().err().map(Into::into)
    }
}

impl<'a> DescribeEntry<'a> for Entry<'a> {
    fn stored_dtype(self) -> Cow<'a, str> {
        Cow::Owned(self.dtype_code().to_string())
    }

    fn stored_bytes(self) -> Option<u64> {
        self.stored_len()
    }

    fn in_shard(self) -> Option<(u32, u64)> {
        // No data is at the start of a file.
        (self.offset() == 0).then(|| (self.shard_id(), self.data_off()))
    }

    fn extras(self) -> Vec<(&'static str, Value)> {
        let mut extras = vec![("shard_id", self.shard_id().into())];
        if let Some(hash) = self.hash_b3() {
            extras.push(("hash_b3", hex(hash).into()));
        }
        if let Some(id) = self.quant_id() {
            extras.push((QUANT_ID, id.into()));
        }
        if self.flags() != 0 {
            extras.push(("flags", self.flags().into()));
        }
        extras
    }
}

/// Metadata as pairs.
fn pairs(metadata: Vec<MetaEntry>) -> impl Iterator<Item = (String, Value)> {
    metadata.into_iter().map(MetaEntry::into_pair)
}

/// A file converted from GGUF has the dims in that format's order, fastest first, over row-major
/// bytes.
fn has_gguf_dims(metadata: &[(String, Value)]) -> bool {
    let is_gguf =
        |(key, value): &(String, Value)| key == "source_format" && value.as_str() == Some("gguf");
    metadata.iter().any(is_gguf)
}

fn described(
    entry: Entry<'_>,
    data: Result<std::sync::Arc<dyn tensor_core::Source>, Unreadable>,
    extra: impl FnOnce() -> Vec<(String, Value)>,
    about: About,
) -> ModelTensor {
    let mut tensor = super::tensor(
        entry.name(),
        entry.dtype(),
        entry.stored_dtype(),
        entry.shape(),
        entry.order(),
        data,
    );
    if about == About::Values {
        return tensor;
    }
    tensor.attributes = extra();
    if let Some(id) = entry.quant_id() {
        tensor.attributes.push((QUANT_ID.into(), id.into()));
    }
    if entry.flags() != 0 {
        tensor.attributes.push((FLAGS.into(), entry.flags().into()));
    }
    tensor.checksum = entry.hash_b3().map(|_| "a BLAKE3 hash".into());
    tensor.native = Some(match entry.dtype() {
        Some(_) => Native::Aero {
            hashed: entry.hash_b3().is_some(),
        },
        None => Native::AeroCoded(entry.dtype_code()),
    });
    tensor
}

impl Write for Builder {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn encoded_len(&self, data_len: u64) -> Option<u64> {
        // The length of the index takes hashes of all data to know.
        Some(data_len)
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
        self.0.set_files(path)
    }

    fn encoded_len(&self, data_len: u64) -> Option<u64> {
        Some(data_len)
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

    fn index_style(&self) -> Json {
        let style = self.0.index_style();
        json!({
            "model_name": style.model_name,
            "architecture": style.architecture,
            "zstd_level": style.zstd_level,
            "ihsh": style.ihsh,
        })
    }
}

/// As [`build`], in parts.
pub(crate) fn build_set(
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    starts: Option<Vec<usize>>,
    losses: &mut Vec<Loss>,
) -> Result<SetWriter> {
    let mut builder = build(model, tensors, options, losses)?;
    if let Some(starts) = starts {
        builder.parts_start_at(starts);
    }
    Ok(SetWriter(builder))
}

/// The files that name parts which were written alone, each with its bytes.
pub(crate) fn join(
    path: &Path,
    style: &Json,
    parts: Vec<SetPart>,
) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let text = |key: &str| style.get(key).and_then(Json::as_str).map(str::to_owned);
    let level = style.get("zstd_level").and_then(Json::as_i64);
    let style = IndexStyle {
        model_name: text("model_name"),
        architecture: text("architecture"),
        zstd_level: level.and_then(|level| i32::try_from(level).ok()),
        ihsh: style.get("ihsh").and_then(Json::as_bool).unwrap_or(false),
    };
    let joined = |SetPart { name, path, sha256 }: SetPart| {
        let archive = Archive::open(path)?;
        Ok::<_, Error>(JoinedPart {
            name,
            sha256,
            archive,
        })
    };
    style.join(path, parts.into_iter().map(joined))
}

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    holds: |dtype| dtype != DType::Opaque && DTypeCode::from_dtype(dtype).is_some(),
    ranks: 0..=32,
    empty: true,
    order: Order::RowMajor,
    checksums: true,
    name: |name| (name.len() > 4096).then(|| "an AERO name has up to 4096 bytes".into()),
};

pub(crate) fn build(
    model: &Model,
    tensors: Vec<Prepared>,
    options: &Options,
    losses: &mut Vec<Loss>,
) -> Result<Builder> {
    let mut builder = Builder::new();
    let text = |key: &str| {
        let pair = model.metadata.iter().find(|(known, _)| known == key);
        pair.and_then(|(_, value)| value.as_str())
    };
    // Only what the source has: fields that the format requires anyway are no metadata.
    if let Some(name) = text("model_name") {
        builder.model_name(name);
    }
    if let Some(architecture) = text("architecture") {
        builder.architecture(architecture);
    }
    let mut record = Record::default();
    for (key, value) in &model.metadata {
        record.note_order(key);
        if Record::is_flat(value) && builder.metadata(key, value.clone()).is_ok() {
            continue;
        }
        losses.extend(Record::loss_of(key, value));
        // What JSON has no form for goes as text, with a note of what it was.
        let text = record.text_of(key, value);
        if let Err(error) = builder.metadata(key, text) {
            losses.push(Loss::new(LossKind::Metadata, key, error.to_string()));
        }
    }
    if let Some(text) = record.to_text() {
        if builder.metadata(Record::KEY, text).is_err() {
            losses.push(Record::has_no_place());
        }
    }
    if let Some(style) = model.aero {
        builder.style(style);
    }
    if let Some(bytes) = options.max_shard_bytes {
        builder.max_shard_bytes(bytes);
    }
    if let Some(shards) = options.max_part_shards {
        builder.max_part_shards(shards);
    }
    let hashed = |tensor: &Prepared| matches!(tensor.native, Some(Native::Aero { hashed: true }));
    builder.tensor_hashes(options.tensor_hash || tensors.iter().any(hashed));
    // What the format has no room for is an option that makes no sense.
    let usage = |error: aero_format::Error| Error::Usage(error.to_string());
    if options.ihsh {
        builder.ihsh(true);
    }
    if options.page_align {
        builder.page_align(true);
    }
    if options.phsh.is_some() {
        builder.phsh(options.phsh).map_err(usage)?;
    }
    if let Some(level) = options.zstd {
        let level = if level == 0 { 6 } else { level };
        builder.zstd_level(Some(level)).map_err(usage)?;
    }
    for tensor in shrinking(tensors) {
        add_tensor(tensor, &mut builder, losses)?;
    }
    Ok(builder)
}

/// A tensor with its attributes, as far as the format can hold them.
fn add_tensor(tensor: Prepared, builder: &mut Builder, losses: &mut Vec<Loss>) -> Result<()> {
    let Prepared {
        name,
        spec,
        data,
        attributes,
        native,
    } = tensor;
    let mut with = TensorOptions::new();
    for (key, value) in attributes {
        match (key.as_str(), value.as_i64(), value.as_u64()) {
            (QUANT_ID, Some(id), _) => with = with.with_quant_id(id),
            (FLAGS, _, Some(flags)) => with = with.with_flags(flags),
            _ => {
                if let Err(error) = with.set_extra(&*key, value) {
                    let item = format!("{name}: {key}");
                    losses.push(Loss::new(LossKind::Attribute, item, error.to_string()));
                }
            }
        }
    }
    match native {
        Some(Native::AeroCoded(code)) => {
            builder.coded_with(name, code, spec.into_shape(), data, with)?
        }
        _ => builder.deferred_with(name, spec, data, with)?,
    };
    Ok(())
}

/// Whether a file is the JSON of an AERO set: by what it starts with, or by its name.
pub(crate) fn is_set(source: &dyn Source, path: &Path) -> Result<bool> {
    let len = source.size();
    let head = source.read(0..len.min(Format::DETECT_LEN as u64))?;
    let json = Format::is_marked(&head, len) && head.trim_ascii_start().starts_with(b"{");
    let named = path
        .to_string_lossy()
        .to_ascii_lowercase()
        .ends_with(".aeroset.json");
    let aero = Format::detect(&head, len, Some(path)) == Some(Format::Aero);
    let is_text = head.trim_ascii_start().starts_with(b"{") || looks_like(&head, len).is_none();
    Ok(aero && !head.starts_with(b"AERO") && (json || named && is_text))
}

/// Opens a set.
pub(crate) fn open_set(path: &Path, options: &ReadOptions) -> Result<Set> {
    Ok(Set::open_with(path, &own_options(options))?)
}

/// Opens a set whose parts are not on this disk.
pub(crate) fn open_parts(
    name: &str,
    source: impl Source,
    parts: Arc<dyn Parts>,
    options: &ReadOptions,
) -> Result<Set> {
    Ok(Set::from_parts(name, source, parts, &own_options(options))?)
}

/// Opens a set with what opens the addresses that it names.
pub(crate) fn open_linked(path: &Path, links: Arc<dyn Parts>, options: &ReadOptions) -> Result<Set> {
    Ok(Set::open_linked(path, links, &own_options(options))?)
}

/// The names of the files that the text of a set names.
#[cfg(feature = "remote")]
pub(crate) fn names_in(set: &Json) -> Vec<String> {
    let parts = set.get("parts").and_then(Json::as_array);
    let files = parts.into_iter().flatten().chain(set.get("global_tidx"));
    let names = files.filter_map(|file| file.get("path")?.as_str());
    names.map(str::to_owned).collect()
}
