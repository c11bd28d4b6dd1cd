//! The JSON of a header: a reader that never recurses and keeps every duplicate visible, and a
//! writer of strings.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::Value;

use crate::Rule;
use crate::limits::MAX_DECODED_DEPTH;

/// What is wrong, and where in the text.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Rule(Rule, usize),
    /// The text nests deeper than it may, at the place.
    Depth(usize),
}

type Result<T> = core::result::Result<T, Fault>;

/// Text between quotes, known to be right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// As it stands, without the quotes.
    pub(crate) raw: &'a str,
    /// Whether there is an escape in it.
    pub(crate) escaped: bool,
}

impl Text<'_> {
    /// Appends what the text stands for.
    pub(crate) fn append_to(self, out: &mut String) {
        match self.escaped {
            false => out.push_str(self.raw),
            true => unescape(self.raw, out),
        }
    }

    /// Whether this is what the text stands for.
    pub(crate) fn is(self, text: &str) -> bool {
        match self.escaped {
            false => self.raw == text,
            // No escape is shorter than what it stands for.
            true if self.raw.len() > text.len().saturating_mul(6) => false,
            true => {
                let mut plain = String::new();
                unescape(self.raw, &mut plain);
                plain == text
            }
        }
    }
}

/// A place in a text.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// The brackets that are open in a value that is skipped.
    open: Vec<u8>,
    /// How many brackets may be open, those around the value not counted.
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, depth: usize) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            open: Vec::new(),
            depth,
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    /// Moves past white space.
    #[inline]
    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.step();
        }
    }

    /// The fault that something else had to be here.
    #[cold]
    pub(crate) fn expected(&self, expected: &'static str) -> Fault {
        let got = self.peek();
        Fault::Rule(Rule::HeaderJson { expected, got }, self.at)
    }

    /// Moves past `byte` if it is next, after white space.
    #[inline]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        if self.peek() != Some(byte) {
            self.space();
            if self.peek() != Some(byte) {
                return false;
            }
        }
        self.step();
        true
    }

    /// Moves past these bytes if they are next, white space not skipped.
    #[inline]
    pub(crate) fn eat_exactly(&mut self, bytes: &[u8]) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let eaten = rest.starts_with(bytes);
        if eaten {
            self.at = self.at.saturating_add(bytes.len());
        }
        eaten
    }

    pub(crate) fn expect(&mut self, byte: u8, name: &'static str) -> Result<()> {
        match self.eat(byte) {
            true => Ok(()),
            false => Err(self.expected(name)),
        }
    }

    /// What follows an item: `true` for another one, `false` after the bracket that closes.
    #[inline]
    pub(crate) fn more(&mut self, close: u8, name: &'static str) -> Result<bool> {
        if self.eat(b',') {
            Ok(true)
        } else if self.eat(close) {
            Ok(false)
        } else {
            Err(self.expected(name))
        }
    }

    /// A text in quotes, after white space.
    #[inline]
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Text<'a>> {
        if !self.eat(b'"') {
            return Err(self.expected(name));
        }
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let plain = rest
                .iter()
                .position(|&byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            self.at = self.at.saturating_add(plain.unwrap_or(rest.len()));
            match self.peek() {
                Some(b'"') => {
                    let raw = self.text.get(start..self.at).unwrap_or_default();
                    self.step();
                    return Ok(Text { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err(Fault::Rule(Rule::HeaderText, self.at)),
                None => return Err(self.expected("the end of a text")),
            }
        }
    }

    /// Moves past an escape, or a pair of them that stands for one character.
    fn escape(&mut self) -> Result<()> {
        let start = self.at;
        let rest = self.text.get(self.at..).unwrap_or_default();
        match escape_of(rest) {
            Some((_, len)) => {
                self.at = self.at.saturating_add(len);
                Ok(())
            }
            None => Err(Fault::Rule(Rule::HeaderText, start)),
        }
    }

    /// A whole number of 64 bits, written with digits alone, after white space.
    #[inline]
    pub(crate) fn number(&mut self, field: &'static str) -> Result<u64> {
        self.space();
        let start = self.at;
        let mut value = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let digit = u64::from(digit & 0x0F);
            let next = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(digit));
            match next {
                Some(next) => value = next,
                None => return Err(Fault::Rule(Rule::Number { field }, start)),
            }
            self.step();
        }
        let zeros = self.bytes.get(start) == Some(&b'0');
        match (self.at.saturating_sub(start), self.peek()) {
            // Where no number begins, it is the type that is wrong; a sign or a point is a number.
            (0, Some(b'-' | b'+' | b'.')) => Err(Fault::Rule(Rule::Number { field }, start)),
            (0, _) => Err(Fault::Rule(
                Rule::FieldType {
                    field,
                    expected: "a list of numbers",
                },
                start,
            )),
            (_, Some(b'.' | b'e' | b'E' | b'x')) => Err(Fault::Rule(Rule::Number { field }, start)),
            (2.., _) if zeros => Err(Fault::Rule(Rule::Number { field }, start)),
            _ => Ok(value),
        }
    }

    /// Any value, as it stands, after white space.
    pub(crate) fn value(&mut self) -> Result<&'a str> {
        self.space();
        let start = self.at;
        self.open.clear();
        loop {
            self.space();
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    if self.open.len() >= self.depth {
                        return Err(Fault::Depth(self.at));
                    }
                    self.open.push(bracket);
                    self.step();
                    if !self.eat(closing(bracket)) {
                        if bracket == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    self.open.pop();
                }
                Some(b'"') => drop(self.text("a text")?),
                Some(b'-' | b'0'..=b'9') => self.skip_number()?,
                _ => self.word()?,
            }
            // A value has ended: so do all that end with it.
            while let Some(&bracket) = self.open.last() {
                if self.more(closing(bracket), "`,` or a bracket that closes")? {
                    if bracket == b'{' {
                        self.key()?;
                    }
                    break;
                }
                self.open.pop();
            }
            if self.open.is_empty() {
                return Ok(self.text.get(start..self.at).unwrap_or_default());
            }
        }
    }

    fn key(&mut self) -> Result<()> {
        self.text("a key in quotes")?;
        self.expect(b':', "`:`")
    }

    fn word(&mut self) -> Result<()> {
        match ["null", "true", "false"]
            .iter()
            .any(|word| self.eat_exactly(word.as_bytes()))
        {
            true => Ok(()),
            false => Err(self.expected("a value")),
        }
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.step();
        }
        match self.at == start {
            true => Err(self.expected("a digit")),
            false => Ok(()),
        }
    }

    fn skip_number(&mut self) -> Result<()> {
        if self.peek() == Some(b'-') {
            self.step();
        }
        match self.peek() {
            Some(b'0') => self.step(),
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.step();
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.step();
            if let Some(b'+' | b'-') = self.peek() {
                self.step();
            }
            self.digits()?;
        }
        Ok(())
    }
}

