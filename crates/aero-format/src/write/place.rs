//! Which chunks a file has, where they are, and what they hash to.

use alloc::vec::Vec;

use tensor_core::codec::{Sink, Ticker, hinted_vec};
use tensor_core::{At, Source, WriteOptions};

use super::joined::Joined;
use super::records::compress;
use super::{Builder, MAX_SIZE, Payload, Shard};
use crate::chunk::{Chunk, FourCc, INDEX, MMAP_CRITICAL, OPTIONAL, ZSTD};
use crate::integrity::{IHSH_SIZE, PageHashes, ShardHashes, control_digest, ihsh, phsh};
use crate::layout::{ALIGN, Header, Toc};
use crate::limits::Limits;
use crate::tree::blake3_of;
use crate::{BuildError, Result};

impl Builder {
    /// Decides every byte but those of the tensors: chunks, their places and their hashes.
    pub(super) fn layout(
        &self,
        shards: &[Shard],
        options: &WriteOptions<'_>,
    ) -> Result<FileLayout> {
        let ticker = Ticker::new(options.progress);
        let mut hashed = Vec::new();
        for shard in shards {
            let joined = Joined::of(shard, &self.tensors);
            let mut tensors = None;
            if self.options.tensor_hashes {
                let mut hashes = Vec::new();
                for ((_, data), tensor) in joined.parts.iter().zip(&joined.tensors) {
                    let none = Ticker::default();
                    let hash = blake3_of(data, 0..data.size(), options.threads, &none);
                    let name = self.tensors.get(*tensor).map_or("", |tensor| &*tensor.name);
                    hashes.push(hash.map_err(|error| error.of_tensor(name))?);
                }
                tensors = Some(hashes);
            }
            let named = |error| joined.named(error, &self.tensors);
            let whole = blake3_of(&joined, 0..joined.size(), options.threads, &ticker);
            let whole = whole.map_err(named)?;
            let pages = match self.options.phsh {
                Some(page_size) => Some(page_hashes(&joined, page_size).map_err(named)?),
                None => None,
            };
            hashed.push(ShardHashes {
                whole,
                pages,
                tensors,
            });
        }
        self.layout_with(shards, true, hashed)
    }

    /// Places everything with hashes that are known. Without `weights` only the index is written.
    pub(super) fn layout_with(
        &self,
        shards: &[Shard],
        weights: bool,
        hashed: Vec<ShardHashes>,
    ) -> Result<FileLayout> {
        let tensor_hashes = self.tensor_hashes_of(shards, &hashed);
        let mut chunks: Vec<(Chunk, Payload)> = Vec::new();
        let mut add = |fourcc, name: &str, flags, payload: Payload| {
            let key = Chunk::key(fourcc, name).into();
            let chunk = Chunk {
                fourcc,
                flags,
                offset: 0,
                length: 0,
                ulen: 0,
                blake3: [0; 32],
                key,
            };
            chunks.push((chunk, payload));
        };
        if self.options.ihsh {
            let zeros = Payload::Bytes([0u8; IHSH_SIZE].to_vec());
            add(FourCc::IHSH, "control.integrity", OPTIONAL, zeros);
        }
        if weights {
            let json = self.json();
            self.check_metadata(&json, shards)?;
            if self.has_json() {
                add(FourCc::MJSN, "meta.json", 0, Payload::Bytes(json));
            }
        }
        add(FourCc::MMSG, "manifest", 0, Payload::Bytes(Vec::new()));
        let tidx = self.tidx(shards, &tensor_hashes);
        add(FourCc::TIDX, "tensors", INDEX, Payload::Bytes(tidx));
        let hashed = shards.iter().zip(hashed).enumerate();
        for (id, (shard, hashes)) in hashed.filter(|_| weights) {
            let name = alloc::format!("weights.shard{id}");
            let joined = Joined::of(shard, &self.tensors);
            let pages = hashes.pages.as_ref().map(|pages| phsh(&name, pages));
            let weights = Payload::Weights(joined, hashes);
            add(FourCc::WTSH, &name, MMAP_CRITICAL, weights);
            if let Some(pages) = pages.map(Payload::Bytes) {
                add(
                    FourCc::PHSH,
                    &alloc::format!("{name}.phsh"),
                    OPTIONAL,
                    pages,
                );
            }
        }
        let listed: Vec<&Chunk> = chunks.iter().map(|(chunk, _)| chunk).collect();
        let manifest = self.manifest(&listed, shards);
        if let Some((_, payload)) = chunks
            .iter_mut()
            .find(|(chunk, _)| chunk.fourcc == FourCc::MMSG)
        {
            *payload = Payload::Bytes(manifest);
        }
        self.place(chunks)
    }

