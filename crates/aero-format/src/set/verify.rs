//! Verifying a set: its files, its index against its parts, and its parts against the index.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tensor_core::codec::{Ticker, walk};
use tensor_core::{Item, Outcome, Report, Source, VerifyOptions};

use super::{Files, Inner, OPEN, agree, at};
use crate::entry::Entry;
use crate::integrity::hex;
use crate::read::Archive;
use crate::set_json::{Listed, Place};
use crate::tree::blake3_of;
use crate::verify::failed;
use crate::{Error, Result, Rule, Unsupported};

pub(super) fn set(inner: &Inner, report: &mut Report, options: &VerifyOptions<'_>) -> Result<()> {
    let ticker = Ticker::new(options.progress);
    let mine = Mine::of(inner, options);
    report.begin(0);
    if options.has_rest() {
        options.whole(|options| {
            report.tell(Item::new("set", Outcome::Ok).with_note("JSON"), options);
            check_file(report, "index", (&inner.files, &inner.index_file), options)?;
            inner.index.verify_into(report, "index: ", options)
        })?;
    }
    // Parts about which there is something to warn of, once all items are told. A section for each: how many items
    // are in one is known by who opens it.
    let mut odd = Vec::new();
    for (ordinal, section) in (0..inner.parts.len()).zip(1u32..) {
        if mine.has(ordinal) {
            report.begin(section);
            let is_odd = options.whole(|options| part(inner, ordinal, report, options))?;
            odd.extend(is_odd.then_some((ordinal, section)));
        }
    }
    tensors(inner, &mine, report, options, &ticker)?;
    report.begin(0);
    if options.has_rest() {
        inner.index.warn_into(report, "index: ", options);
    }
    for (ordinal, section) in odd {
        if let (Ok(archive), Some(part)) = (inner.part(ordinal), inner.parts.get(ordinal)) {
            report.begin(section);
            let prefix = format!("{}: ", part.name);
            archive.warn_into(report, &prefix, options);
        }
    }
    Ok(())
}

/// Checks a part: its file, and all that is in it. Tells whether there is anything to warn of.
fn part(
    inner: &Inner,
    ordinal: usize,
    report: &mut Report,
    options: &VerifyOptions<'_>,
) -> Result<bool> {
    let Some(part) = inner.parts.get(ordinal) else {
        return Ok(false);
    };
    let start = report.items.len();
    if !check_file(report, &part.name, (&inner.files, &part.file), options)? {
        return Ok(false);
    }
    let archive = match inner.part(ordinal) {
        Ok(archive) => archive,
        Err(error) => {
            report.tell(failed(part.name.clone(), error)?, options);
            return Ok(false);
        }
    };
    let prefix = format!("{}: ", part.name);
    let chunks = report.items.len();
    let heard = Heard::default();
    heard.verify(&archive, report, &prefix, options)?;
    blame(report, start, chunks, heard, options);
    for name in inner.unlisted(ordinal, &archive) {
        let rule = Rule::SetUnlisted;
        let note = format!("{rule} [{}]", rule.id());
        let mut item = Item::new(format!("{prefix}{name}"), Outcome::Failed);
        // Nothing that the set lists is damaged by it.
        item.tensors.push(name.to_owned());
        report.tell(item.with_note(note), options);
    }
    Ok(archive.has_warnings(options))
}

/// Which parts a share of the checks has, and with them the tensors that the index has there.
struct Mine {
    /// `None` where all checks are made.
    parts: Option<Vec<bool>>,
}

impl Mine {
    fn of(inner: &Inner, options: &VerifyOptions<'_>) -> Self {
        if options.share.is_none() {
            return Self { parts: None };
        }
        let mut tensors: Vec<Vec<usize>> = vec![Vec::new(); inner.parts.len()];
        for entry in inner.index.entries() {
            let part = inner.shards.get(&entry.shard_id());
            if let Some(tensors) = part.and_then(|part| tensors.get_mut(*part)) {
                tensors.push(entry.ordinal);
            }
        }
        let has = |tensors: Vec<usize>| match tensors.is_empty() {
            true => options.has_rest(),
            false => options.has_any(tensors.into_iter()),
        };
        Self {
            parts: Some(tensors.into_iter().map(has).collect()),
        }
    }

    fn has(&self, part: usize) -> bool {
        let parts = self.parts.as_ref();
        parts.is_none_or(|parts| parts.get(part).copied().unwrap_or(false))
    }

    fn has_tensor(&self, inner: &Inner, entry: Entry<'_>) -> bool {
        let part = inner.shards.get(&entry.shard_id());
        self.has(part.copied().unwrap_or(usize::MAX))
    }
}

/// The tensors that failures of a part damage, where these are told and not kept.
struct Heard(Mutex<Item>);

