//! What the command line names tensors by: names as they are, rows of one, globs and regular expressions.
//!
//! All verbs read a pattern in the same way. It is the name of a tensor if there is one of that name; else
//! `NAME[a:b]` is rows of the tensor called NAME, if there is one; else `re:REGEX` is a regular expression,
//! and anything else a glob, in which only `*`, `?`, `[...]` and `{a,b}` mean something.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use regex::Regex;

use crate::failure::Failure;

/// Patterns as they were typed; what they select depends on the names of the file.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    /// What they were given to, such as `--filter`.
    option: &'static str,
    texts: Vec<String>,
}

/// What one pattern selects among the names of the file.
#[derive(Debug)]
enum Selection {
    Exact(String),
    Rows(String, Rows),
    Matches(Regex),
}

/// Rows of a tensor: of its first dim, from one up to but not including another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    from: Option<u64>,
    to: Option<u64>,
}

impl Rows {
    /// The rows among `count` of them, or what is wrong.
    pub(crate) fn of(&self, count: u64) -> Result<Range<u64>, String> {
        let (from, to) = (self.from.unwrap_or(0), self.to.unwrap_or(count));
        match from <= to && to <= count {
            true => Ok(from..to),
            false => Err(format!("rows {from} to {to} of {count}")),
        }
    }
}

impl Patterns {
    pub(crate) fn new(option: &'static str, texts: &[String]) -> Self {
        Self {
            option,
            texts: texts.to_vec(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// What the patterns choose among the names; those that choose nothing are noted, and rows of a tensor
    /// are an error.
    pub(crate) fn among<'a>(
        &self,
        names: impl Iterator<Item = &'a str> + Clone,
        idle: &mut Idle,
    ) -> Result<Choice, Failure> {
        let mut choice = Choice::default();
        for selection in self.meanings(names.clone())? {
            match selection {
                Selection::Exact(name) => _ = choice.exact.insert(name),
                Selection::Matches(regex) => choice.regexes.push(regex),
                Selection::Rows(name, _) => {
                    let option = self.option;
                    return Err(Failure::usage(format!(
                        "{option}: rows of {name:?} can be extracted, and no more than that"
                    )));
                }
            }
        }
        for (regex, text) in choice.regexes.iter().zip(self.globs(&choice)) {
            if !names.clone().any(|name| regex.is_match(name)) {
                idle.note(self.option, text);
            }
        }
        Ok(choice)
    }

    /// The texts of patterns that are no exact names.
    fn globs<'a>(&'a self, choice: &'a Choice) -> impl Iterator<Item = &'a str> {
        let texts = self.texts.iter().map(String::as_str);
        texts.filter(|text| !choice.exact.contains(*text))
    }

    /// What the patterns choose, in their order, as numbers of names: those of one pattern in the order of
    /// the names, and with the rows where some are asked for.
    pub(crate) fn choose<'a>(
        &self,
        names: impl Iterator<Item = &'a str> + Clone,
        idle: &mut Idle,
    ) -> Result<Vec<(usize, Option<Rows>)>, Failure> {
        let mut chosen = Vec::new();
        let mut seen = HashSet::new();
        for (text, selection) in self.texts.iter().zip(self.meanings(names.clone())?) {
            let before = chosen.len();
            let mut known = false;
            for (at, name) in names.clone().enumerate() {
                let rows = match &selection {
                    Selection::Exact(exact) if exact == name => None,
                    Selection::Rows(exact, rows) if exact == name => Some(rows.clone()),
                    Selection::Matches(regex) if regex.is_match(name) => None,
                    _ => continue,
                };
                known = true;
                // Rows are a part, and may be asked for beside the whole.
                if rows.is_some() || seen.insert(at) {
                    chosen.push((at, rows));
                }
            }
            if chosen.len() == before && !known {
                idle.note(self.option, text);
            }
        }
        Ok(chosen)
    }

    /// What each pattern means.
    fn meanings<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Selection>, Failure> {
        // One walk over the names for all patterns: there may be a million of them.
        let mut wanted: HashMap<&str, bool> = HashMap::new();
        for text in &self.texts {
            wanted.insert(text, false);
            if let Some((name, _)) = rows(text) {
                wanted.entry(name).or_insert(false);
            }
        }
        if !wanted.is_empty() {
            for name in names {
                if let Some(is_there) = wanted.get_mut(name) {
                    *is_there = true;
                }
            }
        }
        let is_there = |name: &str| wanted.get(name).copied().unwrap_or(false);
        let selection = |text: &String| {
            if is_there(text) {
                return Ok(Selection::Exact(text.clone()));
            }
            if let Some((name, rows)) = rows(text).filter(|(name, _)| is_there(name)) {
                return Ok(Selection::Rows(name.to_owned(), rows));
            }
            let regex = match text.strip_prefix("re:") {
                Some(regex) => Regex::new(regex).map_err(|error| error.to_string()),
                None => glob(text),
            };
            let option = self.option;
            regex
                .map(Selection::Matches)
                .map_err(|why| Failure::usage(format!("{option} {text:?}: {why}")))
        };
        self.texts.iter().map(selection).collect()
    }
}

/// Which names are chosen.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    exact: HashSet<String>,
    regexes: Vec<Regex>,
}

