//! What an index of very many tensors is made of: names in one block, shapes that are held once, and
//! views of entries instead of entries.

use alloc::collections::TryReserveError;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::mem::{size_of, size_of_val};
use core::ops::Range;

use crate::codec::{DuplicateName, NameTable};
use crate::{Shape, ShapeError};

/// Something that has entries, and makes a view of one on demand.
///
/// A codec implements it for its archive, whose index holds a small record for each tensor instead of a
/// struct with a name and a shape of its own.
pub trait HasEntries {
    /// The view: cheap to make and to copy.
    type Entry<'a>: Copy
    where
        Self: 'a;

    /// How many entries there are.
    fn entry_count(&self) -> usize;

    /// The entry at a position, `None` after the last one.
    fn entry_at(&self, position: usize) -> Option<Self::Entry<'_>>;
}

/// The entries of an archive, in file order: an iterator that also gives the one at a position. Cheap to
/// clone.
///
/// It is what an archive's `entries` returns:
///
/// ```
/// use tensor_core::Entries;
/// use tensor_core::codec::HasEntries;
///
/// /// An archive of three tensors, named by their numbers.
/// struct Three;
///
/// impl HasEntries for Three {
///     type Entry<'a> = usize;
///     fn entry_count(&self) -> usize {
///         3
///     }
///     fn entry_at(&self, position: usize) -> Option<usize> {
///         (position < 3).then_some(position)
///     }
/// }
///
/// let mut entries = Entries::of(&Three);
/// assert_eq!((entries.len(), entries.first(), entries.get(2)), (3, Some(0), Some(2)));
/// assert_eq!(entries.iter().rev().collect::<Vec<_>>(), [2, 1, 0]);
/// assert_eq!(entries.next(), Some(0));
/// assert_eq!((entries.first(), entries.is_empty()), (Some(1), false));
/// ```
pub struct Entries<'a, A: ?Sized> {
    archive: &'a A,
    range: Range<usize>,
}

impl<'a, A: HasEntries + ?Sized> Entries<'a, A> {
    /// All entries of `archive`.
    pub fn of(archive: &'a A) -> Self {
        Self {
            archive,
            range: 0..archive.entry_count(),
        }
    }

    /// The entry at a position, counted from the first one that is still to come.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<A::Entry<'a>> {
        let at = self.range.start.checked_add(position)?;
        if at >= self.range.end {
            return None;
        }
        self.archive.entry_at(at)
    }

    /// Those at positions of `range`, counted as [`get`](Self::get) does.
    ///
    /// ```
    /// # use tensor_core::codec::HasEntries;
    /// # struct Letters;
    /// # impl HasEntries for Letters {
    /// #     type Entry<'a> = usize;
    /// #     fn entry_count(&self) -> usize { 5 }
    /// #     fn entry_at(&self, position: usize) -> Option<usize> { Some(position) }
    /// # }
    /// let entries = tensor_core::Entries::of(&Letters);
    /// assert_eq!(entries.slice(1..3).collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(entries.slice(4..9).len(), 1);
    /// ```
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        let at = |position: usize| {
            self.range
                .start
                .saturating_add(position)
                .min(self.range.end)
        };
        Self {
            archive: self.archive,
            range: at(range.start)..at(range.end),
        }
    }

    /// The first entry that is still to come.
    #[must_use]
    pub fn first(&self) -> Option<A::Entry<'a>> {
        self.get(0)
    }

    /// Whether no entry is still to come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// An iterator of the entries that are still to come, as a slice has it.
    #[must_use]
    pub fn iter(&self) -> Self {
        self.clone()
    }
}

impl<A: ?Sized> Clone for Entries<'_, A> {
    fn clone(&self) -> Self {
        Self {
            archive: self.archive,
            range: self.range.clone(),
        }
    }
}

impl<'a, A: HasEntries + ?Sized> Iterator for Entries<'a, A> {
    type Item = A::Entry<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.archive.entry_at(self.range.next()?)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.archive.entry_at(self.range.nth(n)?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl<'a, A: HasEntries + ?Sized> IntoIterator for &Entries<'a, A> {
    type Item = A::Entry<'a>;
    type IntoIter = Entries<'a, A>;

    fn into_iter(self) -> Self::IntoIter {
        self.clone()
    }
}

impl<A: HasEntries + ?Sized> DoubleEndedIterator for Entries<'_, A> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.archive.entry_at(self.range.next_back()?)
    }
}

