use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tensor_core::codec::Ticker;
use tensor_core::{At, Item, Outcome, Report, VerifyOptions, parallel};

use crate::chunk::{Chunk, FourCc};
use crate::entry::Entry;
use crate::index::Control;
use crate::integrity::{hex, parse_phsh};
use crate::layout::inside;
use crate::payload::{Pieces, payload};
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
        if options.has_rest() {
            self.warn_into(&mut report, "", options);
        }
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
                let hash = blake3_of(&self.source, range, 0, &Ticker::default());
                found = Some(hash.map_err(|error| error.of_tensor(entry.name()))?);
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

    // Long since it says what each part of the file is held against, in their order.
    pub(crate) fn verify_into(
        &self,
        report: &mut Report,
        prefix: &str,
        options: &VerifyOptions<'_>,
    ) -> Result<()> {
        let ticker = Ticker::new(options.progress);
        let mine = Mine::of(self, options);
        if mine.rest {
            report.tell(self.verify_control(prefix)?, options);
        } else {
            report.skip(1);
        }
        // Shards one after the other on all threads; what is small side by side.
        let mut damaged = BTreeSet::new();
        // The items of what is of one shard alone: its hash, and those of its pages.
        let mut of_shards: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for chunk in &self.index.chunks {
            let item = format!("{prefix}{} {}", chunk.fourcc, chunk.name());
            if !mine.has_chunk(chunk) {
                report.skip(1);
                continue;
            }
            let checked = self.verify_chunk(chunk, options, &ticker);
            let item = compared(item, chunk, checked)?;
            let mut of_shard = None;
            if item.outcome != Outcome::Ok {
                of_shard = match chunk.fourcc {
                    FourCc::WTSH => Some(chunk.name()),
                    FourCc::PHSH => chunk.name().strip_suffix(".phsh"),
                    _ => None,
                };
                if chunk.fourcc == FourCc::WTSH {
                    damaged.insert(chunk.name());
                }
            }
            let place = report.items.len();
            report.tell(item, options);
            // Nothing is added to one that isn't kept.
            if let Some(shard) = of_shard.filter(|_| report.items.len() > place) {
                of_shards.entry(shard).or_default().push(place);
            }
        }
        let shards = (&damaged, &of_shards);
        self.verify_tensors(report, prefix, shards, &mine, options, &ticker)?;
        if !mine.rest {
            return Ok(());
        }
        let entries = self.entries();
        if self.index.in_parts && !entries.is_empty() && prefix.is_empty() {
            report.tell(
                Item::new("data", Outcome::NotCovered).with_note("data in parts: not covered"),
                options,
            );
        }
        Ok(())
    }

    /// What is tolerated, after all items.
    pub(crate) fn warn_into(&self, report: &mut Report, prefix: &str, options: &VerifyOptions<'_>) {
        for chunk in self.unhashed() {
            let item = format!("{prefix}{} {}", chunk.fourcc, chunk.name());
            let text = format!("{item} has no hash, as one writer leaves it");
            report.warn(text, options);
        }
        for entry in self.longer(options) {
            let name = entry.name();
            let text = format!("{prefix}{name:?} has more data than it needs");
            report.warn(text, options);
        }
    }

    /// Whether there is any of that.
    #[cfg(feature = "std")]
    pub(crate) fn has_warnings(&self, options: &VerifyOptions<'_>) -> bool {
        self.unhashed().next().is_some() || self.longer(options).next().is_some()
    }

    fn unhashed(&self) -> impl Iterator<Item = &Chunk> {
        let chunks = self.index.chunks.iter();
        chunks.filter(|chunk| chunk.is_unhashed())
    }

    /// Tensors with more data than they need, where that is asked for.
    fn longer(&self, options: &VerifyOptions<'_>) -> impl Iterator<Item = Entry<'_>> {
        let is_longer = |entry: &Entry<'_>| {
            let len = entry.nbytes();
            len.is_some_and(|len| len < entry.record().data_len)
        };
        let strict = options.strict;
        self.entries()
            .filter(move |entry| strict && is_longer(entry))
    }

    /// What is known about header, TOC and string table.
    fn verify_control(&self, prefix: &str) -> Result<Item> {
        let limits = &self.options.limits;
        let control = self.index.check_control(&self.source, limits, false);
        let item = |outcome| Item::new(format!("{prefix}control"), outcome);
        Ok(match control {
            Ok(Control::Holds) => item(Outcome::Ok).with_note("IHSH"),
            Ok(Control::OtherAlgorithm) => {
                item(Outcome::Unsupported).with_note(Unsupported::IhshAlgorithm.to_string())
            }
            Ok(Control::Absent) => item(Outcome::NotCovered).with_note("no IHSH"),
            Err(error) => failed(format!("{prefix}control"), error)?,
        })
    }

    /// An item for each tensor, and the names of those that are damaged for the items of their
    /// shards.
    fn verify_tensors(
        &self,
        report: &mut Report,
        prefix: &str,
        (damaged, of_shards): (&BTreeSet<&str>, &BTreeMap<&str, Vec<usize>>),
        mine: &Mine,
        options: &VerifyOptions<'_>,
        ticker: &Ticker<'_>,
    ) -> Result<()> {
        let entries = self.entries();
        let mut hashes = Hashes::default();
        for start in (0..entries.len()).step_by(BATCH) {
            let batch = start..entries.len().min(start.saturating_add(BATCH));
            let batch = batch.filter_map(|at| entries.get(at));
            if !self.index.in_parts {
                let wanted = batch.clone().filter(|entry| mine.has_tensor(*entry));
                hashes.find(self, wanted, options.threads, ticker)?;
            }
            for entry in batch {
                if !mine.has_tensor(entry) {
                    report.skip(1);
                    continue;
                }
                let found = hashes.0.get(&stored(entry)).copied().flatten();
                let Some(item) = self.verify_tensor(entry, prefix, damaged, found)? else {
                    continue;
                };
                if item.outcome == Outcome::Failed {
                    let shard = format!("weights.shard{}", entry.shard_id());
                    for &at in of_shards.get(&*shard).into_iter().flatten() {
                        if let Some(item) = report.items.get_mut(at) {
                            item.damages(entry.name(), options);
                        }
                    }
                }
                report.tell(item, options);
            }
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
            // That checks the hash, and holds none of it.
            Pieces::new(&self.source, chunk, &self.options.limits)?.finish()?;
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
            // Its bytes are intact, but nothing can interpret them.
            (_, Some(note)) => {
                item = Item::new(item.item, Outcome::Unsupported).with_note(note);
            }
            _ => {}
        }
        Ok(Some(item))
    }
}

