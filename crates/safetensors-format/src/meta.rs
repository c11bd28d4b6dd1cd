use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::Value;
use tensor_core::codec::NameTable;

use crate::json;

/// A pair of `__metadata__`: text to text.
///
/// ```
/// use safetensors_format::{Archive, Builder};
///
/// let mut builder = Builder::new();
/// builder.metadata("format", "pt")?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let pairs: Vec<_> = archive.metadata().iter().map(|entry| (entry.key(), entry.value())).collect();
/// assert_eq!(pairs, [("format", "pt")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetaEntry {
    pub(crate) key: Box<str>,
    pub(crate) value: Box<str>,
}

impl MetaEntry {
    /// Bytes that a pair of such lengths takes in a list that is found by its keys.
    pub(crate) fn memory(key: usize, value: usize) -> u64 {
        // Texts on the heap take 16 bytes more than they have, a list that grows twice its own.
        let fixed = (size_of::<Self>() as u64).saturating_mul(2);
        let text = (key as u64).saturating_add(value as u64);
        fixed
            .saturating_add(NameTable::MEMORY + 32)
            .saturating_add(text)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// A key beside dtype, shape and offsets that a file has for one tensor, and its value. Readers skip
/// what they don't know, so writers use such keys for notes of their own.
///
/// ```
/// use safetensors_format::{Archive, Value};
///
/// let header = r#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"unit":"m"}}"#;
/// let mut file = (header.len() as u64).to_le_bytes().to_vec();
/// file.extend_from_slice(header.as_bytes());
/// file.push(7);
/// let archive = Archive::from_bytes(file)?;
/// let extra = archive.entries().first().ok_or("no tensor")?.extras().next().ok_or("no extra key")?;
/// assert_eq!((extra.key(), extra.json()), ("unit", r#""m""#));
/// assert_eq!(extra.value(), Value::from("m"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extra<'a> {
    pub(crate) key: &'a str,
    pub(crate) json: &'a str,
}

impl<'a> Extra<'a> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &'a str {
        self.key
    }

    /// The value's JSON, as it is in the header.
    #[must_use]
    pub fn json(&self) -> &'a str {
        self.json
    }

    /// The value. One that nests deeper than a thousand levels is given as the text of its JSON.
    #[must_use]
    pub fn value(&self) -> Value {
        json::decode(self.json)
    }
}

/// The extra keys of all tensors of a file: their text in one piece, in the order of the header.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    text: String,
    list: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    entry: u32,
    start: u32,
    json: u32,
    end: u32,
}

impl Extras {
    /// Bytes of memory that a key takes beside its text.
    pub(crate) const MEMORY: u64 = 2 * size_of::<Place>() as u64;

    /// Adds a key of the last entry; `key` appends it to the text.
    pub(crate) fn push(&mut self, entry: u32, key: impl FnOnce(&mut String), json: &str) {
        let at = |text: &String| u32::try_from(text.len()).unwrap_or(u32::MAX);
        let start = at(&self.text);
        key(&mut self.text);
        let value = at(&self.text);
        self.text.push_str(json);
        self.list.push(Place {
            entry,
            start,
            json: value,
            end: at(&self.text),
        });
    }

    /// Gives back room for what did not come.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.list.shrink_to_fit();
    }

    /// Those of one entry.
    pub(crate) fn of(&self, entry: u32) -> impl Iterator<Item = Extra<'_>> {
        let first = self.list.partition_point(|place| place.entry < entry);
        let list = self.list.get(first..).unwrap_or_default().iter();
        let own = list.take_while(move |place| place.entry == entry);
        let text = |start: u32, end: u32| {
            let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            self.text.get(range)
        };
        own.map(move |place| Extra {
            key: text(place.start, place.json).unwrap_or_default(),
            json: text(place.json, place.end).unwrap_or_default(),
        })
    }
}