impl Default for Heard {
    fn default() -> Self {
        Self(Mutex::new(Item::new("", Outcome::Failed)))
    }
}

impl Heard {
    fn verify(
        &self,
        archive: &Archive,
        report: &mut Report,
        prefix: &str,
        options: &VerifyOptions<'_>,
    ) -> Result<()> {
        let (Some(tell), Some(_)) = (options.items, options.spared) else {
            return archive.verify_into(report, prefix, options);
        };
        let hear = |item: &Item| {
            tell(item);
            if item.outcome == Outcome::Failed {
                let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                for name in &item.tensors {
                    heard.damages(name, options);
                }
            }
        };
        archive.verify_into(report, prefix, &options.with_items(&hear))
    }

    fn tensors(self) -> Item {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds every tensor of the index against its part, and says what became of each: in their order where all
/// parts can be open at once, else first of those that differ, which may be too many to hold.
fn tensors(
    inner: &Inner,
    mine: &Mine,
    report: &mut Report,
    options: &VerifyOptions<'_>,
    ticker: &Ticker<'_>,
) -> Result<()> {
    let entries = inner.index.entries();
    let mut ways = Ways::new(inner);
    let mut check = |entry: Entry<'_>| {
        let mut item = match tensor(inner, entry, &mut ways, ticker) {
            Err(error) => failed(entry.name().to_owned(), error)?,
            Ok(item) => item,
        };
        if item.outcome == Outcome::Failed {
            item.tensors.push(entry.name().to_owned());
        }
        Ok::<Item, Error>(item)
    };
    let sections = u32::try_from(inner.parts.len())
        .unwrap_or(u32::MAX)
        .saturating_add(1);
    let last = sections.saturating_mul(2);
    if inner.parts.len() <= OPEN {
        report.begin(last);
        for entry in entries {
            match mine.has_tensor(inner, entry) {
                true => report.tell(check(entry)?, options),
                false => report.skip(1),
            }
        }
        return Ok(());
    }
    // Part by part, since not all of them are open at once. What is said of nearly all is told at the end.
    let mut in_parts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for entry in entries
        .clone()
        .filter(|entry| mine.has_tensor(inner, *entry))
    {
        let part = inner.shards.get(&entry.shard_id());
        let part = in_parts.entry(part.copied().unwrap_or(usize::MAX));
        part.or_default().extend(u32::try_from(entry.ordinal));
    }
    let mut told = vec![false; entries.len()];
    for (part, ordinals) in in_parts {
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        report.begin(sections.saturating_add(part));
        let ordinals = ordinals
            .into_iter()
            .filter_map(|at| usize::try_from(at).ok());
        for entry in ordinals.filter_map(|at| entries.get(at)) {
            let item = check(entry)?;
            if item != agreed(entry) {
                if let Some(told) = told.get_mut(entry.ordinal) {
                    *told = true;
                }
                report.tell(item, options);
            }
        }
    }
    let told = told.into_iter();
    report.begin(last);
    for (entry, told) in entries.zip(told) {
        match !told && mine.has_tensor(inner, entry) {
            true => report.tell(agreed(entry), options),
            false => report.skip(1),
        }
    }
    Ok(())
}

/// The item of a tensor that index and part agree about.
fn agreed(entry: Entry<'_>) -> Item {
    Item::new(entry.name(), Outcome::Ok).with_note("index and part agree")
}

/// Where all that fails in a part is of tensors, a wrong SHA-256 of the file is of those too.
fn blame(
    report: &mut Report,
    start: usize,
    chunks: usize,
    heard: Heard,
    options: &VerifyOptions<'_>,
) {
    let failed = |item: &&Item| item.outcome == Outcome::Failed;
    let inside = report.items.get(chunks..).unwrap_or_default();
    let mut blamed = heard.tensors();
    for item in inside.iter().filter(failed) {
        if item.tensors.is_empty() {
            return;
        }
        for name in &item.tensors {
            blamed.damages(name, options);
        }
    }
    let mut tensors = blamed.tensors;
    tensors.sort_unstable();
    tensors.dedup();
    let files = report.items.get_mut(start..chunks).unwrap_or_default();
    for item in files {
        let is_digest = item.note.as_deref() == Some("sha256");
        if item.outcome == Outcome::Failed && is_digest {
            item.tensors.clone_from(&tensors);
        }
    }
}

/// How a part may count its shards: anew from 0, in the order of their numbers in the set or in
/// that of its list, or as the set does. One of these has to hold for all of its tensors.
struct Shards {
    ways: Vec<HashMap<u32, u32>>,
}

impl Shards {
    fn of(inner: &Inner, ordinal: usize) -> Self {
        let listed = inner
            .parts
            .get(ordinal)
            .map_or(&[][..], |part| &part.shards);
        let mut sorted = listed.to_vec();
        sorted.sort_unstable();
        let anew = |ids: &[u32]| ids.iter().copied().zip(0..).collect();
        let same = listed.iter().map(|&id| (id, id)).collect();
        Self {
            ways: vec![anew(&sorted), anew(listed), same],
        }
    }