/// Which shards a share of the checks has, and with them all tensors that are in them.
struct Mine {
    /// Of each shard with a tensor in it; `None` where all checks are made.
    shards: Option<BTreeMap<u32, bool>>,
    rest: bool,
}

impl Mine {
    fn of(archive: &Archive, options: &VerifyOptions<'_>) -> Self {
        let rest = options.has_rest();
        // A file without data has little that could be shared.
        if options.share.is_none() || archive.index.in_parts && rest {
            return Self { shards: None, rest };
        }
        let mut shards: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for entry in archive.entries() {
            let tensors = shards.entry(entry.shard_id()).or_default();
            tensors.push(entry.ordinal);
        }
        let has = |(id, tensors): (u32, Vec<usize>)| {
            let has = !archive.index.in_parts && options.has_any(tensors.into_iter());
            (id, has)
        };
        Self {
            shards: Some(shards.into_iter().map(has).collect()),
            rest,
        }
    }

    fn has_tensor(&self, entry: Entry<'_>) -> bool {
        self.has_shard(entry.shard_id())
    }

    fn has_shard(&self, id: u32) -> bool {
        match &self.shards {
            Some(shards) => shards.get(&id).copied().unwrap_or(self.rest),
            None => true,
        }
    }

    fn has_chunk(&self, chunk: &Chunk) -> bool {
        let id = match chunk.fourcc {
            FourCc::WTSH => chunk.name().strip_prefix("weights.shard"),
            FourCc::PHSH => {
                let name = chunk.name().strip_suffix(".phsh").unwrap_or_default();
                name.strip_prefix("weights.shard")
            }
            _ => None,
        };
        match id.and_then(|id| id.parse().ok()) {
            Some(id) => self.has_shard(id),
            None => self.shards.is_none() || self.rest,
        }
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

/// How many tensors are hashed before their outcomes are reported.
const BATCH: usize = 1 << 14;
/// How many hashes are kept of ranges that it takes time to hash, in case the next tensors share them.
const KEPT: usize = 1 << 12;
/// From how many bytes it does.
const WORTH: u64 = 1 << 10;

/// Offset and length of a tensor's bytes.
fn stored(entry: Entry<'_>) -> (u64, u64) {
    (entry.offset(), entry.record().data_len)
}

/// The hashes of ranges of bytes, each of which several tensors may share: it is hashed once. Those beyond
/// the end of the file have none.
#[derive(Default)]
struct Hashes(BTreeMap<(u64, u64), Option<[u8; 32]>>);

impl Hashes {
    /// Finds those of a batch of tensors, as far as they have a hash to be held against.
    fn find<'a>(
        &mut self,
        archive: &Archive,
        batch: impl Iterator<Item = Entry<'a>> + Clone + Sync,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<()> {
        self.0.retain(|(_, len), _| *len >= WORTH);
        if self.0.len() > KEPT {
            self.0.clear();
        }
        let hashed = batch.clone().filter(|entry| entry.hash_b3().is_some());
        let mut ranges: Vec<_> = hashed.map(stored).collect();
        ranges.retain(|range| !self.0.contains_key(range));
        ranges.sort_unstable();
        ranges.dedup();
        let named = |error: Error, range| match batch.clone().find(|entry| stored(*entry) == range)
        {
            Some(entry) => error.of_tensor(entry.name()),
            None => error,
        };
        let hashes = parallel::map(threads, ranges.len(), |at| {
            let (offset, len) = ranges.get(at).copied().unwrap_or_default();
            match offset.saturating_add(len) {
                end if end > archive.file_len() => Ok(None),
                end => blake3_of(&archive.source, offset..end, 1, ticker)
                    .map(Some)
                    .map_err(|error| named(error, (offset, len))),
            }
        })?;
        self.0.extend(ranges.into_iter().zip(hashes));
        Ok(())
    }
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
