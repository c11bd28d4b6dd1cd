//! The tensors of both files by the names that they are compared under.

use std::collections::{HashMap, HashSet};

use tensorfmt::{Archive, Entry};

use crate::cli::Diff;
use crate::failure::Failure;
use crate::names::{Idle, Wanted};
use crate::picked::Picked;
use crate::rename::Rename;

/// The tensors of one file.
pub(super) struct Side<'a> {
    pub(super) archive: &'a Archive,
    pub(super) entries: Picked<'a>,
    /// The name of each where names are changed, and where each name is.
    renamed: Option<(Vec<String>, HashMap<String, usize>)>,
}

impl<'a> Side<'a> {
    fn new(archive: &'a Archive, renames: &[Rename]) -> Result<Self, Failure> {
        let entries = Picked::all(archive);
        let mut side = Self {
            archive,
            entries,
            renamed: None,
        };
        if renames.is_empty() {
            return Ok(side);
        }
        let mut names = Vec::with_capacity(side.entries.len());
        for entry in side.entries.iter() {
            let mut name = entry.name().to_owned();
            for rename in renames {
                name = rename.apply(&name);
            }
            names.push(name);
        }
        side.renamed = Some((names, HashMap::new()));
        side.find_places()?;
        Ok(side)
    }

    /// Notes where each new name is; no two tensors may come to one.
    fn find_places(&mut self) -> Result<(), Failure> {
        let Some((names, places)) = &mut self.renamed else {
            return Ok(());
        };
        places.clear();
        for (at, name) in names.iter().enumerate() {
            let before = places.insert(name.clone(), at);
            let old = |at: usize| self.entries.get(at).map_or("", |entry| entry.name());
            if let Some(before) = before.filter(|&before| old(before) != old(at)) {
                return Err(Failure::usage(format!(
                    "--rename: {:?} and {:?} would both be named {name:?}",
                    old(before),
                    old(at)
                )));
            }
        }
        Ok(())
    }

    /// The name that a tensor is compared under.
    pub(super) fn name(&self, at: usize) -> &str {
        match &self.renamed {
            Some((names, _)) => names.get(at).map_or("", String::as_str),
            None => self.entries.get(at).map_or("", |entry| entry.name()),
        }
    }

    /// The tensor of this name. Most often two files have one order, so that it is at the same place; and of
    /// several tensors of one name, which some formats allow, each has its own.
    pub(super) fn find(&self, name: &str, hint: usize) -> Option<Entry<'a>> {
        if hint < self.entries.len() && self.name(hint) == name {
            return self.entries.get(hint);
        }
        match &self.renamed {
            Some((_, places)) => places.get(name).and_then(|&at| self.entries.get(at)),
            None => self.archive.entry(name),
        }
    }

    fn names(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let entries = self.entries.iter().enumerate();
        entries.map(|(at, entry)| (entry.name(), self.name(at)))
    }

    /// Keeps the tensors that are compared under one of these names.
    fn retain(&mut self, chosen: &HashSet<String>) -> Result<(), Failure> {
        let keep: Vec<bool> = (0..self.entries.len())
            .map(|at| chosen.contains(self.name(at)))
            .collect();
        let mut kept = keep.iter().copied();
        self.entries.retain(|_| kept.next().unwrap_or(false));
        if let Some((names, _)) = &mut self.renamed {
            let mut kept = keep.iter().copied();
            names.retain(|_| kept.next().unwrap_or(false));
        }
        self.find_places()
    }
}

/// The tensors of both files that are to be compared. Patterns are held against the names before and after
/// they are changed, in both files: what is chosen in one is chosen in the other.
pub(super) fn sides<'a>(
    a: &'a Archive,
    b: &'a Archive,
    args: &Diff,
) -> Result<(Side<'a>, Side<'a>), Failure> {
    let renames = args.rename.iter().map(|text| Rename::new(text));
    let renames: Vec<Rename> = renames.collect::<Result<_, _>>()?;
    let mut idle = Idle::default();
    for rename in &renames {
        let (a, b) = (a.entries(), b.entries());
        // One may be about what another one made.
        let matches = |entry: &Entry<'_>| {
            let mut name = entry.name().to_owned();
            renames.iter().any(|other| {
                let found = std::ptr::eq(other, rename) && other.matches(&name);
                name = other.apply(&name);
                found
            })
        };
        if !a.iter().chain(b).any(|entry| matches(&entry)) {
            idle.note("--rename", rename.pattern());
        }
    }
    let (mut a, mut b) = (Side::new(a, &renames)?, Side::new(b, &renames)?);
    if !args.filter.is_empty() || !args.exclude.is_empty() {
        let names = a.names().chain(b.names());
        let all = names.clone().flat_map(|(old, new)| [old, new]);
        let wanted = Wanted::new(&args.filter, &args.exclude, all, &mut idle)?;
        let picked = |&(old, new): &(&str, &str)| wanted.picks(old) || wanted.picks(new);
        let dropped = |&(old, new): &(&str, &str)| wanted.drops(old) || wanted.drops(new);
        let mut chosen: HashSet<String> = names
            .clone()
            .filter(picked)
            .map(|(_, new)| new.to_owned())
            .collect();
        for (_, new) in names.filter(dropped) {
            chosen.remove(new);
        }
        a.retain(&chosen)?;
        b.retain(&chosen)?;
    }
    idle.check(args.allow_empty)?;
    Ok((a, b))
}
