//! Moments as JSON, bit by bit, so that what several machines found adds up to what one finds.

use serde::{Deserialize, Serialize};

use super::{Moments, Scalar, Spread, Welford};

/// [`Moments`] in a report: floats as the integers that have their bits, integers of 128 bits as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    count: u64,
    nan: u64,
    inf: u64,
    zeros: u64,
    finite: u64,
    extremes: Option<[Exact; 2]>,
    bounds: Option<[Exact; 2]>,
    /// Count, mean and sum of squares of each.
    small: [u64; 3],
    large: [u64; 3],
    middle: [u64; 3],
    origin: String,
    sum: String,
}

/// A value, exactly.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Exact {
    Float(u64),
    Whole(String),
}

impl Exact {
    fn of(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Float(value) => Self::Float(value.to_bits()),
            Scalar::Whole(value) => Self::Whole(value.to_string()),
        }
    }

    fn scalar(&self) -> Option<Scalar> {
        Some(match self {
            Self::Float(bits) => Scalar::Float(f64::from_bits(*bits)),
            Self::Whole(text) => Scalar::Whole(text.parse().ok()?),
        })
    }
}

impl Welford {
    fn state(self) -> [u64; 3] {
        [self.count, self.mean.to_bits(), self.squares.to_bits()]
    }

    fn of_state([count, mean, squares]: [u64; 3]) -> Self {
        Self {
            count,
            mean: f64::from_bits(mean),
            squares: f64::from_bits(squares),
        }
    }
}

/// A pair that may be absent; `None` outside where it is there and makes no sense.
fn pair(exact: Option<&[Exact; 2]>) -> Option<Option<(Scalar, Scalar)>> {
    let Some([low, high]) = exact else {
        return Some(None);
    };
    Some(Some((low.scalar()?, high.scalar()?)))
}

impl Moments {
    /// All that is known, for a report.
    pub(crate) fn state(&self) -> State {
        let exact = |(low, high): (Scalar, Scalar)| [Exact::of(low), Exact::of(high)];
        State {
            count: self.count,
            nan: self.nan,
            inf: self.inf,
            zeros: self.zeros,
            finite: self.finite,
            extremes: self.extremes.map(exact),
            bounds: self.bounds.map(exact),
            small: self.spread.small.state(),
            large: self.spread.large.state(),
            middle: self.spread.middle.state(),
            origin: self.spread.origin.to_string(),
            sum: self.spread.sum.to_string(),
        }
    }

    /// The moments of a report, `None` where it makes no sense.
    pub(crate) fn of_state(state: &State) -> Option<Self> {
        Some(Self {
            count: state.count,
            nan: state.nan,
            inf: state.inf,
            zeros: state.zeros,
            finite: state.finite,
            extremes: pair(state.extremes.as_ref())?,
            bounds: pair(state.bounds.as_ref())?,
            spread: Spread {
                small: Welford::of_state(state.small),
                large: Welford::of_state(state.large),
                middle: Welford::of_state(state.middle),
                origin: state.origin.parse().ok()?,
                sum: state.sum.parse().ok()?,
            },
        })
    }
}
