//! Tensors that share their bytes in the file, by where these are.

use std::collections::HashMap;

use serde::Serialize;
use tensorfmt::{Archive, Entry};

use crate::failure::Failure;
use crate::output::{Out, escape, human, shown};
use crate::picked::Picked;

/// Tensors with the same bytes.
#[derive(Serialize)]
struct Tied<'a> {
    names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'a str>,
    offset: u64,
    stored_bytes: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    path: &'a str,
    format: &'static str,
    tied: Vec<Tied<'a>>,
}

/// Prints the groups of tensors that share their bytes, in the order of their first ones.
pub(super) fn print(
    archive: &Archive,
    path: &str,
    entries: &Picked<'_>,
    json: bool,
    out: &mut Out,
) -> Result<(), Failure> {
    let tied = tied(archive, entries)?;
    if json {
        let format = archive.format().name();
        return out.json(&Document { path, format, tied });
    }
    out.line(&format!("{}: {archive}", escape(path)))?;
    for group in &tied {
        let names: Vec<String> = group.names.iter().map(|n| shown(n).into_owned()).collect();
        let part = group
            .part
            .map_or_else(String::new, |part| format!(" of {}", escape(part)));
        out.line(&format!(
            "{}  {} at {:#x}{part}",
            names.join(" = "),
            human(group.stored_bytes),
            group.offset,
        ))?;
    }
    out.line(&match tied.len() {
        0 => "no tensors share their bytes".to_owned(),
        1 => "1 group of tensors shares its bytes".to_owned(),
        count => format!("{count} groups of tensors share their bytes"),
    })
}

fn tied<'a>(archive: &'a Archive, entries: &Picked<'a>) -> Result<Vec<Tied<'a>>, Failure> {
    let mut groups = Groups::default();
    for entry in entries.iter() {
        let offset = match (archive, entry) {
            (Archive::AeroSet(set), Entry::AeroSet(entry)) => {
                set.offset(entry).map_err(tensorfmt::Error::from)?
            }
            (_, entry) => entry.offset(),
        };
        let part = archive.part_of(entry);
        groups.add(entry.name(), part, offset, entry.stored_len());
    }
    let mut tied = groups.all;
    tied.retain(|group| group.names.len() > 1);
    Ok(tied)
}

/// Tensors by where their bytes are.
#[derive(Default)]
struct Groups<'a> {
    places: HashMap<(Option<&'a str>, u64, u64), usize>,
    all: Vec<Tied<'a>>,
}

impl<'a> Groups<'a> {
    /// Adds a tensor; one without bytes shares none.
    fn add(&mut self, name: &'a str, part: Option<&'a str>, offset: u64, stored: Option<u64>) {
        let Some(stored_bytes) = stored.filter(|&len| len > 0) else {
            return;
        };
        let next = self.all.len();
        let at = *self
            .places
            .entry((part, offset, stored_bytes))
            .or_insert(next);
        match self.all.get_mut(at) {
            Some(group) => group.names.push(name),
            None => self.all.push(Tied {
                names: vec![name],
                part,
                offset,
                stored_bytes,
            }),
        }
    }
}