fn closing(bracket: u8) -> u8 {
    match bracket {
        b'{' => b'}',
        _ => b']',
    }
}

/// The character that the escape at the start of `text` stands for, and the escape's length.
fn escape_of(text: &str) -> Option<(char, usize)> {
    let plain = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{C}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = |start: usize| {
                let digits = text.get(start..start.checked_add(4)?)?;
                let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                u32::from_str_radix(digits, 16).ok().filter(|_| hex)
            };
            let first = unit(2)?;
            if let Some(single) = char::from_u32(first) {
                return Some((single, 6));
            }
            let second = unit(8).filter(|_| text.get(6..8) == Some("\\u"))?;
            let (high, low) = (first.checked_sub(0xD800)?, second.checked_sub(0xDC00)?);
            if high >= 0x400 || low >= 0x400 {
                return None;
            }
            let code = (high << 10 | low).checked_add(0x1_0000)?;
            return Some((char::from_u32(code)?, 12));
        }
        _ => return None,
    };
    Some((plain, 2))
}

fn unescape(raw: &str, out: &mut String) {
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let Some((character, len)) = escape_of(escape) else {
            return;
        };
        out.push(character);
        rest = escape.get(len..).unwrap_or_default();
    }
    out.push_str(rest);
}

/// Appends a text in quotes, with no more escapes than JSON asks for.
pub(crate) fn put_text(text: &str, out: &mut String) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{C}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..'\u{20}' => {
                let code = u32::from(character);
                out.push_str("\\u00");
                for digit in [code >> 4, code & 15] {
                    let digit = usize::try_from(digit).ok();
                    out.push(
                        digit
                            .and_then(|digit| HEX.get(digit))
                            .copied()
                            .unwrap_or('0'),
                    );
                }
            }
            character => out.push(character),
        }
    }
    out.push('"');
}

