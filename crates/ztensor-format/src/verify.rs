//! Every check that there is: checksums, and that compressed data decodes.

#[cfg(feature = "zstd")]
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tensor_core::codec::{Ticker, walk};
use tensor_core::{Item, Outcome, Report, VerifyOptions, checksum::crc32c_source, parallel};

use crate::checksum::{Checksum, Hasher};
use crate::encoding::{Encoding, Layout};
#[cfg(feature = "zstd")]
use crate::read::Stored;
use crate::shared::{Place, Shared, of};
use crate::{Archive, Entry, Error, Generation, Result, Rule, UsageError, layout};

impl Archive {
    /// Compares every checksum and decodes all compressed data, window by window. There is one
    /// item per tensor, in the order of the index, and one for the index; the note of a tensor's tells the algorithm, that
    /// compressed data decodes to the right length, and what is wrong, with the rule's id.
    ///
    /// `strict` adds warnings about data that overlaps, entries without `layout`, and byte
    /// orders given where they have no meaning.
    ///
    /// # Errors
    /// What the source fails with, or a stop on request; damage is in the report.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> Result<Report> {
        /// How many tensors are checked before their outcomes are reported.
        const BATCH: usize = 1 << 14;
        let ticker = Ticker::new(options.progress);
        let entries = self.entries();
        let mut report = Report::default();
        let mut shared = Shared::default();
        for start in (0..entries.len()).step_by(BATCH) {
            let range = start..entries.len().min(start.saturating_add(BATCH));
            // Those that another share of the checks has are passed over.
            let mine = range.clone().filter(|at| options.has(*at));
            let batch: Vec<Entry<'_>> = mine.filter_map(|at| entries.get(at)).collect();
            let (asked, places) = shared.plan(&batch);
            let found = self.check_all(&asked, options, &ticker)?;
            let mut checked = batch.iter().zip(places);
            for at in range {
                let next = options.has(at).then(|| checked.next()).flatten();
                let Some((&entry, place)) = next else {
                    report.skip(1);
                    continue;
                };
                let item = match place {
                    Place::Known(item) => Some(item),
                    Place::Asked(at) => found.get(at).cloned(),
                };
                let item = match item {
                    Some(item) => of(entry, item),
                    None => self.check_entry(entry, options.threads, &ticker)?,
                };
                report.tell(blamed(entry, item), options);
            }
            shared.keep(&asked, found);
        }
        if !options.has_rest() {
            return Ok(report);
        }
        // Only the manifest of version 2 has a hash of its own, which opening has compared.
        report.tell(
            match self.index.generation.has_index_hash() {
                true => Item::new("index", Outcome::Ok),
                false => {
                    Item::new("index", Outcome::NotCovered).with_note("structure ok, no checksum")
                }
            },
            options,
        );
        if options.strict {
            self.warn(&mut report, options);
        }
        Ok(report)
    }

    /// Checks tensors: large ones by all threads together, the others side by side.
    fn check_all(
        &self,
        entries: &[Entry<'_>],
        options: &VerifyOptions<'_>,
        ticker: &Ticker<'_>,
    ) -> Result<Vec<Item>> {
        /// Data from this size on is checked by all threads together, what is smaller by one.
        const LARGE: u64 = 32 << 20;
        let is_large = |entry: Entry<'_>| {
            entry.encoding() == Encoding::Raw
                && entry.record().size >= LARGE
                && matches!(entry.checksum(), Some(Checksum::Crc32c(_)))
                && parallel::threads(options.threads) > 1
        };
        let small = parallel::map(options.threads, entries.len(), |at| match entries.get(at) {
            Some(&entry) if !is_large(entry) => self.check_entry(entry, 1, ticker).map(Some),
            _ => Ok(None),
        })?;
        let each = entries.iter().zip(small);
        each.map(|(&entry, item)| match item {
            Some(item) => Ok(item),
            None => self.check_entry(entry, options.threads, ticker),
        })
        .collect()
    }

    /// Checks one tensor: its checksum, and that compressed data decodes.
    ///
    /// ```
    /// use ztensor_format::{Archive, Builder, Outcome, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let item = archive.verify_entry(archive.entry("w").ok_or("no w")?)?;
    /// assert_eq!(item.outcome, Outcome::Ok);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`UsageError::ForeignEntry`] where the entry is another archive's, or what the source fails
    /// with; damage is in the item.
    pub fn verify_entry(&self, entry: Entry<'_>) -> Result<Item> {
        if !entry.is_of(&self.index) {
            return Err(UsageError::ForeignEntry.into());
        }
        let item = self.check_entry(entry, 0, &Ticker::default())?;
        Ok(blamed(entry, item))
    }

    /// Fails where a tensor's data is not what its checksum says, if the archive checks data.
    pub(crate) fn check_data(&self, entry: Entry<'_>) -> Result<()> {
        if !self.check_data {
            return Ok(());
        }
        match self.check_entry(entry, 0, &Ticker::default())?.outcome {
            Outcome::Failed => Err(self.damaged(entry)),
            _ => Ok(()),
        }
    }

    /// The same of stored bytes that were just read.
    pub(crate) fn check_bytes(&self, entry: Entry<'_>, stored: &[u8]) -> Result<()> {
        if !self.check_data {
            return Ok(());
        }
        let expected = entry.checksum();
        let mut hasher = Hasher::like(expected.as_ref());
        hasher.update(stored);
        match (expected, hasher.finish()) {
            (Some(expected), Some(found)) if expected != found => Err(self.damaged(entry)),
            _ => Ok(()),
        }
    }

    fn damaged(&self, entry: Entry<'_>) -> Error {
        Error::invalid(Rule::ChecksumMismatch, entry.at("checksum")).of_tensor(entry.name())
    }

    pub(crate) fn check_entry(
        &self,
        entry: Entry<'_>,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Item> {
        let item = self.check(entry, threads, ticker);
        item.map_err(|error| error.of_tensor(entry.name()))
    }

    fn check(&self, entry: Entry<'_>, threads: usize, ticker: &Ticker<'_>) -> Result<Item> {
        #[cfg(feature = "generations")]
        {
            if entry.hidden().next().is_some() {
                return self.verify_hidden(entry, threads, ticker);
            }
            if self.generation() == Generation::V2 {
                return self.verify_decoded(entry, ticker);
            }
        }
        match self.locate(entry) {
            Err(error) => {
                let (outcome, note) = outcome_of(error)?;
                // What can't be interpreted can still be intact, or not.
                let hashed = self.hash_stored(entry, threads, ticker)?;
                let mut item = compared(entry, hashed.as_ref());
                if item.outcome == Outcome::Failed {
                    return Ok(item);
                }
                item.outcome = outcome;
                Ok(item.with_note(note))
            }
            #[cfg(feature = "zstd")]
            Ok((_, Stored::Zstd(blob))) => {
                let hasher = Hasher::like(entry.checksum().as_ref());
                match blob.verify(hasher.clone(), ticker) {
                    Ok(hasher) => {
                        let item = compared(entry, hasher.finish().as_ref());
                        let note = format!("zstd decodes to {} bytes", blob.decoded);
                        Ok(also(item, &note))
                    }
                    Err(error) => {
                        let (_, note) = outcome_of(error)?;
                        let hasher = blob.hash(hasher, ticker)?;
                        let mut item = compared(entry, hasher.finish().as_ref());
                        item.outcome = Outcome::Failed;
                        Ok(also(item, &note))
                    }
                }
            }
            Ok(_) => {
                let hashed = self.hash_stored(entry, threads, ticker)?;
                Ok(compared(entry, hashed.as_ref()))
            }
        }
    }

    /// The checksum of an entry's stored bytes, of the kind that it has.
    fn hash_stored(
        &self,
        entry: Entry<'_>,
        threads: usize,
        ticker: &Ticker<'_>,
    ) -> Result<Option<Checksum>> {
        let range = entry.range();
        let mut hasher = match entry.checksum() {
            None | Some(Checksum::Other(_) | Checksum::Xxh3(_)) => return Ok(None),
            Some(Checksum::Crc32c(_)) => {
                let crc = crc32c_source(&self.source, range, threads, ticker)?;
                return Ok(Some(Checksum::Crc32c(crc)));
            }
            Some(checksum) => Hasher::like(Some(&checksum)),
        };
        walk::<Error>(&self.source, range, ticker, |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// What readers tolerate but no careful writer leaves behind.
    fn warn(&self, report: &mut Report, options: &VerifyOptions<'_>) {
        // An entry in place of several components has no bytes itself.
        let here = |entry: &Entry<'_>| !entry.range().is_empty() && !entry.is_elsewhere();
        for entry in self.entries() {
            if entry.layout() == Layout::Absent {
                let name = entry.name();
                let text = "has no layout, which readers of zTensor 0.1.0 to 0.1.4 demand";
                report.warn(format!("tensor {name:?} {text}"), options);
            }
            let meaningless = entry.encoding() != Encoding::Raw
                || entry.dtype().is_some_and(|dtype| dtype.swap_size() == 1);
            if entry.endianness().is_some() && meaningless {
                let name = entry.name();
                let text = "has a data_endianness, which means nothing for its data";
                report.warn(format!("tensor {name:?} {text}"), options);
            }
        }
        let mut sorted: Vec<Entry<'_>> = self.entries().filter(here).collect();
        let place = |entry: &Entry<'_>| (entry.range().start, entry.range().end);
        sorted.sort_by_key(place);
        for (left, right) in sorted.iter().zip(sorted.iter().skip(1)) {
            // Tensors that share all their data are tied, which is meant.
            let tied = left.range() == right.range();
            if left.range().end > right.offset() && !tied {
                let (left, right) = (left.name(), right.name());
                let text = format!("tensors {left:?} and {right:?} share some of their data");
                report.warn(text, options);
            }
        }
        if self.generation() == Generation::V2 {
            // What an append leaves behind lies anywhere.
            return;
        }
        let data_end = self.entries().map(|entry| entry.range().end);
        let data_end = data_end.max().unwrap_or(self.index.start);
        if data_end + layout::ALIGN <= self.index.start {
            let unused = self.index.start - data_end;
            report.warn(format!("{unused} unused bytes before the index"), options);
        }
    }
}

/// The item of an entry, which is all that its failure damages.
fn blamed(entry: Entry<'_>, mut item: Item) -> Item {
    if item.outcome == Outcome::Failed {
        item.tensors = Vec::from([entry.name().into()]);
    }
    item
}

/// What a file's fault in one tensor is in a report; errors that stop the walk stay errors.
pub(crate) fn outcome_of(error: Error) -> Result<(Outcome, String)> {
    use tensor_core::Kind;
    let outcome = match error.kind() {
        Kind::Unsupported => Outcome::Unsupported,
        Kind::Invalid | Kind::Limit => Outcome::Failed,
        _ => return Err(error),
    };
    let id = match &error {
        Error::Limit(limit) => Some(limit.limit),
        error => error.rule_id(),
    };
    let note = match id {
        Some(id) => format!("{error} [{id}]"),
        None => error.to_string(),
    };
    Ok((outcome, note))
}

/// The item that says what became of an entry's checksum.
pub(crate) fn compared(entry: Entry<'_>, found: Option<&Checksum>) -> Item {
    match (entry.checksum(), found) {
        (Some(stored), Some(found)) => {
            let item = Item::compared(entry.name(), stored.to_string(), found.to_string());
            match item.outcome {
                Outcome::Ok => item.with_note(stored.algorithm()),
                _ => {
                    let rule = Rule::ChecksumMismatch;
                    item.with_note(format!("{rule} [{}]", rule.id()))
                }
            }
        }
        (Some(stored), None) => {
            let mut item = Item::new(entry.name(), Outcome::NotCovered);
            item.expected = Some(stored.to_string());
            let algorithm = stored.algorithm();
            item.with_note(format!("checksum algorithm {algorithm:?} is unknown"))
        }
        (None, _) => Item::new(entry.name(), Outcome::NotCovered).with_note("no checksum"),
    }
}

/// An item with one more thing to say.
#[cfg(feature = "zstd")]
fn also(mut item: Item, note: &str) -> Item {
    let all = match item.note.take() {
        Some(first) => format!("{first}; {note}"),
        None => note.to_owned(),
    };
    item.with_note(all)
}
