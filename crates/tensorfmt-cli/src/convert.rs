//! `convert`: what it is told to do, in which order things are checked, and what it says.

mod metadata;
mod report;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use tensor_core::Outcome as Check;
use tensorfmt::convert::{
    BurnpackGeneration, Checksum, Layout, Model, ModelTensor, Options, Plan, PrimitivObject,
    Target, plan,
};
use tensorfmt::{Archive, DType, Value, Work, WriteOptions};

use crate::Outcome;
use crate::cli::{ChecksumArg, Common, Convert, LayoutArg};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain};
use crate::input::Input;
use crate::names::{Idle, Patterns, Wanted};
use crate::output::escape;
use crate::progress::Meter;
use crate::rename::Rename;
use crate::signals::Graceful;
use crate::target::{self, Target as Output, has_room, is_not_input, may_write, same_name};
use crate::verify;

pub(crate) fn run(args: &Convert, common: &Common) -> Outcome {
    let target = target(args)?;
    let options = options(args)?;
    let mut edits = Edits::new(args)?;
    let output = Output::new(&args.output);
    output.takes_bytes(args.json)?;
    if output == Output::Stdout && target.is_set() {
        return Err(Failure::usage(
            "a set is several files, which standard output can't take",
        ));
    }
    if let (Output::Path(path), Target::SafetensorsSet) = (&output, target) {
        if Target::from_path(path) != Some(target) {
            return Err(Failure::usage(format!(
                "{}: the index of a set is named STEM.safetensors.index.json",
                path.display()
            )));
        }
    }
    let itself = same_name(&args.input, &args.output);
    // The input is edited safely: it is replaced by a file that is complete.
    let edited = itself && args.in_place;
    if let Output::Path(path) = &output {
        may_write(path, args.force || edited)?;
    }
    let input = Input::new(&args.input, common)?;
    let archive = if args.salvage {
        input.salvage()
    } else {
        input.open()
    };
    let archive = archive.map_err(|error| Failure::about(&input.path, &error))?;
    // One file may take its own place.
    let alone = itself && !target.is_set() && archive.files().len() == 1;
    if let (Output::Path(path), false) = (&output, alone) {
        is_not_input(&archive, &input.path, path)?;
    }
    input.allows(&archive, Work::Convert(target))?;
    let mut model = Model::of_for(&archive, target);
    let mut notes = edits.apply(&mut model)?;
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
            return Err(report::refused(&input.path, &error));
        }
    };

    // The tool's own choice of names: another set in the folder may have files of them.
    if let Output::Path(path) = &output {
        for path in plan.files_beside(path) {
            may_write(&path, args.force)?;
            is_not_input(&archive, &input.path, &path)?;
        }
    }
    notes.extend(plan.notes().iter().map(report::note));
    let mut report = report::Report::new(plan.losses(), notes);
    report.print(args.json, common);
    report.notices(archive.oddities().to_vec(), common);
    if plan.data_reordered() {
        report.notices(
            vec![
                "data is ordered by the size of its elements, so that each tensor starts at a \
                multiple of its own; the header keeps the order of the tensors"
                    .into(),
            ],
            common,
        );
    }
    let lost = plan.losses().iter().any(|loss| loss.kind.is_of_model());
    if args.strict && (lost || report.has_idle_option()) {
        report.finish(args.json)?;
        complain(match lost {
            true => "nothing written: --strict refuses losses",
            false => "nothing written: --strict refuses options that change nothing",
        });
        return Ok(ExitCode::from(UNSUPPORTED));
    }
    // What is damaged must not get a new checksum that is right.
    if checks && !is_whole(&archive, &input, &edits, common)? {
        report.finish(args.json)?;
        return Ok(ExitCode::from(INVALID));
    }
    let written = write(&plan, &output, args, edited, common, &mut report);
    report.finish(args.json)?;
    written.map(|()| ExitCode::SUCCESS)
}

