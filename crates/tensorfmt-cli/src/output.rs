//! What goes to standard output: safe for a terminal, and JSON in one document.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::console::{self, Stdout};
use crate::failure::Failure;

/// Buffered standard output whose errors are failures of the verb.
pub(crate) struct Out(BufWriter<Stdout>);

impl Out {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 << 10, console::stdout()))
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.0, "{line}").map_err(|error| Failure::stdout(&error))
    }

    /// One JSON document.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let written = serde_json::to_writer_pretty(&mut self.0, document);
        written.map_err(|error| Failure::stdout(&io::Error::from(error)))?;
        self.line("")
    }

    /// One JSON document whose last list is too long for memory: what comes before it, and its name.
    pub(crate) fn list(mut self, head: &impl Serialize, name: &str) -> Result<List, Failure> {
        let head = pretty(head)?;
        let fields = head
            .strip_suffix("\n}")
            .map_or_else(|| "{".to_owned(), |head| format!("{head},"));
        self.text(&format!("{fields}\n  \"{name}\": ["))?;
        Ok(List {
            out: self,
            empty: true,
        })
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.0.write_all(text.as_bytes());
        written.map_err(|error| Failure::stdout(&error))
    }

    /// Flushes; without it nothing is sure to have arrived.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.0.flush().map_err(|error| Failure::stdout(&error))
    }
}

/// How many tensors are worked on before what was found about them is printed.
pub(crate) const BATCH: usize = 4096;

/// A list in a JSON document, as it would be printed all at once.
pub(crate) struct List {
    out: Out,
    empty: bool,
}

impl List {
    pub(crate) fn item(&mut self, item: &impl Serialize) -> Result<(), Failure> {
        let comma = if self.empty { "\n    " } else { ",\n    " };
        self.empty = false;
        self.out.text(comma)?;
        self.out.text(&indented(item, "    ")?)
    }

    /// Ends the document, with what comes after the list.
    pub(crate) fn end(mut self, tail: &impl Serialize) -> Result<(), Failure> {
        let tail = pretty(tail)?;
        let fields = tail.strip_prefix("{").filter(|fields| *fields != "}");
        self.out.text(if self.empty { "]" } else { "\n  ]" })?;
        match fields {
            Some(fields) => self.out.text(&format!(",{fields}\n"))?,
            None => self.out.text("\n}\n")?,
        }
        self.out.finish()
    }
}

/// Where a listing goes that is too long for memory: lines, or a list in JSON.
pub(crate) enum Listing {
    Lines(Out),
    Json(List),
}

fn pretty(document: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(document);
    text.map_err(|error| Failure::stdout(&io::Error::from(error)))
}

/// A value as it stands in a document so far to the right, but for the start of its first line.
pub(crate) fn indented(value: &impl Serialize, by: &str) -> Result<String, Failure> {
    // No text in JSON has a newline of its own.
    Ok(pretty(value)?.replace('\n', &format!("\n{by}")))
}

/// Text from a file, safe to print: control characters, those that change the direction of text, and
/// those that can't be seen, as Rust escapes.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() && !is_unseen(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match harmless(c) {
            true => escaped.push(c),
            false => escaped.extend(c.escape_default()),
        }
    }
    Cow::Owned(escaped)
}

/// A text of its own, such as a value: a backslash is doubled, so that it doesn't look like an escape.
pub(crate) fn escape_all(text: &str) -> Cow<'_, str> {
    match text.contains('\\') {
        true => Cow::Owned(escape(&text.replace('\\', "\\\\")).into_owned()),
        false => escape(text),
    }
}

/// A name as listings show it: what looks the same is the same. A backslash of its own is doubled, and a
/// name that is empty or has spaces around it is quoted.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.trim() != name {
        return Cow::Owned(format!("\"{}\"", escape_all(name)));
    }
    escape_all(name)
}

/// Whether a character changes the direction of text, can't be seen at all, or looks like a space and is none.
fn is_unseen(c: char) -> bool {
    let is_blank = c.is_whitespace() && c != ' ' || c == '\u{2800}';
    is_blank
        || matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF9}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// How many cells of a terminal a text takes.
pub(crate) fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// A byte count for people.
pub(crate) fn human(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units.get(unit).copied().unwrap_or(""))
}

/// Pads rows to columns; numbers of the columns in `right` are set to the right.
pub(crate) fn table(rows: &[Vec<String>], right: &'static [usize]) -> Vec<String> {
    let mut columns = Columns::new(right);
    for row in rows {
        columns.note(row);
    }
    rows.iter().map(|row| columns.line(row)).collect()
}

/// Items in lines of at most so many cells, as far as each item is no longer by itself.
pub(crate) fn lines(items: &[String], between: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if width(line) + width(between) + width(item) <= most => {
                line.push_str(between);
                line.push_str(item);
            }
            _ => lines.push(item.clone()),
        }
    }
    lines
}

/// How wide the columns of a table are, without its rows: a listing of a million of them is
/// made twice instead of kept.
pub(crate) struct Columns {
    widths: Vec<usize>,
    right: &'static [usize],
}

impl Columns {
    pub(crate) fn new(right: &'static [usize]) -> Self {
        Self {
            widths: Vec::new(),
            right,
        }
    }

    /// Makes room for a row.
    pub(crate) fn note(&mut self, row: &[String]) {
        for (column, cell) in row.iter().enumerate() {
            // One cell that is too wide must not push all others out of sight.
            let width = width(cell).min(60);
            match self.widths.get_mut(column) {
                Some(known) => *known = width.max(*known),
                None => self.widths.push(width),
            }
        }
    }

    /// A row as a line.
    pub(crate) fn line(&self, row: &[String]) -> String {
        let cells: Vec<String> = row
            .iter()
            .zip(&self.widths)
            .enumerate()
            .map(|(column, (cell, &column_width))| {
                let pad = " ".repeat(column_width.saturating_sub(width(cell)));
                match self.right.contains(&column) {
                    true => format!("{pad}{cell}"),
                    false => format!("{cell}{pad}"),
                }
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    }
}
