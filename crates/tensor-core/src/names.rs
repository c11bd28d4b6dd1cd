use core::fmt;
use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Finds the position of a name in a list that somebody else holds: one table of positions, no
/// second copy of the names. The hash is seeded per process, so that a hostile file can't pick
/// names that collide.
///
/// ```
/// use tensor_core::NameTable;
///
/// let names = ["a", "b", "a"];
/// let mut table = NameTable::with_capacity(3);
/// assert_eq!(table.insert(0, |at| names[at]), Ok(()));
/// assert_eq!(table.insert(1, |at| names[at]), Ok(()));
/// assert_eq!(table.insert(2, |at| names[at]), Err(0));
/// assert_eq!(table.find("b", |at| names[at]), Some(1));
/// ```
#[derive(Clone, Default)]
pub struct NameTable {
    positions: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl NameTable {
    /// A table with room for `count` names. Take `count` from a list that is already in memory,
    /// never from a file's field.
    pub fn with_capacity(count: usize) -> Self {
        Self {
            positions: HashTable::with_capacity(count),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Adds the name at `position`; `name_of` gives the name at a position.
    ///
    /// # Errors
    /// The position of an equal name that is there already.
    pub fn insert<'a>(
        &mut self,
        position: usize,
        name_of: impl Fn(usize) -> &'a str,
    ) -> Result<(), usize> {
        let name = name_of(position);
        let hash = self.hasher.hash_one(name);
        let entry = self.positions.entry(
            hash,
            |&other| name_of(other) == name,
            |&other| self.hasher.hash_one(name_of(other)),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(occupied) => Err(*occupied.get()),
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                vacant.insert(position);
                Ok(())
            }
        }
    }

    /// The position of `name`.
    pub fn find<'a>(&self, name: &str, name_of: impl Fn(usize) -> &'a str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        self.positions
            .find(hash, |&position| name_of(position) == name)
            .copied()
    }
}

impl fmt::Debug for NameTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameTable")
            .field("len", &self.positions.len())
            .finish_non_exhaustive()
    }
}
