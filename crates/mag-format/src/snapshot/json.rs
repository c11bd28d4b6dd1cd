//! The JSON of a snapshot's document: pulled token by token through a window, so that neither
//! the text nor its nesting decides how much memory or stack it takes.
//!
//! It is what Python's `json` writes: beside JSON proper the numbers `NaN`, `Infinity` and
//! `-Infinity`, integers of any size, and duplicate keys.

#![deny(clippy::arithmetic_side_effects)]

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::NameTable;
use tensor_core::{At, Bytes, LimitExceeded, Source, Value};

use crate::limits::MAX_DEPTH;
use crate::{Error, Result, Rule};

/// How many bytes are read at once where the source is no memory.
const WINDOW: u64 = 1 << 18;

pub(super) struct Json<'a> {
    source: &'a dyn Source,
    window: Bytes,
    /// Where in the file the window starts.
    start: u64,
    /// The next byte in the window.
    next: usize,
    end: u64,
    depth: usize,
    entry: Option<u64>,
    scratch: Vec<u8>,
    /// How many more values and keys may be kept, and how many could.
    budget: (u64, u64),
}

/// Whether what is read is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Yes,
    No,
}

/// A list or map that is still open.
enum Open {
    List(Vec<Value>),
    Map(Vec<(Value, Value)>, Value),
}

impl<'a> Json<'a> {
    /// Over the bytes of `range`, of which at most `max_values` values and keys are kept.
    pub(super) fn new(source: &'a dyn Source, range: Range<u64>, max_values: u64) -> Result<Self> {
        let window = match source.contiguous() {
            Some(bytes) => bytes.read(range.clone())?,
            None => Bytes::new(),
        };
        Ok(Self {
            source,
            window,
            start: range.start,
            next: 0,
            end: range.end,
            depth: 0,
            entry: None,
            scratch: Vec::new(),
            budget: (max_values, max_values),
        })
    }

    /// The tensor that errors from here on name.
    pub(super) fn set_entry(&mut self, entry: Option<u64>) {
        self.entry = entry;
    }

    /// The place of the next byte in the file.
    pub(super) fn at(&self, field: &'static str) -> At {
        At {
            offset: self.start.saturating_add(self.next as u64),
            entry: self.entry,
            field,
        }
    }

    fn fail<T>(&self, rule: Rule) -> Result<T> {
        let at = self.at("document");
        Err(Error::invalid(rule, at))
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T> {
        self.fail(Rule::ManifestJson { expected })
    }

    /// The bytes that are at hand, empty only at the end of the text.
    fn rest(&mut self) -> Result<&[u8]> {
        if self.next >= self.window.len() {
            let start = self.start.saturating_add(self.window.len() as u64);
            let end = self.end.min(start.saturating_add(WINDOW));
            if start < end {
                self.window = self.source.read(start..end)?;
                (self.start, self.next) = (start, 0);
            }
        }
        Ok(self.window.get(self.next..).unwrap_or_default())
    }

    #[inline]
    fn peek(&mut self) -> Result<Option<u8>> {
        match self.window.get(self.next) {
            Some(&byte) => Ok(Some(byte)),
            None => Ok(self.rest()?.first().copied()),
        }
    }

    fn advance(&mut self, len: usize) {
        self.next = self.next.saturating_add(len);
    }

    fn take(&mut self) -> Result<Option<u8>> {
        let byte = self.peek()?;
        self.advance(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Skips white space and looks at what follows.
    #[inline]
    fn token(&mut self) -> Result<Option<u8>> {
        match self.peek()? {
            Some(b' ' | b'\t' | b'\n' | b'\r') => self.token_after_space(),
            next => Ok(next),
        }
    }

    fn token_after_space(&mut self) -> Result<Option<u8>> {
        loop {
            let rest = self.rest()?;
            let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            let spaces = rest.iter().take_while(is_space).count();
            let first = rest.get(spaces).copied();
            let at_end = rest.is_empty();
            self.advance(spaces);
            if first.is_some() || at_end {
                return Ok(first);
            }
        }
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<()> {
        if self.token()? != Some(byte) {
            return self.unexpected(expected);
        }
        self.advance(1);
        Ok(())
    }

    fn descend(&mut self) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return self.fail(Rule::ManifestDepth);
        }
        self.depth = self.depth.saturating_add(1);
        self.advance(1);
        Ok(())
    }

    fn ascend(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.advance(1);
    }

    /// Enters an object, if one comes next.
    pub(super) fn enter_object(&mut self) -> Result<bool> {
        self.enter(b'{')
    }

    /// Enters an array, if one comes next.
    pub(super) fn enter_array(&mut self) -> Result<bool> {
        self.enter(b'[')
    }

    fn enter(&mut self, byte: u8) -> Result<bool> {
        let is_there = self.token()? == Some(byte);
        if is_there {
            self.descend()?;
        }
        Ok(is_there)
    }

    /// The next key of the object that was entered, `None` after its last. `first` starts true.
    pub(super) fn key(&mut self, first: &mut bool) -> Result<Option<&str>> {
        if !self.another(first, b'}', "`,` or `}`")? {
            return Ok(None);
        }
        if self.token()? != Some(b'"') {
            return self.unexpected("a key in quotes");
        }
        self.string()?;
        self.expect(b':', "`:`")?;
        Ok(Some(self.text()))
    }

    /// Whether the array that was entered has another item. `first` starts true.
    pub(super) fn item(&mut self, first: &mut bool) -> Result<bool> {
        self.another(first, b']', "`,` or `]`")
    }

    fn another(&mut self, first: &mut bool, close: u8, expected: &'static str) -> Result<bool> {
        let was_first = core::mem::replace(first, false);
        match self.token()? {
            Some(byte) if byte == close => {
                self.ascend();
                Ok(false)
            }
            Some(b',') if !was_first => {
                self.advance(1);
                Ok(true)
            }
            Some(_) if was_first => Ok(true),
            _ => self.unexpected(expected),
        }
    }

    /// The end of the text, white space aside.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self.token()? {
            None => Ok(()),
            Some(_) => self.fail(Rule::ManifestTrailing),
        }
    }

