use std::process::ExitCode;

use serde::Serialize;
use tensor_core::DType;
use tensorfmt::Format;
use tensorfmt::convert::Target;

use crate::Outcome;
use crate::cli::Formats;
use crate::output::Out;

#[derive(Serialize)]
struct Line {
    format: &'static str,
    extensions: &'static [&'static str],
    /// Those of them that a conversion may write.
    written: Vec<&'static str>,
    dtypes: Vec<&'static str>,
    reads: &'static str,
    writes: &'static str,
}

pub(crate) fn run(args: &Formats) -> Outcome {
    let lines: Vec<Line> = Format::ALL
        .iter()
        .filter(|format| format.is_enabled())
        .map(|&format| {
            let target = Target::ALL
                .iter()
                .copied()
                .find(|target| target.format() == format);
            let held = |dtype: &DType| target.is_some_and(|target| target.holds(*dtype));
            let (reads, writes) = generations(format);
            Line {
                format: format.name(),
                extensions: format.extensions(),
                written: format
                    .extensions()
                    .iter()
                    .copied()
                    .filter(|ending| Target::from_path(format!("x.{ending}")).is_some())
                    .collect(),
                dtypes: DType::ALL
                    .iter()
                    .filter(|d| held(d))
                    .map(|d| d.name())
                    .collect(),
                reads,
                writes,
            }
        })
        .collect();
    let mut out = Out::new();
    if args.json {
        out.json(&lines)?;
    } else {
        for line in &lines {
            // Some are only read.
            let ending = |ending: &&'static str| match line.written.contains(ending) {
                true => format!(".{ending}"),
                false => format!("(.{ending})"),
            };
            let endings: Vec<String> = line.extensions.iter().map(ending).collect();
            out.line(&format!("{:11}  {}", line.format, endings.join(" ")))?;
            out.line(&format!("  reads      {}", line.reads))?;
            out.line(&format!("  writes     {}", line.writes))?;
            let dtypes: Vec<String> = line.dtypes.iter().copied().map(String::from).collect();
            let mut before = "  holds      ";
            for dtypes in crate::output::lines(&dtypes, " ", 67) {
                out.line(&format!("{before}{dtypes}"))?;
                before = "             ";
            }
        }
        out.line("endings in brackets are read, not written")?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Which generations of a format are read, and which are written.
pub(crate) fn generations(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::Mag => ("version 1, snapshots 0.1 to 0.3", "version 1"),
        Format::Ztensor => ("0.1, 1.0 to 1.2, 2", "0.1"),
        Format::Burnpack => ("0.19 to 0.23", "0.22 (0.20, 0.21)"),
        Format::Aero => ("0.1, sets 0.1 and 0.2", "0.1, sets 0.1"),
        Format::Primitiv => ("0.1", "0.1"),
        _ => ("all", "all"),
    }
}
