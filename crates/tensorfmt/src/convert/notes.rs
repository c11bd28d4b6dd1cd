//! What the options of a conversion did: an option that was given and changed nothing is reported.

use std::fmt;

use super::choices::Casts;
use super::{CastReport, Layout, ModelTensor, Options};
use crate::codec::{Capabilities, Native, Prepared};

/// What became of an option that was asked for: it changed all that it could, a part, or nothing.
///
/// ```
/// use tensorfmt::convert::Note;
///
/// let note = Note::new("promote_scalars", 0, 3, "no tensor is a scalar");
/// assert!(note.is_idle());
/// assert_eq!(note.to_string(), "`promote_scalars` changed nothing: no tensor is a scalar");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The option, as the field of [`Options`] is called.
    pub option: &'static str,
    /// How many things it changed.
    pub changed: u64,
    /// How many there are of the kind.
    pub of: u64,
    /// What they are, in the plural, and what would have made it change them.
    pub what: String,
}

impl Note {
    /// What became of `option`.
    pub fn new(option: &'static str, changed: u64, of: u64, what: impl Into<String>) -> Self {
        Self {
            option,
            changed,
            of,
            what: what.into(),
        }
    }

    /// Whether the option changed nothing at all.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.changed == 0
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (option, what) = (self.option, &self.what);
        match self.is_idle() {
            true => write!(f, "`{option}` changed nothing: {what}"),
            false => write!(
                f,
                "`{option}` changed {} of {} {what}",
                self.changed, self.of
            ),
        }
    }
}

/// Counts what the options do while tensors are prepared.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    tensors: u64,
    turned: u64,
    promoted: u64,
    stats: u64,
    dotted: u64,
    compressed: u64,
    checksums: u64,
}

impl Effects {
    /// Notes what became of a tensor.
    pub(crate) fn note(&mut self, before: &Before, after: &Prepared, options: &Options) {
        let count = |counter: &mut u64, changed: bool| *counter += u64::from(changed);
        self.tensors += 1;
        count(&mut self.turned, before.turned);
        count(
            &mut self.promoted,
            before.rank == 0 && after.spec.shape().rank() > 0,
        );
        count(&mut self.stats, before.is_stat);
        count(&mut self.dotted, after.name.contains('.'));
        let (compressed, checksum) = stored_as(after.native.as_ref(), options);
        count(&mut self.compressed, !compressed);
        count(&mut self.checksums, !checksum);
    }

    /// What is worth saying: options that changed nothing, or a part.
    pub(crate) fn notes(&self, options: &Options, casts: &Casts) -> Vec<Note> {
        let Self { tensors, .. } = *self;
        let mut notes = casts.notes();
        let mut check = |asked: bool, option, changed: u64, part: &str, none: &str| {
            if asked && changed == 0 {
                notes.push(Note::new(option, 0, tensors, none));
            } else if asked && changed < tensors {
                notes.push(Note::new(option, changed, tensors, part));
            }
        };
        let turns = options.layout == Layout::KeepBytes;
        let none = "the tensors have the order of the target already";
        check(
            turns,
            "layout",
            self.turned,
            "tensors; the order of the others is free or the target's",
            none,
        );
        // These are for a few tensors by their nature; what they did is a loss of its own.
        let mut idle = |asked: bool, option, changed: u64, none: &str| {
            if asked && changed == 0 {
                notes.push(Note::new(option, 0, tensors, none));
            }
        };
        idle(
            options.promote_scalars,
            "promote_scalars",
            self.promoted,
            "no tensor is a scalar",
        );
        idle(
            options.with_stats,
            "with_stats",
            self.stats,
            "no tensor is a statistic",
        );
        idle(
            options.whole_names,
            "whole_names",
            self.dotted,
            "no name has a dot",
        );
        idle(
            options.zstd.is_some() && tensors > 0,
            "zstd",
            self.compressed,
            "all tensors are compressed already",
        );
        idle(
            options.checksum.is_some() && tensors > 0,
            "checksum",
            self.checksums,
            "all tensors have that one already",
        );
        notes
    }
}

/// The note about a cast that left tensors unchanged, which most often is what was wanted.
pub(super) fn cast_note(cast: &CastReport) -> Option<Note> {
    let CastReport {
        to,
        already,
        others,
        passed_over,
        ..
    } = cast;
    let mut left = Vec::new();
    if *already > 0 {
        left.push(format!("{already} {to} already"));
    }
    if *others > 0 {
        let kind = if to.is_float() {
            "integers and bools"
        } else {
            "floats"
        };
        left.push(format!(
            "{others} {kind}, which a cast to {to} leaves alone"
        ));
    }
    if let Some(first) = passed_over.first() {
        let (count, name, dtype) = (passed_over.len(), &first.tensor, &first.dtype);
        let more = if count > 1 { ", ..." } else { "" };
        left.push(format!(
            "{count} that can't be cast ({name:?}: {dtype}{more})"
        ));
    }
    let changed = cast.changed as u64;
    let tensors = changed + (already + others + passed_over.len()) as u64;
    if left.is_empty() && changed > 0 {
        return None;
    }
    let left = left.join(", ");
    let what = match changed {
        0 if left.is_empty() => "there is no tensor for it".to_owned(),
        0 => left,
        _ => format!("tensors; {left}"),
    };
    Some(Note::new("cast", changed, tensors, what))
}

/// What a tensor was before it was prepared, as far as options change it.
pub(crate) struct Before {
    rank: usize,
    is_stat: bool,
    turned: bool,
}

impl Before {
    pub(crate) fn of(tensor: &ModelTensor, target: &Capabilities) -> Self {
        Self {
            rank: tensor.shape.rank(),
            is_stat: tensor.is_stat,
            turned: tensor.order != target.order && !tensor.shape.is_order_free(),
        }
    }
}

/// Whether the source has the tensor compressed as asked for, and with the checksum asked for.
fn stored_as(native: Option<&Native>, options: &Options) -> (bool, bool) {
    match native {
        #[cfg(feature = "ztensor")]
        Some(Native::Ztensor(native)) => crate::codec::ztensor::stored_as(native, options),
        #[cfg(feature = "ztensor")]
        Some(Native::ZtensorStored(own)) => crate::codec::ztensor::stored_as(&own.0, options),
        _ => {
            let _ = options;
            (false, false)
        }
    }
}
