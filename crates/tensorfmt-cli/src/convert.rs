use std::path::Path;
use std::process::ExitCode;

use regex::Regex;
use serde::Serialize;
use tensor_core::Outcome as Check;
use tensorfmt::convert::{
    Checksum, Layout, Loss, Model, ModelTensor, Options, Plan, PrimitivObject, Target, plan,
};
use tensorfmt::{Archive, DType, Value, WriteOptions};

use crate::Outcome;
use crate::cli::{ChecksumArg, Common, Convert, LayoutArg};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain};
use crate::input::{Globs, Input, warn_unmatched};
use crate::output::{Out, escape};
use crate::progress::Meter;
use crate::target::{may_write, same_file};
use crate::verify;

#[derive(Serialize)]
struct Document {
    losses: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    kind: &'static str,
    item: String,
    reason: String,
}

pub(crate) fn run(args: &Convert, common: &Common) -> Outcome {
    let target = target(args)?;
    let options = options(args)?;
    let edits = Edits::new(args)?;
    may_write(&args.output, args.force)?;
    if args.in_place && same_file(&args.input, &args.output) {
        let path = args.output.display();
        return Err(Failure::usage(format!(
            "{path} is the input; --in-place would overwrite it while it is read"
        )));
    }
    let input = Input::new(&args.input)?;
    let archive = if args.salvage {
        input.salvage()
    } else {
        input.open()
    };
    let archive = archive.map_err(|error| Failure::about(&input.path, &error))?;
    let mut model = Model::of(&archive);
    let before = model.tensors.len();
    edits.apply(&mut model, common)?;
    if model.tensors.is_empty() && before > 0 && !common.quiet {
        complain(&format!("warning: none of {before} tensors is left"));
    }
    let checks = !args.no_verify && !args.salvage;
    let plan = match plan(model, target, &options) {
        Ok(plan) => plan,
        Err(error) => {
            // A file that can't be read in full may be damaged as well, which outranks that.
            let is_readable = |entry| archive.data(entry).is_ok();
            let readable = archive.entries().iter().all(is_readable);
            if checks && !readable && !is_whole(&archive, &input, &edits, common)? {
                return Ok(ExitCode::from(INVALID));
            }
            return Err(Failure::about(&input.path, &error));
        }
    };

    // Another set in the folder may have files of the same names.
    for path in plan.files_beside(&args.output) {
        may_write(&path, args.force)?;
    }
    report(plan.losses(), args.json, common)?;
    if args.strict && !plan.losses().is_empty() {
        complain("nothing written: --strict refuses losses");
        return Ok(ExitCode::from(UNSUPPORTED));
    }
    // What is damaged must not get a new checksum that is right.
    if checks && !is_whole(&archive, &input, &edits, common)? {
        return Ok(ExitCode::from(INVALID));
    }
    write(&plan, args, common)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes every check that the input allows, and says what fails of what is to be converted.
fn is_whole(
    archive: &Archive,
    input: &Input,
    edits: &Edits,
    common: &Common,
) -> Result<bool, Failure> {
    let report = verify::verify(archive, false, common);
    let report = report.map_err(|error| Failure::about(&input.path, &error))?;
    let is_left_out = |name: &str| archive.entry(name).is_some() && !edits.keeps(name);
    let mut whole = true;
    for item in report.items {
        if item.outcome == Check::Failed && !is_left_out(&item.item) {
            whole = false;
            let (path, item) = (input.path.display(), verify::words(&verify::line(item)));
            complain(&escape(&format!("{path}: {item}")));
        }
    }
    if !whole {
        complain(
            "nothing written: the input fails its checks; --exclude leaves out tensors, \
            --no-verify converts all as it is",
        );
    }
    Ok(whole)
}

/// The target that a name of another generation of its format is near to: `ztensor-2`, `zt1.2`,
/// `snapshot`.
fn other_generation(name: &str) -> Option<Target> {
    let name = name.to_ascii_lowercase();
    let of = |target: &&Target| {
        let format = target.format();
        let mut stems = vec![format.name()];
        stems.extend(format.extensions());
        stems.iter().any(|stem| {
            let rest = name.strip_prefix(stem).unwrap_or_default();
            rest.contains(|c: char| c.is_ascii_digit()) || rest.contains("snapshot")
        })
    };
    match name.starts_with("snapshot") {
        true => Some(Target::Mag),
        false => Target::ALL.iter().find(of).copied(),
    }
}

fn target(args: &Convert) -> Result<Target, Failure> {
    let known: Vec<&str> = Target::ALL.iter().map(|target| target.name()).collect();
    match &args.to {
        Some(name) => Target::from_name(name).ok_or_else(|| {
            let known = known.join(", ");
            Failure::usage(match other_generation(name) {
                Some(target) => format!(
                    "--to {name:?}: other generations are read, not written; --to {} writes {}",
                    target.name(),
                    crate::formats::generations(target.format()).1
                ),
                None => format!("--to {name:?}: known formats are {known}"),
            })
        }),
        None => Target::from_path(&args.output).ok_or_else(|| {
            let path = args.output.display();
            let known = known.join(", ");
            Failure::usage(format!(
                "{path}: its ending names no format; say --to one of {known}"
            ))
        }),
    }
}

fn options(args: &Convert) -> Result<Options, Failure> {
    let mut options = Options::default();
    if let Some(name) = &args.cast {
        let dtype = DType::from_name(name).filter(|d| d.is_float() || d.is_integer());
        options.cast = Some(dtype.ok_or_else(|| {
            Failure::usage(format!(
                "--cast {name:?}: not a dtype such as f32, bf16 or i32"
            ))
        })?);
    }
    options.skip_unsupported = args.skip_unsupported;
    options.promote_scalars = args.promote_scalars;
    options.max_shard_bytes = args.max_shard_bytes;
    options.max_part_shards = args.max_part_shards;
    options.tensor_hash = args.tensor_hash;
    options.ihsh = args.ihsh;
    options.phsh = args.phsh;
    options.page_align = args.page_align;
    options.with_stats = args.with_stats;
    options.whole_names = args.whole_names;
    options.primitiv = PrimitivObject::from_path(&args.output);
    options.zstd = args.zstd;
    options.checksum = args.checksum.map(|checksum| match checksum {
        ChecksumArg::None => Checksum::None,
        ChecksumArg::Crc32c => Checksum::Crc32c,
        ChecksumArg::Sha256 => Checksum::Sha256,
    });
    options.layout = match args.layout {
        LayoutArg::KeepDims => Layout::KeepDims,
        LayoutArg::KeepBytes => Layout::KeepBytes,
    };
    Ok(options)
}

/// What to change on the way.
struct Edits {
    filter: Globs,
    exclude: Globs,
    renames: Vec<(Regex, String)>,
    set: Vec<(String, Value)>,
    drop: Globs,
    sort: bool,
}

impl Edits {
    fn new(args: &Convert) -> Result<Self, Failure> {
        Ok(Self {
            filter: Globs::new(&args.filter)?,
            exclude: Globs::new(&args.exclude)?,
            renames: args
                .rename
                .iter()
                .map(|text| rename(text))
                .collect::<Result<_, _>>()?,
            set: args
                .set_metadata
                .iter()
                .map(|text| pair(text))
                .collect::<Result<_, _>>()?,
            drop: Globs::new(&args.drop_metadata)?,
            sort: args.sort,
        })
    }

    /// Whether a tensor of this name is converted.
    fn keeps(&self, name: &str) -> bool {
        (self.filter.is_empty() || self.filter.matches(name)) && !self.exclude.matches(name)
    }

    fn apply(&self, model: &mut Model, common: &Common) -> Result<(), Failure> {
        let names = model.tensors.iter().map(ModelTensor::name);
        self.filter
            .warn_unmatched("--filter", names.clone(), common);
        self.exclude.warn_unmatched("--exclude", names, common);
        model.retain(|name| self.keeps(name));
        for (regex, replacement) in &self.renames {
            let mut names = model.tensors.iter().map(ModelTensor::name);
            if !names.any(|name| regex.is_match(name)) {
                warn_unmatched("--rename", regex.as_str(), common);
            }
            model.rename(|name| regex.replace(name, replacement.as_str()).into_owned())?;
        }
        let keys = model.metadata.iter().map(|(key, _)| key.as_str());
        self.drop.warn_unmatched("--drop-metadata", keys, common);
        model.drop_metadata(|key| self.drop.matches(key));
        for (key, value) in &self.set {
            model.set_metadata(key.clone(), value.clone());
        }
        if self.sort {
            model.sort();
        }
        Ok(())
    }
}

/// Parses `s/REGEX/REPLACEMENT/`; any character may stand for the slash.
fn rename(text: &str) -> Result<(Regex, String), Failure> {
    let wrong = || Failure::usage(format!("--rename {text:?}: not of the form s/REGEX/REPL/"));
    let rest = text.strip_prefix('s').ok_or_else(wrong)?;
    let separator = rest.chars().next().ok_or_else(wrong)?;
    let parts: Vec<&str> = rest.split(separator).collect();
    match parts.as_slice() {
        ["", regex, replacement, ""] => {
            let regex = Regex::new(regex)
                .map_err(|error| Failure::usage(format!("--rename {text:?}: {error}")))?;
            Ok((regex, (*replacement).to_owned()))
        }
        _ => Err(wrong()),
    }
}

/// Parses `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, Value), Failure> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        Failure::usage(format!(
            "--set-metadata {text:?}: not of the form KEY=VALUE"
        ))
    })?;
    let value = match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        value => match (
            value.parse::<i64>(),
            value.parse::<u64>(),
            value.parse::<f64>(),
        ) {
            (Ok(value), _, _) => Value::from(value),
            (_, Ok(value), _) => Value::from(value),
            (_, _, Ok(value)) => Value::from(value),
            _ => Value::from(value),
        },
    };
    Ok((key.to_owned(), value))
}

fn report(losses: &[Loss], json: bool, common: &Common) -> Result<(), Failure> {
    if json {
        let line = |loss: &Loss| Line {
            kind: loss.kind.name(),
            item: loss.item.clone(),
            reason: loss.reason.clone(),
        };
        let mut out = Out::new();
        out.json(&Document {
            losses: losses.iter().map(line).collect(),
        })?;
        return out.finish();
    }
    if !common.quiet {
        for loss in losses {
            complain(&format!("lost: {}", escape(&loss.to_string())));
        }
    }
    Ok(())
}

fn write(plan: &Plan, args: &Convert, common: &Common) -> Result<(), Failure> {
    let meter = Meter::new(plan.data_len(), common);
    let progress = |bytes| meter.tick(bytes);
    let mut options = WriteOptions::default();
    options.threads = common.threads;
    options.in_place = args.in_place;
    options.progress = Some(&progress);
    let path: &Path = &args.output;
    plan.write_file(path, &options)
        .map_err(|error| Failure::about(path, &error))
}
