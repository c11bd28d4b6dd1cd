//! What the values of a part of the tensors are like, and what all parts come to.

use serde::{Deserialize, Serialize};
use tensorfmt::Part;

use super::{Head, Tail, Totals};
use crate::cli::{FailOn, Stats};
use crate::failure::{Failure, INVALID};
use crate::files::worse;
use crate::input::Input;
use crate::measure::{Finding, Moments, State};
use crate::output::{List, Out};
use crate::reports::{self, Json, Reports};

/// What a report has before its tensors.
#[derive(Serialize)]
pub(super) struct Start {
    part: reports::Head,
}

impl Start {
    pub(super) fn new(
        args: &Stats,
        (input, part): (&Input, Part),
        archive: &tensorfmt::Archive,
    ) -> Result<Self, Failure> {
        let mut options = reports::patterns(&args.filter, &args.exclude);
        let fail_on = |what: &FailOn| format!("--fail-on={what:?}");
        options.extend(args.fail_on.iter().map(fail_on));
        let part = reports::Head::new("stats", part, &input.path, Some(archive), options)?;
        Ok(Self { part })
    }
}

/// A tensor of a report.
#[derive(Serialize)]
pub(super) struct Tensor<'a, T> {
    /// What is printed of it, if anything is.
    pub(super) line: Option<T>,
    pub(super) dtype: &'a str,
    pub(super) nbytes: u64,
    /// What its values add to the sum of all, where it has any.
    pub(super) moments: Option<State>,
}

impl Finding {
    /// What the values add to the sum of all, where there are any.
    pub(super) fn state(&self) -> Option<State> {
        match self {
            Self::Measured(measures) => Some(measures.moments.state()),
            Self::PassedOver(_) => None,
        }
    }
}

/// And what after them.
#[derive(Serialize)]
pub(super) struct Finish {
    pub(super) exit: u8,
}

/// A report that was read.
#[derive(Deserialize)]
struct Found {
    tensors: Vec<FoundTensor>,
    exit: u8,
}

#[derive(Deserialize)]
struct FoundTensor {
    line: Option<Json>,
    dtype: String,
    nbytes: u64,
    moments: Option<State>,
}

/// Prints what one run on the whole file does.
pub(crate) fn join(reports: &Reports) -> Result<u8, Failure> {
    let mut list: List = Out::new().list(&Head { path: None }, "tensors")?;
    let mut totals = Totals::default();
    let mut exit = 0;
    reports.each(|found: Found| {
        exit = worse(exit, found.exit);
        for tensor in found.tensors {
            if let Some(line) = &tensor.line {
                list.item(line)?;
            }
            let Some(state) = &tensor.moments else {
                continue;
            };
            let moments = Moments::of_state(state)
                .ok_or_else(|| Failure::new(INVALID, "a report has moments that are no numbers"))?;
            // One after the other, as one run adds them: sums of floats depend on their order.
            totals.merge(&tensor.dtype, tensor.nbytes, &moments);
        }
        Ok(())
    })?;
    list.end(&Tail {
        totals: totals.lines(),
    })?;
    Ok(exit)
}