/// Appends a text in quotes as Python's `json` writes it: in ASCII, all else escaped.
#[cfg(feature = "std")]
pub(crate) fn put_ascii(text: &str, out: &mut String) {
    let start = out.len();
    put_text(text, out);
    if out.get(start..).is_some_and(str::is_ascii) {
        return;
    }
    let plain = out.split_off(start);
    let mut units = [0; 2];
    for character in plain.chars() {
        match character.is_ascii() {
            true => out.push(character),
            false => {
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&alloc::format!("\\u{unit:04x}"));
                }
            }
        }
    }
}

/// A value of JSON that is known to be right.
pub(crate) fn decode(json: &str) -> Value {
    decode_checked(json).unwrap_or_else(|_| Value::Text(json.into()))
}

/// The list or map that a value is part of, and the key that the next one gets.
enum Open {
    List(Vec<Value>),
    Map(Vec<(Value, Value)>, Value),
}

fn decode_checked(json: &str) -> Result<Value> {
    let mut reader = Reader::new(json, MAX_DECODED_DEPTH);
    // Finds what nests too deep before anything is made of it.
    reader.value()?;
    reader.at = 0;
    let mut open: Vec<Open> = Vec::new();
    loop {
        reader.space();
        let mut value = match reader.peek() {
            Some(b'{') => {
                reader.step();
                if !reader.eat(b'}') {
                    open.push(Open::Map(Vec::new(), decode_key(&mut reader)?));
                    continue;
                }
                Value::Map(Vec::new())
            }
            Some(b'[') => {
                reader.step();
                if !reader.eat(b']') {
                    open.push(Open::List(Vec::new()));
                    continue;
                }
                Value::List(Vec::new())
            }
            Some(b'"') => decode_text(&mut reader)?,
            _ => scalar(reader.value()?),
        };
        loop {
            match open.pop() {
                None => return Ok(value),
                Some(Open::List(mut items)) => {
                    items.push(value);
                    if reader.more(b']', "`,` or `]`")? {
                        open.push(Open::List(items));
                        break;
                    }
                    value = Value::List(items);
                }
                Some(Open::Map(mut pairs, key)) => {
                    pairs.push((key, value));
                    if reader.more(b'}', "`,` or `}`")? {
                        open.push(Open::Map(pairs, decode_key(&mut reader)?));
                        break;
                    }
                    value = Value::Map(pairs);
                }
            }
        }
    }
}

fn decode_text(reader: &mut Reader<'_>) -> Result<Value> {
    let mut text = String::new();
    reader.text("a text")?.append_to(&mut text);
    Ok(Value::Text(text))
}

fn decode_key(reader: &mut Reader<'_>) -> Result<Value> {
    let key = decode_text(reader)?;
    reader.expect(b':', "`:`")?;
    Ok(key)
}

