//! What was found about bytes that several entries share, so that they are checked once.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tensor_core::{DType, Item, Outcome};

use crate::Entry;

/// From how many bytes it takes time to check them.
const WORTH: u64 = 1 << 10;
/// How much is kept in case the next entries share it.
const KEPT: usize = 1 << 12;

/// Where an entry's bytes are, as what they are read, and what they are held against.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    start: u64,
    end: u64,
    nbytes: Option<u64>,
    dtype: Option<&'static str>,
    encoding: String,
    checksum: Option<String>,
}

impl Key {
    /// `None` where sharing isn't worth a thought, or more than this decides what is found.
    fn of(entry: Entry<'_>) -> Option<Self> {
        let range = entry.range();
        let (stored, nbytes) = (range.end.saturating_sub(range.start), entry.nbytes());
        let is_here = stored > 0 && !entry.is_elsewhere() && entry.unsupported().is_none();
        if nbytes.unwrap_or(stored).max(stored) < WORTH || !is_here {
            return None;
        }
        Some(Self {
            start: range.start,
            end: range.end,
            nbytes,
            dtype: entry.dtype().map(DType::name),
            encoding: entry.encoding_name().into(),
            checksum: entry.checksum().map(|checksum| checksum.to_string()),
        })
    }
}

/// What was found, of the entry of each kind of bytes that was checked.
#[derive(Default)]
pub(crate) struct Shared(BTreeMap<Key, Item>);

/// Where it is said what became of an entry.
pub(crate) enum Place {
    /// Among what is asked for.
    Asked(usize),
    /// It is known of another entry.
    Known(Item),
}

impl Shared {
    /// Which of the entries are to be checked, and where it is said of each what became of it.
    pub(crate) fn plan<'a>(&self, batch: &[Entry<'a>]) -> (Vec<Entry<'a>>, Vec<Place>) {
        let mut first: BTreeMap<Key, usize> = BTreeMap::new();
        let (mut asked, mut places) = (Vec::new(), Vec::with_capacity(batch.len()));
        for &entry in batch {
            let key = Key::of(entry);
            if let Some(item) = key.as_ref().and_then(|key| self.0.get(key)) {
                places.push(Place::Known(item.clone()));
                continue;
            }
            let next = asked.len();
            let at = key.map_or(next, |key| *first.entry(key).or_insert(next));
            if at == next {
                asked.push(entry);
            }
            places.push(Place::Asked(at));
        }
        (asked, places)
    }

    /// Keeps what was found of the last of those that were asked for.
    pub(crate) fn keep(&mut self, asked: &[Entry<'_>], found: Vec<Item>) {
        let found = asked.iter().zip(found).rev();
        let found = found.filter_map(|(&entry, item)| Some((Key::of(entry)?, item)));
        let found: Vec<_> = found.take(KEPT).collect();
        if self.0.len().saturating_add(found.len()) > KEPT {
            self.0.clear();
        }
        self.0.extend(found);
    }
}

/// What became of an entry, where that was found of it or of another one with the same bytes.
pub(crate) fn of(entry: Entry<'_>, mut item: Item) -> Item {
    if item.item == entry.name() {
        return item;
    }
    let other = core::mem::replace(&mut item.item, entry.name().into());
    if item.outcome == Outcome::Failed {
        let note = item.note.take().unwrap_or_default();
        item.note = Some(format!("the same bytes as {other:?}: {note}"));
    }
    item
}
