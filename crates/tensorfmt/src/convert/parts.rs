//! A set that is written in parts, each by whoever it is given to.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tensor_core::codec::{AtomicFile, Output, SealedFile};
use tensor_core::{FileError, FileId, FileSource, Notice, SinkError, Source, WriteOptions};

use super::receipt::{Receipt, ends};
use super::{Model, ModelTensor, Options, Plan, Target};
use crate::codec::Prepared;
use crate::fingerprint::Fingerprint;
use crate::json::hex;
use crate::part::split;
use crate::{Error, Part, Result};

/// What a plan is known by: workers that have the same one write parts of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// How many parts there are.
    parts: u32,
    /// A digest of what is written, and by which release.
    pub(crate) options: String,
    /// A digest of the model: all that is said about it, and samples of its data.
    pub(crate) model: String,
}

impl Identity {
    /// That of a plan of parts; `None` of one in one piece.
    pub(crate) fn of(model: &Model, target: Target, options: &Options) -> Result<Option<Self>> {
        let Some(parts) = options.parts else {
            return Ok(None);
        };
        // How many parts there are is told apart from all else.
        let mut shown = *options;
        shown.parts = None;
        let mut digest = Fingerprint::default();
        digest.field(env!("CARGO_PKG_VERSION")).field(target.name());
        digest.field(format!("{shown:?}"));
        Ok(Some(Self {
            parts,
            options: digest.finish(),
            model: of_model(model)?,
        }))
    }

    /// The digest of the plan.
    fn plan(&self) -> String {
        let mut digest = Fingerprint::default();
        digest.field(&self.options).field(&self.model);
        digest.number(self.parts.into());
        digest.finish()
    }
}

fn of_model(model: &Model) -> Result<String> {
    let mut digest = Fingerprint::default();
    let format = model.format.map_or("", crate::Format::name);
    digest.field(format).field(&model.version);
    digest.field(format!("{:?} {:?}", model.primitiv, model.casts));
    #[cfg(feature = "aero")]
    digest.field(format!("{:?}", model.aero));
    digest.number(model.metadata.len() as u64);
    for (key, value) in &model.metadata {
        digest.field(key).field(format!("{value:?}"));
    }
    let lens: Vec<u64> = model.tensors.iter().map(len_of).collect();
    digest.number(lens.len() as u64);
    for (tensor, &len) in model.tensors.iter().zip(&lens) {
        digest
            .field(&tensor.name)
            .field(tensor.dtype_name.as_bytes());
        digest.number(tensor.shape.rank() as u64).number(len);
        for &dim in tensor.shape.dims() {
            digest.number(dim);
        }
        let (order, casting, turned) = (tensor.order, tensor.casting, tensor.turned);
        digest.field(format!("{order:?} {casting:?} {turned}"));
        digest.field(tensor.checksum.as_deref().unwrap_or_default());
        digest.field(format!("{:?}", tensor.attributes));
    }
    let source = |at: usize| model.tensors.get(at)?.data.clone().ok();
    digest.samples(&lens, source)?;
    Ok(digest.finish())
}

fn len_of(tensor: &ModelTensor) -> u64 {
    tensor.data.as_ref().map_or(0, |data| data.size())
}

/// What is in one part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedPart {
    /// Which one it is.
    pub part: Part,
    /// Its tensors, by their positions in the target.
    pub tensors: Range<usize>,
    /// Bytes of tensor data that will be written.
    pub data_len: u64,
}

/// Where a tensor comes from: which of the inputs, and which of its tensors.
pub(crate) type Origin = (u32, u32);

/// How the tensors of a plan are shared out.
#[derive(Debug)]
pub(crate) struct Division {
    parts: Vec<PlannedPart>,
    origins: Vec<Origin>,
    identity: Identity,
    plan: String,
}

impl Division {
    pub(crate) fn new(
        tensors: &[Prepared],
        origins: Vec<Origin>,
        identity: Identity,
    ) -> Result<Self> {
        let (count, parts) = (tensors.len(), identity.parts);
        if parts == 0 || usize::try_from(parts).unwrap_or(usize::MAX) > count {
            return Err(Error::Usage(format!(
                "{parts} parts of {count} tensors: every part of a set has one at least; \
                `parts` (--parts N, --part I/N) can be from 1 to {count}"
            )));
        }
        let lens: Vec<u64> = tensors.iter().map(|tensor| tensor.data.size()).collect();
        let planned = |(part, tensors): (Part, Range<usize>)| PlannedPart {
            part,
            data_len: lens
                .get(tensors.clone())
                .unwrap_or_default()
                .iter()
                .fold(0, |sum, len| sum.saturating_add(*len)),
            tensors,
        };
        let ranges = split(&lens, usize::try_from(parts).unwrap_or(count));
        let parts: Vec<PlannedPart> = Part::all(parts).zip(ranges).map(planned).collect();
        Ok(Self {
            plan: identity.plan(),
            parts,
            origins,
            identity,
        })
    }

