use core::fmt;
use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};

/// Finds the position of a name in a list that somebody else holds: one table of positions, no
/// second copy of the names. The hash is seeded per process, so that a hostile file can't pick
/// names that collide.
///
/// All calls on one table take the same list (which may have grown) and the same `name_of`.
///
/// ```
/// use tensor_core::NameTable;
///
/// let list = ["a", "b"];
/// let table = NameTable::of(&list, |name| name).unwrap();
/// assert_eq!(table.find(&list, |name| name, "b"), Some(1));
/// assert_eq!(table.find(&list, |name| name, "c"), None);
///
/// let twice = NameTable::of(&["a", "b", "a"], |name| name).unwrap_err();
/// assert_eq!((twice.first, twice.second), (0, 2));
/// ```
#[derive(Clone, Default)]
pub struct NameTable {
    positions: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

/// Two positions of a list that have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateName {
    /// The lower position.
    pub first: usize,
    /// The higher one.
    pub second: usize,
}

impl NameTable {
    /// The most bytes of memory that a name takes in the table of a list that is complete.
    pub const MEMORY: u64 = {
        // A position and a byte for its slot, of which up to eight in seven, rounded up to a power
        // of two, are there.
        (size_of::<usize>() as u64 + 1) * 16 / 7 + 1
    };

    /// The table of all names of `list`.
    ///
    /// # Errors
    /// The first name that is there twice.
    pub fn of<T>(list: &[T], name_of: impl Fn(&T) -> &str) -> Result<Self, DuplicateName> {
        let mut table = Self {
            positions: HashTable::with_capacity(list.len()),
            hasher: DefaultHashBuilder::default(),
        };
        for position in 0..list.len() {
            table.insert(list, &name_of, position)?;
        }
        Ok(table)
    }

    /// Adds the name at `position` of `list`.
    ///
    /// # Errors
    /// The position of an equal name that is there already, and this one; nothing was added.
    pub fn insert<T>(
        &mut self,
        list: &[T],
        name_of: impl Fn(&T) -> &str,
        position: usize,
    ) -> Result<(), DuplicateName> {
        let name_at = |at: usize| list.get(at).map_or("", &name_of);
        let name = name_at(position);
        let entry = self.positions.entry(
            self.hasher.hash_one(name),
            |&other| name_at(other) == name,
            |&other| self.hasher.hash_one(name_at(other)),
        );
        match entry {
            hash_table::Entry::Occupied(occupied) => Err(DuplicateName {
                first: *occupied.get(),
                second: position,
            }),
            hash_table::Entry::Vacant(vacant) => {
                vacant.insert(position);
                Ok(())
            }
        }
    }

    /// Appends `item` to `list` and adds its name, or gives it back where the name is taken.
    ///
    /// # Errors
    /// The item, if the name is taken; `list` is then as it was.
    pub fn push<T>(
        &mut self,
        list: &mut alloc::vec::Vec<T>,
        name_of: impl Fn(&T) -> &str,
        item: T,
    ) -> Result<(), T> {
        let position = list.len();
        list.push(item);
        match self.insert(list, name_of, position) {
            Ok(()) => Ok(()),
            Err(_) => list.pop().map_or(Ok(()), Err),
        }
    }

    /// The position of `name`, where the names are no longer in a list of their own order: asks
    /// for the one at a position.
    ///
    /// ```
    /// use tensor_core::NameTable;
    ///
    /// let table = NameTable::of(&["a", "b"], |name| name).unwrap();
    /// let reversed = ["b", "a"];
    /// assert_eq!(table.find_at(|position| reversed[1 - position], "b"), Some(1));
    /// ```
    pub fn find_at<'a>(&self, name_at: impl Fn(usize) -> &'a str, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        self.positions
            .find(hash, |&at| name_at(at) == name)
            .copied()
    }

    /// The position of `name` in `list`.
    pub fn find<T>(&self, list: &[T], name_of: impl Fn(&T) -> &str, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        let is_it = |&at: &usize| list.get(at).is_some_and(|item| name_of(item) == name);
        self.positions.find(hash, is_it).copied()
    }
}

impl fmt::Debug for NameTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameTable")
            .field("len", &self.positions.len())
            .finish_non_exhaustive()
    }
}
