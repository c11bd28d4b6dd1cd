//! `--rename s/REGEX/REPLACEMENT/FLAGS`: patterns of the regex crate, with replacements that are checked
//! before anything is read.

mod table;

use regex::{Captures, Regex, RegexBuilder};

pub(crate) use table::Table;

use crate::failure::Failure;

/// A substitution in names.
#[derive(Debug)]
pub(crate) struct Rename {
    regex: Regex,
    replacement: Vec<Piece>,
    /// All places in a name, not only the first.
    all: bool,
}

/// A piece of a replacement.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// What a group matched, 0 being all.
    Group(usize),
}

impl Rename {
    /// Parses `s/REGEX/REPLACEMENT/FLAGS`; any character that is neither a letter nor a digit may stand
    /// for the slash, and a backslash before it makes it a character like others.
    pub(crate) fn new(text: &str) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::usage(format!("--rename {text:?}: {why}"));
        let form = || wrong("not of the form s/REGEX/REPLACEMENT/".into());
        let rest = text.strip_prefix('s').ok_or_else(form)?;
        let separator = rest.chars().next().ok_or_else(form)?;
        if separator.is_alphanumeric() || separator == '\\' {
            return Err(form());
        }
        let parts = split(
            rest.get(separator.len_utf8()..).unwrap_or_default(),
            separator,
        );
        let [pattern, replacement, flags] = parts.as_slice() else {
            return Err(form());
        };
        let (mut all, mut any_case) = (false, false);
        for flag in flags.chars() {
            match flag {
                'g' => all = true,
                'i' => any_case = true,
                _ => return Err(wrong(format!("unknown flag {flag:?}; there are g and i"))),
            }
        }
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(any_case)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let replacement = parse(replacement, &regex).map_err(wrong)?;
        Ok(Self {
            regex,
            replacement,
            all,
        })
    }

    /// The pattern, for messages.
    pub(crate) fn pattern(&self) -> &str {
        self.regex.as_str()
    }

    /// Whether a name has what is looked for.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }

    /// The name with what was found replaced.
    pub(crate) fn apply(&self, name: &str) -> String {
        let limit = usize::from(!self.all);
        let expand = |captures: &Captures<'_>| self.expand(captures);
        self.regex.replacen(name, limit, expand).into_owned()
    }

    fn expand(&self, captures: &Captures<'_>) -> String {
        let pieces = self.replacement.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            // A group that took no part is empty, as everywhere.
            Piece::Group(group) => captures.get(*group).map_or("", |found| found.as_str()),
        });
        pieces.collect()
    }
}

/// Splits at every separator without a backslash before it, and takes that backslash away.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c == separator {
            parts.push(String::new());
            continue;
        }
        let Some(part) = parts.last_mut() else { break };
        match (c, characters.peek().copied()) {
            ('\\', Some(next)) if next == separator => {
                part.push(next);
                characters.next();
            }
            ('\\', Some(next)) => {
                part.extend([c, next]);
                characters.next();
            }
            _ => part.push(c),
        }
    }
    parts
}

/// Parses a replacement: `$1`, `${1}`, `$name`, `${name}` are groups, `$0` is all that matched, `$$` a
/// dollar, `\\` a backslash, `\&` an ampersand.
///
/// What means something to sed and nothing here is an error, since it would become part of a name.
fn parse(text: &str, regex: &Regex) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '\\' => {
                let next = rest.chars().next();
                match next {
                    Some(escaped @ ('\\' | '&')) => literal.push(escaped),
                    Some(digit @ '0'..='9') => {
                        return Err(format!("\\{digit} is sed's; here a group is ${{{digit}}}"));
                    }
                    Some(other) => {
                        return Err(format!("\\{other} means nothing; a backslash is \\\\"));
                    }
                    None => return Err("it ends in a backslash; a backslash is \\\\".into()),
                }
                rest = rest
                    .get(next.map_or(0, char::len_utf8)..)
                    .unwrap_or_default();
            }
            '&' => {
                return Err(
                    "& is sed's; here all that matched is ${0}, and \\& is the character".into(),
                );
            }
            '$' => match group(rest, regex)? {
                Some((group, len)) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Group(group));
                    rest = rest.get(len..).unwrap_or_default();
                }
                None => {
                    literal.push('$');
                    rest = rest.strip_prefix('$').unwrap_or(rest);
                }
            },
            _ => literal.push(c),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(pieces)
}

