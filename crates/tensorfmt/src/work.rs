//! How much memory a verb takes beyond an archive that is open, estimated before it takes any.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tensor_core::{At, LimitExceeded, Value};

use crate::convert::Target;
use crate::{Archive, Error, Format, ReadOptions, Result};

/// The limit that all work asks.
pub(crate) const LIMIT: &str = "max_work_overhead_bytes";

/// What an index may take, as the formats name it.
const INDEX: &str = "max_index_overhead_bytes";

/// What all of it may take beyond the size of the file, or of its index as decoded where that is larger: what
/// a program takes for itself and for windows of data is left of 64 MiB.
const OVERHEAD: u64 = 50 << 20;

/// What is done with all of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// To list it in full: what the file says once for several tensors is said for each.
    Listing,
    /// To take a digest of each tensor, and one of all.
    Digest,
    /// To make every check, with what became of each.
    Verify,
    /// To hold it against another.
    Compare,
    /// To convert it.
    Convert(Target),
}

impl ReadOptions {
    /// Estimates what the work takes of memory, and of output where that is a listing: a file may hold very
    /// many tensors in few bytes, and say much of each of them once.
    ///
    /// A conversion may take more for each tensor that has bytes of its own: what it holds of a tensor until all
    /// are written, some 500 bytes, but for all of them not more than eight times what the file has.
    ///
    /// # Errors
    /// A limit, named `max_work_overhead_bytes`, where it is 50 MiB more than the file has bytes, or its index as
    /// decoded, unless set otherwise.
    ///
    /// ```
    /// use tensorfmt::{Archive, ReadOptions, Work};
    ///
    /// # let archive = Archive::from_bytes(tensorfmt::mag::Builder::new().to_vec()?)?;
    /// let options = ReadOptions::default();
    /// options.check_work(&archive, Work::Listing)?;
    /// options.check_work_of([&archive, &archive], Work::Compare)?; // both together
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_work(&self, archive: &Archive, work: Work) -> Result<()> {
        self.check_work_of([archive], work)
    }

    /// Estimates the work on several archives at once: there is one limit for them together, which is
    /// held against the size of all files.
    ///
    /// # Errors
    /// As [`check_work`](Self::check_work).
    ///
    /// ```
    /// use tensorfmt::{Archive, ReadOptions, Work};
    ///
    /// # let archive = Archive::from_bytes(tensorfmt::mag::Builder::new().to_vec()?)?;
    /// ReadOptions::default().check_work_of([&archive, &archive], Work::Compare)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_work_of<'a>(
        &self,
        archives: impl IntoIterator<Item = &'a Archive>,
        work: Work,
    ) -> Result<()> {
        let max = self.value_of(LIMIT).unwrap_or(OVERHEAD);
        let archives: Vec<&Archive> = archives.into_iter().collect();
        let mut value = beyond(archives.iter().copied(), work);
        if value > max {
            let earned = archives.iter().map(|archive| earned(archive, work));
            value = earned.fold(value, u64::saturating_sub);
        }
        if value <= max {
            return Ok(());
        }
        Err(Error::Limit(LimitExceeded {
            limit: LIMIT,
            value,
            max,
            at: At::new(0, "tensors"),
        }))
    }

    /// These options for one more archive to work on at once: its index may take what the others leave of the
    /// limit, so that it is refused before it takes more.
    ///
    /// ```
    /// use tensorfmt::{Archive, ReadOptions, Work};
    ///
    /// # let file = tensorfmt::Bytes::from(tensorfmt::mag::Builder::new().to_vec()?);
    /// let options = ReadOptions::default();
    /// let first = Archive::from_source(file.clone(), &options)?;
    /// let second = Archive::from_source(file, &options.beside([&first], Work::Compare))?;
    /// options.check_work_of([&first, &second], Work::Compare)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn beside<'a>(&self, archives: impl IntoIterator<Item = &'a Archive>, work: Work) -> Self {
        // Who sets one of them is told of that one.
        if self.value_of(LIMIT).or(self.value_of(INDEX)).is_some() {
            return self.clone();
        }
        let left = OVERHEAD.saturating_sub(beyond(archives, work));
        let mut options = self.clone();
        // A build whose formats have no such limit does without.
        let _ = options.limit(INDEX, left);
        options
    }
}

/// What the work takes beyond the size of all files, or of their indexes.
fn beyond<'a>(archives: impl IntoIterator<Item = &'a Archive>, work: Work) -> u64 {
    let (mut need, mut allowed) = (0u64, 0u64);
    for archive in archives {
        allowed = allowed.saturating_add(archive.file_len().max(archive.index_len()));
        let more = tensors(archive, work).saturating_add(metadata(archive, work));
        need = need.saturating_add(more);
    }
    need.saturating_sub(allowed)
}

