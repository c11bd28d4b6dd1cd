use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use core::mem::size_of;

use foldhash::fast::RandomState;

/// Finds the position of a name in a list that somebody else holds: one table of positions, no
/// second copy of the names.
///
/// The hash differs from one process to the next, so that names which collide in one don't in
/// another. It is a fast one, and no proof against names chosen with great effort to collide under
/// any seed: such names make a look-up slow, never wrong, and their number has a limit.
///
/// All calls on one table take the same list (which may have grown) and the same `name_of`.
///
/// ```
/// use tensor_core::codec::NameTable;
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
    /// At least half as many again as names: each name is in the first free slot from its home on,
    /// which a hash has in proportion, so that any number of slots will do.
    slots: Vec<Slot>,
    len: usize,
    hasher: RandomState,
}

/// Nothing, or a position and bits of its name's hash: names that differ are told apart without
/// being looked at, which would be two reads far apart. All zeros are nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot(u64);

impl Slot {
    const FREE: Self = Self(0);
    /// A list of more items does not fit the memory of any machine.
    const POSITION_BITS: u32 = 40;

    fn new(position: usize, hash: u64) -> Self {
        // The home comes from the highest bits.
        let check = hash << Self::POSITION_BITS;
        Self(check | (position as u64 + 1))
    }

    /// `None` where the slot is free.
    fn position(self) -> Option<usize> {
        let position = self.0 & ((1 << Self::POSITION_BITS) - 1);
        usize::try_from(position.checked_sub(1)?).ok()
    }

    /// Whether the name at its position may have this hash.
    fn may_have(self, hash: u64) -> bool {
        (self.0 ^ hash << Self::POSITION_BITS) >> Self::POSITION_BITS == 0
    }
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
    /// The most bytes of memory that a name takes in a table made for as many as it has.
    pub const MEMORY: u64 = 2 * size_of::<Slot>() as u64;

    /// An empty table with room for so many names.
    ///
    /// [`push`](Self::push) has an example.
    #[must_use]
    pub fn with_capacity(names: usize) -> Self {
        Self {
            slots: alloc::vec![Slot::FREE; slots_for(names)],
            len: 0,
            hasher: RandomState::default(),
        }
    }

    /// The table of all names of `list`.
    ///
    /// # Errors
    /// The first duplicate.
    pub fn of<T>(list: &[T], name_of: impl Fn(&T) -> &str) -> Result<Self, DuplicateName> {
        Self::of_positions(list.len(), |at| list.get(at).map_or("", &name_of))
    }

