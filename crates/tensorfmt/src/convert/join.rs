//! Parts that were written alone become a set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use tensor_core::codec::{AtomicFile, Output, SealedFile, stale_files};
use tensor_core::{FileError, FileSource, Notice, Source, WriteOptions};

#[allow(unused_imports, reason = "a build may have few codecs, or none")]
use super::Target;
use super::parts::is_there;
use super::receipt::{ENDING, Receipt, ends};
use crate::{Archive, Error, Part, Result, codec};

/// How many parts that are missing are named.
const NAMED: usize = 1000;

/// What became of [`join`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Joined {
    /// How many parts the set has.
    pub parts: u32,
    /// Whether the set was there already, joined before.
    pub before: bool,
}

/// Why a part can't be joined to a set.
///
/// ```
/// use tensorfmt::{Error, convert::{PartProblem, join}};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.aeroset.json");
/// # let receipt = folder.path().join("model-00002-of-00002.aero.receipt");
/// # std::fs::write(receipt, r#"{"set": "model.aeroset.json", "target": "aeroset", "part": 2, "of": 2,
/// #     "file": "model-00002-of-00002.aero", "bytes": 0, "ends": "", "plan": "", "options": "",
/// #     "model": "", "index": null}"#)?;
/// let Err(Error::Unjoined { faults, .. }) = join(&path, &Default::default()) else {
///     return Err("half a set is no set".into());
/// };
/// for fault in &faults {
///     println!("{fault}"); // part 1/2 is missing: ...
///     assert_eq!(fault.problem, PartProblem::Missing);
/// }
/// assert_eq!(faults[0].part.number(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartFault {
    /// The part.
    pub part: Part,
    /// Its file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: PartProblem,
}

/// What is wrong with a part. [`PartFault`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartProblem {
    /// It isn't there.
    Missing,
    /// The file is there, and nothing that says that it was written to its end, and of which plan.
    NoReceipt,
    /// The file is not the one that was written.
    Changed,
    /// The file can't be opened.
    Damaged(String),
    /// It is of another plan, which differs in this.
    OtherPlan(&'static str),
}

impl fmt::Display for PartFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, file) = (self.part, self.file.display());
        match &self.problem {
            PartProblem::Missing => write!(f, "part {part} is missing: {file}"),
            PartProblem::NoReceipt => write!(
                f,
                "part {part} has no receipt: {file} may not be of this set; writing the part again gives it one"
            ),
            PartProblem::Changed => write!(
                f,
                "part {part} is not what was written: {file}; writing the part again makes it right"
            ),
            PartProblem::Damaged(why) => {
                write!(f, "part {part} can't be opened: {file}: {why}")
            }
            PartProblem::OtherPlan(what) => write!(
                f,
                "part {part} is of another plan, {what}: {file}; it has to be written again by the plan that is \
                meant, or deleted; `create_new` off (--force on the command line) deletes the parts of all \
                plans but the only one that is whole"
            ),
        }
    }
}

/// Joins the parts of a set that were each written alone ([`Plan::write_part`](super::Plan::write_part)): checks
/// that all are there, as they were written, and of one plan, then writes the index, and last the file at
/// `path` that the set is opened by. The set is byte for byte what one process writes with
/// [`Options::parts`](super::Options::parts).
///
/// Of each part its index is read, and its first and last bytes are held against its receipt; to check all bytes
/// is what [`Archive::verify`] is for. Receipts are deleted when the set is there. Joining again does nothing.
///
/// [`Plan::parts`](super::Plan::parts) has an example.
///
/// # Errors
/// [`Error::Unjoined`] with every part that is missing, changed or of another plan;
/// [`Error::Usage`] with [`create_new`](WriteOptions::create_new) where another set is at `path`; what the disk
/// fails with. No set has then appeared.
pub fn join(path: impl AsRef<Path>, options: &WriteOptions<'_>) -> Result<Joined> {
    join_meant(path.as_ref(), None, options)
}