impl<A: HasEntries + ?Sized> ExactSizeIterator for Entries<'_, A> {}

impl<A: HasEntries + ?Sized> FusedIterator for Entries<'_, A> {}

impl<A: ?Sized> fmt::Debug for Entries<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entries").field(&self.range).finish()
    }
}

/// By how much a list grows that has no room for `more`: as much again while it is short, later an eighth, so
/// that what a long one has to spare is little beside the file.
pub(crate) fn step(len: usize, capacity: usize, more: usize) -> usize {
    const LONG: usize = 1 << 16;
    if capacity.saturating_sub(len) >= more {
        return 0;
    }
    let step = if len < LONG { len } else { len / 8 };
    step.max(more).max(8)
}

fn step_of<T>(list: &Vec<T>) -> usize {
    step(list.len(), list.capacity(), 1)
}

/// Adds an item to a long list, which then has little to spare: an eighth of its length where it grows.
///
/// ```
/// let mut list = Vec::new();
/// for number in 0..100_000 {
///     tensor_core::codec::append(&mut list, number);
/// }
/// assert!(list.capacity() < 100_000 / 8 * 9);
/// ```
pub fn append<T>(list: &mut Vec<T>, item: T) {
    list.reserve_exact(step_of(list));
    list.push(item);
}

/// The names of all tensors of a file: one block of text, and a table to look them up.
///
/// ```
/// use tensor_core::codec::Names;
///
/// let mut names = Names::default();
/// names.push("embed");
/// names.push("head");
/// names.index().unwrap();
/// assert_eq!(names.get(1), "head");
/// assert_eq!(names.find("embed"), Some(0));
///
/// names.push("head");
/// assert_eq!(names.index().unwrap_err().second, 2);
/// ```
///
/// Names made in place, and room for them:
///
/// ```
/// use tensor_core::codec::Names;
///
/// let mut names = Names::default();
/// names.reserve(2); // or, where that may fail:
/// names.try_reserve(2)?;
/// names.try_reserve_text(20)?;
/// names.push_with(|text| text.push_str("encoder."));
/// names.push("head");
/// assert_eq!((names.len(), names.is_empty(), names.text_len()), (2, false, 12));
/// names.index_first(1).map_err(|_| "a duplicate")?;
/// assert_eq!((names.find("encoder."), names.find("head")), (Some(0), None));
/// assert!(names.memory() >= 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Names {
    text: String,
    ends: Vec<usize>,
    table: NameTable,
}

impl Names {
    /// Bytes of memory that a name takes beside its text.
    pub const MEMORY: u64 = NameTable::MEMORY + size_of::<usize>() as u64;

    /// Makes room for so many names.
    pub fn reserve(&mut self, names: usize) {
        self.ends.reserve_exact(names);
    }