    /// The hash of each tensor, where the shards have them.
    fn tensor_hashes_of(&self, shards: &[Shard], hashed: &[ShardHashes]) -> Vec<Option<[u8; 32]>> {
        let mut found: Vec<Option<[u8; 32]>> = self.tensors.iter().map(|_| None).collect();
        for (shard, hashes) in shards.iter().zip(hashed) {
            let hashes = hashes.tensors.iter().flatten();
            for (placed, hash) in shard.tensors.iter().zip(hashes) {
                if let Some(slot) = found.get_mut(placed.tensor) {
                    *slot = Some(*hash);
                }
            }
        }
        found
    }

    /// Refuses metadata that a reader would refuse for how much memory it takes.
    fn check_metadata(&self, json: &[u8], shards: &[Shard]) -> Result<(), BuildError> {
        let limits = Limits::default();
        let data = shards.iter().map(|shard| shard.len);
        let len = data.fold(json.len() as u64, u64::saturating_add);
        let held = limits.check_json(json, len, At::new(0, "MJSN"));
        held.map_err(|_| BuildError::Metadata)?;
        let extras = self.tensors.iter().flat_map(|tensor| &tensor.extra);
        let items = extras.map(|(_, value)| value.walk().count() as u64);
        let items = items.fold(0, u64::saturating_add);
        let held = limits.check_items(items, len, At::new(0, "TIDX"));
        held.map_err(|_| BuildError::Metadata)
    }

    /// Compresses and hashes what is no weight, and gives every chunk its place.
    // Long since the places of all tables depend on each other.
    fn place(&self, mut chunks: Vec<(Chunk, Payload)>) -> Result<FileLayout> {
        let count = u32::try_from(chunks.len()).map_err(|_| BuildError::TooLarge)?;
        if u64::from(count) > Limits::default().max_chunk_count {
            return Err(BuildError::TooLarge.into());
        }
        for (chunk, payload) in &mut chunks {
            match payload {
                Payload::Bytes(bytes) => {
                    chunk.ulen = bytes.len() as u64;
                    chunk.blake3 = *blake3::hash(bytes).as_bytes();
                    let metadata = [FourCc::MMSG, FourCc::TIDX].contains(&chunk.fourcc);
                    if let Some(level) = self.options.level.filter(|_| metadata) {
                        if let Some(compressed) = compress(bytes, level) {
                            *bytes = compressed;
                            chunk.flags |= ZSTD;
                        }
                    }
                    chunk.length = bytes.len() as u64;
                }
                Payload::Weights(joined, hashes) => {
                    chunk.ulen = joined.size();
                    chunk.length = chunk.ulen;
                    chunk.blake3 = hashes.whole;
                }
            }
        }
        let mut names = Vec::new();
        let mut name_offsets = Vec::new();
        for (chunk, _) in &chunks {
            name_offsets.push(u32::try_from(names.len()).map_err(|_| BuildError::TooLarge)?);
            names.extend_from_slice(chunk.name().as_bytes());
            names.push(0);
        }
        names.resize(names.len().next_multiple_of(8), 0);
        let toc_length = Toc::len(count);
        let string_table_offset = (Header::SIZE + toc_length).next_multiple_of(8);
        let string_table_length = names.len() as u64;
        let mut end = string_table_offset + string_table_length;
        for (chunk, _) in &mut chunks {
            let page = self.options.page_align && chunk.fourcc == FourCc::WTSH;
            let align = if page { 4096 } else { ALIGN };
            chunk.offset = end
                .checked_next_multiple_of(align)
                .ok_or(BuildError::TooLarge)?;
            let next = chunk
                .offset
                .checked_add(chunk.length)
                .filter(|&end| end <= MAX_SIZE);
            end = next.ok_or(BuildError::TooLarge)?;
        }
        let header = Header {
            toc_offset: Header::SIZE,
            toc_length,
            string_table_offset,
            string_table_length,
            uuid: self
                .options
                .uuid
                .unwrap_or_else(|| content_uuid(chunks.iter().map(|(chunk, _)| chunk))),
        };
        let control_end = (string_table_offset + string_table_length).next_multiple_of(ALIGN);
        let mut layout = FileLayout {
            header,
            chunks,
            name_offsets,
            names,
            len: end,
        };
        if self.options.ihsh {
            let control = tensor_core::Bytes::from(layout.control(control_end)?);
            let digest = control_digest(&control, &layout.header, count, control_end)?;
            if let Some((chunk, Payload::Bytes(bytes))) = layout.chunks.first_mut() {
                *bytes = ihsh(control_end, &digest);
                chunk.blake3 = *blake3::hash(bytes).as_bytes();
            }
        }
        Ok(layout)
    }
}

