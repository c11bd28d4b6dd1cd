//! The index of a file that is written anew behind its data, and found through the header.

use alloc::vec::Vec;
use core::result::Result as Edit;

use tensor_core::codec::Sink;
use tensor_core::{Misfit, Patch, Source, Value};

use super::place::content_uuid;
use super::records::compress;
use super::{Builder, Placed, Planned, Shard};
use crate::chunk::{Chunk, FourCc};
use crate::layout::{ALIGN, Header, Toc};
use crate::{Archive, BuildError, Entry, Result};

impl Builder {
    /// What to write over the file of `archive` so that its tensors have the names, and it has the metadata,
    /// of this builder, whose tensors are those of the archive in the same order: their data is taken to
    /// be the same. Chunks that change are added at the end of the file with a new table of contents, and
    /// then the header refers to that one; what it referred to before is zeros in the end.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor};
    ///
    /// let mut old = Builder::new();
    /// old.tensor("weight", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// let archive = Archive::from_bytes(old.to_vec()?)?;
    /// let mut new = Builder::new();
    /// new.copy_as("w", &archive, archive.entry("weight").unwrap())?.metadata("epoch", 3i64)?;
    /// assert!(new.edit(&archive)?.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the source fails with, and what the format can't hold; the inner error is why the change can't be
    /// made in place.
    pub fn edit(&self, archive: &Archive) -> Result<Edit<Patch, Misfit>> {
        let shards = match self.shards_of(archive) {
            Ok(shards) => shards,
            Err(misfit) => return Ok(Err(misfit)),
        };
        let (mut chunks, replaced) = self.chunks_of(archive, &shards)?;
        if replaced.is_empty() && chunks.iter().all(|(_, payload)| payload.is_none()) {
            return Ok(Ok(Patch::new(archive.file_len())));
        }
        let size = archive.file_len();
        let mut tail = Sink::new(Vec::new());
        let place = |sink: &Sink<Vec<u8>>, align: u64| {
            let end = size.checked_add(sink.position());
            let place = end.and_then(|end| end.checked_next_multiple_of(align));
            place.ok_or(BuildError::TooLarge)
        };
        for (chunk, payload) in &mut chunks {
            let Some(bytes) = payload else {
                continue;
            };
            chunk.ulen = bytes.len() as u64;
            chunk.blake3 = *blake3::hash(bytes).as_bytes();
            if chunk.is_zstd() {
                let level = self.options.level.unwrap_or(6);
                let Some(compressed) = compress(bytes, level) else {
                    return Ok(Err(Misfit::Layout("this build can't compress the index")));
                };
                *bytes = compressed;
            }
            chunk.length = bytes.len() as u64;
            chunk.offset = place(&tail, ALIGN)?;
            tail.fill(chunk.offset - size - tail.position(), 0)?;
            tail.put(bytes)?;
        }
        let mut header = Header {
            toc_offset: place(&tail, ALIGN)?,
            toc_length: 0,
            string_table_offset: 0,
            string_table_length: 0,
            uuid: content_uuid(chunks.iter().map(|(chunk, _)| chunk)),
        };
        tail.fill(header.toc_offset - size - tail.position(), 0)?;
        put_toc(&mut tail, &chunks, &mut header, size)?;

        let mut patch = Patch::new(size);
        patch.unreferenced(size, tail.into_inner());
        let mut new = Sink::new(Vec::new());
        header.write(&mut new)?;
        let old = archive.source.read(0..Header::SIZE)?;
        // The header is within the first block.
        if let Err(misfit) = patch.switch(0, &old, &new.into_inner()) {
            return Ok(Err(misfit));
        }
        let before = &archive.index.header;
        let mut gone = replaced;
        gone.push((before.toc_offset, before.toc_length));
        gone.push((before.string_table_offset, before.string_table_length));
        for (offset, len) in gone {
            patch.unreferenced(offset, zeros(len));
        }
        Ok(Ok(patch))
    }

    /// The shards as they are in the file, if the tensors are those of it.
    fn shards_of(&self, archive: &Archive) -> Edit<Vec<Shard>, Misfit> {
        let chunks = archive.chunks();
        if chunks.iter().any(|chunk| chunk.fourcc == FourCc::IHSH) {
            let why = "its hash of the header covers all up to the end of the index, which would be the data";
            return Err(Misfit::Layout(why));
        }
        let known = [
            FourCc::MJSN,
            FourCc::MMSG,
            FourCc::TIDX,
            FourCc::WTSH,
            FourCc::PHSH,
        ];
        if archive.is_in_parts() || !chunks.iter().all(|chunk| known.contains(&chunk.fourcc)) {
            return Err(Misfit::Layout("it has chunks that others write"));
        }
        let entries = archive.entries();
        if entries.len() != self.tensors.len() {
            return Err(Misfit::Tensors);
        }
        let mut shards: Vec<Shard> = Vec::new();
        let unusual = Misfit::Layout("its tensors are not in the order of its shards");
        let weights = || chunks.iter().filter(|chunk| chunk.fourcc == FourCc::WTSH);
        for ((tensor, planned), entry) in self.tensors.iter().enumerate().zip(entries.iter()) {
            if !is_stored_as(planned, entry) {
                return Err(Misfit::Tensors);
            }
            let id = usize::try_from(entry.shard_id()).unwrap_or(usize::MAX);
            if id == shards.len() {
                let (tensors, len) = (Vec::new(), weights().nth(id).map_or(0, Chunk::length));
                shards.push(Shard { tensors, len });
            }
            let offset = entry.data_off();
            match shards.split_last_mut() {
                Some((shard, before)) if before.len() == id => {
                    shard.tensors.push(Placed { tensor, offset });
                }
                _ => return Err(unusual),
            }
        }
        let names = weights().map(Chunk::name).enumerate();
        let named = |(id, name): (usize, &str)| name == alloc::format!("weights.shard{id}");
        match weights().count() == shards.len() && names.into_iter().all(named) {
            true => Ok(shards),
            false => Err(unusual),
        }
    }

