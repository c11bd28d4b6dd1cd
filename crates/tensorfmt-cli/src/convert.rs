//! `convert`: its options, the order in which things are checked, and its messages.

mod edits;
mod in_place;
mod metadata;
mod planned;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tensor_core::{Outcome as Check, Share};
use tensorfmt::convert::{
    BurnpackGeneration, Checksum, Layout, Model, Options, Plan, PrimitivObject, Target, plan,
};
use tensorfmt::{Archive, DType, Error, VerifyOptions, Work, WriteOptions};

use edits::Edits;
use planned::Planned;
use report::Report;

use crate::Outcome;
use crate::beside::breaks;
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
    let mut job = Job::new(args, common)?;
    let sources = Sources::open(&job)?;
    let (model, notes) = job.edits.model(&sources.named(), job.target)?;
    let wanted = sources.takes_own_place().then(|| model.clone());
    let plan = match plan(model, job.target, &job.options) {
        Ok(plan) => plan,
        Err(error) => return job.refused(&sources, &error),
    };
    job.is_meant(&plan)?;
    job.may_write_beside(&sources, &plan)?;
    let mut report = job.say(&sources, &plan, notes);
    let end = job.carry_out(&sources, &plan, wanted.as_ref(), &mut report)?;
    report.finish(args.json)?;
    match end {
        End::Written(written) => written.map(|()| ExitCode::SUCCESS),
        End::Damaged => Ok(ExitCode::from(INVALID)),
        End::Refused(why) => {
            complain(why);
            Ok(ExitCode::from(UNSUPPORTED))
        }
    }
}

/// What a conversion came to.
enum End {
    /// All is written, or it failed on the way.
    Written(Result<(), Failure>),
    /// Nothing is written, since the input fails its checks.
    Damaged,
    /// Nothing is written, for this reason.
    Refused(&'static str),
}

/// What is asked for, as far as it makes sense whatever the inputs hold.
struct Job<'a> {
    args: &'a Convert,
    common: &'a Common,
    target: Target,
    options: Options,
    edits: Edits<'a>,
    output: Output,
    /// The object that is written, where the output is an address.
    object: Option<Object>,
}

impl<'a> Job<'a> {
    fn new(args: &'a Convert, common: &'a Common) -> Result<Self, Failure> {
        let (target, options) = (target(args)?, options(args)?);
        let edits = Edits::new(args)?;
        let (named, object) = crate::remote::parse(&args.output, common)?;
        let job = Self {
            args,
            common,
            target,
            options,
            edits,
            output: Output::new(&named),
            object,
        };
        job.output.takes_bytes(args.json)?;
        if job.object.is_some() && args.in_place {
            return Err(Failure::usage(format!(
                "{}: an object is replaced (--force), never written in place",
                named.display()
            )));
        }
        if job.object.is_some() && args.part.is_some() {
            return Err(Failure::usage(format!(
                "{}: a part by itself is written to a folder of this disk; without --part the whole set is \
                written here",
                named.display()
            )));
        }
        if job.output == Output::Stdout && job.target.is_set() {
            return Err(Failure::usage(
                "a set is several files, which standard output can't take",
            ));
        }
        if let (Output::Path(path), Target::SafetensorsSet) = (&job.output, job.target) {
            if Target::from_path(path) != Some(job.target) {
                return Err(Failure::usage(format!(
                    "{}: the index of a set is named STEM.safetensors.index.json",
                    path.display()
                )));
            }
        }
        Ok(job)
    }

    /// Whether the inputs are checked before anything is written.
    fn checks(&self) -> bool {
        !self.args.no_verify && !self.args.salvage
    }

    /// Says why there is no plan.
    fn refused(&self, sources: &Sources, error: &Error) -> Outcome {
        // A file that can't be read in full may be damaged as well, which outranks that.
        if self.checks() && !sources.are_readable() && !self.are_whole(sources, None)? {
            return Ok(ExitCode::from(INVALID));
        }
        let path = match sources.opened.as_slice() {
            [(input, _)] => &input.path,
            _ => &self.args.output,
        };
        Err(report::refused(path, error))
    }