    /// The first tensor of each part.
    pub(crate) fn starts(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.tensors.start).collect()
    }
}

impl Plan {
    /// The parts that were asked for by [`Options::parts`], in order; none where none were.
    ///
    /// ```
    /// use tensorfmt::convert::{Model, Options, Target, join, plan};
    /// use tensorfmt::{Archive, Tensor, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors.index.json");
    /// // What each worker does by itself, from the same inputs and options, ...
    /// let plan = || -> tensorfmt::Result<_> {
    ///     let mut model = Model::new();
    ///     for name in ["a", "b", "c"] {
    ///         model.tensor(name, Tensor::from_slice(&[1.0f32; 64], &[64]).unwrap());
    ///     }
    ///     let mut options = Options::default();
    ///     options.parts = Some(2);
    ///     plan(model, Target::SafetensorsSet, &options)
    /// };
    /// let once = WriteOptions::default().with_create_new(true);
    /// for number in [2, 1, 2] {
    ///     let plan = plan()?; // in another process, on another machine
    ///     let part = &plan.parts()[number - 1];
    ///     plan.write_part(part.part, &path, &once)?;
    ///     assert!(plan.part_file(part.part, &path)?.exists() && !path.exists());
    /// }
    /// // ... and what one of them does at the end.
    /// assert_eq!(join(&path, &once)?.parts, 2);
    /// assert_eq!(Archive::open(&path)?.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn parts(&self) -> &[PlannedPart] {
        match &self.division {
            Some(division) => &division.parts,
            None => &[],
        }
    }

    /// A digest of inputs, options and number of parts, where there are parts: those of one set share it.
    ///
    /// ```
    /// use tensorfmt::convert::{Model, Options, Target, plan};
    ///
    /// let plan = plan(Model::new(), Target::SafetensorsSet, &Options::default())?;
    /// assert_eq!(plan.fingerprint(), None); // in one piece
    /// # Ok::<(), tensorfmt::Error>(())
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        self.division.as_ref().map(|division| &*division.plan)
    }

    /// The file of a part of the set at `path`.
    ///
    /// [`parts`](Self::parts) has an example.
    ///
    /// # Errors
    /// [`Error::Usage`] where the plan has no such part.
    pub fn part_file(&self, part: Part, path: impl AsRef<Path>) -> Result<PathBuf> {
        let (place, _, _) = self.planned(part)?;
        let files = self.files_beside(path);
        files
            .into_iter()
            .nth(place)
            .ok_or_else(|| Error::Usage(format!("part {part}: the set has no file for it")))
    }

    /// Which tensors of an input are in a part, by their positions there; inputs are counted from 0, in the order
    /// of [`Model::merge`]. A check of these is a check of all that the part is made of.
    ///
    /// ```
    /// use tensorfmt::convert::{Model, Options, Target, plan};
    /// use tensorfmt::{Archive, Tensor, safetensors};
    ///
    /// let mut builder = safetensors::Builder::new();
    /// for name in ["a", "b", "c", "d"] {
    ///     builder.tensor(name, Tensor::from_slice(&[1.0f32; 4], &[4])?)?;
    /// }
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let mut options = Options::default();
    /// options.parts = Some(2);
    /// let plan = plan(Model::of(&archive), Target::SafetensorsSet, &options)?;
    /// let second = plan.parts()[1].part;
    /// assert_eq!(plan.sources_of(second, 0), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sources_of(&self, part: Part, input: usize) -> Vec<usize> {
        let Ok((_, planned, division)) = self.planned(part) else {
            return Vec::new();
        };
        let origins = division.origins.get(planned.tensors.clone());
        let of_input = |origin: &&Origin| usize::try_from(origin.0) == Ok(input);
        let origins = origins.unwrap_or_default().iter().filter(of_input);
        let mut positions: Vec<usize> = origins
            .filter_map(|(_, ordinal)| usize::try_from(*ordinal).ok())
            .collect();
        positions.sort_unstable();
        positions
    }

    fn planned(&self, part: Part) -> Result<(usize, &PlannedPart, &Division)> {
        let parts = self.parts();
        let place = parts.iter().position(|planned| planned.part == part);
        let planned = place.and_then(|place| Some((place, parts.get(place)?)));
        match (planned, &self.division) {
            (Some((place, planned)), Some(division)) => Ok((place, planned, division)),
            _ => Err(Error::Usage(format!(
                "part {part}: the plan has {} parts (`parts` of its options)",
                parts.len()
            ))),
        }
    }

    /// Writes one part of the set at `path` alone, and beside it a receipt for [`join`](super::join()), named
    /// as the part with `.receipt` at its end. The same inputs, options and number of parts give the same
    /// bytes, whoever writes it and in whichever order; a part that is there already is written again. Tells
    /// whether anything was written: not where the file is there and the same without a receipt of its own, as
    /// after [`join`](super::join()).
    ///
    /// Part and receipt are temporary files until they are complete, and the receipt appears after the part, so
    /// that a worker which is killed leaves no part that looks whole. With
    /// [`create_new`](WriteOptions::create_new) only parts of the same plan are replaced. Without it others
    /// are as well, and the set that such a part was of is deleted first.
    ///
    /// [`parts`](Self::parts) has an example.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), and [`Error::Usage`] where the plan has no such part, or where
    /// another file or set is there.
    pub fn write_part(
        &self,
        part: Part,
        path: impl AsRef<Path>,
        options: &WriteOptions<'_>,
    ) -> Result<bool> {
        let path = path.as_ref();
        if options.in_place {
            let message = "a part is written to a temporary file, never in place";
            return Err(Error::Usage(message.into()));
        }
        let (place, _, division) = self.planned(part)?;
        let writing = Writing {
            plan: self,
            division,
            part,
            place,
            set: path,
            file: self.part_file(part, path)?,
        };
        writing.check_inputs()?;
        writing.run(options)
    }
}

