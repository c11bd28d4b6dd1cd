//! What is done to some tensors of a model and not to others: casts, and dims that are swapped.

use tensor_core::{DType, Order};

use super::cast::{CastReport, wanted};
use super::notes::{Note, cast_note};
use super::{Layout, Model, ModelTensor, Options, Refusal};
use crate::codec::{Capabilities, Prepared};
use crate::{Error, Result};

/// Which cast a tensor gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Casting {
    /// That of [`Options::cast`].
    #[default]
    Common,
    /// None at all.
    Keep,
    /// The one of this number among the model's own.
    Own(u32),
}

/// A cast of some tensors.
#[derive(Clone, Debug)]
pub(crate) struct OwnCast {
    label: String,
    to: DType,
}

impl Model {
    /// Casts the tensors whose name `chosen` accepts to `to`, whatever [`Options::cast`] is for the others,
    /// and by the same rules: floats to a float, integers and bools to an integer. Of several such casts the
    /// last one applies. `label` is for notes of what became of it.
    ///
    /// Tells how many tensors are chosen.
    pub fn cast(
        &mut self,
        label: impl Into<String>,
        to: DType,
        chosen: impl Fn(&str) -> bool,
    ) -> usize {
        let number = u32::try_from(self.casts.len()).unwrap_or(u32::MAX);
        let label = label.into();
        self.casts.push(OwnCast { label, to });
        self.set_casting(Casting::Own(number), chosen)
    }

    /// Keeps the dtype of the tensors whose name `chosen` accepts, whatever is to be cast. Tells how many
    /// they are.
    pub fn keep_dtype(&mut self, chosen: impl Fn(&str) -> bool) -> usize {
        self.set_casting(Casting::Keep, chosen)
    }

    fn set_casting(&mut self, casting: Casting, chosen: impl Fn(&str) -> bool) -> usize {
        let mut count = 0;
        for tensor in &mut self.tensors {
            if chosen(&tensor.name) {
                tensor.casting = casting;
                count += 1;
            }
        }
        count
    }

    /// Swaps the two dims of the tensors whose name `chosen` accepts: the value at row i and column j comes
    /// to row j and column i. The data moves when it is written.
    ///
    /// # Errors
    /// [`Error::Refused`] with all of them that don't have two dims, or elements of a known size; nothing is
    /// changed then.
    pub fn transpose(&mut self, chosen: impl Fn(&str) -> bool) -> Result<()> {
        let is_movable =
            |tensor: &ModelTensor| tensor.dtype.is_some_and(|dtype| dtype.size().is_some());
        let refusal = |tensor: &ModelTensor| {
            let reason = match (tensor.shape.rank(), is_movable(tensor)) {
                (2, true) => return None,
                (2, false) => "its elements have no known size, so they can't be moved".to_owned(),
                _ => format!("two dims can be swapped, and it is {}", tensor.shape),
            };
            Some(Refusal {
                tensor: tensor.name.clone(),
                dtype: tensor.dtype_name.to_string(),
                reason,
                damaged: false,
                remedy: None,
            })
        };
        let all = || self.tensors.iter().filter(|tensor| chosen(&tensor.name));
        let refused: Vec<Refusal> = all().filter_map(refusal).collect();
        if !refused.is_empty() {
            return Err(Error::Refused(refused));
        }
        for tensor in &mut self.tensors {
            if chosen(&tensor.name) {
                // The same bytes in the other order are the other matrix.
                tensor.shape = tensor.shape.reversed();
                tensor.order = match tensor.order {
                    Order::RowMajor => Order::ColumnMajor,
                    Order::ColumnMajor => Order::RowMajor,
                };
                tensor.turned = !tensor.turned;
            }
        }
        Ok(())
    }

    /// Refuses choices that make no sense for a target or with other options.
    pub(crate) fn check_choices(
        &self,
        target: &str,
        capabilities: &Capabilities,
        options: &Options,
    ) -> Result<()> {
        let casts = options
            .cast
            .into_iter()
            .chain(self.casts.iter().map(|cast| cast.to));
        if let Some(dtype) = casts
            .into_iter()
            .find(|&dtype| !(capabilities.holds)(dtype))
        {
            return Err(Error::Usage(format!(
                "a {target} file can't hold {dtype}, so nothing can be cast to it"
            )));
        }
        let turned = self.tensors.iter().find(|tensor| tensor.turned);
        match turned.filter(|_| options.layout == Layout::KeepBytes) {
            Some(tensor) => Err(Error::Usage(format!(
                "tensor {:?} is transposed, which moves bytes that the layout is to keep",
                tensor.name
            ))),
            None => Ok(()),
        }
    }
}

/// Where the cast of this number is.
fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What becomes of all casts of a conversion.
pub(crate) struct Casts {
    own: Vec<(OwnCast, CastReport)>,
    pub(crate) common: Option<CastReport>,
    /// How many tensors are kept as they are, and how many of these would be cast.
    kept: (u64, u64),
}

impl Casts {
    pub(crate) fn new(own: Vec<OwnCast>, options: &Options) -> Self {
        let report = |own: OwnCast| {
            let report = CastReport::new(own.to);
            (own, report)
        };
        Self {
            own: own.into_iter().map(report).collect(),
            common: options.cast.map(CastReport::new),
            kept: (0, 0),
        }
    }

    /// The options for a tensor, whose cast is its own.
    pub(crate) fn options(&self, casting: Casting, options: &Options) -> Options {
        let mut options = *options;
        match casting {
            Casting::Common => {}
            Casting::Keep => options.cast = None,
            Casting::Own(number) => {
                options.cast = self.own.get(place(number)).map(|(own, _)| own.to)
            }
        }
        options
    }

    /// Notes what became of a tensor that was of dtype `from`, named `dtype`.
    pub(crate) fn note(
        &mut self,
        casting: Casting,
        prepared: &Prepared,
        (from, dtype): (Option<DType>, &str),
        (target, options): (&Capabilities, &Options),
    ) {
        let report = match casting {
            Casting::Common => self.common.as_mut(),
            Casting::Own(number) => self.own.get_mut(place(number)).map(|(_, report)| report),
            Casting::Keep => {
                self.kept.0 += 1;
                let casts = |from| wanted(from, target, options).is_some();
                self.kept.1 += u64::from(from.is_some_and(casts));
                None
            }
        };
        if let Some(report) = report {
            report.note(prepared, from, dtype);
        }
    }

    /// What is worth saying: casts that left tensors as they were, and what was kept though nothing would
    /// have been cast.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        notes.extend(self.common.as_ref().and_then(cast_note));
        for (own, report) in &self.own {
            notes.extend(cast_note(report).map(|mut note| {
                note.what = match note.is_idle() {
                    true => format!("{:?}: {}", own.label, note.what),
                    false => format!("{} (of {:?})", note.what, own.label),
                };
                note
            }));
        }
        if let (all @ 1.., 0) = self.kept {
            let what = "none of the tensors that are kept would be cast";
            notes.push(Note::new("keep", 0, all, what));
        }
        notes
    }

    /// What became of the model's own casts, in their order.
    pub(crate) fn own(&self) -> impl Iterator<Item = &CastReport> {
        self.own.iter().map(|(_, report)| report)
    }
}