/// As [`join`], but of one plan alone, by its [`fingerprint`](super::Plan::fingerprint): parts that are there of
/// another one are never joined, even if all of them are there and none of this one is.
///
/// Where no part waits to be joined a set may be there from before; of which plan it is nothing tells any more.
///
/// ```
/// use tensorfmt::convert::{Model, Options, Target, join_plan, plan};
/// use tensorfmt::{Error, Tensor, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors.index.json");
/// let mut model = Model::new();
/// model.tensor("a", Tensor::from_slice(&[1.0f32; 64], &[64])?);
/// let mut options = Options::default();
/// options.parts = Some(1);
/// let plan = plan(model, Target::SafetensorsSet, &options)?;
/// let once = WriteOptions::default();
/// plan.write_part(plan.parts()[0].part, &path, &once)?;
/// let other = join_plan(&path, "of another input", &once);
/// assert!(matches!(other, Err(Error::Unjoined { .. })));
/// join_plan(&path, plan.fingerprint().unwrap_or_default(), &once)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`join`].
pub fn join_plan(
    path: impl AsRef<Path>,
    fingerprint: &str,
    options: &WriteOptions<'_>,
) -> Result<Joined> {
    join_meant(path.as_ref(), Some(fingerprint), options)
}

/// Joins the parts of the plan that is meant, or of the one that is most likely meant.
fn join_meant(path: &Path, meant: Option<&str>, options: &WriteOptions<'_>) -> Result<Joined> {
    let receipts = receipts(path)?;
    if receipts.is_empty() {
        return joined_before(path);
    }
    let plans = Plans::of(receipts);
    let several = meant.is_none() && plans.are_several_whole();
    let (chosen, others) = plans.choose(meant);
    if chosen.is_empty() {
        let faults = others.iter().map(|other| other_plan(path, &chosen, other));
        return Err(unjoined(path, faults.collect()));
    }
    let mut faults = Vec::new();
    if options.create_new || several {
        faults.extend(others.iter().map(|other| other_plan(path, &chosen, other)));
    }
    for fault in missing(path, &chosen) {
        // What is there of another plan is told about already.
        if !faults
            .iter()
            .any(|known: &PartFault| known.file == fault.file)
        {
            faults.push(fault);
        }
    }
    faults.extend(chosen.iter().filter_map(|receipt| changed(path, receipt)));
    let unsaid = |fault: &PartFault| fault.problem == PartProblem::NoReceipt;
    if !faults.is_empty() && faults.iter().all(unsaid) && lists_all(path, &chosen) {
        // A worker came late, and said again what the set says.
        delete_receipts(path, &chosen);
        return joined_before(path);
    }
    if !faults.is_empty() {
        return Err(unjoined(path, faults));
    }
    let files = index_files(path, &chosen)?;
    let before = files.iter().all(|(file, bytes)| is_same(file, bytes));
    if !before {
        write(path, &chosen, &others, files, options)?;
    }
    delete_receipts(path, &chosen);
    let parts = chosen.first().map_or(0, |receipt| receipt.part.of());
    Ok(Joined { parts, before })
}

fn unjoined(path: &Path, mut faults: Vec<PartFault>) -> Error {
    faults.sort_by_key(|fault| (fault.part.of(), fault.part.number()));
    let path = path.to_path_buf();
    Error::Unjoined { path, faults }
}

fn delete_receipts(path: &Path, receipts: &[Receipt]) {
    for receipt in receipts {
        // What can't be deleted harms nobody: it says the same as the set.
        let _ = fs::remove_file(Receipt::path(&path.with_file_name(&receipt.file)));
    }
}

/// Whether the set that is there lists the files of all parts of a plan: none of them was replaced by another one
/// since, or the set would have been deleted.
fn lists_all(path: &Path, chosen: &[Receipt]) -> bool {
    let Some(first) = chosen.first() else {
        return false;
    };
    let old: BTreeSet<PathBuf> = old_files(path).into_iter().collect();
    let file = |part: Part| path.with_file_name(first.file_of(part));
    Part::all(first.part.of()).all(|part| old.contains(&file(part)))
}

/// Receipts of parts of the set, by the names of their files.
fn receipts(path: &Path) -> Result<Vec<Receipt>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let fail = |error| FileError::new(folder, error);
    let set = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        if name.to_string_lossy().ends_with(ENDING) {
            names.push(name);
        }
    }
    names.sort();
    let read = names
        .iter()
        .filter_map(|name| Receipt::read(&folder.join(name)));
    Ok(read.filter(|receipt| receipt.set == set).collect())
}