    /// Makes room for so many names, if there is memory for them.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub fn try_reserve(&mut self, names: usize) -> Result<(), TryReserveError> {
        self.ends.try_reserve_exact(names)
    }

    /// Makes room for so many more bytes of the names' text, if there is memory for them.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub fn try_reserve_text(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        self.text.try_reserve_exact(bytes)
    }

    /// Bytes of the text of all names so far.
    #[must_use]
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Adds a name, which is found only after [`index`](Self::index).
    pub fn push(&mut self, name: &str) {
        let step = step(self.text.len(), self.text.capacity(), name.len());
        self.text.reserve_exact(step);
        self.push_with(|text| text.push_str(name));
    }

    /// Adds the name that `write` appends to the text of those before it.
    pub fn push_with(&mut self, write: impl FnOnce(&mut String)) {
        write(&mut self.text);
        append(&mut self.ends, self.text.len());
    }

    /// The name at a position; empty after the last one.
    #[must_use]
    pub fn get(&self, position: usize) -> &str {
        let end = self.ends.get(position).copied().unwrap_or(0);
        let before = position.checked_sub(1);
        let start = before.and_then(|before| self.ends.get(before)).copied();
        self.text.get(start.unwrap_or(0)..end).unwrap_or_default()
    }

    /// Makes the table of all names, and gives back what was reserved for more.
    ///
    /// # Errors
    /// The first duplicate name.
    pub fn index(&mut self) -> Result<(), DuplicateName> {
        self.index_first(self.ends.len())
    }

    /// Makes the table of the first `names` names alone; the others have a position, but are not found.
    ///
    /// # Errors
    /// The first duplicate among them.
    pub fn index_first(&mut self, names: usize) -> Result<(), DuplicateName> {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        let names = names.min(self.ends.len());
        self.table = NameTable::of_positions(names, |at| self.get(at))?;
        Ok(())
    }

    /// Makes the table where names may be duplicates: one then stands for its first position. Returns the
    /// others.
    ///
    /// ```
    /// let mut names = tensor_core::codec::Names::default();
    /// for name in ["a", "b", "a"] {
    ///     names.push(name);
    /// }
    /// assert_eq!(names.index_repeated(), [2]);
    /// assert_eq!(names.find("a"), Some(0));
    /// ```
    pub fn index_repeated(&mut self) -> Vec<usize> {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        let mut repeated = Vec::new();
        let (table, names) = (NameTable::default(), self.ends.len());
        self.table = table.with_positions(
            names,
            |at| self.get(at),
            |_, second| {
                append(&mut repeated, second);
                true
            },
        );
        repeated
    }

    /// The position of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.table.find_at(|at| self.get(at), name)
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes that all names take, with the table of them.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let names = (self.ends.len() as u64).saturating_mul(Self::MEMORY);
        names.saturating_add(self.text.len() as u64)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = (0..self.len()).map(|at| self.get(at));
        f.debug_list().entries(names).finish()
    }
}

/// Which of the shapes of a [`Shapes`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeId(u32);

impl ShapeId {
    /// Of no shape of any list: it gives that of a scalar.
    pub const NONE: Self = Self(u32::MAX);
}

/// The shapes of all tensors of a file, of which many have the same: those that come again soon are held
/// once.
///
/// ```
/// use tensor_core::codec::Shapes;
///
/// let mut shapes = Shapes::default();
/// let a = shapes.push(&[2, 3])?;
/// let b = shapes.push(&[4])?;
/// assert_eq!(shapes.push(&[2, 3])?, a);
/// assert_eq!(shapes.get(b).dims(), [4]);
/// # Ok::<(), tensor_core::ShapeError>(())
/// ```
#[derive(Clone, Default)]
pub struct Shapes {
    shapes: Vec<Shape>,
    /// Where the last shape of each hash is.
    recent: Vec<u32>,
    heap: u64,
}

impl Shapes {
    /// How many hashes are told apart; a model has few shapes.
    const RECENT: usize = 1024;

    /// Adds a shape, unless it is known.
    ///
    /// # Errors
    /// [`ShapeError::Overflow`] when the product of the dims does not fit, or there are more shapes than
    /// any file has.
    pub fn push(&mut self, dims: &[u64]) -> Result<ShapeId, ShapeError> {
        if self.recent.is_empty() {
            self.recent = alloc::vec![u32::MAX; Self::RECENT];
        }
        let mix = |hash: u64, dim: &u64| {
            let mixed = (hash ^ dim).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 29)
        };
        let hash = dims.iter().fold(dims.len() as u64, mix);
        let slot = usize::try_from(hash >> 32).unwrap_or(0) % Self::RECENT;
        let Some(recent) = self.recent.get_mut(slot) else {
            return Err(ShapeError::Overflow);
        };
        let known = usize::try_from(*recent).ok();
        let known = known.and_then(|known| self.shapes.get(known));
        if known.is_some_and(|known| known.dims() == dims) {
            return Ok(ShapeId(*recent));
        }
        let shape = Shape::new(dims)?;
        let id = u32::try_from(self.shapes.len()).map_err(|_| ShapeError::Overflow)?;
        self.heap = self.heap.saturating_add(shape.heap_bytes());
        append(&mut self.shapes, shape);
        *recent = id;
        Ok(ShapeId(id))
    }

    /// The shape of an id of this list.
    #[must_use]
    pub fn get(&self, id: ShapeId) -> &Shape {
        static SCALAR: Shape = Shape::SCALAR;
        let at = usize::try_from(id.0).ok();
        at.and_then(|at| self.shapes.get(at)).unwrap_or(&SCALAR)
    }

    /// Gives back what was reserved for more shapes.
    ///
    /// ```
    /// use tensor_core::codec::Shapes;
    ///
    /// let mut shapes = Shapes::default();
    /// let id = shapes.push(&[2, 3])?;
    /// shapes.shrink();
    /// assert!(shapes.memory() > 0 && shapes.get(id).rank() == 2);
    /// # Ok::<(), tensor_core::ShapeError>(())
    /// ```
    pub fn shrink(&mut self) {
        self.recent = Vec::new();
        self.shapes.shrink_to_fit();
    }

    /// Bytes that all shapes take.
    ///
    /// ```
    /// use tensor_core::codec::Shapes;
    ///
    /// assert_eq!(Shapes::default().memory(), 0);
    /// ```
    #[must_use]
    pub fn memory(&self) -> u64 {
        let shapes = size_of_val::<[Shape]>(&self.shapes) as u64;
        shapes.saturating_add(self.heap)
    }
}

