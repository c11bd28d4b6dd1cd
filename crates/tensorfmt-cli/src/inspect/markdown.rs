//! The listing as Markdown, for an issue or a model card.

use tensorfmt::{Archive, Value};

use super::{notes, words};
use crate::failure::Failure;
use crate::output::{Out, human, shown};
use crate::picked::Picked;

pub(crate) fn print(
    archive: &Archive,
    path: &str,
    entries: &Picked<'_>,
    out: &mut Out,
) -> Result<(), Failure> {
    out.line(&format!("## {}", text(path)))?;
    out.line("")?;
    let bytes = entries.iter().filter_map(|entry| entry.nbytes());
    let values = entries.iter().map(|entry| entry.shape().elements());
    out.line(&format!(
        "{}, {}: {} tensors, {} values, {} of data.",
        text(&archive.to_string()),
        human(archive.file_len()),
        entries.len(),
        values.fold(0, u64::saturating_add),
        human(bytes.fold(0, u64::saturating_add)),
    ))?;
    let facts = archive.facts().into_iter();
    let facts = facts
        .filter(|(_, value)| !matches!(value, Value::Null | Value::List(_)))
        .map(|(key, value)| (key.to_owned(), value));
    pairs("fact", facts.collect(), out)?;
    pairs("metadata", archive.metadata(), out)?;
    if entries.is_empty() {
        return Ok(());
    }
    out.line("")?;
    out.line("| name | dtype | shape | bytes | |")?;
    out.line("|---|---|---|---:|---|")?;
    for entry in entries.iter() {
        out.line(&format!(
            "| {} | {} | {} | {} | {} |",
            text(&shown(entry.name())),
            text(&entry.dtype_name()),
            text(&crate::brief::dims(entry.shape())),
            entry.nbytes().map_or("?".into(), |bytes| bytes.to_string()),
            text(&notes(&entry, false)),
        ))?;
    }
    Ok(())
}

/// A table of keys and values, if there are any.
fn pairs(head: &str, pairs: Vec<(String, Value)>, out: &mut Out) -> Result<(), Failure> {
    if pairs.is_empty() {
        return Ok(());
    }
    out.line("")?;
    out.line(&format!("| {head} | value |"))?;
    out.line("|---|---|")?;
    for (key, value) in pairs {
        out.line(&format!(
            "| {} | {} |",
            text(&shown(&key)),
            text(&words(&value))
        ))?;
    }
    Ok(())
}

/// Text escaped so that Markdown shows it literally.
fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in crate::output::escape(text).chars() {
        if matches!(
            c,
            '\\' | '`'
                | '*'
                | '_'
                | '['
                | ']'
                | '<'
                | '>'
                | '|'
                | '~'
                | '&'
                | '#'
                | '$'
                | '@'
                | '!'
        ) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
