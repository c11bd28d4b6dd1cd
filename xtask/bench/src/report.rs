//! Rows, and the page that they make.

use std::fmt::Write as _;

use serde_json::json;

use crate::time::{Times, median};

/// What a row must reach.
#[derive(Clone, Copy)]
pub enum Bar {
    /// The speed as a multiple of the other's.
    Speed(f64),
    /// The time as a multiple of the other's.
    Time(f64),
    /// Seconds more than the other.
    Extra(f64),
    /// MiB of memory.
    Memory(f64),
    /// Nothing to reach; the time as a multiple of the other's.
    None,
}

pub struct Row {
    pub work: String,
    pub format: String,
    pub against: String,
    pub bar: Bar,
    /// In terms of the bar.
    pub figure: f64,
    pub ours: String,
    pub theirs: String,
}

impl Row {
    pub fn new(work: &str, format: &str, bar: Bar, ours: &Times, theirs: &Times) -> Self {
        let figure = match bar {
            Bar::Speed(_) => ours.speed_over(theirs),
            Bar::Time(_) | Bar::None => 1.0 / ours.speed_over(theirs),
            Bar::Extra(_) => {
                let pairs = ours.seconds.iter().zip(&theirs.seconds);
                median(&pairs.map(|(a, b)| a - b).collect::<Vec<f64>>())
            }
            Bar::Memory(_) => f64::NAN,
        };
        Self {
            work: work.to_owned(),
            format: format.to_owned(),
            against: theirs.name.clone(),
            bar,
            figure,
            ours: spread(ours),
            theirs: spread(theirs),
        }
    }

    pub fn holds(&self) -> Option<bool> {
        match self.bar {
            Bar::Speed(bar) => Some(self.figure >= bar),
            Bar::Time(bar) | Bar::Extra(bar) | Bar::Memory(bar) => Some(self.figure <= bar),
            Bar::None => None,
        }
    }

    pub fn cells(&self) -> [String; 7] {
        let figure = self.figure;
        let (figure, bar) = match self.bar {
            Bar::Speed(bar) => (format!("{figure:.2}x speed"), format!("≥ {bar:.2}")),
            Bar::Time(bar) => (format!("{figure:.2}x time"), format!("≤ {bar:.2}")),
            Bar::Extra(bar) => (
                format!("{:+.2} ms", figure * 1e3),
                format!("≤ {:.0} ms", bar * 1e3),
            ),
            Bar::Memory(bar) => (format!("{figure:.0} MiB"), format!("≤ {bar:.0}")),
            Bar::None => (format!("{figure:.2}x time"), String::new()),
        };
        let verdict = match self.holds() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        [
            self.format.clone(),
            self.against.clone(),
            figure,
            bar,
            verdict.to_owned(),
            self.ours.clone(),
            self.theirs.clone(),
        ]
    }

    pub fn json(&self) -> serde_json::Value {
        json!({
            "work": self.work, "format": self.format, "against": self.against,
            "figure": self.figure, "holds": self.holds(), "ours": self.ours, "theirs": self.theirs,
        })
    }
}

/// Median, least and greatest, with a unit.
pub fn spread(times: &Times) -> String {
    let (unit, scale) = match times.median() {
        s if s >= 1.0 => ("s", 1.0),
        s if s >= 1e-3 => ("ms", 1e3),
        _ => ("µs", 1e6),
    };
    let scaled = |seconds: f64| {
        format!("{:.3}", seconds * scale)
            .chars()
            .take(5)
            .collect::<String>()
    };
    let trim = |text: String| text.trim_end_matches('.').to_owned();
    format!(
        "{} {unit} ({} to {})",
        trim(scaled(times.median())),
        trim(scaled(times.min())),
        trim(scaled(times.max())),
    )
}

/// The rows as Markdown, a table for each work, in the order in which they came.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut work = "";
    for row in rows {
        if row.work != work {
            work = &row.work;
            let _ = writeln!(text, "\n### {work}\n");
            text += "| | against | figure | bar | holds | tensorfmt: median (min to max) | the other |\n";
            text += "|---|---|---:|---:|---|---|---|\n";
        }
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}