/// What there is to say where no part waits to be joined.
fn joined_before(path: &Path) -> Result<Joined> {
    if is_there(path) {
        let archive = Archive::open(path)?;
        if archive.is_set() {
            let parts = archive.entries().filter_map(|entry| archive.part_of(entry));
            let mut parts: Vec<&str> = parts.collect();
            parts.sort_unstable();
            parts.dedup();
            let parts = u32::try_from(parts.len()).unwrap_or(u32::MAX);
            return Ok(Joined {
                parts,
                before: true,
            });
        }
    }
    let (path, faults) = (path.to_path_buf(), Vec::new());
    Err(Error::Unjoined { path, faults })
}

/// Receipts, by the plans that they are of.
struct Plans(BTreeMap<(u32, String), Vec<Receipt>>);

impl Plans {
    fn of(receipts: Vec<Receipt>) -> Self {
        let mut plans: BTreeMap<_, Vec<Receipt>> = BTreeMap::new();
        for receipt in receipts {
            let plan = plans.entry((receipt.part.of(), receipt.plan.clone()));
            plan.or_default().push(receipt);
        }
        for receipts in plans.values_mut() {
            receipts.sort_by_key(|receipt| receipt.part);
        }
        Self(plans)
    }

    /// Whether all parts are there of more than one plan.
    fn are_several_whole(&self) -> bool {
        let is_whole = |((of, _), receipts): &(&(u32, String), &Vec<Receipt>)| {
            usize::try_from(*of) == Ok(receipts.len())
        };
        self.0.iter().filter(is_whole).count() > 1
    }

    /// Those of the plan that is meant, and all others. Where it isn't said one that is whole comes first, then the
    /// one with the largest share of its parts, then the one with the first part.
    fn choose(self, meant: Option<&str>) -> (Vec<Receipt>, Vec<Receipt>) {
        let share = |((of, _), receipts): &(&(u32, String), &Vec<Receipt>)| {
            let share = receipts.len() as u64 * 1_000_000 / u64::from(*of).max(1);
            let first = receipts
                .first()
                .map_or(u32::MAX, |receipt| receipt.part.number());
            (share, receipts.len(), std::cmp::Reverse(first))
        };
        let most = self
            .0
            .iter()
            .max_by_key(share)
            .map(|(plan, _)| plan.clone());
        let is_chosen = |plan: &(u32, String)| match meant {
            Some(meant) => plan.1 == meant,
            None => Some(plan) == most.as_ref(),
        };
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        for (plan, receipts) in self.0 {
            match is_chosen(&plan) {
                true => chosen = receipts,
                false => others.extend(receipts),
            }
        }
        (chosen, others)
    }
}

fn other_plan(path: &Path, chosen: &[Receipt], other: &Receipt) -> PartFault {
    let differs = match chosen.first() {
        None => "not of the one that is asked for",
        Some(first) if first.part.of() != other.part.of() => "with another number of parts",
        Some(first) if first.options != other.options => "with other options",
        _ => "of another input, or with other changes to it",
    };
    PartFault {
        part: other.part,
        file: path.with_file_name(&other.file),
        problem: PartProblem::OtherPlan(differs),
    }
}

/// The parts of a plan that have no receipt.
fn missing(path: &Path, chosen: &[Receipt]) -> Vec<PartFault> {
    let Some(first) = chosen.first() else {
        return Vec::new();
    };
    let there: BTreeSet<Part> = chosen.iter().map(|receipt| receipt.part).collect();
    let fault = |part: Part| {
        let file = path.with_file_name(first.file_of(part));
        // Another plan's is told about by itself.
        let other = Receipt::read(&Receipt::path(&file)).is_some();
        let problem = match is_there(&file) && !other {
            true => PartProblem::NoReceipt,
            false => PartProblem::Missing,
        };
        PartFault {
            part,
            file,
            problem,
        }
    };
    let parts = Part::all(first.part.of()).filter(|part| !there.contains(part));
    parts.take(NAMED).map(fault).collect()
}