    /// Fails where the plan is another one than that which is asked for.
    fn is_meant(&self, plan: &Plan) -> Result<(), Failure> {
        let meant = self.args.fingerprint.as_deref();
        if meant.is_none_or(|meant| plan.fingerprint() == Some(meant)) {
            return Ok(());
        }
        Err(Failure::new(
            INVALID,
            format!(
                "{}: the plan has the fingerprint {}, not the one of --fingerprint: the input has changed since that \
                one was printed, the options are others, or another release printed it",
                self.named().display(),
                plan.fingerprint().unwrap_or_default()
            ),
        ))
    }

    /// What messages call the output.
    fn named(&self) -> &Path {
        match &self.output {
            Output::Path(path) => path,
            Output::Stdout => &self.args.output,
        }
    }

    /// Fails where a file whose name is the tool's own choice is there already: another set in the folder may
    /// have files of them.
    fn may_write_beside(&self, sources: &Sources, plan: &Plan) -> Result<(), Failure> {
        if let Some(object) = &self.object {
            let inputs = sources.opened.iter();
            let inputs = inputs.filter_map(|(input, _)| input.object());
            return object.may_write_beside(plan, inputs, self.args.force);
        }
        let Output::Path(path) = &self.output else {
            return Ok(());
        };
        if let Some(part) = self.args.part {
            // Whether a part may be replaced is known by what is in it.
            return sources.spare(&plan.part_file(part, path)?);
        }
        for path in plan.files_beside(path) {
            may_write(&path, self.args.force)?;
            sources.spare(&path)?;
        }
        Ok(())
    }

    /// Says what is lost, what the options change and what is worth knowing, before anything is written.
    fn say(&self, sources: &Sources, plan: &Plan, mut notes: Vec<report::Note>) -> Report {
        notes.extend(plan.notes().iter().map(report::note));
        let mut report = Report::new(plan.losses(), notes);
        report.print(self.args.json, self.common);
        let archives = sources.opened.iter().map(|(_, archive)| archive);
        let oddities = archives.flat_map(Archive::oddities);
        report.notices(oddities.cloned().collect(), self.common);
        if let (Output::Path(path), None) = (&self.output, &self.object) {
            let mut written = plan.files_beside(path);
            match self.args.part {
                Some(part) => {
                    written.retain(|file| plan.part_file(part, path).is_ok_and(|own| own == *file))
                }
                None => written.insert(0, path.clone()),
            }
            let written = written.into_iter();
            let broken = written.filter_map(|file| breaks(&file, Some(path)));
            report.notices(broken.collect(), self.common);
        }
        if plan.data_reordered() {
            report.notices(
                vec![
                    "data is ordered by the size of its elements, so that each tensor starts at a \
                    multiple of its own; the header keeps the order of the tensors"
                        .into(),
                ],
                self.common,
            );
        }
        report
    }

    /// Writes what is planned, if nothing speaks against it: into the file itself where that is `wanted` and
    /// can be.
    fn carry_out(
        &self,
        sources: &Sources,
        plan: &Plan,
        wanted: Option<&Model>,
        report: &mut Report,
    ) -> Result<End, Failure> {
        let lost = plan.losses().iter().any(|loss| loss.kind.is_of_model());
        if self.args.strict && (lost || report.has_idle_option()) {
            return Ok(End::Refused(match lost {
                true => "nothing written: --strict refuses losses",
                false => "nothing written: --strict refuses options that change nothing",
            }));
        }
        if self.args.dry_run {
            report.planned(Planned::new(plan, self.named()));
            return Ok(End::Written(Ok(())));
        }
        if let (Some(wanted), [(_, archive)]) = (wanted, sources.opened.as_slice()) {
            if in_place::edit(self, wanted, archive, report)? {
                return Ok(End::Written(Ok(())));
            }
        }
        // What is damaged must not get a new checksum that is right.
        if self.checks() && !self.are_whole(sources, Some(plan))? {
            return Ok(End::Damaged);
        }
        Ok(End::Written(match &self.object {
            Some(object) => self.write_object(plan, object, report),
            None => self.write(plan, sources.is_edited, report),
        }))
    }