/// A number or a word. A number that no double comes near stays text.
fn scalar(json: &str) -> Value {
    match json {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "-0" => Value::Float(-0.0),
        _ if json.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-')) => match json.parse() {
            Ok(value) => Value::Int(value),
            Err(_) => Value::BigInt(json.into()),
        },
        _ => match json.parse::<f64>() {
            Ok(value) if value.is_finite() => Value::Float(value),
            _ => Value::Text(json.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    /// What serde_json makes of it, as ours.
    fn other(json: &serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => Value::Int(value.into()),
                (_, Some(value)) => Value::Int(value.into()),
                _ => Value::Float(number.as_f64().unwrap()),
            },
            serde_json::Value::String(text) => Value::Text(text.clone()),
            serde_json::Value::Array(items) => Value::List(items.iter().map(other).collect()),
            serde_json::Value::Object(pairs) => {
                let pairs = pairs.iter();
                Value::Map(
                    pairs
                        .map(|(key, value)| (Value::Text(key.clone()), other(value)))
                        .collect(),
                )
            }
        }
    }

    #[test]
    fn values_are_what_another_parser_makes_of_them() {
        for json in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "-7",
            "18446744073709551615",
            "1.5",
            "-1e-3",
            "2E+2",
            r#""a\u00e9\ud83d\ude00\n\/""#,
            "[]",
            "{}",
            "[1,[2,[]],{}]",
            r#"{"a":{"b":[null,{"c":"d"}]},"e":"f"}"#,
            " [ 1 , { \"k\" : \t2 } ] ",
        ] {
            let parsed: serde_json::Value = serde_json::from_str(json).unwrap();
            let mut reader = Reader::new(json, 9);
            assert_eq!(reader.value().unwrap(), json.trim_ascii(), "{json}");
            assert_eq!(decode(json), other(&parsed), "{json}");
        }
        assert_eq!(decode("36893488147419103232"), Value::Int(1 << 65));
        let long = "9".repeat(50);
        assert_eq!(decode(&long), Value::BigInt(long.clone()));
        assert_eq!(decode("1e400"), Value::Text("1e400".into()));
        let deep = format!("{}{}", "[".repeat(1001), "]".repeat(1001));
        assert_eq!(decode(&deep), Value::Text(deep.clone()));
        assert_eq!(decode(&deep[1..2001]).depth(), 1000);
    }

    #[test]
    fn what_is_no_json_is_refused_as_another_parser_does() {
        for json in [
            "",
            "nul",
            "nulll]",
            "+1",
            "01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "- 1",
            "'a'",
            "\"a",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\udc00\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\u00g0\"",
            "\"\\u+041\"",
            "\"\n\"",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{a:1}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[",
            "{",
            "[}",
            "{\"a\":1]",
            "NaN",
            "Infinity",
            "/**/1",
            "[1]]",
            "\"\\u12\"",
            "\"\\",
        ] {
            let mut reader = Reader::new(json, 9);
            let whole = reader.value().is_ok() && reader.at() == json.len();
            assert!(!whole, "{json}");
            assert!(
                serde_json::from_str::<serde_json::Value>(json).is_err(),
                "{json}"
            );
        }
    }

    #[test]
    fn numbers_of_fields_are_digits_alone() {
        let number = |json| Reader::new(json, 0).number("shape").ok();
        assert_eq!(number(" 18446744073709551615,"), Some(u64::MAX));
        assert_eq!((number("0]"), number("7")), (Some(0), Some(7)));
        for json in [
            "18446744073709551616",
            "-0",
            "-1",
            "00",
            "07",
            "4.0",
            "4e0",
            "+4",
            "0x4",
            "NaN",
            "true",
            "\"4\"",
            "",
            "null",
            "[4]",
        ] {
            assert_eq!(number(json), None, "{json}");
        }
    }

    #[test]
    fn texts_are_written_as_another_writer_does() {
        let all: String = (0..0x250u32).filter_map(char::from_u32).collect();
        for text in ["", "plain", "\"\\/", "\u{1F600}\u{2028}", all.as_str()] {
            let mut out = String::new();
            put_text(text, &mut out);
            assert_eq!(out, serde_json::Value::from(text).to_string());
            let mut reader = Reader::new(&out, 0);
            let mut back = String::new();
            let read = reader.text("a text").unwrap();
            read.append_to(&mut back);
            assert_eq!(back, text);
            assert!(read.is(text) && !read.is("other"));
        }
    }
}