/// Makes every check that the input allows, and says what fails of what is to be converted.
fn is_whole(
    archive: &Archive,
    input: &Input,
    edits: &Edits<'_>,
    common: &Common,
) -> Result<bool, Failure> {
    let report = verify::verify(archive, false, common);
    let report = report.map_err(|error| Failure::about(&input.path, &error))?;
    let is_left_out = |name: &str| archive.entry(name).is_some() && !edits.keeps(name);
    // A set's index says what is converted; what a part holds beside that is said, and no more.
    let is_spared = |name: &str| archive.entry(name).is_none() || !edits.keeps(name);
    // A failed shard is no fault of what is converted if all that it damages is left out.
    let is_elsewhere = |item: &tensorfmt::Item| {
        let mut damaged = item.tensors.iter();
        is_left_out(&item.item) || (!item.tensors.is_empty() && damaged.all(|name| is_spared(name)))
    };
    let mut whole = true;
    for item in report.items {
        if item.outcome == Check::Failed && !is_elsewhere(&item) {
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

/// The target of this name, or with this ending.
fn named(name: &str) -> Option<Target> {
    let ending = name.strip_prefix('.').unwrap_or(name);
    Target::from_name(name).or_else(|| Target::from_path(format!("x.{ending}")))
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

/// The generation in `burnpack-0.20` and the like.
fn generation(name: &str) -> Option<BurnpackGeneration> {
    BurnpackGeneration::from_name(name.strip_prefix("burnpack-")?)
}

fn target(args: &Convert) -> Result<Target, Failure> {
    let known: Vec<&str> = Target::ALL.iter().map(|target| target.name()).collect();
    match &args.to {
        Some(name) if generation(name).is_some() => Ok(Target::Burnpack),
        Some(name) => named(name).ok_or_else(|| {
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
        None if Output::new(&args.output) == Output::Stdout => Err(Failure::usage(format!(
            "standard output has no ending that names a format; say --to one of {}",
            known.join(", ")
        ))),
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
        let dtype = DType::from_spelling(name).filter(|d| d.is_float() || d.is_integer());
        options.cast = Some(dtype.ok_or_else(|| {
            Failure::usage(format!(
                "--cast {name:?}: not a dtype such as f32, bf16 or i32"
            ))
        })?);
    }
    options.skip_unsupported = args.skip_unsupported;
    options.allow_empty = args.allow_empty;
    options.promote_scalars = args.promote_scalars;
    options.max_shard_bytes = args.max_shard_bytes;
    options.max_part_shards = args.max_part_shards;
    options.tensor_hash = args.tensor_hash;
    options.ihsh = args.ihsh;
    options.phsh = args.phsh;
    options.page_align = args.page_align;
    options.with_stats = args.with_stats;
    options.whole_names = args.whole_names;
    // A copy stays the object that it is of: an ending decides where it is another one.
    options.primitiv = match args.input.extension() == args.output.extension() {
        true => None,
        false => PrimitivObject::from_path(&args.output),
    };
    options.burnpack = args.to.as_deref().and_then(generation);
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
struct Edits<'a> {
    args: &'a Convert,
    /// Which tensors are converted, known once there are names.
    wanted: Wanted,
    renames: Vec<Rename>,
    set: Vec<(String, Value)>,
}

impl<'a> Edits<'a> {
    fn new(args: &'a Convert) -> Result<Self, Failure> {
        Ok(Self {
            args,
            wanted: Wanted::default(),
            renames: args
                .rename
                .iter()
                .map(|text| Rename::new(text))
                .collect::<Result<_, _>>()?,
            set: metadata::settings(args)?,
        })
    }

    /// Whether a tensor of this name is converted.
    fn keeps(&self, name: &str) -> bool {
        self.wanted.has(name)
    }

    /// Changes the model, and says which options changed nothing of it.
    fn apply(&mut self, model: &mut Model) -> Result<Vec<report::Note>, Failure> {
        let mut notes = Vec::new();
        let names = model.tensors.iter().map(ModelTensor::name);
        let mut idle = Idle::default();
        self.wanted = Wanted::new(&self.args.filter, &self.args.exclude, names, &mut idle)?;
        model.retain(|name| self.keeps(name));
        for rename in &self.renames {
            let mut names = model.tensors.iter().map(ModelTensor::name);
            if !names.any(|name| rename.matches(name)) {
                idle.note("--rename", rename.pattern());
                continue;
            }
            let same = |tensor: &ModelTensor| rename.apply(tensor.name()) == tensor.name();
            if model.tensors.iter().all(same) {
                notes.push(report::Note::idle(
                    "--rename",
                    "it leaves every name as it is",
                ));
            }
            model.rename(|name| rename.apply(name))?;
        }
        let keys = model.metadata.iter().map(|(key, _)| key.as_str());
        let drop = Patterns::new("--drop-metadata", &self.args.drop_metadata);
        let drop = drop.among(keys, &mut idle)?;
        idle.check(self.args.allow_empty)?;
        model.drop_metadata(|key| drop.has(key));
        for (key, value) in &self.set {
            if model.metadata.contains(&(key.clone(), value.clone())) {
                let why = format!("{key:?} has this value already");
                notes.push(report::Note::idle("--set-metadata", why));
            }
            model.set_metadata(key.clone(), value.clone());
        }
        if self.args.sort {
            let before: Vec<String> = model.tensors.iter().map(|t| t.name().to_owned()).collect();
            model.sort();
            let after = model.tensors.iter().map(ModelTensor::name);
            if after.eq(before.iter().map(String::as_str)) {
                notes.push(report::Note::idle(
                    "--sort",
                    "the tensors are sorted already",
                ));
            }
        }
        Ok(notes)
    }
}

fn write(
    plan: &Plan,
    output: &Output,
    args: &Convert,
    edited: bool,
    common: &Common,
    report: &mut report::Report,
) -> Result<(), Failure> {
    let meter = Meter::new(plan.data_len(), common);
    let progress = |bytes| meter.tick(bytes);
    let mut options = WriteOptions::default();
    options.threads = common.threads;
    options.progress = Some(&progress);
    let path = match output {
        Output::Stdout => {
            let written = plan.write_to(std::io::stdout().lock(), &options);
            return written.map_err(|error| Failure::stdout_of(&error));
        }
        Output::Path(path) => path,
    };
    let in_place = args.in_place && !edited;
    target::leftovers(path, args.remove_leftovers, common.quiet)?;
    has_room(path, plan.encoded_len().unwrap_or(0), in_place)?;
    // A pipe or a device keeps nothing that would have to be taken away.
    let _graceful = output.is_file().then(Graceful::new);
    let notices = Mutex::new(Vec::new());
    let notice = |notice: &tensorfmt::Notice| {
        notices
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(notice.to_string());
    };
    options.in_place = in_place;
    options.create_new = !args.force && !edited;
    options.notice = Some(&notice);
    let written = plan.write_file(path, &options);
    let notices = notices.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.notices(notices, common);
    written.map_err(|error| Failure::about(path, &error))
}