    /// Makes every check that the inputs allow, and prints those that fail for what will be converted. Of one
    /// part of a plan only what it is made of is checked.
    fn are_whole(&self, sources: &Sources, plan: Option<&Plan>) -> Result<bool, Failure> {
        let mut whole = true;
        for (number, (input, archive)) in sources.opened.iter().enumerate() {
            let part = plan.zip(self.args.part);
            let share = part.map(|(plan, part)| Chosen(plan.sources_of(part, number)));
            whole &= is_whole(archive, input, share.as_ref(), &self.edits, self.common)?;
        }
        if !whole {
            complain(
                "nothing written: the input fails its checks; --exclude leaves out tensors, \
                --no-verify converts all as it is",
            );
        }
        Ok(whole)
    }

    fn write(&self, plan: &Plan, edited: bool, report: &mut Report) -> Result<(), Failure> {
        let (args, common) = (self.args, self.common);
        let len = self.args.part.and_then(|part| {
            let planned = plan.parts().iter().find(|planned| planned.part == part);
            planned.map(|planned| planned.data_len)
        });
        let meter = Meter::new(len.unwrap_or(plan.data_len()), common);
        let progress = |bytes| meter.tick(bytes);
        let mut options = WriteOptions::default();
        options.threads = common.threads;
        options.progress = Some(&progress);
        let path = match &self.output {
            Output::Stdout => {
                let written = plan.write_to(crate::console::stdout(), &options);
                return written.map_err(|error| Failure::stdout_of(&error));
            }
            Output::Path(path) => path,
        };
        let in_place = args.in_place && !edited;
        // Of workers on other machines nobody can tell here which still live.
        if args.part.is_none() {
            target::leftovers(path, args.remove_leftovers, common.quiet)?;
        }
        has_room(path, len.or(plan.encoded_len()).unwrap_or(0), in_place)?;
        // A pipe or a device keeps nothing that would have to be taken away.
        let _graceful = self.output.is_file().then(Graceful::new);
        let notices = Notices::default();
        let notice = |notice: &tensorfmt::Notice| notices.add(notice);
        options.in_place = in_place;
        options.create_new = !args.force && !edited;
        options.notice = Some(&notice);
        let written = match args.part {
            Some(part) => plan.write_part(part, path, &options).map(|_| ()),
            None => plan.write_file(path, &options),
        };
        report.notices(notices.take(), common);
        written.map_err(|error| Failure::about(path, &error))
    }

    /// Writes an object, or those of a set, which appear whole or not at all.
    fn write_object(
        &self,
        plan: &Plan,
        object: &Object,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let meter = Meter::new(plan.data_len(), self.common);
        let progress = |bytes| meter.tick(bytes);
        let notices = Notices::default();
        let notice = |notice: &tensorfmt::Notice| notices.add(notice);
        let mut options = WriteOptions::default();
        options.threads = self.common.threads;
        options.progress = Some(&progress);
        options.create_new = !self.args.force;
        options.notice = Some(&notice);
        // What was sent is taken away again.
        let _graceful = Graceful::new();
        let written = object.write(plan, &options);
        report.notices(notices.take(), self.common);
        written
    }
}

