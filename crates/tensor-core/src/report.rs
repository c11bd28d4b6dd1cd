use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::VerifyOptions;

/// What became of one check.
///
/// ```
/// use tensor_core::Outcome;
///
/// assert_eq!(Outcome::NotCovered.name(), "not_covered");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Checked, and as it should be.
    Ok,
    /// Checked, and damaged.
    Failed,
    /// The file holds nothing to check it against.
    NotCovered,
    /// There is a check, or a tensor, that this build can't interpret.
    Unsupported,
}

impl Outcome {
    /// The word in listings: `ok`, `failed`, `not_covered`, `unsupported`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::NotCovered => "not_covered",
            Self::Unsupported => "unsupported",
        }
    }
}

/// One check of a [`Report`].
///
/// ```
/// use tensor_core::{Item, Outcome};
///
/// let same = Item::compared("embed", "crc32c:0x1a", "crc32c:0x1a");
/// assert_eq!(same.outcome, Outcome::Ok);
/// let other = Item::compared("head", "crc32c:0x1a", "crc32c:0x2b").with_note("over the stored bytes");
/// assert_eq!(other.outcome, Outcome::Failed);
/// assert_eq!(other.found.as_deref(), Some("crc32c:0x2b"));
/// let none = Item::new("bias", Outcome::NotCovered);
/// assert_eq!((none.expected, none.note), (None, None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// What was checked: a tensor's name, or a part of the file such as `records`.
    pub item: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The check value that the file holds, as text.
    pub expected: Option<String>,
    /// The check value that was computed, as text.
    pub found: Option<String>,
    /// Which check it was, or why it failed or could not be made.
    pub note: Option<String>,
    /// The tensors that a failure damages, where that is known to be all: a failed shard has those
    /// in it that no hash of their own proves whole.
    pub tensors: Vec<String>,
}

impl Item {
    /// An item without check values.
    pub fn new(item: impl Into<String>, outcome: Outcome) -> Self {
        Self {
            item: item.into(),
            outcome,
            expected: None,
            found: None,
            note: None,
            tensors: Vec::new(),
        }
    }

    /// An item from two check values: ok where they are equal, else failed.
    pub fn compared(
        item: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (expected, found) = (expected.into(), found.into());
        let outcome = if expected == found {
            Outcome::Ok
        } else {
            Outcome::Failed
        };
        Self {
            item: item.into(),
            outcome,
            expected: Some(expected),
            found: Some(found),
            note: None,
            tensors: Vec::new(),
        }
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds a tensor to those that the failure damages. Where the caller spares some
    /// ([`VerifyOptions::spared`]), one that is spared stands for all such, and one that is not likewise: a failed
    /// shard may have a million in it.
    ///
    /// ```
    /// use tensor_core::{Item, Outcome, VerifyOptions};
    ///
    /// let mut shard = Item::new("WTSH weights.shard0", Outcome::Failed);
    /// let spared = |name: &str| name.starts_with("adam.");
    /// let options = VerifyOptions::default().with_spared(&spared);
    /// for name in ["adam.m", "adam.v", "w", "b"] {
    ///     shard.damages(name, &options);
    /// }
    /// assert_eq!(shard.tensors, ["adam.m", "w"]);
    /// ```
    pub fn damages(&mut self, tensor: &str, options: &VerifyOptions<'_>) {
        if let Some(spares) = options.spared {
            let is_spared = spares(tensor);
            let mut known = self.tensors.iter();
            if known.any(|known| spares(known) == is_spared) {
                return;
            }
        }
        self.tensors.push(tensor.into());
    }
}

/// What verifying an archive found: one [`Item`] per check, and warnings about what is tolerated.
///
/// ```
/// use tensor_core::{Item, Outcome, Report};
///
/// let mut report = Report::default(); // an archive's `verify` returns one
/// report.push(Item::compared("embed", "0x1a", "0x1a"));
/// report.push(Item::compared("head", "0x1a", "0x2b"));
/// for item in &report.items {
///     if item.outcome == Outcome::Failed {
///         println!("{}: expected {:?}, found {:?}", item.item, item.expected, item.found);
///     }
/// }
/// assert!(report.has_failed() && !report.has_unsupported());
/// assert_eq!((report.count(Outcome::Ok), report.count(Outcome::Failed)), (1, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Every check, in file order.
    pub items: Vec<Item>,
    /// What a careful writer would not have left behind; failures under strict verification.
    pub warnings: Vec<String>,
    /// How many were told and aren't among the items: ok, failed, not covered, unsupported.
    told: [usize; 4],
    /// How many warnings were told and aren't among the warnings.
    warned: usize,
    /// The section that is told, and the place in it of what comes next.
    next: (u32, u64),
}

impl Report {
    /// Adds a check.
    pub fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    /// Adds a check, or gives it to [`VerifyOptions::items`] and adds it only if there is something to be
    /// done about it, or not even then ([`VerifyOptions::forget`], [`VerifyOptions::spared`]). What is added later
    /// about one that is there is not told.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use tensor_core::{Item, Outcome, Report, VerifyOptions};
    ///
    /// let told = Mutex::new(Vec::new());
    /// let tell = |item: &Item| told.lock().unwrap().push(item.item.clone());
    /// let options = VerifyOptions::default().with_items(&tell);
    /// let mut report = Report::default();
    /// report.tell(Item::new("a", Outcome::NotCovered), &options);
    /// report.tell(Item::new("b", Outcome::Failed), &options);
    /// assert_eq!(*told.lock().unwrap(), ["a", "b"]);
    /// assert_eq!((report.items.len(), report.has_failed()), (1, true));
    ///
    /// report.tell(Item::new("c", Outcome::Failed), &options.with_forget(true));
    /// assert_eq!((report.items.len(), report.count(Outcome::Failed)), (1, 2));
    /// ```
    pub fn tell(&mut self, item: Item, options: &VerifyOptions<'_>) {
        self.place(options);
        let is_well = matches!(item.outcome, Outcome::Ok | Outcome::NotCovered);
        if let Some(tell) = options.items {
            tell(&item);
            let is_known = item.outcome != Outcome::Failed || !item.tensors.is_empty();
            if is_well || options.forget || (options.spared.is_some() && is_known) {
                let count = self.told.get_mut(place(item.outcome));
                if let Some(count) = count {
                    *count = count.saturating_add(1);
                }
                return;
            }
        }
        self.push(item);
    }

