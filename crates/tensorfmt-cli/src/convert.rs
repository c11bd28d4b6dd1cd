//! `convert`: what it is told to do, in which order things are checked, and what it says.

mod edits;
mod in_place;
mod metadata;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use tensor_core::Outcome as Check;
use tensorfmt::convert::{
    BurnpackGeneration, Checksum, Layout, Options, Plan, PrimitivObject, Target, plan,
};
use tensorfmt::{Archive, DType, Work, WriteOptions};

use edits::Edits;

use crate::Outcome;
use crate::cli::{ChecksumArg, Common, Convert, LayoutArg};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain};
use crate::input::Input;
use crate::output::escape;
use crate::progress::Meter;
use crate::remote::Object;
use crate::signals::Graceful;
use crate::target::{self, Target as Output, has_room, is_not_input, may_write, same_name};
use crate::verify;

pub(crate) fn run(args: &Convert, common: &Common) -> Outcome {
    let target = target(args)?;
    let options = options(args)?;
    let mut edits = Edits::new(args)?;
    let (named, object) = crate::remote::parse(&args.output, common)?;
    let output = Output::new(&named);
    output.takes_bytes(args.json)?;
    if let (Some(_), true) = (&object, target.is_set()) {
        return Err(Failure::usage(format!(
            "{}: a set is several files, which are written to a folder of this disk",
            named.display()
        )));
    }
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
    let inputs = inputs(args)?;
    let itself = inputs.iter().any(|input| same_name(input, &args.output));
    // The input is edited safely: it is replaced by a file that is complete.
    let edited = itself && args.in_place;
    if let Output::Path(path) = &output {
        may_write(path, args.force || edited)?;
    }
    if let Some(object) = &object {
        object.may_write(args.force)?;
    }
    let inputs = open(&inputs, args, target, common)?;
    // One file may take its own place.
    let single = match inputs.as_slice() {
        [(_, archive)] => archive.files().len() == 1,
        _ => false,
    };
    let alone = itself && !target.is_set() && single;
    let is_free = |path: &Path| {
        let mut inputs = inputs.iter();
        inputs.try_for_each(|(input, archive)| is_not_input(archive, &input.path, path))
    };
    if let (Output::Path(path), false) = (&output, alone) {
        is_free(path)?;
    }
    let archives: Vec<(String, &Archive)> = inputs
        .iter()
        .map(|(input, archive)| (input.path.display().to_string(), archive))
        .collect();
    let (model, mut notes) = edits.model(&archives, target)?;
    let checks = !args.no_verify && !args.salvage;
    let wanted = (edited && alone).then(|| model.clone());
    let plan = match plan(model, target, &options) {
        Ok(plan) => plan,
        Err(error) => {
            // A file that can't be read in full may be damaged as well, which outranks that.
            let is_readable = |archive: &Archive| {
                let entries = archive.entries();
                entries.iter().all(|entry| archive.data(entry).is_ok())
            };
            let readable = inputs.iter().all(|(_, archive)| is_readable(archive));
            if checks && !readable && !are_whole(&inputs, &edits, common)? {
                return Ok(ExitCode::from(INVALID));
            }
            let path = inputs.first().filter(|_| inputs.len() == 1);
            let path = path.map_or(args.output.as_path(), |(input, _)| &input.path);
            return Err(report::refused(path, &error));
        }
    };

    // The tool's own choice of names: another set in the folder may have files of them.
    if let Output::Path(path) = &output {
        for path in plan.files_beside(path) {
            may_write(&path, args.force)?;
            is_free(&path)?;
        }
    }
    notes.extend(plan.notes().iter().map(report::note));
    let mut report = report::Report::new(plan.losses(), notes);
    report.print(args.json, common);
    let oddities = inputs.iter().flat_map(|(_, archive)| archive.oddities());
    report.notices(oddities.cloned().collect(), common);
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
    if let (Some(wanted), [(_, archive)]) = (&wanted, inputs.as_slice()) {
        if in_place::edit(wanted, archive, target, &options, args, common, &mut report)? {
            report.finish(args.json)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    // What is damaged must not get a new checksum that is right.
    if checks && !are_whole(&inputs, &edits, common)? {
        report.finish(args.json)?;
        return Ok(ExitCode::from(INVALID));
    }
    let written = match &object {
        Some(object) => write_object(&plan, object, args, common),
        None => write(&plan, &output, args, edited, common, &mut report),
    };
    report.finish(args.json)?;
    written.map(|()| ExitCode::SUCCESS)
}

/// The inputs in their order; a shell's pattern may name one more than was thought of.
fn inputs(args: &Convert) -> Result<Vec<PathBuf>, Failure> {
    let stdin = args.inputs.iter().filter(|path| path.as_os_str() == "-");
    match stdin.count() {
        0 | 1 => Ok(args.inputs.clone()),
        _ => Err(Failure::usage(
            "standard input can be one of the inputs only",
        )),
    }
}

fn open(
    paths: &[PathBuf],
    args: &Convert,
    target: Target,
    common: &Common,
) -> Result<Vec<(Input, Archive)>, Failure> {
    let mut inputs: Vec<(Input, Archive)> = Vec::new();
    for path in paths {
        let input = Input::new(path, common)?;
        let archive = match args.salvage {
            true => input.salvage(),
            false => input.open(),
        };
        let archive = archive.map_err(|error| Failure::about(&input.path, &error))?;
        // Before the next one is opened: many files that each ask for much are not held at once.
        let others = inputs.iter().map(|(_, archive)| archive);
        input.allows_beside(&archive, others, Work::Convert(target))?;
        inputs.push((input, archive));
    }
    Ok(inputs)
}

/// Makes every check that the inputs allow, and says what fails of what is to be converted.
fn are_whole(
    inputs: &[(Input, Archive)],
    edits: &Edits<'_>,
    common: &Common,
) -> Result<bool, Failure> {
    let mut whole = true;
    for (input, archive) in inputs {
        whole &= is_whole(archive, input, edits, common)?;
    }
    if !whole {
        complain(
            "nothing written: the input fails its checks; --exclude leaves out tensors, \
            --no-verify converts all as it is",
        );
    }
    Ok(whole)
}

/// Makes every check that an input allows, and says what fails of what is to be converted.
fn is_whole(
    archive: &Archive,
    input: &Input,
    edits: &Edits<'_>,
    common: &Common,
) -> Result<bool, Failure> {
    let report = verify::verify(archive, false, common, &|_| ());
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
            let (path, item) = (input.path.display(), verify::words(&item));
            complain(&escape(&format!("{path}: {item}")));
        }
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

/// The dtype of this spelling, which is the end of `option`.
fn dtype(option: &str, name: &str) -> Result<DType, Failure> {
    let dtype = DType::from_spelling(name).filter(|d| d.is_float() || d.is_integer());
    dtype.ok_or_else(|| {
        Failure::usage(format!(
            "--cast {option:?}: not a dtype such as f32, bf16 or i32"
        ))
    })
}

fn options(args: &Convert) -> Result<Options, Failure> {
    let mut options = Options::default();
    for text in args.cast.iter().filter(|text| !text.contains('=')) {
        if options.cast.is_some() {
            return Err(Failure::usage(format!(
                "--cast {text:?}: all tensors have one cast already; GLOB={text} is for some of them"
            )));
        }
        options.cast = Some(dtype(text, text)?);
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
    options.primitiv = match args.inputs.as_slice() {
        [input] if input.extension() == args.output.extension() => None,
        _ => PrimitivObject::from_path(&args.output),
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
            let written = plan.write_to(crate::console::stdout(), &options);
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

/// Writes an object, which appears whole or not at all.
fn write_object(
    plan: &Plan,
    object: &Object,
    args: &Convert,
    common: &Common,
) -> Result<(), Failure> {
    let meter = Meter::new(plan.data_len(), common);
    let progress = |bytes| meter.tick(bytes);
    let mut options = WriteOptions::default();
    options.threads = common.threads;
    options.progress = Some(&progress);
    // What was sent is taken away again.
    let _graceful = Graceful::new();
    object.write(plan, &options, args.force)
}