/// What is told while something is written, to be said afterwards.
#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl Notices {
    fn add(&self, notice: &tensorfmt::Notice) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(notice.to_string());
    }

    fn take(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inputs, open, and what the output is to them.
struct Sources {
    opened: Vec<(Input, Archive)>,
    /// Whether the output has the name of an input.
    is_output: bool,
    /// Whether an input is edited safely: it is replaced by a file that is complete.
    is_edited: bool,
    /// Whether there is one input, of one file, and the output is one file.
    is_single: bool,
}

impl Sources {
    /// Opens the inputs, if no existing file is in the way of the output.
    fn open(job: &Job<'_>) -> Result<Self, Failure> {
        let args = job.args;
        let paths = inputs(args)?;
        let is_output = paths.iter().any(|input| same_name(input, &args.output));
        let is_edited = is_output && args.in_place;
        if let (Output::Path(path), None) = (&job.output, args.part) {
            may_write(path, args.force || is_edited)?;
        }
        if let Some(object) = &job.object {
            object.may_write(args.force)?;
        }
        let opened = open(&paths, args, job.target, job.common)?;
        let is_single = match opened.as_slice() {
            [(_, archive)] => archive.files().len() == 1 && !job.target.is_set(),
            _ => false,
        };
        let sources = Self {
            opened,
            is_output,
            is_edited,
            is_single,
        };
        if let (Output::Path(path), false) = (&job.output, sources.is_alone()) {
            sources.spare(path)?;
        }
        Ok(sources)
    }

    /// Whether the output is the one file that is read: it may take its own place.
    fn is_alone(&self) -> bool {
        self.is_output && self.is_single
    }

    /// Whether the one file is edited where it is.
    fn takes_own_place(&self) -> bool {
        self.is_edited && self.is_alone()
    }

    /// Fails where `path` is, or leads to, a file of an input.
    fn spare(&self, path: &Path) -> Result<(), Failure> {
        let mut opened = self.opened.iter();
        opened.try_for_each(|(input, archive)| is_not_input(archive, &input.path, path))
    }

    /// The archives, each with its path.
    fn named(&self) -> Vec<(String, &Archive)> {
        let opened = self.opened.iter();
        opened
            .map(|(input, archive)| (input.path.display().to_string(), archive))
            .collect()
    }

    /// Whether all tensors can be read, whatever they hold.
    fn are_readable(&self) -> bool {
        let is_readable = |archive: &Archive| {
            let mut entries = archive.entries();
            entries.all(|entry| archive.data(entry).is_ok())
        };
        self.opened.iter().all(|(_, archive)| is_readable(archive))
    }
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
        let work = Work::Convert(target);
        let others = inputs.iter().map(|(_, archive)| archive);
        let archive = input.open_beside(others.clone(), work, args.salvage);
        let archive = archive.map_err(|error| Failure::about(&input.path, &error))?;
        // Before the next one is opened, so that the indices of many files are not in memory at once.
        input.allows_beside(&archive, others, work)?;
        inputs.push((input, archive));
    }
    Ok(inputs)
}

/// The tensors of an input that one part is made of, by their positions in rising order.
struct Chosen(Vec<usize>);

impl Share for Chosen {
    fn has(&self, mut tensors: &mut dyn Iterator<Item = usize>) -> bool {
        Iterator::any(&mut tensors, |tensor| self.0.binary_search(&tensor).is_ok())
    }

    fn has_rest(&self) -> bool {
        true
    }

    fn at(&self, _section: u32, _item: u64) {}
}

/// Makes every check that an input allows, and prints those that fail for what will be converted.
fn is_whole(
    archive: &Archive,
    input: &Input,
    share: Option<&Chosen>,
    edits: &Edits<'_>,
    common: &Common,
) -> Result<bool, Failure> {
    // A set's index decides what is converted; what a part holds beyond that is only reported.
    let is_spared = |name: &str| archive.entry(name).is_none() || !edits.keeps(name);
    let whole = AtomicBool::new(true);
    // A failed shard is no fault of what is converted if all that it damages is left out.
    let judge = |item: &tensorfmt::Item| {
        let mut damaged = item.tensors.iter();
        let is_elsewhere = !item.tensors.is_empty() && damaged.all(|name| is_spared(name));
        if item.outcome == Check::Failed && !is_elsewhere {
            whole.store(false, Ordering::Relaxed);
            let (path, item) = (input.path.display(), verify::words(item));
            complain(&escape(&format!("{path}: {item}")));
        }
    };
    // What a shard damages is known when all tensors are checked; of a tensor all is said at once.
    let told = |item: &tensorfmt::Item| {
        if !item.tensors.is_empty() {
            judge(item);
        }
    };
    let options = VerifyOptions::default().with_items(&told);
    let mut options = options.with_spared(&is_spared).with_warnings(&|_| ());
    options.share = share.map(|share| share as &dyn Share);
    let report = verify::verify(archive, options, common);
    let report = report.map_err(|error| Failure::about(&input.path, &error))?;
    report.items.iter().for_each(judge);
    Ok(whole.into_inner())
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
    options.parts = args.parts.or(args.part.map(tensorfmt::Part::of));
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
