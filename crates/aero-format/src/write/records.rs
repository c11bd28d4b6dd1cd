//! What a file says about itself: metadata, manifest, and the index of its tensors.

use alloc::string::ToString;
use alloc::vec::Vec;

use tensor_core::{Source, Value};

use super::{Builder, Shard};
use crate::chunk::{Chunk, FourCc};
use crate::integrity::hex;
use crate::msgpack::Encoder;

impl Builder {
    /// Whether there is anything for the chunk of metadata, which the format doesn't ask for.
    pub(super) fn has_json(&self) -> bool {
        let about = [&self.options.model_name, &self.options.architecture];
        !self.metadata.is_empty() || about.into_iter().any(Option::is_some)
    }

    /// "MJSN": name and architecture where they are set, then the metadata, which may override them;
    /// sorted keys, no spaces, ASCII only.
    pub(super) fn json(&self) -> Vec<u8> {
        let mut object = serde_json::Map::new();
        let about = [
            ("model_name", &self.options.model_name),
            ("architecture", &self.options.architecture),
        ];
        for (key, value) in about {
            if let Some(value) = value {
                object.insert(key.into(), value.as_str().into());
            }
        }
        for (key, value) in &self.metadata {
            // Values that JSON can't hold were refused when they were added.
            object.insert(key.clone(), to_json(value).unwrap_or_default());
        }
        let text = serde_json::Value::Object(object).to_string();
        let mut ascii = Vec::with_capacity(text.len());
        for c in text.chars() {
            if c.is_ascii() {
                ascii.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    ascii.extend_from_slice(alloc::format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
        ascii
    }

    /// "TIDX Schema", with the shards counted as they are given.
    pub(super) fn tidx(&self, shards: &[Shard], hashes: &[Option<[u8; 32]>]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.map(1);
        encoder.text("tensors");
        encoder.list(shards.iter().map(|shard| shard.tensors.len()).sum());
        for (shard_id, shard) in shards.iter().enumerate() {
            for placed in &shard.tensors {
                let Some(tensor) = self.tensors.get(placed.tensor) else {
                    continue;
                };
                let hash = hashes.get(placed.tensor).copied().flatten();
                let more = usize::from(hash.is_some()) + usize::from(tensor.quant_id.is_some());
                encoder.map(7 + more + tensor.extra.len());
                encoder.text("name");
                encoder.text(&tensor.name);
                encoder.text("dtype");
                encoder.uint(tensor.code.0.into());
                encoder.text("shape");
                encoder.list(tensor.shape.rank());
                for &dim in tensor.shape.dims() {
                    encoder.uint(dim);
                }
                for (key, value) in [
                    ("shard_id", shard_id as u64),
                    ("data_off", placed.offset),
                    ("data_len", tensor.data.size()),
                    ("flags", tensor.flags),
                ] {
                    encoder.text(key);
                    encoder.uint(value);
                }
                if let Some(id) = tensor.quant_id {
                    encoder.text("quant_id");
                    encoder.value(&Value::from(id));
                }
                for (key, value) in &tensor.extra {
                    encoder.text(key);
                    encoder.value(value);
                }
                if let Some(hash) = hash {
                    encoder.text("hash_b3");
                    encoder.text(&hex(&hash));
                }
            }
        }
        encoder.into_vec()
    }

    /// "MMSG Schema": what the file is and which chunks it has.
    pub(super) fn manifest(&self, chunks: &[&Chunk], shards: &[Shard]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.map(4);
        encoder.text("format");
        encoder.map(2);
        encoder.text("name");
        encoder.text("AERO");
        encoder.text("version");
        encoder.list(2);
        encoder.uint(0);
        encoder.uint(1);
        encoder.text("model");
        encoder.map(2);
        encoder.text("name");
        encoder.text(self.options.name());
        encoder.text("architecture");
        encoder.text(self.options.architecture());
        encoder.text("chunks");
        encoder.list(chunks.len());
        let mut weights = Vec::new();
        for (at, chunk) in chunks.iter().enumerate() {
            let role = match chunk.fourcc {
                FourCc::IHSH => "control_integrity",
                FourCc::MJSN => "json",
                FourCc::MMSG => "manifest",
                FourCc::TIDX => "tensors",
                FourCc::WTSH => "weights",
                _ => "page_hashes",
            };
            if chunk.fourcc == FourCc::WTSH {
                weights.push(at as u64);
            }
            let shard = [FourCc::WTSH, FourCc::PHSH].contains(&chunk.fourcc);
            encoder.map(3 + usize::from(shard));
            encoder.text("role");
            encoder.text(role);
            encoder.text("fourcc");
            encoder.text(&chunk.fourcc.to_string());
            encoder.text("toc_index");
            encoder.uint(at as u64);
            if shard {
                encoder.text("shard_id");
                encoder.uint((weights.len() as u64).saturating_sub(1));
            }
        }
        encoder.text("shards");
        encoder.list(weights.len());
        for ((id, toc_index), shard) in weights.iter().enumerate().zip(shards) {
            encoder.map(5);
            for (key, value) in [
                ("shard_id", id as u64),
                ("toc_index", *toc_index),
                ("size_bytes", shard.len),
                ("tensor_count", shard.tensors.len() as u64),
            ] {
                encoder.text(key);
                encoder.uint(value);
            }
            encoder.text("mmap_critical");
            encoder.bool(true);
        }
        encoder.into_vec()
    }
}

/// One zstd frame with its content size, as the reference writes it.
#[cfg(feature = "zstd")]
pub(super) fn compress(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut frame = zstd::bulk::compress(bytes, level).ok()?;
    // It has room for bytes that don't compress.
    frame.shrink_to_fit();
    Some(frame)
}

#[cfg(not(feature = "zstd"))]
pub(super) fn compress(_: &[u8], _: i32) -> Option<Vec<u8>> {
    None
}

/// A value as JSON, `None` where JSON can't hold it.
pub(super) fn to_json(value: &Value) -> Option<serde_json::Value> {
    Some(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => match (u64::try_from(*value), i64::try_from(*value)) {
            (Ok(value), _) => value.into(),
            (_, Ok(value)) => value.into(),
            _ => return None,
        },
        Value::Float(value) => serde_json::Number::from_f64(*value)?.into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => {
            serde_json::Value::Array(items.iter().map(to_json).collect::<Option<_>>()?)
        }
        Value::Map(pairs) => {
            let mut object = serde_json::Map::new();
            for (key, value) in pairs {
                if object
                    .insert(key.as_str()?.into(), to_json(value)?)
                    .is_some()
                {
                    return None;
                }
            }
            serde_json::Value::Object(object)
        }
        _ => return None,
    })
}
