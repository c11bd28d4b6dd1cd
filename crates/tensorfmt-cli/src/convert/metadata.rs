//! Metadata that is set on the command line: text stays text unless it is a number in every respect.

use std::path::Path;

use tensorfmt::Value;

use crate::cli::Convert;
use crate::failure::{Failure, IO, USAGE};

/// What `--set-metadata` and `--set-text` set; of one key the last counts, and texts come last.
pub(super) fn settings(args: &Convert) -> Result<Vec<(String, Value)>, Failure> {
    let typed = args.set_metadata.iter().map(|text| {
        let (key, value) = pair("--set-metadata", text)?;
        let value = match value.strip_prefix('@') {
            Some(path) => Value::from(read(text, Path::new(path))?),
            None => value_of(value),
        };
        Ok((key.to_owned(), value))
    });
    let texts = args.set_text.iter().map(|text| {
        let (key, value) = pair("--set-text", text)?;
        Ok((key.to_owned(), Value::from(value)))
    });
    typed.chain(texts).collect()
}

fn pair<'a>(option: &str, text: &'a str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=')
        .ok_or_else(|| Failure::usage(format!("{option} {text:?}: not of the form KEY=VALUE")))
}

/// The text of a file, as it is.
fn read(option: &str, path: &Path) -> Result<String, Failure> {
    let help = "--set-text KEY=@... sets the text itself";
    let fail = |code, why: String| {
        let path = path.display();
        Failure::new(
            code,
            format!("--set-metadata {option:?}: {path}: {why}; {help}"),
        )
    };
    let bytes = std::fs::read(path).map_err(|error| fail(IO, error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| fail(USAGE, "is no text in UTF-8".into()))
}

/// A value as its text says: a truth value, a number that prints back just so, or text.
fn value_of(text: &str) -> Value {
    let same = |printed: String| printed == text;
    match (
        text,
        text.parse::<i64>(),
        text.parse::<u64>(),
        text.parse::<f64>(),
    ) {
        ("true", ..) => Value::Bool(true),
        ("false", ..) => Value::Bool(false),
        (_, Ok(value), _, _) if same(value.to_string()) => Value::from(value),
        (_, _, Ok(value), _) if same(value.to_string()) => Value::from(value),
        (_, _, _, Ok(value)) if value.is_finite() && same(format!("{value:?}")) => {
            Value::from(value)
        }
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_prints_back_the_same() {
        for text in [
            "007",
            "12345e7",
            "83e2010",
            "nan",
            "NaN",
            "inf",
            "-inf",
            "12345678901234567890123",
            "1e5",
            "+1",
            "-0",
            "1.50",
            "1.",
            ".5",
            "0x10",
            "1_000",
            "",
            " 1",
            "True",
            "1.0.0",
            "-9223372036854775809",
            "0.1000000000000000055511151231257827",
        ] {
            assert_eq!(value_of(text), Value::from(text), "{text}");
        }
        for number in [0, 7, -7, i64::MIN, i64::MAX] {
            assert_eq!(value_of(&number.to_string()), Value::from(number));
        }
        assert_eq!(value_of("18446744073709551615"), Value::from(u64::MAX));
        for (text, number) in [("1.5", 1.5), ("-0.5", -0.5), ("0.1", 0.1), ("1e-7", 1e-7)] {
            assert_eq!(value_of(text), Value::from(number), "{text}");
        }
        assert_eq!(value_of("true"), Value::Bool(true));
    }
}