    /// All chunks as they will be, those that change with their bytes, and the places of what they replace.
    fn chunks_of(&self, archive: &Archive, shards: &[Shard]) -> Result<(Chunks, Vec<Place>)> {
        let mut hashes: Vec<Option<[u8; 32]>> = Vec::new();
        hashes.extend(
            archive
                .entries()
                .iter()
                .map(|entry| entry.hash_b3().copied()),
        );
        let mut chunks: Chunks = Vec::new();
        let mut replaced = Vec::new();
        let mut json = self.has_json().then(|| self.json());
        let mut renumbered = false;
        for old in archive.chunks() {
            let new = match old.fourcc {
                FourCc::MJSN => match json.take() {
                    Some(json) => Some(json),
                    None => {
                        replaced.push((old.offset, old.length));
                        renumbered = true;
                        continue;
                    }
                },
                FourCc::TIDX => Some(self.tidx(shards, &hashes)),
                _ => None,
            };
            let new = match new {
                Some(new) if *archive.chunk_data(old)? != *new => Some(new),
                _ => None,
            };
            if new.is_some() {
                replaced.push((old.offset, old.length));
            }
            chunks.push((old.clone(), new));
        }
        if let Some(json) = json {
            let chunk = Chunk {
                fourcc: FourCc::MJSN,
                flags: 0,
                offset: 0,
                length: 0,
                ulen: 0,
                blake3: [0; 32],
                key: Chunk::key(FourCc::MJSN, "meta.json").into(),
            };
            chunks.push((chunk, Some(json)));
            renumbered = true;
        }
        if renumbered || !self.is_about_as(archive)? {
            let listed: Vec<&Chunk> = chunks.iter().map(|(chunk, _)| chunk).collect();
            let manifest = self.manifest(&listed, shards);
            let is_manifest = |(chunk, _): &&mut (Chunk, _)| chunk.fourcc == FourCc::MMSG;
            if let Some((chunk, payload)) = chunks.iter_mut().find(is_manifest) {
                replaced.push((chunk.offset, chunk.length));
                *payload = Some(manifest);
            }
        }
        Ok((chunks, replaced))
    }

    /// Whether the manifest names this model already.
    fn is_about_as(&self, archive: &Archive) -> Result<bool> {
        let field = |value: &Value, key: &str| match value {
            Value::Map(pairs) => {
                let mut pairs = pairs.iter();
                let pair = pairs.find(|(known, _)| known.as_str() == Some(key));
                pair.map(|(_, value)| value.clone())
            }
            _ => None,
        };
        let model = archive
            .manifest()?
            .and_then(|manifest| field(&manifest, "model"));
        let is = |key, text: &str| {
            let said = model.as_ref().and_then(|model| field(model, key));
            said.is_some_and(|said| said.as_str() == Some(text))
        };
        Ok(is("name", self.options.name()) && is("architecture", self.options.architecture()))
    }
}

/// Chunks, and the bytes of those that are new.
type Chunks = Vec<(Chunk, Option<Vec<u8>>)>;
/// Offset and length.
type Place = (u64, u64);

/// Puts table of contents and string table, and says where they are.
fn put_toc(
    tail: &mut Sink<Vec<u8>>,
    chunks: &Chunks,
    header: &mut Header,
    size: u64,
) -> Result<()> {
    let count = u32::try_from(chunks.len()).map_err(|_| BuildError::TooLarge)?;
    tail.put_u32_le(count)?;
    tail.put_u32_le(0)?;
    tail.put_u64_le(0)?;
    let mut names = Vec::new();
    for (chunk, _) in chunks {
        let name_off = u32::try_from(names.len()).map_err(|_| BuildError::TooLarge)?;
        Toc::write_entry(tail, chunk, name_off)?;
        names.extend_from_slice(chunk.name().as_bytes());
        names.push(0);
    }
    names.resize(names.len().next_multiple_of(8), 0);
    header.toc_length = Toc::len(count);
    header.string_table_offset = size.saturating_add(tail.position());
    header.string_table_length = names.len() as u64;
    Ok(tail.put(&names)?)
}

fn zeros(len: u64) -> Vec<u8> {
    alloc::vec![0; usize::try_from(len).unwrap_or(0)]
}

/// Whether a tensor would be stored as the entry is.
fn is_stored_as(planned: &Planned, entry: Entry<'_>) -> bool {
    planned.code == entry.dtype_code()
        && planned.shape == *entry.shape()
        && Some(planned.data.size()) == entry.stored_len()
}