impl fmt::Debug for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.shapes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letters(&'static str);

    impl HasEntries for Letters {
        type Entry<'a> = &'a str;

        fn entry_count(&self) -> usize {
            self.0.len()
        }

        fn entry_at(&self, position: usize) -> Option<&str> {
            self.0.get(position..position + 1)
        }
    }

    #[test]
    fn entries_are_an_iterator_with_positions() {
        let letters = Letters("abcde");
        let mut entries = Entries::of(&letters);
        assert_eq!(
            (
                entries.len(),
                entries.first(),
                entries.get(4),
                entries.get(5)
            ),
            (5, Some("a"), Some("e"), None)
        );
        assert_eq!(
            (entries.next(), entries.next_back()),
            (Some("a"), Some("e"))
        );
        assert_eq!(
            (entries.get(0), entries.get(3), entries.len()),
            (Some("b"), None, 3)
        );
        assert_eq!(entries.iter().nth(1), Some("c"));
        assert_eq!(entries.get(usize::MAX), None);
        let rest: Vec<&str> = entries.collect();
        assert_eq!(rest, ["b", "c", "d"]);
        assert!(Entries::of(&Letters("")).is_empty());
    }

    #[test]
    fn names_keep_their_order_and_are_found() {
        let mut names = Names::default();
        for i in 0..1000 {
            names.push(&alloc::format!("layer.{i}"));
        }
        names.push("");
        names.index().unwrap();
        assert_eq!(
            (names.get(999), names.get(1000), names.get(1001)),
            ("layer.999", "", "")
        );
        assert_eq!(names.find("layer.500"), Some(500));
        assert_eq!((names.find(""), names.find("layer")), (Some(1000), None));
        names.push("layer.7");
        assert_eq!(names.index().unwrap_err().second, 1001);
        names.index_first(1001).unwrap();
        assert_eq!(
            (names.find("layer.7"), names.get(1001)),
            (Some(7), "layer.7")
        );
    }

    #[test]
    fn shapes_that_come_again_are_held_once_and_all_are_right() {
        let mut shapes = Shapes::default();
        let of = |i: u64| [i % 7, i % 5, 3];
        let ids: Vec<ShapeId> = (0..10_000).map(|i| shapes.push(&of(i)).unwrap()).collect();
        for (i, id) in (0..).zip(&ids) {
            assert_eq!(shapes.get(*id).dims(), of(i));
        }
        assert!(shapes.shapes.len() <= 100, "{}", shapes.shapes.len());
        // Dims whose order alone differs, and many that are all different.
        let (a, b) = (shapes.push(&[1, 2]).unwrap(), shapes.push(&[2, 1]).unwrap());
        assert_ne!(a, b);
        let many: Vec<ShapeId> = (0..5000).map(|i| shapes.push(&[i, 1]).unwrap()).collect();
        for (i, id) in (0..).zip(many) {
            assert_eq!(shapes.get(id).dims(), [i, 1]);
        }
        assert_eq!(shapes.push(&[u64::MAX, 2]), Err(ShapeError::Overflow));
    }
}
