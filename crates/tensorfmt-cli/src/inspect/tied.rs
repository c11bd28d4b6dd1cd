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
    let tied = tied(archive, entries);
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

fn tied<'a>(archive: &'a Archive, entries: &Picked<'a>) -> Vec<Tied<'a>> {
    let mut places: HashMap<(Option<&str>, u64, u64), usize> = HashMap::new();
    let mut groups: Vec<Tied<'a>> = Vec::new();
    for entry in entries.iter() {
        // Of a part that is not open nothing is known but its name.
        if matches!(entry, Entry::AeroSet(_)) {
            continue;
        }
        let Some(stored_bytes) = entry.stored_len().filter(|&len| len > 0) else {
            continue;
        };
        let (part, offset) = (archive.part_of(entry), entry.offset());
        let place = *places
            .entry((part, offset, stored_bytes))
            .or_insert_with(|| {
                groups.push(Tied {
                    names: Vec::new(),
                    part,
                    offset,
                    stored_bytes,
                });
                groups.len() - 1
            });
        if let Some(group) = groups.get_mut(place) {
            group.names.push(entry.name());
        }
    }
    groups.retain(|group| group.names.len() > 1);
    groups
}
