use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tensor_core::codec::Ticker;
use tensor_core::{At, Item, Outcome, Report, VerifyOptions, parallel};

use crate::chunk::{Chunk, FourCc};
use crate::entry::Entry;
use crate::index::Control;
use crate::integrity::{hex, parse_phsh, payload};
use crate::layout::inside;
use crate::read::damaged_page;
use crate::tree::blake3_of;
use crate::{Archive, Error, Result, Rule, Unsupported};

impl Archive {
    /// Checks everything that the file can be checked against: IHSH, the hash of every chunk, the
    /// page hashes of every shard, the hash of every tensor that has one, and that metadata is
    /// well-formed.
    ///
    /// # Errors
    /// What the source fails with, or a stop on request; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        let mut report = Report::default();
        self.verify_into(&mut report, "", options)?;
        Ok(report)
    }

    /// Checks one tensor: against its own hash, or where it has none against its shard's.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Outcome, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.tensor_hashes(true).to_vec()?)?;
    /// let item = archive.verify_entry(archive.entry("w").ok_or("no w")?)?;
    /// assert_eq!(item.outcome, Outcome::Ok);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`](crate::UsageError::ForeignEntry) where the entry is another
    /// archive's, or what the source fails with; damage is in the item.
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        if !entry.is_of(&self.index) {
            return Err(crate::UsageError::ForeignEntry.into());
        }
        let mut damaged = BTreeSet::new();
        let mut found = None;
        match self.stored_range(entry) {
            Ok(range) if entry.hash_b3().is_some() => {
                found = Some(blake3_of(&self.source, range, 0, &Ticker::default())?);
            }
            Ok(_) => {
                let shard = self.shard(entry).filter(|shard| {
                    // One that is cut proves nothing about what is in it.
                    self.is_cut(shard) || self.check_shard(entry).is_err()
                });
                damaged.extend(shard.map(Chunk::name));
            }
            // Said below.
            Err(_) => {}
        }
        let item = self.verify_tensor(entry, "", &damaged, found)?;
        Ok(item.unwrap_or_else(|| {
            Item::new(entry.name(), Outcome::NotCovered).with_note("data in parts: not covered")
        }))
    }

    pub(crate) fn verify_into(
        &self,
        report: &mut Report,
        prefix: &str,
        options: &VerifyOptions<'_>,
    ) -> Result<()> {
        let ticker = Ticker::new(options.progress);
        let limits = &self.options.limits;
        let control = self.index.check_control(&self.source, limits, false);
        let item = |outcome| Item::new(format!("{prefix}control"), outcome);
        report.push(match control {
            Ok(Control::Holds) => item(Outcome::Ok).with_note("IHSH"),
            Ok(Control::OtherAlgorithm) => {
                item(Outcome::Unsupported).with_note(Unsupported::IhshAlgorithm.to_string())
            }
            Ok(Control::Absent) => item(Outcome::NotCovered).with_note("no IHSH"),
            Err(error) => failed(format!("{prefix}control"), error)?,
        });
        // Shards one after the other on all threads; what is small side by side.
        let mut damaged = BTreeSet::new();
        // The items of what is of one shard alone: its hash, and those of its pages.
        let mut of_shards = Vec::new();
        for chunk in &self.index.chunks {
            let item = format!("{prefix}{} {}", chunk.fourcc, chunk.name());
            if chunk.is_unhashed() {
                report
                    .warnings
                    .push(format!("{item} has no hash, as one writer leaves it"));
            }
            let checked = self.verify_chunk(chunk, options, &ticker);
            let item = compared(item, chunk, checked)?;
            if item.outcome != Outcome::Ok {
                let shard = match chunk.fourcc {
                    FourCc::WTSH => Some(chunk.name()),
                    FourCc::PHSH => chunk.name().strip_suffix(".phsh"),
                    _ => None,
                };
                if chunk.fourcc == FourCc::WTSH {
                    damaged.insert(chunk.name());
                }
                of_shards.extend(shard.map(|shard| (report.items.len(), shard)));
            }
            report.push(item);
        }
        self.verify_tensors(report, prefix, &damaged, &of_shards, options, &ticker)?;
        let entries = self.entries();
        if self.index.in_parts && !entries.is_empty() && prefix.is_empty() {
            report.push(
                Item::new("data", Outcome::NotCovered).with_note("data in parts: not covered"),
            );
        }
        if options.strict {
            let is_longer = |entry: &Entry<'_>| {
                let len = entry.nbytes();
                len.is_some_and(|len| len < entry.record().data_len)
            };
            let warnings = entries.filter(is_longer).map(|entry| {
                let name = entry.name();
                format!("{prefix}{name:?} has more data than it needs")
            });
            report.warnings.extend(warnings);
        }
        Ok(())
    }

    /// An item for each tensor, and the names of those that are damaged for the items of their
    /// shards.
    fn verify_tensors(
        &self,
        report: &mut Report,
        prefix: &str,
        damaged: &BTreeSet<&str>,
        of_shards: &[(usize, &str)],
        options: &VerifyOptions<'_>,
        ticker: &Ticker<'_>,
    ) -> Result<()> {
        let entries = self.entries();
        // Tensors may share their bytes, which are hashed once.
        let mut ranges = Vec::new();
        if !self.index.in_parts {
            let hashed = entries.iter().filter(|entry| entry.hash_b3().is_some());
            ranges.extend(hashed.map(|entry| (entry.offset(), entry.record().data_len)));
            ranges.sort_unstable();
            ranges.dedup();
        }
        let hashes = parallel::map(options.threads, ranges.len(), |at| {
            let (offset, len) = ranges.get(at).copied().unwrap_or_default();
            match offset.saturating_add(len) {
                end if end > self.file_len() => Ok(None),
                end => blake3_of(&self.source, offset..end, 1, ticker).map(Some),
            }
        })?;
        for entry in entries {
            let at = ranges.binary_search(&(entry.offset(), entry.record().data_len));
            let found = at.ok().and_then(|at| hashes.get(at).copied().flatten());
            let Some(item) = self.verify_tensor(entry, prefix, damaged, found)? else {
                continue;
            };
            if item.outcome == Outcome::Failed {
                let shard = format!("weights.shard{}", entry.shard_id());
                let of_it = of_shards.iter().filter(|(_, name)| *name == shard);
                for (at, _) in of_it {
                    if let Some(item) = report.items.get_mut(*at) {
                        item.tensors.push(entry.name().into());
                    }
                }
            }
            report.push(item);
        }
        Ok(())
    }

    /// The hash of a chunk's bytes, after a check of what is in it; `None` where there is nothing
    /// to hold it against.
    fn verify_chunk(
        &self,
        chunk: &Chunk,
        options: &VerifyOptions<'_>,
        ticker: &Ticker<'_>,
    ) -> Result<Option<[u8; 32]>> {
        let at = At::new(chunk.offset, "payload");
        let rule = chunk.out_of_range();
        inside(self.file_len(), chunk.offset, chunk.length, rule, at)?;
        match chunk.fourcc {
            FourCc::MJSN => {
                self.json(chunk)?;
            }
            FourCc::MMSG => self.check_msgpack(chunk)?,
            FourCc::PHSH => self.verify_pages(chunk, options.threads, ticker)?,
            _ => {}
        }
        if chunk.is_unhashed() {
            return Ok(None);
        }
        if chunk.is_zstd() {
            // Decompressing checked the hash.
            payload(&self.source, chunk, &self.options.limits)?;
            return Ok(Some(chunk.blake3));
        }
        let range = chunk.offset..chunk.offset + chunk.length;
        blake3_of(&self.source, range, options.threads, ticker).map(Some)
    }

    fn verify_pages(&self, chunk: &Chunk, threads: usize, ticker: &Ticker<'_>) -> Result<()> {
        let at = At::new(chunk.offset, "digests");
        let name = chunk.name().strip_suffix(".phsh").unwrap_or_default();
        let shard = self.index.chunk(FourCc::WTSH, name);
        let shard = shard.ok_or(Error::invalid(Rule::Phsh, at))?;
        let limits = &self.options.limits;
        let bytes = payload(&self.source, chunk, limits)?;
        let pages = parse_phsh(&bytes, name, shard.length, at, limits)?;
        parallel::map(threads, pages.digests.len(), |page| {
            let from = page as u64 * pages.page_size;
            let to = (from + pages.page_size).min(shard.length);
            let range = shard.offset + from..shard.offset + to;
            let digest = blake3_of(&self.source, range, 1, ticker)?;
            let expected = pages.digests.get(page).copied().unwrap_or_default();
            if expected == digest {
                return Ok(());
            }
            let at = At::new(shard.offset + from, "digests").entry(page as u64);
            Err(Error::invalid(
                damaged_page(page as u64, &expected, &digest),
                at,
            ))
        })?;
        Ok(())
    }

    /// What is known about a tensor, of whose bytes `found` is the hash.
    fn verify_tensor(
        &self,
        entry: Entry<'_>,
        prefix: &str,
        damaged: &BTreeSet<&str>,
        found: Option<[u8; 32]>,
    ) -> Result<Option<Item>> {
        let name = format!("{prefix}{}", entry.name());
        let unsupported = match entry.dtype() {
            Some(_) => None,
            None => Some(
                Unsupported::DType {
                    code: entry.dtype_code().0,
                }
                .to_string(),
            ),
        };
        let mut item = if self.index.in_parts {
            let Some(note) = unsupported else {
                return Ok(None);
            };
            return Ok(Some(Item::new(name, Outcome::Unsupported).with_note(note)));
        } else if let Err(error) = self.stored_range(entry) {
            failed(name, error)?
        } else if let Some((expected, found)) = entry.hash_b3().copied().zip(found) {
            Item::compared(name, hex(&expected), hex(&found)).with_note("hash_b3")
        } else if let Some(shard) = self.damaged_shard(entry, damaged) {
            // Without a hash of its own it is as good as its shard.
            if self.is_cut(shard) {
                Item::new(name, Outcome::NotCovered).with_note("its shard is cut off after it")
            } else {
                let rule = shard.damaged(None).id();
                let note = format!("no hash of its own, and its shard is damaged [{rule}]");
                Item::new(name, Outcome::Failed).with_note(note)
            }
        } else {
            Item::new(name, Outcome::Ok).with_note("by its shard's hash")
        };
        match (item.outcome, unsupported) {
            (Outcome::Failed, _) => item.tensors.push(entry.name().into()),
            // Its bytes are whole, but not to be read.
            (_, Some(note)) => {
                item = Item::new(item.item, Outcome::Unsupported).with_note(note);
            }
            _ => {}
        }
        Ok(Some(item))
    }
}

/// What became of a chunk whose hash was taken.
fn compared(item: String, chunk: &Chunk, checked: Result<Option<[u8; 32]>>) -> Result<Item> {
    let item = match checked {
        Ok(Some(found)) => Item::compared(item, hex(&chunk.blake3), hex(&found)),
        Ok(None) => Item::new(item, Outcome::NotCovered),
        Err(error) => return failed(item, error),
    };
    Ok(item.with_note("blake3"))
}

/// The file's fault as an item of a report; anything else stays an error.
pub(crate) fn failed(item: String, error: Error) -> Result<Item> {
    use tensor_core::Kind;
    let outcome = match error.kind() {
        Kind::Invalid | Kind::Limit => Outcome::Failed,
        Kind::Unsupported => Outcome::Unsupported,
        _ => return Err(error),
    };
    let note = match error.rule_id() {
        Some(rule) => format!("{error} [{rule}]"),
        None => error.to_string(),
    };
    Ok(Item::new(item, outcome).with_note(note))
}