impl Choice {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.exact.contains(name) || self.regexes.iter().any(|regex| regex.is_match(name))
    }
}

/// `--filter` and `--exclude`, or one of them: which tensors a verb is about.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    filter: Option<Choice>,
    exclude: Choice,
}

impl Wanted {
    /// Those of the names that the options choose. Patterns that match nothing are noted.
    pub(crate) fn new<'a>(
        filter: &[String],
        exclude: &[String],
        names: impl Iterator<Item = &'a str> + Clone,
        idle: &mut Idle,
    ) -> Result<Self, Failure> {
        let filter = Patterns::new("--filter", filter);
        let exclude = Patterns::new("--exclude", exclude);
        Ok(Self {
            filter: match filter.is_empty() {
                true => None,
                false => Some(filter.among(names.clone(), idle)?),
            },
            exclude: exclude.among(names, idle)?,
        })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.picks(name) && !self.drops(name)
    }

    /// Whether `--filter` chooses the name, or there is none.
    pub(crate) fn picks(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.has(name))
    }

    /// Whether `--exclude` does.
    pub(crate) fn drops(&self, name: &str) -> bool {
        self.exclude.has(name)
    }
}

/// Options that apply to nothing: most often a pattern is misspelt, and what it was meant for would be
/// passed over without a word.
#[derive(Debug, Default)]
pub(crate) struct Idle(Vec<(&'static str, String)>);

impl Idle {
    pub(crate) fn note(&mut self, option: &'static str, pattern: &str) {
        self.0.push((option, pattern.to_owned()));
    }

    /// What is in both.
    pub(crate) fn common(self, other: &Self) -> Self {
        let in_both = |one: &(&'static str, String)| other.0.contains(one);
        Self(self.0.into_iter().filter(in_both).collect())
    }

    /// Fails where there are any, unless that is allowed.
    pub(crate) fn check(self, allow_empty: bool) -> Result<(), Failure> {
        let line =
            |(option, pattern): &(&str, String)| format!("{option} {pattern:?} matches nothing");
        let mut lines: Vec<String> = self.0.iter().map(line).collect();
        if let Some(last) = lines.last_mut().filter(|_| !allow_empty) {
            last.push_str("; --allow-empty goes on all the same");
            return Err(Failure::usage(lines.join("\n")));
        }
        Ok(())
    }

    /// The first of the patterns.
    pub(crate) fn first(&self) -> Option<&str> {
        self.0.first().map(|(_, pattern)| pattern.as_str())
    }
}

/// `NAME[a:b]`, where a and b are numbers and may be left out, as name and rows.
fn rows(text: &str) -> Option<(&str, Rows)> {
    let (name, rows) = text.strip_suffix(']')?.rsplit_once('[')?;
    let (from, to) = rows.split_once(':')?;
    let number = |text: &str| match text.is_empty() {
        true => Some(None),
        false if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().map(Some),
        false => None,
    };
    let (from, to) = (number(from)?, number(to)?);
    Some((name, Rows { from, to }))
}

/// A glob as a regular expression: `*` is any text, `?` any character, `[ab-d]` one of these, `[!ab]`
/// none of these, `{a,b}` one of these globs; dots and slashes are characters like others.
fn glob(text: &str) -> Result<Regex, String> {
    let mut regex = String::from("(?s)^");
    let mut open = 0u32;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => {
                let (class, after) = class(rest.as_str())?;
                regex.push_str(&class);
                rest = after.chars();
            }
            '{' => {
                open += 1;
                regex.push_str("(?:");
            }
            '}' if open > 0 => {
                open -= 1;
                regex.push(')');
            }
            ',' if open > 0 => regex.push('|'),
            c => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    if open > 0 {
        return Err("a { without its }; [{] is the character".into());
    }
    regex.push('$');
    Regex::new(&regex).map_err(|error| error.to_string())
}

/// The class that begins behind a `[`, as the regular expression has it, and what is left after it.
fn class(text: &str) -> Result<(String, &str), String> {
    let mut class = String::from("[");
    let mut rest = text;
    if let Some(after) = text.strip_prefix(['!', '^']) {
        class.push('^');
        rest = after;
    }
    let mut members = rest.char_indices();
    let mut pieces: Vec<(char, char)> = Vec::new();
    while let Some((at, c)) = members.next() {
        if c == ']' && at > 0 {
            for (from, to) in pieces {
                if from > to {
                    return Err(format!("in [...] {from}-{to} is the wrong way round"));
                }
                for (c, dash) in [(from, "-"), (to, "")] {
                    class.push_str(&format!("\\x{{{:x}}}{dash}", u32::from(c)));
                }
            }
            class.push(']');
            return Ok((class, members.as_str()));
        }
        let mut ahead = members.clone();
        match (ahead.next(), ahead.next()) {
            (Some((_, '-')), Some((_, to))) if to != ']' => {
                pieces.push((c, to));
                members = ahead;
            }
            _ => pieces.push((c, c)),
        }
    }
    Err("a [ without its ]; [[] is the character".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen<'a>(pattern: &str, names: &[&'a str]) -> Vec<&'a str> {
        let patterns = Patterns::new("--filter", &[pattern.to_owned()]);
        let mut idle = Idle::default();
        let choice = patterns.among(names.iter().copied(), &mut idle).unwrap();
        let chosen: Vec<&str> = names.iter().copied().filter(|n| choice.has(n)).collect();
        assert_eq!(idle.0.is_empty(), !chosen.is_empty(), "{pattern}");
        chosen
    }

    #[test]
    fn a_glob_has_four_signs_and_all_else_is_itself() {
        let names = [
            "a.b", "a/b/c", "a\\b", "a+b", "ab", "a,b", "a}b", "a]b", "a\nb", "äb", "a-b", "a!b",
            "layer.2", "layer.10", "(a|b)", "A.b", "",
        ];
        for (glob, expected) in [
            ("a/*", &["a/b/c"][..]),
            ("a**c", &["a/b/c"]),
            ("**/c", &["a/b/c"]),
            ("a.b", &["a.b"]),
            ("?b", &["ab", "äb"]),
            ("[äa]b", &["ab", "äb"]),
            ("a[+,]b", &["a+b", "a,b"]),
            ("a[!+,.}!/]b", &["a\\b", "a]b", "a\nb", "a-b"]),
            ("a[^+,.}!/]b", &["a\\b", "a]b", "a\nb", "a-b"]),
            ("a[]}]b", &["a}b", "a]b"]),
            (
                "a[!]}]b",
                &["a.b", "a\\b", "a+b", "a,b", "a\nb", "a-b", "a!b"],
            ),
            ("a[-x]b", &["a-b"]),
            ("a[x-]b", &["a-b"]),
            ("a[,--]b", &["a,b", "a-b"]),
            ("layer.{2,10}", &["layer.2", "layer.10"]),
            ("layer.{1{0,1},x,}*", &["layer.2", "layer.10"]),
            ("layer.{1?,}", &["layer.10"]),
            ("a{b,{.,+}b}", &["a.b", "a+b", "ab"]),
            ("a,?", &["a,b"]),
            ("a}*", &["a}b"]),
            ("(a*", &["(a|b)"]),
            ("a\\*", &["a\\b"]),
            ("", &[""]),
            ("nothing*", &[]),
            (
                "re:^a.b$",
                &["a.b", "a\\b", "a+b", "a,b", "a}b", "a]b", "a-b", "a!b"],
            ),
            ("re:r\\.\\d$", &["layer.2"]),
            ("re:(?i)^a\\.", &["a.b", "A.b"]),
        ] {
            assert_eq!(chosen(glob, &names), expected, "{glob:?}");
        }
    }

    #[test]
    fn a_name_that_is_there_is_meant_before_all_else() {
        let names = ["w[0:2]", "w[0]", "w", "w0", "a*", "ab", "re:a", "a{", "b["];
        assert_eq!(chosen("w[0]", &names), ["w[0]"]);
        assert_eq!(chosen("w[0:2]", &names), ["w[0:2]"]);
        assert_eq!(chosen("a*", &names), ["a*"]);
        assert_eq!(chosen("re:a", &names), ["re:a"]);
        assert_eq!(chosen("a{", &names), ["a{"]);
        assert_eq!(chosen("b[", &names), ["b["]);
        // Without such a name it is what it looks like.
        assert_eq!(chosen("w[0]", &["w", "w0"]), ["w0"]);
        assert_eq!(chosen("x[0:9]", &["x5", "x:", "x;"]), ["x:"]);
    }

    #[test]
    fn rows_are_of_a_name_that_is_there() {
        let names = ["w", "v[1:2]", "v", "x0"];
        let choose = |text: &str| {
            let patterns = Patterns::new("name", &[text.to_owned()]);
            patterns
                .choose(names.iter().copied(), &mut Idle::default())
                .unwrap()
        };
        let rows = |from, to| Some(Rows { from, to });
        assert_eq!(choose("w[1:20]"), [(0, rows(Some(1), Some(20)))]);
        assert_eq!(choose("w[:]"), [(0, rows(None, None))]);
        assert_eq!(choose("w[3:]"), [(0, rows(Some(3), None))]);
        assert_eq!(choose("v[1:2]"), [(1, None)]);
        assert_eq!(choose("v[1:2][0:1]"), [(1, rows(Some(0), Some(1)))]);
        assert_eq!(choose("v[1:3]"), [(2, rows(Some(1), Some(3)))]);
        // No such name: a glob with a class.
        assert_eq!(choose("x[0:1]"), [(3, None)]);
        assert!(choose("w[-1:2]").is_empty());
        let of = |from, to, count| Rows { from, to }.of(count);
        assert_eq!(of(Some(1), Some(3), 3), Ok(1..3));
        assert_eq!(of(None, None, 3), Ok(0..3));
        assert_eq!(of(Some(3), None, 3), Ok(3..3));
        assert!(of(Some(1), Some(4), 3).is_err() && of(Some(2), Some(1), 3).is_err());
        let mut idle = Idle::default();
        let patterns = Patterns::new("--filter", &["w[0:1]".to_owned()]);
        let failure = patterns
            .among(names.iter().copied(), &mut idle)
            .unwrap_err();
        assert!(failure.message().contains("--filter: rows of \"w\""));
    }

    #[test]
    fn what_is_no_pattern_is_said_with_the_way_to_write_it() {
        for (text, help) in [
            ("a[b", "[[]"),
            ("a[]", "[[]"),
            ("a[!]", "[[]"),
            ("a{b,c", "[{]"),
            ("a[z-b]", "z-b is the wrong way round"),
            ("re:(a", "unclosed group"),
        ] {
            let patterns = Patterns::new("--filter", &[text.to_owned()]);
            let failure = patterns.among(["x"].into_iter(), &mut Idle::default());
            let failure = failure.unwrap_err();
            let message = failure.message();
            assert!(message.contains(help), "{text}: {message}");
            assert_eq!(failure.code(), 2);
        }
    }
}
