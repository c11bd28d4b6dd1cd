//! Work on bytes that several tensors share is done once.

use std::collections::HashMap;

use tensorfmt::{DType, Entry};

/// Below so many bytes it is quicker to do the work again than to remember it.
const WORTH: u64 = 1 << 10;
/// How many results are remembered at once; few files share anything at all, and what does is most often
/// side by side.
const MOST: usize = 1 << 12;

/// Where a tensor's bytes are, and as what they are read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    offset: u64,
    stored: u64,
    nbytes: Option<u64>,
    dtype: Option<DType>,
    dtype_name: String,
    encoding: String,
}

impl Key {
    /// `None` where sharing isn't worth a thought, or an offset doesn't say which bytes they are: those of a
    /// set are in its parts.
    fn of(entry: &Entry<'_>) -> Option<Self> {
        if matches!(entry, Entry::AeroSet(_)) {
            return None;
        }
        let stored = entry.stored_len()?;
        let nbytes = entry.nbytes();
        (nbytes.unwrap_or(stored).max(stored) >= WORTH).then(|| Self {
            offset: entry.offset(),
            stored,
            nbytes,
            dtype: entry.dtype(),
            dtype_name: entry.dtype_name().into_owned(),
            encoding: entry.encoding().into_owned(),
        })
    }
}

/// What was found for bytes, by where they are.
#[derive(Debug)]
pub(crate) struct Shared<T>(HashMap<Key, T>);

impl<T: Clone> Shared<T> {
    pub(crate) fn new() -> Self {
        Self(HashMap::new())
    }

    /// What is found for each of the entries: `work` is asked for those that are not known, by their numbers,
    /// and of several with the same bytes for the first.
    pub(crate) fn find<E>(
        &mut self,
        entries: &[Entry<'_>],
        work: impl FnOnce(&[usize]) -> Result<Vec<T>, E>,
    ) -> Result<Vec<T>, E> {
        let keys: Vec<Option<Key>> = entries.iter().map(Key::of).collect();
        let mut first: HashMap<&Key, usize> = HashMap::new();
        let mut asked = Vec::with_capacity(entries.len());
        // Where each entry's result is: among the asked ones, or known already.
        let mut places = Vec::with_capacity(entries.len());
        for (at, key) in keys.iter().enumerate() {
            let known = key.as_ref().and_then(|key| self.0.get(key).cloned());
            let place = match (known, key) {
                (Some(known), _) => Err(known),
                (None, Some(key)) => Ok(*first.entry(key).or_insert_with(|| {
                    asked.push(at);
                    asked.len() - 1
                })),
                (None, None) => {
                    asked.push(at);
                    Ok(asked.len() - 1)
                }
            };
            places.push(place);
        }
        let found = work(&asked)?;
        for (&at, found) in asked.iter().zip(&found) {
            if let Some(key) = keys.get(at).cloned().flatten() {
                if self.0.len() >= MOST {
                    self.0.clear();
                }
                self.0.insert(key, found.clone());
            }
        }
        let result = |place: Result<usize, T>| match place {
            Ok(at) => found.get(at).cloned(),
            Err(known) => Some(known),
        };
        Ok(places.into_iter().filter_map(result).collect())
    }
}