    /// Adds a warning, or gives it to [`VerifyOptions::warnings`] and only counts it. All items come first.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use tensor_core::{Report, VerifyOptions};
    ///
    /// let mut report = Report::default();
    /// report.warn("a gap before \"w\"", &VerifyOptions::default());
    /// let told = Mutex::new(Vec::new());
    /// let tell = |warning: &str| told.lock().unwrap().push(warning.to_owned());
    /// report.warn("a gap before \"b\"", &VerifyOptions::default().with_warnings(&tell));
    /// assert_eq!(*told.lock().unwrap(), ["a gap before \"b\""]);
    /// assert_eq!((report.warnings.len(), report.warning_count()), (1, 2));
    /// ```
    pub fn warn(&mut self, warning: impl Into<String>, options: &VerifyOptions<'_>) {
        self.place(options);
        let warning = warning.into();
        match options.warnings {
            Some(tell) => {
                tell(&warning);
                self.warned = self.warned.saturating_add(1);
            }
            None => self.warnings.push(warning),
        }
    }

    /// Passes over the places of so many items, which another share of the checks has
    /// ([`VerifyOptions::share`]).
    ///
    /// [`Share`](crate::Share) has an example.
    pub fn skip(&mut self, items: u64) {
        self.next.1 = self.next.1.saturating_add(items);
    }

    /// Begins a section: what is told from now on has its places counted anew. Sections are numbered so that
    /// those who share a verification need not know how many items are in the others' sections. Warnings,
    /// which come after all items, have sections of their own.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use tensor_core::{Item, Outcome, Report, Share, VerifyOptions};
    ///
    /// #[derive(Default)]
    /// struct All(Mutex<Vec<(u32, u64)>>);
    ///
    /// impl Share for All {
    ///     fn has(&self, _: &mut dyn Iterator<Item = usize>) -> bool {
    ///         true
    ///     }
    ///     fn has_rest(&self) -> bool {
    ///         true
    ///     }
    ///     fn at(&self, section: u32, item: u64) {
    ///         self.0.lock().unwrap().push((section, item));
    ///     }
    /// }
    /// let all = All::default();
    /// let options = VerifyOptions::default().with_share(&all);
    /// let mut report = Report::default();
    /// report.tell(Item::new("index", Outcome::Ok), &options);
    /// report.begin(1);
    /// report.tell(Item::new("part", Outcome::Ok), &options);
    /// report.begin(0);
    /// report.warn("odd", &options);
    /// assert_eq!(*all.0.lock().unwrap(), [(0, 0), (1, 0), (0, 0)]);
    /// ```
    pub fn begin(&mut self, section: u32) {
        self.next = (section, 0);
    }

    /// Tells a share where the next item or warning stands.
    fn place(&mut self, options: &VerifyOptions<'_>) {
        if let Some(share) = options.share {
            share.at(self.next.0, self.next.1);
        }
        self.skip(1);
    }

    /// How many warnings there were, those that were told and not kept among them.
    ///
    /// ```
    /// use tensor_core::{Report, VerifyOptions};
    ///
    /// let mut report = Report::default();
    /// report.warn("a gap before \"w\"", &VerifyOptions::default());
    /// assert_eq!(report.warning_count(), 1);
    /// ```
    #[must_use]
    pub fn warning_count(&self) -> usize {
        self.warnings.len().saturating_add(self.warned)
    }

    /// Whether any check failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.count(Outcome::Failed) > 0
    }

    /// Whether anything could not be interpreted.
    #[must_use]
    pub fn has_unsupported(&self) -> bool {
        self.count(Outcome::Unsupported) > 0
    }

    /// How many checks had this outcome, those that were told and not kept among them.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        let kept = self.items.iter().filter(|item| item.outcome == outcome);
        let told = self.told.get(place(outcome)).copied().unwrap_or(0);
        kept.count().saturating_add(told)
    }
}

/// Where an outcome is counted.
fn place(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Ok => 0,
        Outcome::Failed => 1,
        Outcome::NotCovered => 2,
        Outcome::Unsupported => 3,
    }
}

/// One line: the outcome, what was checked, the check values where they differ, the note.
///
/// ```
/// use tensor_core::Item;
///
/// let item = Item::compared("w", "0x0000001f", "0x0000002a").with_note("crc32c");
/// assert_eq!(item.to_string(), "failed w: expected 0x0000001f, found 0x0000002a (crc32c)");
/// ```
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.outcome.name(), self.item)?;
        if let (Outcome::Failed, Some(expected), Some(found)) =
            (self.outcome, &self.expected, &self.found)
        {
            write!(f, ": expected {expected}, found {found}")?;
        }
        match &self.note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}

/// A line for each check, then one for each warning.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.items.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}{item}")?;
        }
        for (at, warning) in self.warnings.iter().enumerate() {
            let end = if at == 0 && self.items.is_empty() {
                ""
            } else {
                "\n"
            };
            write!(f, "{end}warning: {warning}")?;
        }
        Ok(())
    }
}