    /// A string, if one comes next.
    pub(super) fn text_value(&mut self) -> Result<Option<&str>> {
        if self.token()? != Some(b'"') {
            return Ok(None);
        }
        self.string()?;
        Ok(Some(self.text()))
    }

    /// An integer, if one comes next; beyond 128 bits it is the nearest that there is.
    pub(super) fn integer(&mut self) -> Result<Option<i128>> {
        match self.token()? {
            Some(b'-' | b'0'..=b'9') => {}
            _ => return Ok(None),
        }
        Ok(match self.number()? {
            Value::Int(value) => Some(value),
            Value::BigInt(digits) if digits.starts_with('-') => Some(i128::MIN),
            Value::BigInt(_) => Some(i128::MAX),
            _ => None,
        })
    }

    /// The key or string that was read last.
    pub(super) fn text(&self) -> &str {
        // Checked in `string`; nothing else writes there but numbers, which are ASCII.
        core::str::from_utf8(&self.scratch).unwrap_or_default()
    }

    /// A string into the scratch buffer; its opening quote comes next.
    fn string(&mut self) -> Result<()> {
        let at = self.at("document");
        self.advance(1);
        self.scratch.clear();
        loop {
            let mut scratch = core::mem::take(&mut self.scratch);
            let rest = self.rest()?;
            let special = |&byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1F);
            let plain = rest.iter().position(special).unwrap_or(rest.len());
            scratch.extend_from_slice(rest.get(..plain).unwrap_or_default());
            let stop = rest.get(plain).copied();
            let at_end = rest.is_empty();
            self.scratch = scratch;
            self.advance(plain);
            match stop {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.advance(1);
                    let character = self.escape()?;
                    let mut buffer = [0; 4];
                    let bytes = character.encode_utf8(&mut buffer).as_bytes();
                    self.scratch.extend_from_slice(bytes);
                }
                Some(_) => return self.unexpected("no control character in a string"),
                None if at_end => return self.unexpected("the end of a string"),
                None => {}
            }
        }
        self.advance(1);
        match core::str::from_utf8(&self.scratch) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::invalid(Rule::ManifestText, at)),
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char> {
        Ok(match self.take()? {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return self.unexpected("an escape that JSON has"),
        })
    }

    /// What follows `\u`: a character, or the first half of one and then `\u` and the second.
    fn unicode(&mut self) -> Result<char> {
        let unit = self.hex()?;
        if let Some(character) = char::from_u32(unit) {
            return Ok(character);
        }
        if !(0xD800..0xDC00).contains(&unit) || self.take()? != Some(b'\\') {
            return self.fail(Rule::ManifestSurrogate);
        }
        if self.take()? != Some(b'u') {
            return self.fail(Rule::ManifestSurrogate);
        }
        let low = self.hex()?;
        let high = (unit & 0x3FF) << 10;
        match char::from_u32((high | (low & 0x3FF)).saturating_add(0x1_0000)) {
            Some(character) if (0xDC00..0xE000).contains(&low) => Ok(character),
            _ => self.fail(Rule::ManifestSurrogate),
        }
    }

    fn hex(&mut self) -> Result<u32> {
        let mut unit = 0u32;
        for _ in 0..4 {
            let byte = self.take()?;
            match byte.and_then(|byte| char::from(byte).to_digit(16)) {
                Some(digit) => unit = unit << 4 | digit,
                None => return self.unexpected("four hexadecimal digits"),
            }
        }
        Ok(unit)
    }

    /// A number, `NaN` or an infinity; its first byte comes next.
    fn number(&mut self) -> Result<Value> {
        self.scratch.clear();
        let minus = self.accept(b'-')?;
        if self.peek()? == Some(b'I') {
            self.word("Infinity")?;
            let infinity = f64::INFINITY;
            return Ok(Value::Float(if minus { -infinity } else { infinity }));
        }
        if self.accept(b'0')? {
            if matches!(self.peek()?, Some(b'0'..=b'9')) {
                return self.unexpected("no digit after a leading zero");
            }
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if self.accept(b'.')? {
            whole = false;
            self.digits()?;
        }
        if self.accept(b'e')? || self.accept(b'E')? {
            whole = false;
            if !self.accept(b'+')? {
                self.accept(b'-')?;
            }
            self.digits()?;
        }
        let text = self.text();
        if !whole {
            return match text.parse() {
                Ok(value) => Ok(Value::Float(value)),
                Err(_) => self.unexpected("a number"),
            };
        }
        // Most are small, and 128 bits are slow.
        Ok(match text.parse::<i64>() {
            Ok(value) => Value::Int(value.into()),
            Err(_) => match text.parse::<i128>() {
                Ok(value) => Value::Int(value),
                Err(_) => Value::BigInt(text.to_string()),
            },
        })
    }

    /// Takes this byte into the scratch buffer, if it comes next.
    fn accept(&mut self, byte: u8) -> Result<bool> {
        let is_there = self.peek()? == Some(byte);
        if is_there {
            self.scratch.push(byte);
            self.advance(1);
        }
        Ok(is_there)
    }

    fn digits(&mut self) -> Result<()> {
        let before = self.scratch.len();
        loop {
            let mut scratch = core::mem::take(&mut self.scratch);
            let rest = self.rest()?;
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            scratch.extend_from_slice(rest.get(..digits).unwrap_or_default());
            let is_over = digits < rest.len() || rest.is_empty();
            self.scratch = scratch;
            self.advance(digits);
            if is_over {
                break;
            }
        }
        if self.scratch.len() == before {
            return self.unexpected("a digit");
        }
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<()> {
        for &byte in word.as_bytes() {
            if self.peek()? != Some(byte) {
                return self.unexpected(word);
            }
            self.advance(1);
        }
        Ok(())
    }

    /// Any value that is neither list nor map.
    fn scalar(&mut self, keep: Keep) -> Result<Value> {
        match self.token()? {
            Some(b'"') => {
                self.string()?;
                Ok(match keep {
                    Keep::Yes => Value::Text(self.text().to_string()),
                    Keep::No => Value::Null,
                })
            }
            Some(b'-' | b'0'..=b'9' | b'I') => self.number(),
            Some(b'N') => self.word("NaN").map(|()| Value::Float(f64::NAN)),
            Some(b'n') => self.word("null").map(|()| Value::Null),
            Some(b't') => self.word("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.word("false").map(|()| Value::Bool(false)),
            _ => self.unexpected("a value"),
        }
    }

    /// The object that comes next, its keys once each; `None` where another value comes.
    pub(super) fn object(&mut self) -> Result<Option<Vec<(String, Value)>>> {
        if self.token()? != Some(b'{') {
            return Ok(None);
        }
        let Value::Map(pairs) = self.value(Keep::Yes)? else {
            return Ok(None);
        };
        let pair = |(key, value)| match key {
            Value::Text(key) => (key, value),
            _ => (String::new(), value),
        };
        Ok(Some(pairs.into_iter().map(pair).collect()))
    }

    /// Any value, checked and dropped.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.value(Keep::No).map(drop)
    }

    /// Any value. Open lists and maps are on a stack on the heap, however deep they nest.
    fn value(&mut self, keep: Keep) -> Result<Value> {
        let mut stack: Vec<Open> = Vec::new();
        loop {
            self.spend(keep)?;
            let mut value = match self.token()? {
                Some(b'[') => {
                    self.descend()?;
                    if self.token()? != Some(b']') {
                        stack.push(Open::List(Vec::new()));
                        continue;
                    }
                    self.ascend();
                    Value::List(Vec::new())
                }
                Some(b'{') => {
                    self.descend()?;
                    if self.token()? != Some(b'}') {
                        let key = self.map_key(keep)?;
                        stack.push(Open::Map(Vec::new(), key));
                        continue;
                    }
                    self.ascend();
                    Value::Map(Vec::new())
                }
                _ => self.scalar(keep)?,
            };
            // The value may end the list or map that it is in, and that one the next.
            loop {
                let Some(open) = stack.pop() else {
                    return Ok(value);
                };
                match self.close(open, value, keep)? {
                    Ok(closed) => value = closed,
                    Err(open) => {
                        stack.push(open);
                        break;
                    }
                }
            }
        }
    }

    /// Adds a value to what is open, which either ends here or wants another.
    fn close(&mut self, open: Open, value: Value, keep: Keep) -> Result<Result<Value, Open>> {
        match open {
            Open::List(mut items) => {
                if keep == Keep::Yes {
                    items.push(value);
                }
                if self.item(&mut false)? {
                    return Ok(Err(Open::List(items)));
                }
                items.shrink_to_fit();
                Ok(Ok(Value::List(items)))
            }
            Open::Map(mut pairs, key) => {
                if keep == Keep::Yes {
                    pairs.push((key, value));
                }
                if self.another(&mut false, b'}', "`,` or `}`")? {
                    let key = self.map_key(keep)?;
                    return Ok(Err(Open::Map(pairs, key)));
                }
                let mut pairs = last_wins(pairs);
                pairs.shrink_to_fit();
                Ok(Ok(Value::Map(pairs)))
            }
        }
    }

    fn map_key(&mut self, keep: Keep) -> Result<Value> {
        if self.token()? != Some(b'"') {
            return self.unexpected("a key in quotes");
        }
        self.spend(keep)?;
        let key = self.scalar(keep)?;
        self.expect(b':', "`:`")?;
        Ok(key)
    }

    /// Counts a value or key that is kept.
    fn spend(&mut self, keep: Keep) -> Result<()> {
        if keep == Keep::No {
            return Ok(());
        }
        let (left, max) = self.budget;
        match left.checked_sub(1) {
            Some(left) => {
                self.budget.0 = left;
                Ok(())
            }
            None => Err(Error::Limit(LimitExceeded {
                limit: "max_metadata_count",
                value: max.saturating_add(1),
                max,
                at: self.at("usr_metadata"),
            })),
        }
    }
}

/// Keeps of pairs with one key the place of the first and the value of the last, as Python does.
fn last_wins(pairs: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    fn key(pair: &(Value, Value)) -> &str {
        pair.0.as_str().unwrap_or_default()
    }
    if pairs.len() < 2 || NameTable::of(&pairs, key).is_ok() {
        return pairs;
    }
    let mut table = NameTable::default();
    let mut kept: Vec<(Value, Value)> = Vec::new();
    for pair in pairs {
        if let Err((name, value)) = table.push(&mut kept, key, pair) {
            let place = table.find(&kept, key, name.as_str().unwrap_or_default());
            if let Some(known) = place.and_then(|place| kept.get_mut(place)) {
                known.1 = value;
            }
        }
    }
    kept
}