/// Everything about a file that is to be written but the bytes of its tensors: header, chunks and names.
pub(super) struct FileLayout {
    pub(super) header: Header,
    pub(super) chunks: Vec<(Chunk, Payload)>,
    name_offsets: Vec<u32>,
    names: Vec<u8>,
    pub(super) len: u64,
}

impl FileLayout {
    /// The hashes of all shards whose data is in the file.
    #[cfg(feature = "std")]
    pub(super) fn into_hashes(self) -> impl Iterator<Item = ShardHashes> {
        self.chunks
            .into_iter()
            .filter_map(|(_, payload)| match payload {
                Payload::Weights(_, hashes) => Some(hashes),
                Payload::Bytes(_) => None,
            })
    }

    /// Header, TOC and string table, filled up with zeros to `end`.
    pub(super) fn control(&self, end: u64) -> Result<Vec<u8>> {
        let mut sink = Sink::new(hinted_vec(end));
        self.header.write(&mut sink)?;
        sink.put_u32_le(u32::try_from(self.chunks.len()).unwrap_or(u32::MAX))?;
        sink.put_u32_le(0)?;
        sink.put_u64_le(0)?;
        for ((chunk, _), &name_off) in self.chunks.iter().zip(&self.name_offsets) {
            Toc::write_entry(&mut sink, chunk, name_off)?;
        }
        sink.pad_to(8, 0)?;
        sink.put(&self.names)?;
        sink.fill(end.saturating_sub(sink.position()), 0)?;
        Ok(sink.into_inner())
    }
}

fn page_hashes(joined: &Joined, page_size: u64) -> Result<PageHashes> {
    let mut digests = Vec::new();
    let mut start = 0u64;
    while start < joined.size() {
        let end = start.saturating_add(page_size).min(joined.size());
        digests.push(blake3_of(joined, start..end, 1, &Ticker::default())?);
        start = end;
    }
    Ok(PageHashes { page_size, digests })
}

/// An identity that the same content always gets: 16 bytes of the hash of all hashes and names.
pub(super) fn content_uuid<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for chunk in chunks.filter(|chunk| chunk.fourcc != FourCc::IHSH) {
        hasher.update(chunk.key.as_bytes());
        hasher.update(&chunk.blake3);
    }
    let mut uuid = [0; 16];
    for (byte, hash) in uuid.iter_mut().zip(hasher.finalize().as_bytes()) {
        *byte = *hash;
    }
    uuid
}