/// A part on its way to its file.
struct Writing<'a> {
    plan: &'a Plan,
    division: &'a Division,
    part: Part,
    /// Where the part is among all.
    place: usize,
    /// The set.
    set: &'a Path,
    file: PathBuf,
}

/// What is known of the bytes of a part that were put somewhere.
struct Put {
    len: u64,
    sha256: Option<String>,
}

impl Writing<'_> {
    fn check_inputs(&self) -> Result<()> {
        let receipt = Receipt::path(&self.file);
        for path in [&*self.file, &*receipt, self.set] {
            if FileId::of(path).is_ok_and(|id| self.plan.inputs.contains(&id)) {
                return Err(Error::Usage(format!(
                    "{} is, or leads to, a file of the input",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    fn run(&self, options: &WriteOptions<'_>) -> Result<bool> {
        let (is_there, set_is_there) = (is_there(&self.file), is_there(self.set));
        let is_ours = self.has_receipt();
        if is_there && !is_ours {
            if let Some(put) = self.compare(options)? {
                // Written by a run that came no further, or the set is joined already.
                if !(set_is_there && options.create_new) {
                    self.write_receipt(&put, options)?;
                }
                return Ok(false);
            }
            if options.create_new {
                return Err(self.in_the_way(&self.file));
            }
        }
        if set_is_there && !is_ours && options.create_new {
            return Err(self.in_the_way(self.set));
        }
        let mut own = *options;
        own.create_new = options.create_new && !is_ours;
        let nobody = std::iter::empty::<&dyn Source>();
        let file = match AtomicFile::create_chosen(&self.file, nobody, &own) {
            // Another worker has just written it.
            Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists && !is_there => {
                return self.run(options);
            }
            file => file?,
        };
        let mut sink = PartSink::new(file, self.hashes());
        let written = self.plan.writer.write_part(self.place, &mut sink, options);
        if let Some(failure) = sink.failure.take() {
            return Err(Error::Sink(failure));
        }
        written?;
        let (sealed, put) = sink.seal()?;
        if !is_ours {
            self.clear(is_there && set_is_there, options)?;
        }
        if let Err(error) = sealed.commit() {
            // Another worker with the same part was faster.
            let is_same = error.source.kind() == io::ErrorKind::AlreadyExists
                && self.compare(options)?.is_some();
            if !is_same {
                return Err(error.into());
            }
        }
        self.write_receipt(&put, options)?;
        Ok(true)
    }

    /// Whether the file that is there has a receipt of this plan.
    fn has_receipt(&self) -> bool {
        let receipt = Receipt::read(&Receipt::path(&self.file));
        receipt.is_some_and(|receipt| receipt.plan == self.division.plan)
    }

    /// Whether the digest of the part's file is needed.
    fn hashes(&self) -> bool {
        self.plan.target == Target::AeroSet
    }

    fn in_the_way(&self, path: &Path) -> Error {
        let what = match path == self.set {
            true => "is there already".to_owned(),
            false => format!("is another file than part {} of this plan", self.part),
        };
        Error::Usage(format!(
            "{} {what}; without `create_new` (--force on the command line) it is replaced",
            path.display()
        ))
    }

    /// Takes away what would be wrong once the part has another content: the receipt of the old one, and the
    /// set that it was of.
    fn clear(&self, set: bool, options: &WriteOptions<'_>) -> Result<()> {
        let receipt = Receipt::path(&self.file);
        // By now another worker may have written the same part.
        let old = Some(receipt).filter(|path| is_there(path) && !self.has_receipt());
        let parts = self.division.parts.len();
        let index = self.plan.files_beside(self.set).into_iter().skip(parts);
        let set = [self.set.to_path_buf()]
            .into_iter()
            .chain(index)
            .filter(|_| set);
        for file in old.into_iter().chain(set) {
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError::new(&file, error).into());
                }
                _ if file == self.set => options.tell(&Notice::Removed { file }),
                _ => {}
            }
        }
        Ok(())
    }

    /// Holds the file that is there against what would be written; `None` where they differ.
    fn compare(&self, options: &WriteOptions<'_>) -> Result<Option<Put>> {
        let Ok(file) = FileSource::open(&self.file) else {
            return Ok(None);
        };
        let mut compared = Compared {
            file,
            len: 0,
            hasher: self.hashes().then(Sha256::new),
            differs: false,
            buffer: Vec::new(),
        };
        let written = self
            .plan
            .writer
            .write_part(self.place, &mut compared, options);
        if compared.differs || compared.len != compared.file.size() && written.is_ok() {
            return Ok(None);
        }
        written?;
        Ok(Some(Put {
            len: compared.len,
            sha256: compared.hasher.map(|hasher| hex(&hasher.finalize())),
        }))
    }

    fn write_receipt(&self, put: &Put, options: &WriteOptions<'_>) -> Result<()> {
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let receipt = Receipt {
            set: name(self.set),
            target: self.plan.target,
            part: self.part,
            file: name(&self.file),
            bytes: put.len,
            sha256: put.sha256.clone(),
            ends: ends(&FileSource::open(&self.file)?)?,
            plan: self.division.plan.clone(),
            options: self.division.identity.options.clone(),
            model: self.division.identity.model.clone(),
            index: self.plan.writer.index_style(),
        };
        let mut own = *options;
        own.create_new = false;
        let nobody = std::iter::empty::<&dyn Source>();
        let mut file = AtomicFile::create_chosen(Receipt::path(&self.file), nobody, &own)?;
        file.put(receipt.to_text().as_bytes())?;
        Ok(file.commit()?)
    }
}

pub(super) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A file of which the digest is taken while it is written.
struct PartSink {
    file: AtomicFile,
    len: u64,
    hasher: Option<Sha256>,
    failure: Option<SinkError>,
}

impl PartSink {
    fn new(file: AtomicFile, hashes: bool) -> Self {
        Self {
            file,
            len: 0,
            hasher: hashes.then(Sha256::new),
            failure: None,
        }
    }

    /// The file, complete, and what is known of it.
    fn seal(self) -> Result<(SealedFile, Put)> {
        let put = Put {
            len: self.len,
            sha256: self.hasher.map(|hasher| hex(&hasher.finalize())),
        };
        Ok((self.file.seal()?, put))
    }
}

impl io::Write for PartSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        self.len = self.len.saturating_add(bytes.len() as u64);
        match self.file.put(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                // With its path, which an error of this kind has no place for.
                self.failure = Some(error);
                Err(io::Error::other("the part could not be written"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that are held against those of a file as they come.
struct Compared {
    file: FileSource,
    len: u64,
    hasher: Option<Sha256>,
    differs: bool,
    buffer: Vec<u8>,
}

impl io::Write for Compared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const PIECE: usize = 1 << 20;
        let piece = bytes.get(..bytes.len().min(PIECE)).unwrap_or_default();
        self.buffer.resize(piece.len(), 0);
        let read = self.file.read_into(self.len, &mut self.buffer);
        if read.is_err() || self.buffer != piece {
            self.differs = true;
            return Err(io::Error::other("the file has other bytes"));
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
        self.len = self.len.saturating_add(piece.len() as u64);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