/// The group that is named after a dollar, and how long its name is; `None` where the dollar is one.
fn group(rest: &str, regex: &Regex) -> Result<Option<(usize, usize)>, String> {
    let number = |name: &str| {
        let named = || regex.capture_names().position(|known| known == Some(name));
        match name.parse::<usize>() {
            Ok(number) => (number < regex.captures_len()).then_some(number),
            Err(_) => named(),
        }
    };
    let groups = regex.captures_len() - 1;
    let none = |name: &str| {
        let plural = if groups == 1 { "" } else { "s" };
        format!("there is no group {name:?}: the pattern has {groups} group{plural}")
    };
    if let Some(inner) = rest.strip_prefix('{') {
        let Some((name, _)) = inner.split_once('}') else {
            return Err("${ without a }; a dollar is $$".into());
        };
        let group = number(name).ok_or_else(|| none(name))?;
        return Ok(Some((group, name.len() + 2)));
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let name = rest.split(|c| !is_word(c)).next().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    if let Some(group) = number(name) {
        return Ok(Some((group, name.len())));
    }
    // A group whose name is the beginning of this one is most likely what is meant.
    let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let known = regex
        .capture_names()
        .flatten()
        .filter(|known| name.starts_with(known));
    let meant = match name.get(..digits).filter(|digits| number(digits).is_some()) {
        Some(digits) => Some(digits.to_owned()),
        None => known.max_by_key(|known| known.len()).map(str::to_owned),
    };
    let why = none(name);
    Err(match meant {
        Some(meant) => {
            let after = name.get(meant.len()..).unwrap_or_default();
            format!("{why}; write ${{{meant}}}{after}")
        }
        None => format!("{why}; a dollar is $$, so ${name} as text is $${name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rename(text: &str, name: &str) -> String {
        Rename::new(text).unwrap().apply(name)
    }

    #[test]
    fn replacements_say_what_they_mean() {
        for (text, name, renamed) in [
            (
                r"s/layer\.(\d+)\.weight/h.${1}_w/",
                "layer.0.weight",
                "h.0_w",
            ),
            (r"s/layer\.(\d+)/h$1/", "layer.12.bias", "h12.bias"),
            (r"s/(?<n>\d+)/<$n>/", "a.7", "a.<7>"),
            (r"s/\d+/[$0]/", "a.7.8", "a.[7].8"),
            (r"s/\d+/[${0}]/g", "a.7.8", "a.[7].[8]"),
            (r"s/\./_/g", "a.b.c", "a_b_c"),
            (r"s/A/x/gi", "aAb", "xxb"),
            (r"s/a/$$/", "a", "$"),
            (r"s/a/$$x/", "a", "$x"),
            (r"s/a/$./", "a", "$."),
            (r"s/a/\\\&/", "a", r"\&"),
            (r"s/a\/b/c\/d/", "a/b", "c/d"),
            ("s#a/b#c/d#", "a/b", "c/d"),
            (r"s/^model\.//", "model.w", "w"),
            ("s/$/.x/", "w", "w.x"),
        ] {
            assert_eq!(rename(text, name), renamed, "{text}");
        }
    }

    #[test]
    fn what_would_vanish_is_an_error_with_the_right_spelling() {
        for (text, help) in [
            (r"s/layer\.(\d+)\.weight/h.$1_w/", "${1}_w"),
            (r"s/(\d+)/\1/", "${1}"),
            (r"s/(\d+)/&/", "${0}"),
            (r"s/(\d+)/$9/", "1 group"),
            (r"s/(\d+)/${9}/", "1 group"),
            (r"s/(\d+)/$name/", "$$name"),
            (r"s/(?<n>\d+)/$n_x/", "${n}_x"),
            (r"s/(?<n>\d+)/${m}/", "no group \"m\""),
            (r"s/a/${b/", "without a }"),
            (r"s/a/\n/", "means nothing"),
            (r"s/a/b/x", "unknown flag"),
            (r"s/(/b/", "unclosed group"),
            (r"s/a/b", "s/REGEX/REPLACEMENT/"),
            ("sab", "s/REGEX/REPLACEMENT/"),
            ("s", "s/REGEX/REPLACEMENT/"),
            ("", "s/REGEX/REPLACEMENT/"),
        ] {
            let failure = Rename::new(text).unwrap_err();
            assert!(
                failure.message().contains(help),
                "{text}: {}",
                failure.message()
            );
        }
    }
}
