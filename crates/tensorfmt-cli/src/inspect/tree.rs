//! Names as a tree, parted at their dots.

use std::ops::Range;

use tensorfmt::Entry;
use tensorfmt::convert::natural;

use super::notes;
use crate::failure::Failure;
use crate::output::{Columns, Out, escape, escape_all, human};
use crate::picked::Picked;

/// Prints the tree; `depth` levels of it if that is given.
pub(crate) fn print(
    entries: &Picked<'_>,
    depth: Option<usize>,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut names: Vec<Entry<'_>> = entries.iter().collect();
    names.sort_by(|a, b| natural(a.name(), b.name()));
    let mut columns = Columns::new(&[3]);
    visit(&names, depth, |row| {
        columns.note(&row);
        Ok(())
    })?;
    visit(&names, depth, |row| out.line(&columns.line(&row)))
}

/// A group of names that share a part, or one name.
struct Branch {
    /// The names in it.
    range: Range<usize>,
    /// How many bytes its names share: all that is shown above and on its own line.
    shared: usize,
    level: usize,
    /// Its line, up to the end of the label.
    line: String,
    /// What the lines of what is in it start with.
    indent: String,
}

/// Calls `line` with the row of every group and tensor, from top to bottom. Without recursion: a
/// name may have as many dots as it likes.
fn visit(
    names: &[Entry<'_>],
    depth: Option<usize>,
    mut line: impl FnMut([String; 5]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let root = Branch {
        range: 0..names.len(),
        shared: 0,
        level: 0,
        line: String::new(),
        indent: String::new(),
    };
    let mut open = inside(names, &root);
    while let Some(branch) = open.pop() {
        let group = names.get(branch.range.clone()).unwrap_or_default();
        if let [entry] = group {
            line([
                branch.line,
                escape(&entry.dtype_name()).into_owned(),
                crate::brief::dims(entry.shape()),
                entry.nbytes().map_or("?".into(), human),
                notes(entry, false),
            ])?;
            continue;
        }
        let bytes = group.iter().filter_map(|entry| entry.nbytes());
        let bytes = human(bytes.fold(0, u64::saturating_add));
        let count = format!("{} tensors", group.len());
        if depth.is_none_or(|depth| branch.level < depth) {
            open.extend(inside(names, &branch));
        }
        line([branch.line, String::new(), String::new(), bytes, count])?;
    }
    Ok(())
}

/// What is directly in a group, the last first.
fn inside(names: &[Entry<'_>], group: &Branch) -> Vec<Branch> {
    let rest = |at: usize| {
        let name = names.get(at).map_or("", |entry| entry.name());
        name.get(group.shared..).unwrap_or_default()
    };
    let mut found: Vec<(Range<usize>, &str)> = Vec::new();
    let mut at = group.range.start;
    while at < group.range.end {
        let start = at;
        at += 1;
        // A name that ends with this part is a tensor, whatever others start with it.
        if let (part, Some(_)) = split(rest(start)) {
            while at < group.range.end && matches!(split(rest(at)), (p, Some(_)) if p == part) {
                at += 1;
            }
        }
        let label = match at - start {
            1 => rest(start),
            // Names are sorted: what the first and the last have in common, all have.
            _ => common(rest(start), rest(at - 1)),
        };
        found.push((start..at, label));
    }
    let last = found.len().saturating_sub(1);
    let branch = |(place, (range, label)): (usize, (Range<usize>, &str))| {
        let (mark, below) = match (group.level, place == last) {
            (0, _) => ("", ""),
            (_, false) => ("├─ ", "│  "),
            (_, true) => ("└─ ", "   "),
        };
        let text = match range.len() {
            1 => label,
            _ => label.strip_suffix('.').unwrap_or(label),
        };
        let text = if text.is_empty() { "\"\"" } else { text };
        Branch {
            shared: group.shared + label.len(),
            level: group.level + 1,
            line: format!("{}{mark}{}", group.indent, escape_all(text)),
            indent: format!("{}{below}", group.indent),
            range,
        }
    };
    let mut branches: Vec<Branch> = found.into_iter().enumerate().map(branch).collect();
    branches.reverse();
    branches
}

/// The part before the first dot, and what comes after it.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once('.') {
        Some((part, rest)) => (part, Some(rest)),
        None => (name, None),
    }
}

/// The parts that both names start with and that neither ends with, dots included.
fn common<'a>(a: &'a str, b: &str) -> &'a str {
    let mut len = 0;
    let (mut left, mut right) = (a, b);
    while let ((p, Some(more)), (q, Some(other))) = (split(left), split(right)) {
        if p != q {
            break;
        }
        len += p.len() + 1;
        (left, right) = (more, other);
    }
    a.get(..len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_have_in_common_ends_at_a_dot() {
        assert_eq!(common("a.b.c", "a.b.d"), "a.b.");
        assert_eq!(common("a.b", "a.b.c"), "a.");
        assert_eq!(common("ab", "ac"), "");
        assert_eq!(common("..x", "..y"), "..");
    }
}
