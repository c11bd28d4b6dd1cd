use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use core::mem::size_of;

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
    slots: HashTable<Slot>,
    hasher: DefaultHashBuilder,
}

/// A position, and bits of its name's hash: names that differ are told apart without being looked
/// at, which would be two reads far apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot(u64);

impl Slot {
    /// A list of more items does not fit the memory of any machine.
    const POSITION_BITS: u32 = 40;

    fn new(position: usize, hash: u64) -> Self {
        // The table itself uses the lowest bits and the highest seven.
        let check = hash << 7 >> Self::POSITION_BITS << Self::POSITION_BITS;
        Self(check | position as u64)
    }

    fn position(self) -> usize {
        let position = self.0 & ((1 << Self::POSITION_BITS) - 1);
        usize::try_from(position).unwrap_or(usize::MAX)
    }

    /// Whether the name at its position may have this hash.
    fn may_have(self, hash: u64) -> bool {
        (self.0 ^ Self::new(0, hash).0) >> Self::POSITION_BITS == 0
    }
}

/// Bytes of a table that stay in a core's cache while it is filled.
const CACHED: usize = 1 << 20;

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
            slots: HashTable::with_capacity(list.len()),
            hasher: DefaultHashBuilder::default(),
        };
        let parts = (table.slots.capacity() * size_of::<Slot>() / CACHED).next_power_of_two();
        if parts == 1 || table.fill_in_parts(list, &name_of, parts).is_none() {
            table.slots.clear();
            for position in 0..list.len() {
                table.insert(list, &name_of, position)?;
            }
        }
        Ok(table)
    }

    /// Adds all names, one part of the table after the other instead of here and there; `None`
    /// where a name is there twice.
    fn fill_in_parts<T>(
        &mut self,
        list: &[T],
        name_of: &impl Fn(&T) -> &str,
        parts: usize,
    ) -> Option<()> {
        let hash = |item| self.hasher.hash_one(name_of(item));
        let hashes: Vec<u64> = list.iter().map(hash).collect();
        // Where a hash goes in the table depends on as many low bits as the table has.
        let slots = self.slots.num_buckets().max(1) as u64;
        let part_len = (slots / parts as u64).max(1);
        for part in 0..parts as u64 {
            for (position, &hash) in hashes.iter().enumerate() {
                if (hash & (slots - 1)) / part_len == part {
                    self.insert_hashed(list, name_of, position, hash).ok()?;
                }
            }
        }
        Some(())
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
        let name = list.get(position).map_or("", &name_of);
        let hash = self.hasher.hash_one(name);
        self.insert_hashed(list, &name_of, position, hash)
    }

    fn insert_hashed<T>(
        &mut self,
        list: &[T],
        name_of: &impl Fn(&T) -> &str,
        position: usize,
        hash: u64,
    ) -> Result<(), DuplicateName> {
        let name_at = |at: usize| list.get(at).map_or("", name_of);
        let is_it =
            |slot: &Slot| slot.may_have(hash) && name_at(slot.position()) == name_at(position);
        let hash_of = |slot: &Slot| self.hasher.hash_one(name_at(slot.position()));
        match self.slots.entry(hash, is_it, hash_of) {
            hash_table::Entry::Occupied(occupied) => Err(DuplicateName {
                first: occupied.get().position(),
                second: position,
            }),
            hash_table::Entry::Vacant(vacant) => {
                vacant.insert(Slot::new(position, hash));
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
        list: &mut Vec<T>,
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
        let is_it = |slot: &Slot| slot.may_have(hash) && name_at(slot.position()) == name;
        self.slots.find(hash, is_it).map(|slot| slot.position())
    }

    /// The position of `name` in `list`.
    pub fn find<T>(&self, list: &[T], name_of: impl Fn(&T) -> &str, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        let name_at = |at: usize| list.get(at).map(&name_of);
        let is_it = |slot: &Slot| slot.may_have(hash) && name_at(slot.position()) == Some(name);
        self.slots.find(hash, is_it).map(|slot| slot.position())
    }
}

impl fmt::Debug for NameTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameTable")
            .field("len", &self.slots.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// Large lists are added in parts: every name is found, and the first pair is reported.
    #[test]
    fn large_lists_are_found_and_their_duplicates_named() {
        let mut list: Vec<String> = (0..300_000).map(|i| format!("layer.{i}")).collect();
        let table = NameTable::of(&list, String::as_str).unwrap();
        for (position, name) in list.iter().enumerate() {
            assert_eq!(table.find(&list, String::as_str, name), Some(position));
        }
        assert_eq!(table.find(&list, String::as_str, "layer.x"), None);
        list[200_000] = "layer.7".into();
        list[250_000] = "layer.3".into();
        let twice = NameTable::of(&list, String::as_str).unwrap_err();
        assert_eq!((twice.first, twice.second), (7, 200_000));
    }

    #[test]
    fn a_slot_holds_its_position_and_knows_its_hash() {
        let hash = 0x1234_5678_9ABC_DEF0;
        let slot = Slot::new((1 << 40) - 1, hash);
        assert_eq!(slot.position(), (1 << 40) - 1);
        assert!(slot.may_have(hash) && !slot.may_have(hash ^ 1 << 50));
    }
}