    /// Whether the part may have counted shard `id` of the set as `inside`.
    fn take(&mut self, id: u32, inside: u32) -> bool {
        let fits = |way: &HashMap<u32, u32>| way.get(&id) == Some(&inside);
        if !self.ways.iter().any(fits) {
            return false;
        }
        self.ways.retain(fits);
        true
    }
}

/// How each part may count its shards, as far as its tensors were looked at.
struct Ways<'a> {
    inner: &'a Inner,
    of_parts: HashMap<usize, Shards>,
}

impl<'a> Ways<'a> {
    fn new(inner: &'a Inner) -> Self {
        Self {
            inner,
            of_parts: HashMap::new(),
        }
    }

    /// As [`Shards::take`], of the part that has the shard.
    fn take(&mut self, id: u32, inside: u32) -> bool {
        let part = self.inner.shards.get(&id).copied().unwrap_or(usize::MAX);
        let shards = self.of_parts.entry(part);
        let shards = shards.or_insert_with(|| Shards::of(self.inner, part));
        shards.take(id, inside)
    }
}

/// Holds a tensor of the index against its part, and its hash against the data.
fn tensor(
    inner: &Inner,
    entry: Entry<'_>,
    shards: &mut Ways<'_>,
    ticker: &Ticker<'_>,
) -> Result<Item> {
    let (part, inside) = inner.find(entry)?;
    let inside = at(&part, inside)?;
    let name = entry.name();
    if !shards.take(entry.shard_id(), inside.shard_id()) {
        let (expected, found) = (entry.shard_id(), inside.shard_id());
        let note = format!("shard {expected} of the set is not shard {found} of the part");
        let rule = Rule::SetTensor.id();
        let item = Item::new(name, Outcome::Failed);
        return Ok(item.with_note(format!("{note} [{rule}]")));
    }
    if !agree(entry.hash_b3(), inside.hash_b3()) {
        let text = |hash: Option<&[u8; 32]>| hash.map(|hash| hex(hash)).unwrap_or_default();
        let item = Item::compared(name, text(entry.hash_b3()), text(inside.hash_b3()));
        return Ok(item.with_note("hash_b3 of the index, against the part's"));
    }
    // Where the part has the same hash, that was held against the data already.
    if let (Some(expected), None) = (entry.hash_b3(), inside.hash_b3()) {
        let found = stored_hash(&part, inside, ticker)?;
        let item = Item::compared(name, hex(expected), hex(&found));
        return Ok(item.with_note("hash_b3 of the index"));
    }
    if entry.dtype().is_none() {
        let what = Unsupported::DType {
            code: entry.dtype_code().0,
        };
        return Ok(Item::new(name, Outcome::Unsupported).with_note(what.to_string()));
    }
    Ok(agreed(entry))
}

fn stored_hash(part: &Archive, entry: Entry<'_>, ticker: &Ticker<'_>) -> Result<[u8; 32]> {
    let data = part.stored_range(entry)?;
    blake3_of(&part.source, data, 1, ticker)
}

/// Checks that a listed file exists and is the one that the set lists; tells whether it exists.
fn check_file(
    report: &mut Report,
    name: &str,
    (files, file): (&Files, &Listed),
    options: &VerifyOptions<'_>,
) -> Result<bool> {
    let source = match files.open(&file.place) {
        Ok(source) => source,
        Err(Error::Unsupported { what, .. }) if matches!(file.place, Place::Remote(..)) => {
            report.tell(
                Item::new(name, Outcome::Unsupported).with_note(what.to_string()),
                options,
            );
            return Ok(false);
        }
        Err(error) => {
            report.tell(failed(name.to_owned(), error)?, options);
            return Ok(false);
        }
    };
    report.tell(
        match file.size {
            Some(size) => Item::compared(name, size.to_string(), source.size().to_string())
                .with_note("size_bytes"),
            None => Item::new(name, Outcome::NotCovered).with_note("no size_bytes"),
        },
        options,
    );
    report.tell(
        match &file.sha256 {
            Some(expected) => {
                let ticker = Ticker::new(options.progress);
                let mut hasher = Sha256::new();
                walk::<Error>(&source, 0..source.size(), &ticker, |piece| {
                    hasher.update(piece);
                    Ok(())
                })?;
                let found = hex(&hasher.finalize());
                Item::compared(name, expected.to_ascii_lowercase(), found).with_note("sha256")
            }
            None => Item::new(name, Outcome::NotCovered).with_note("no sha256"),
        },
        options,
    );
    Ok(true)
}
