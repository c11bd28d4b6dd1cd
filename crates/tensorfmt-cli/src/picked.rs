//! The tensors of a file that a command is about: no list of a million entries where it is about all.

use std::cmp::Ordering;

use tensorfmt::{Archive, Entry};

/// Some tensors of an archive, in file order unless they are sorted.
pub(crate) struct Picked<'a> {
    archive: &'a Archive,
    /// The positions of those that are left, where these are not all in file order.
    positions: Option<Vec<u32>>,
}

impl<'a> Picked<'a> {
    pub(crate) fn all(archive: &'a Archive) -> Self {
        Self {
            archive,
            positions: None,
        }
    }

    /// Keeps those that `keep` says.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Entry<'a>) -> bool) {
        let mut kept = Vec::new();
        for at in 0..self.len() {
            if self.get(at).is_some_and(|entry| keep(&entry)) {
                kept.extend(self.position(at));
            }
        }
        // Most often all are wanted.
        if kept.len() < self.len() {
            self.positions = Some(kept);
        }
    }

    /// Keeps those from one place to another.
    pub(crate) fn slice(&mut self, range: std::ops::Range<usize>) {
        let kept = range.filter_map(|at| self.position(at)).collect();
        self.positions = Some(kept);
    }

    /// Puts them in another order; those that are equal keep theirs.
    pub(crate) fn sort_by(&mut self, order: impl Fn(&Entry<'a>, &Entry<'a>) -> Ordering) {
        let mut sorted: Vec<u32> = (0..self.len()).filter_map(|at| self.position(at)).collect();
        let entries = self.archive.entries();
        let entry = |position: u32| entries.get(usize::try_from(position).ok()?);
        sorted.sort_by(|&a, &b| match (entry(a), entry(b)) {
            (Some(a), Some(b)) => order(&a, &b),
            _ => Ordering::Equal,
        });
        self.positions = Some(sorted);
    }

    fn position(&self, at: usize) -> Option<u32> {
        match &self.positions {
            Some(positions) => positions.get(at).copied(),
            None => u32::try_from(at).ok(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.positions {
            Some(positions) => positions.len(),
            None => self.archive.entries().len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, at: usize) -> Option<Entry<'a>> {
        let position = usize::try_from(self.position(at)?).ok()?;
        self.archive.entries().get(position)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'a>> + Clone {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// All of them, so many at a time.
    pub(crate) fn batches(&self, most: usize) -> impl Iterator<Item = Vec<Entry<'a>>> {
        let starts = (0..self.len()).step_by(most.max(1));
        starts.map(move |start| {
            let batch = start..self.len().min(start.saturating_add(most));
            batch.filter_map(|at| self.get(at)).collect()
        })
    }
}
