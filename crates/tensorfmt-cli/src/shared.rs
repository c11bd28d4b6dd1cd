//! Work on bytes that several tensors share is done once.

use std::collections::HashMap;

use tensorfmt::{Archive, DType, Entry};

/// Below this many bytes it is quicker to do the work again than to remember it.
const WORTH: u64 = 1 << 10;
/// How many results are remembered at once; few files share anything at all, and what does is most often
/// side by side.
pub(crate) const MAX_REMEMBERED: usize = 1 << 12;

/// Where a tensor's bytes are, and as what they are read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    place: Place,
    stored: u64,
    nbytes: Option<u64>,
    dtype: Option<DType>,
    dtype_name: String,
    encoding: String,
}

impl Key {
    /// `None` where sharing isn't worth a thought, or nobody can say which bytes they are.
    pub(crate) fn of(archive: &Archive, entry: &Entry<'_>) -> Option<Self> {
        let stored = entry.stored_len()?;
        let nbytes = entry.nbytes();
        if nbytes.unwrap_or(stored).max(stored) < WORTH {
            return None;
        }
        Some(Self {
            place: Place::of(archive, entry)?,
            stored,
            nbytes,
            dtype: entry.dtype(),
            dtype_name: entry.dtype_name().into_owned(),
            encoding: entry.encoding().into_owned(),
        })
    }
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// A shard of an AERO set, which is in one of its parts.
    shard: Option<u32>,
    /// In the file, or in that part.
    offset: u64,
}

impl Place {
    fn of(archive: &Archive, entry: &Entry<'_>) -> Option<Self> {
        Some(match (archive, entry) {
            (Archive::AeroSet(set), Entry::AeroSet(entry)) => Self {
                shard: Some(entry.shard_id()),
                offset: set.offset(*entry).ok()?,
            },
            // No two tensors of its files overlap.
            (_, Entry::SafetensorsSet(_)) => return None,
            (_, entry) => Self {
                shard: None,
                offset: entry.offset(),
            },
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
        archive: &Archive,
        entries: &[Entry<'_>],
        work: impl FnOnce(&[usize]) -> Result<Vec<T>, E>,
    ) -> Result<Vec<T>, E> {
        let keys: Vec<Option<Key>> = entries
            .iter()
            .map(|entry| Key::of(archive, entry))
            .collect();
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
                if self.0.len() >= MAX_REMEMBERED {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tensorfmt::Archive;

    use super::*;

    fn open(crowd: &str, entries: usize) -> Archive {
        let mut crowds = test_data::crowds::CROWDS.iter();
        let crowd = crowds.rfind(|known| known.name == crowd).unwrap();
        let file = crowd.make(entries).files.swap_remove(0).1;
        Archive::from_bytes(file).unwrap()
    }

    /// How often work was asked for, and what was found, in batches of so many.
    fn work(known: &mut Shared<u64>, archive: &Archive, batch: usize) -> (usize, Vec<u64>) {
        let (mut asked, mut all) = (0, Vec::new());
        let entries: Vec<_> = archive.entries().collect();
        for entries in entries.chunks(batch) {
            let found = known.find(archive, entries, |wanted| {
                asked += wanted.len();
                let offsets = wanted.iter().map(|&at| entries[at].offset());
                Ok::<_, Infallible>(offsets.collect())
            });
            all.extend(found.unwrap_or_default());
        }
        (asked, all)
    }

    #[test]
    fn bytes_that_all_share_are_worked_on_once() {
        // Raw bytes, a compressed blob, and frames that can be sought in.
        for crowd in [
            "aero-shared",
            "ztensor-0.1-shared",
            "ztensor-0.1-blob",
            "ztensor-1.2-blob",
            "ztensor-2-seekable",
        ] {
            let archive = open(crowd, 50);
            let entries: Vec<_> = archive.entries().collect();
            let (asked, found) = work(&mut Shared::new(), &archive, 7);
            assert_eq!(asked, 1, "{crowd}");
            assert_eq!(found, vec![entries[0].offset(); 50], "{crowd}");
        }
    }

    #[test]
    fn bytes_that_all_of_a_set_share_are_worked_on_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut crowds = test_data::crowds::CROWDS.iter();
        let crowd = crowds.find(|crowd| crowd.name == "aeroset-shared");
        for (name, bytes) in crowd.unwrap().make(50).files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let archive = Archive::open(folder.path().join("crowd.aeroset.json")).unwrap();
        let (asked, found) = work(&mut Shared::new(), &archive, 7);
        assert_eq!((asked, found.len()), (1, 50));
    }

    #[test]
    fn each_tensor_gets_what_was_found_for_its_own_bytes() {
        let archive = open("safetensors-small", 50);
        let entries: Vec<_> = archive.entries().collect();
        let (asked, found) = work(&mut Shared::new(), &archive, 7);
        let offsets: Vec<u64> = entries.iter().map(|entry| entry.offset()).collect();
        assert_eq!((asked, found), (50, offsets));
    }

    #[test]
    fn the_same_bytes_as_another_dtype_are_other_values() {
        let archive = open("ztensor-0.1-shared", 1);
        let entries: Vec<_> = archive.entries().collect();
        let mut known = Shared::new();
        work(&mut known, &archive, 1);
        let mut key = Key::of(&archive, &entries[0]).unwrap();
        assert!(known.0.contains_key(&key));
        key.dtype = Some(DType::I8);
        assert!(!known.0.contains_key(&key));
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let archive = open("ztensor-0.1-shared", 1);
        let entries: Vec<_> = archive.entries().collect();
        let mut known: Shared<u64> = Shared::new();
        let key = Key::of(&archive, &entries[0]).unwrap();
        for offset in 0..MAX_REMEMBERED as u64 {
            let mut key = key.clone();
            key.place.offset = offset + 1_000_000;
            known.0.insert(key, 0);
        }
        let (asked, found) = work(&mut known, &archive, 1);
        assert_eq!((asked, found), (1, vec![entries[0].offset()]));
        assert_eq!(known.0.len(), 1);
    }
}