/// What is wrong with the file of a part, if anything is.
fn changed(path: &Path, receipt: &Receipt) -> Option<PartFault> {
    let file = path.with_file_name(&receipt.file);
    let problem = if !is_there(&file) {
        PartProblem::Missing
    } else {
        match check(&file, receipt) {
            Ok(true) => return None,
            Ok(false) => PartProblem::Changed,
            Err(error) => PartProblem::Damaged(error.to_string()),
        }
    };
    let part = receipt.part;
    Some(PartFault {
        part,
        file,
        problem,
    })
}

fn check(file: &Path, receipt: &Receipt) -> Result<bool> {
    let source = FileSource::open(file)?;
    if source.size() != receipt.bytes || ends(&source)? != receipt.ends {
        return Ok(false);
    }
    Archive::open(file)?;
    Ok(true)
}

/// The files that name the parts, each with its bytes, the set's own at the end.
fn index_files(path: &Path, chosen: &[Receipt]) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let Some(first) = chosen.first() else {
        return Ok(Vec::new());
    };
    let parts: Vec<codec::SetPart> = chosen
        .iter()
        .map(|receipt| codec::SetPart {
            name: receipt.file.clone(),
            path: path.with_file_name(&receipt.file),
            sha256: receipt.sha256.clone().unwrap_or_default(),
        })
        .collect();
    match first.target {
        #[cfg(feature = "aero")]
        Target::AeroSet => codec::aero::join(path, &first.index, parts),
        #[cfg(feature = "safetensors")]
        Target::SafetensorsSet => codec::safetensors::join(path, parts),
        target => {
            drop(parts);
            Err(Error::Disabled(target.format()))
        }
    }
}

/// Whether a file is there with these bytes.
fn is_same(file: &Path, bytes: &[u8]) -> bool {
    fs::read(file).is_ok_and(|there| there == bytes)
}

/// Writes the files that name the parts, and deletes what other sets and plans leave behind.
fn write(
    path: &Path,
    chosen: &[Receipt],
    others: &[Receipt],
    files: Vec<(PathBuf, Vec<u8>)>,
    options: &WriteOptions<'_>,
) -> Result<()> {
    let mut names: Vec<PathBuf> = files.iter().map(|(file, _)| file.clone()).collect();
    names.extend(
        chosen
            .iter()
            .map(|receipt| path.with_file_name(&receipt.file)),
    );
    let mut stale = Vec::new();
    if !options.create_new {
        stale = stale_files(
            path,
            old_files(path),
            &names,
            std::iter::empty::<&dyn Source>,
        );
        for other in others {
            let file = path.with_file_name(&other.file);
            stale.push(Receipt::path(&file));
            if !names.contains(&file) && !stale.contains(&file) {
                stale.push(file);
            }
        }
        stale.retain(|file| is_there(file));
    }
    let mut sealed = Vec::new();
    for (file, bytes) in files {
        let mut own = *options;
        // The index may be there from a run that came no further.
        let is_again = is_same(&file, &bytes);
        if options.create_new && is_there(&file) && !is_again {
            return Err(Error::Usage(format!(
                "{} is there already; without `create_new` (--force on the command line) it is replaced",
                file.display()
            )));
        }
        own.create_new = options.create_new && !is_again;
        let nobody = std::iter::empty::<&dyn Source>();
        let mut target = match file == path {
            true => AtomicFile::create_from(&file, nobody, &own)?,
            false => AtomicFile::create_chosen(&file, nobody, &own)?,
        };
        target.put(&bytes)?;
        sealed.push(target.seal()?);
    }
    let told = |notice: &Notice| match notice {
        Notice::Removed { file } if file.to_string_lossy().ends_with(ENDING) => {}
        notice => options.tell(notice),
    };
    let mut own = *options;
    own.notice = Some(&told);
    SealedFile::commit_set(sealed, stale, &own)
}

/// The files that the set at `path` lists now.
fn old_files(path: &Path) -> Vec<PathBuf> {
    match Archive::open(path) {
        #[cfg(feature = "aero")]
        Ok(Archive::AeroSet(set)) => set.files().into_iter().skip(1).collect(),
        #[cfg(feature = "safetensors")]
        Ok(Archive::SafetensorsSet(set)) => set.files().into_iter().skip(1).collect(),
        _ => Vec::new(),
    }
}
