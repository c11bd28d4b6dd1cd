use std::borrow::Cow;
use std::collections::BTreeMap;

use aero_format::{Archive, Builder, Chunk, DTypeCode, Entry, FourCc, Set};
use tensor_core::{DType, Entries, Order, Value};

use super::{About, Capabilities, Describe, DescribeEntry, Native, Prepared};
use crate::convert::{Loss, LossKind, Model, ModelTensor, Options, Record, Unreadable, shrinking};
use crate::{Error, Result};

/// The key under which a conversion to this format keeps a tensor's flags.
const FLAGS: &str = "aero.flags";
const QUANT_ID: &str = "quant_id";

impl Describe for Archive {
    fn version_name(&self) -> String {
        let (major, minor) = self.version();
        format!("{major}.{minor}")
    }

    /// The JSON metadata.
    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        self.metadata().unwrap_or_default()
    }

    fn metadata_fault(&self) -> Option<crate::Error> {
        self.metadata().err().map(Into::into)
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let uuid: String = self
            .uuid()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
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

    /// What the set says, and what its parts say.
    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        let parts = self.part_metadata().unwrap_or_default();
        let said = |key: &str, value: &Value| {
            parts
                .iter()
                .any(|(known, same)| known == key && same == value)
        };
        // A set must name its model; what a part says as well, or what nobody knows, is no metadata.
        let mut pairs = self.metadata().to_vec();
        pairs.retain(|(key, value)| {
            let also = match key.as_str() {
                "model.name" => "model_name",
                "model.architecture" => "architecture",
                key => key,
            };
            value.as_str() != Some("unknown") && !said(also, value)
        });
        for (key, value) in parts {
            if !pairs.iter().any(|(known, _)| *known == key) {
                pairs.push((key, value));
            }
        }
        pairs
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

    fn extras(self) -> Vec<(&'static str, Value)> {
        let mut extras = vec![("shard_id", self.shard_id().into())];
        if let Some(hash) = self.hash_b3() {
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            extras.push(("hash_b3", hash.into()));
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

/// A file converted from GGUF has the dims in that format's order, fastest first, over row-major
/// bytes.
pub(crate) fn has_gguf_dims(metadata: &[(String, Value)]) -> bool {
    let is_gguf =
        |(key, value): &(String, Value)| key == "source_format" && value.as_str() == Some("gguf");
    metadata.iter().any(is_gguf)
}

/// What a file's writer chose for the file as a whole, which a copy keeps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    ihsh: bool,
    phsh: Option<u64>,
    page_align: bool,
    /// How far shards are filled, where there are several: they come out the same again.
    shard_bytes: Option<u64>,
    /// The most shards in a part of a set.
    part_shards: Option<u32>,
    compressed: bool,
}

/// How far shards were filled: the longest one of several tensors, since a tensor that is too long for a
/// shard has one of its own whatever its length.
fn fill(entries: Entries<'_, Archive>) -> Option<u64> {
    let mut shards: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        let end = entry
            .data_off()
            .saturating_add(entry.stored_len().unwrap_or(0));
        let (tensors, len) = shards.entry(entry.shard_id()).or_default();
        *tensors += 1;
        *len = end.max(*len);
    }
    let several = shards.values().filter(|(tensors, _)| *tensors > 1);
    Some(several.map(|(_, len)| *len).max().unwrap_or(1).max(1))
}

/// How large pages are that shards are aligned to.
const PAGE: u64 = 4096;

impl Style {
    /// That of a single file. What can't be read is not there, as far as a copy is concerned.
    pub(crate) fn of(archive: &Archive) -> Self {
        let chunks = archive.chunks();
        let has = |fourcc| chunks.iter().any(|chunk| chunk.fourcc() == fourcc);
        let shards = || chunks.iter().filter(|chunk| chunk.fourcc() == FourCc::WTSH);
        Self {
            ihsh: has(FourCc::IHSH),
            phsh: archive.page_size().ok().flatten(),
            page_align: shards().count() > 0 && shards().all(|shard| shard.offset() % PAGE == 0),
            shard_bytes: fill(archive.entries()).filter(|_| shards().count() > 1),
            part_shards: None,
            compressed: chunks
                .iter()
                .any(|chunk| chunk.fourcc() == FourCc::TIDX && chunk.is_zstd()),
        }
    }

    /// That of a set: of its first part, and of how many shards are in each.
    pub(crate) fn of_set(set: &Set) -> Self {
        let Ok(first) = set.part(0) else {
            return Self::default();
        };
        let mut style = Self::of(&first);
        let shards = set.part_shards();
        style.part_shards = shards.max().and_then(|most| u32::try_from(most).ok());
        let several = set.part_shards().sum::<usize>() > 1;
        style.shard_bytes = fill(set.entries()).filter(|_| several);
        style
    }
}

/// A tensor with everything that the index says about it.
pub(crate) fn model_tensor(archive: &Archive, entry: Entry<'_>, about: About) -> ModelTensor {
    let data = match entry.dtype() {
        Some(_) => archive.data(entry),
        None => archive.stored(entry),
    };
    let data = data.map_err(Unreadable::of);
    described(entry, data, || archive.extra(entry), about)
}

/// The same for a tensor of a set.
pub(crate) fn set_tensor(set: &Set, entry: Entry<'_>, about: About) -> ModelTensor {
    let data = match entry.dtype() {
        Some(_) => set.data(entry),
        None => set.stored(entry),
    };
    let data = data.map_err(Unreadable::of);
    described(entry, data, || set.extra(entry), about)
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
    // Only what the source says: what the format must have all the same is no metadata.
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
    let style = model.aero.unwrap_or_default();
    if let Some(bytes) = options.max_shard_bytes.or(style.shard_bytes) {
        builder.max_shard_bytes(bytes);
    }
    if let Some(shards) = options.max_part_shards.or(style.part_shards) {
        builder.max_part_shards(shards);
    }
    let hashed = |tensor: &Prepared| matches!(tensor.native, Some(Native::Aero { hashed: true }));
    builder.tensor_hashes(options.tensor_hash || tensors.iter().any(hashed));
    // What the format has no room for is an option that makes no sense.
    let usage = |error: aero_format::Error| Error::Usage(error.to_string());
    builder
        .ihsh(options.ihsh || style.ihsh)
        .page_align(options.page_align || style.page_align)
        .phsh(options.phsh.or(style.phsh))
        .map_err(usage)?;
    if let Some(level) = options.zstd.or(style.compressed.then_some(0)) {
        let level = if level == 0 { 6 } else { level };
        builder.zstd_level(Some(level)).map_err(usage)?;
    }
    for Prepared {
        name,
        dtype,
        shape,
        order,
        data,
        attributes,
        native,
    } in shrinking(tensors)
    {
        match native {
            Some(Native::AeroCoded(code)) => builder.coded(&name, code, shape, data)?,
            _ => builder.deferred(&name, dtype, shape, order, data)?,
        };
        for (key, value) in attributes {
            let held = match (key.as_str(), &value) {
                (QUANT_ID, Value::Int(id)) => match i64::try_from(*id) {
                    Ok(id) => builder.quant_id(id).map(|_| ()),
                    Err(_) => builder.extra(&key, value).map(|_| ()),
                },
                (FLAGS, Value::Int(flags)) => match u64::try_from(*flags) {
                    Ok(flags) => builder.flags(flags).map(|_| ()),
                    Err(_) => builder.extra(&key, value).map(|_| ()),
                },
                _ => builder.extra(&key, value).map(|_| ()),
            };
            if let Err(error) = held {
                let item = format!("{name}: {key}");
                losses.push(Loss::new(LossKind::Attribute, item, error.to_string()));
            }
        }
    }
    Ok(builder)
}

/// Bytes of everything but the weights, decoded.
pub(crate) fn index_len(archive: &Archive) -> u64 {
    let chunks = archive.chunks().iter();
    chunks
        .filter(|chunk| chunk.fourcc() != aero_format::FourCc::WTSH)
        .fold(0, |sum, chunk| sum.saturating_add(chunk.ulen()))
}