    /// The table of so many names that are in no list: `name_at` knows the one at a position.
    ///
    /// ```
    /// use tensor_core::codec::NameTable;
    ///
    /// let names = "a.b.c";
    /// let name_at = |at: usize| &names[2 * at..2 * at + 1];
    /// let table = NameTable::of_positions(3, name_at).unwrap();
    /// assert_eq!(table.find_at(name_at, "c"), Some(2));
    /// ```
    ///
    /// # Errors
    /// The first duplicate.
    pub fn of_positions<'a>(
        names: usize,
        name_at: impl Fn(usize) -> &'a str,
    ) -> Result<Self, DuplicateName> {
        let mut twice = None;
        let table = Self::default().with_positions(names, name_at, |first, second| {
            twice = Some(DuplicateName { first, second });
            false
        });
        match twice {
            None => Ok(table),
            Some(twice) => Err(twice),
        }
    }

    /// The table of this many names; `repeated` is told of each that is at an earlier position too, which
    /// stays in the table, and whether to go on is its answer.
    pub(crate) fn with_positions<'a>(
        mut self,
        names: usize,
        name_at: impl Fn(usize) -> &'a str,
        mut repeated: impl FnMut(usize, usize) -> bool,
    ) -> Self {
        /// As many reads as a core has on their way to memory at once.
        const BATCH: usize = 16;
        self.slots = alloc::vec![Slot::FREE; slots_for(names)];
        for start in (0..names).step_by(BATCH) {
            let batch = start..names.min(start.saturating_add(BATCH));
            let mut hashes = [0; BATCH];
            for (hash, at) in hashes.iter_mut().zip(batch.clone()) {
                *hash = self.hasher.hash_one(name_at(at));
            }
            // Read all slots now, not each when it is needed: they are far apart.
            let slot = |hash| self.slots.get(self.home(hash)).map_or(0, |slot| slot.0);
            core::hint::black_box(hashes.map(slot));
            for (hash, second) in hashes.into_iter().zip(batch) {
                if let Err(first) = self.insert_hashed(&name_at, second, hash) {
                    if !repeated(first, second) {
                        return self;
                    }
                }
            }
        }
        self
    }

    /// Adds the name at `position` of `list`.
    ///
    /// [`push`](Self::push) has an example.
    ///
    /// # Errors
    /// The position of an equal name that was added before, and this name; nothing was added.
    pub fn insert<T>(
        &mut self,
        list: &[T],
        name_of: impl Fn(&T) -> &str,
        position: usize,
    ) -> Result<(), DuplicateName> {
        if slots_for(self.len + 1) > self.slots.len() {
            self.grow(list, &name_of);
        }
        let name = list.get(position).map_or("", &name_of);
        let hash = self.hasher.hash_one(name);
        let name_at = |at: usize| list.get(at).map_or("", &name_of);
        self.insert_hashed(&name_at, position, hash)
            .map_err(|first| DuplicateName {
                first,
                second: position,
            })
    }

    /// Makes room for as many names again.
    fn grow<T>(&mut self, list: &[T], name_of: &impl Fn(&T) -> &str) {
        let slots = alloc::vec![Slot::FREE; slots_for((self.len + 1) * 2).max(8)];
        for slot in core::mem::replace(&mut self.slots, slots) {
            if let Some(position) = slot.position() {
                let name = list.get(position).map_or("", name_of);
                let hash = self.hasher.hash_one(name);
                let _ = self.slot(hash, |_| false).map_err(|free| {
                    if let Some(free) = self.slots.get_mut(free) {
                        *free = slot;
                    }
                });
            }
        }
    }

    /// Adds a name to a table that has a free slot, or gives the position that has the same one.
    fn insert_hashed<'a>(
        &mut self,
        name_at: &impl Fn(usize) -> &'a str,
        position: usize,
        hash: u64,
    ) -> Result<(), usize> {
        match self.slot(hash, |at| name_at(at) == name_at(position)) {
            Ok(first) => Err(first),
            Err(free) => {
                if let Some(slot) = self.slots.get_mut(free) {
                    *slot = Slot::new(position, hash);
                    self.len += 1;
                }
                Ok(())
            }
        }
    }

    /// The position with this hash that `is_it` accepts, or else the free slot where it would be.
    fn slot(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let home = self.home(hash);
        let slots = self.slots.iter().enumerate();
        // Around the end, to the slots before the home.
        for (index, slot) in slots.clone().skip(home).chain(slots) {
            match slot.position() {
                None => return Err(index),
                Some(position) if slot.may_have(hash) && is_it(position) => return Ok(position),
                Some(_) => {}
            }
        }
        Err(usize::MAX)
    }

    fn home(&self, hash: u64) -> usize {
        let slots = self.slots.len() as u128;
        usize::try_from((u128::from(hash) * slots) >> 64).unwrap_or(0)
    }

    /// Appends `item` to `list` and adds its name, or gives it back where the name is taken.
    ///
    /// # Errors
    /// The item, if the name is taken; `list` is then as it was.
    ///
    /// ```
    /// use tensor_core::codec::NameTable;
    ///
    /// let mut list = vec!["embed"];
    /// let mut table = NameTable::with_capacity(2);
    /// table.insert(&list, |item| item, 0).map_err(|_| "a duplicate")?;
    /// table.push(&mut list, |item| item, "head").map_err(|_| "a duplicate")?;
    /// assert_eq!(table.push(&mut list, |item| item, "head"), Err("head"));
    /// assert_eq!(table.find(&list, |item| item, "head"), Some(1));
    /// # Ok::<(), &str>(())
    /// ```
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
    /// use tensor_core::codec::NameTable;
    ///
    /// let table = NameTable::of(&["a", "b"], |name| name).unwrap();
    /// let reversed = ["b", "a"];
    /// assert_eq!(table.find_at(|position| reversed[1 - position], "b"), Some(1));
    /// ```
    pub fn find_at<'a>(&self, name_at: impl Fn(usize) -> &'a str, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        self.slot(hash, |position| name_at(position) == name).ok()
    }

    /// The position of `name` in `list`.
    pub fn find<T>(&self, list: &[T], name_of: impl Fn(&T) -> &str, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        let name_at = |at: usize| list.get(at).map(&name_of);
        self.slot(hash, |position| name_at(position) == Some(name))
            .ok()
    }
}

/// How many slots so many names get: some are always free, or a search would not end.
fn slots_for(names: usize) -> usize {
    match names {
        0 => 0,
        _ => names.saturating_add(names / 2).saturating_add(1),
    }
}

impl fmt::Debug for NameTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameTable")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    #[test]
    fn all_names_are_found_and_their_duplicates_named() {
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
    fn a_table_takes_no_more_than_it_says() {
        for names in 1..100 {
            assert!(
                (slots_for(names) * size_of::<Slot>()) as u64 <= names as u64 * NameTable::MEMORY
            );
            assert!(slots_for(names) > names);
        }
    }

    #[test]
    fn a_table_that_grows_finds_what_one_made_at_once_finds() {
        let (mut list, mut table) = (Vec::new(), NameTable::default());
        assert_eq!(table.find(&list, String::as_str, "0"), None);
        for i in 0..5000 {
            let name = format!("{}", i % 3000);
            let pushed = table.push(&mut list, String::as_str, name.clone());
            assert_eq!(pushed, if i < 3000 { Ok(()) } else { Err(name) });
            // Never more than two in three, so that a search ends soon.
            assert!(table.len * 3 < table.slots.len() * 2 + 3);
        }
        for i in 0..5000 {
            let found = table.find(&list, String::as_str, &format!("{i}"));
            assert_eq!(found, (i < 3000).then_some(i));
        }
        list.push("5".into());
        let twice = table.insert(&list, String::as_str, 3000).unwrap_err();
        assert_eq!((twice.first, twice.second), (5, 3000));
    }

    #[test]
    fn a_slot_holds_its_position_and_knows_its_hash() {
        let hash = 0x1234_5678_9ABC_DEF0;
        let last = usize::try_from((1u64 << 40) - 2).unwrap_or(usize::MAX);
        let slot = Slot::new(last, hash);
        assert_eq!(slot.position(), Some(last));
        assert!(slot.may_have(hash) && !slot.may_have(hash ^ 1 << 20));
        assert_eq!(Slot::new(0, 0).position(), Some(0));
        assert_eq!(Slot::FREE.position(), None);
    }
}