/// Bytes that an open archive takes for a tensor beside its name, at most: the record of its index, and where
/// it is found by its name.
fn open(format: Format) -> u64 {
    // Measured on a million: 54 and 62.
    if format == Format::Aero { 56 } else { 64 }
}

/// What a component takes beyond another tensor: open, and with what it says of its object in a conversion.
const COMPONENT: (u64, u64) = (120, 1000);

/// What a conversion holds of a tensor beside its names.
fn converted(format: Format, target: Target) -> u64 {
    let home = format == Format::Burnpack && target == Target::Burnpack;
    let more = [
        (home, 100),
        (target.is_set(), 200),
        // Measured on 100,000 tensors without bytes.
        (target == Target::Aero, 60),
        // That its checksum is lost, measured on a million.
        (format == Format::Ztensor && !target.has_checksums(), 280),
    ];
    let own = if format == Format::Aero { 520 } else { 440 };
    let more = more.iter().filter(|(is, _)| *is).map(|(_, more)| more);
    more.fold(own, |sum: u64, more| sum.saturating_add(*more))
}

/// How many times its bytes a file of many small tensors may take in a conversion.
const EARNED: u64 = 8;

/// What a conversion may take for tensors that have bytes of their own: what the file itself pays for. Where
/// very many share bytes, or have none, a small file would make it take as much.
fn earned(archive: &Archive, work: Work) -> u64 {
    let Work::Convert(target) = work else {
        return 0;
    };
    // Of each place a number of 8 bytes: that two of a million have the same is next to impossible, and would
    // make one tensor less.
    let number = |entry| {
        Some(BuildHasherDefault::<DefaultHasher>::default().hash_one(archive.place(entry)?))
    };
    let mut places: Vec<u64> = archive.entries().filter_map(number).collect();
    places.sort_unstable();
    places.dedup();
    let each = converted(archive.format(), target);
    let all = each.saturating_mul(places.len() as u64);
    all.min(archive.file_len().saturating_mul(EARNED))
}

fn tensors(archive: &Archive, work: Work) -> u64 {
    let format = archive.format();
    let set = archive.is_set();
    // The part of a set is open beside its index.
    let times = if set { 2 } else { 1 };
    let own = match work {
        // What is found about a tensor is reported and not kept.
        Work::Listing | Work::Compare => 0,
        // Which tensors are in which part.
        Work::Verify if set => 8,
        Work::Verify => 0,
        // The digest, and where its tensor comes by name.
        Work::Digest => 36,
        Work::Convert(target) => converted(format, target),
    };
    let mut all = 0u64;
    for entry in archive.entries() {
        let name = entry.name().len() as u64;
        let mut one = open(format).saturating_add(name).saturating_mul(times);
        one = one.saturating_add(own);
        if matches!(work, Work::Convert(_)) {
            one = one.saturating_add(name);
        }
        if entry.object().is_some() {
            one = one.saturating_add(COMPONENT.0);
        }
        let said = entry.said_once();
        match work {
            Work::Listing => one = one.saturating_add(said.saturating_mul(12)),
            Work::Convert(target) => {
                let refused = !target.holds_shape(entry.shape());
                // What is refused is listed with its reasons.
                one = one.saturating_add(if refused { 800 } else { 0 });
                if entry.object().is_some() {
                    one = one.saturating_add(COMPONENT.1);
                }
                one = one.saturating_add(said.saturating_mul(40));
            }
            _ => {}
        }
        all = all.saturating_add(one);
    }
    all
}

fn metadata(archive: &Archive, work: Work) -> u64 {
    let (pair, item) = match work {
        Work::Verify | Work::Digest => return 0,
        Work::Listing => (160, 110),
        Work::Compare => (250, 110),
        Work::Convert(_) => (570, 150),
    };
    let mut all = 0u64;
    archive.each_metadata(|key, value| {
        let nested = value.walk().map(|(_, value)| match value {
            Value::Text(text) | Value::BigInt(text) => text.len() as u64 + item,
            Value::Bytes(bytes) => bytes.len() as u64 * 2 + item,
            _ => item,
        });
        let nested = nested.skip(1).fold(0, u64::saturating_add);
        let one = nested
            .saturating_add(pair)
            .saturating_add(key.len() as u64 * 2);
        all = all.saturating_add(one);
    });
    all
}
