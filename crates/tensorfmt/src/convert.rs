//! From any archive to any format: plan first, say every loss, then write.
//!
//! A [`Model`] is what the formats have in common; edit it on the way. [`plan`] holds it against
//! a [`Target`]: what the target can't hold is either refused, naming tensor and dtype, or, for
//! everything that is no tensor data, a [`Loss`]. A [`Plan`] then writes, pulling the data in
//! windows from the source files.

#[cfg(feature = "remote")]
mod address;
mod cast;
mod choices;
mod edit;
mod join;
mod memory;
mod merge;
mod model;
mod natural;
mod notes;
mod parts;
mod receipt;
#[allow(dead_code, reason = "a build may have few codecs, or none")]
pub(crate) mod record;
mod targets;

use std::fmt;
use std::path::{Path, PathBuf};

pub use cast::{CastReport, PassedOver};
pub(crate) use choices::Casting;
pub use edit::edit_in_place;
pub use join::{Joined, PartFault, PartProblem, join, join_plan};
pub use merge::{Merged, OnDuplicate};
pub(crate) use model::Unreadable;
pub use model::{Model, ModelTensor, Tensors};
pub use natural::natural;
pub use notes::Note;
pub use parts::PlannedPart;
#[cfg(feature = "primitiv")]
pub(crate) use targets::{none_left, refusal};
use tensor_core::{DType, FileId, SetOutput, Shape, WriteOptions};

use crate::codec::Write;
use crate::{Error, Format, Result};

macro_rules! define {
    (
        ()
        $($Format:ident {
            about: $about:literal,
            feature: $feature:literal,
            codec: $krate:ident as $module:ident,
            endings: [$usual:literal $(, $other:literal)*],
            mark: $mark:expr,
            set: [$($Set:ident $set:literal $ending:literal)?],
        })*
    ) => {
        /// What to convert to: a file of the generation that is written today, or a set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Target {$(
            #[doc = concat!("A file: ", $about, ".")]
            $Format,
            $(
                #[doc = concat!("A set of files behind one that is named `*.", $ending, "`: ", $about, ".")]
                $Set,
            )?
        )*}

        impl Target {
            /// Every target.
            pub const ALL: &'static [Self] = &[$(Self::$Format, $(Self::$Set,)?)*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self {$(
                    Self::$Format => $feature,
                    $(Self::$Set => $set,)?
                )*}
            }

            /// The format that it is a file of.
            pub const fn format(self) -> Format {
                match self {$(
                    Self::$Format $(| Self::$Set)? => Format::$Format,
                )*}
            }

            /// How the names of its files end, after the dot; of a set, the one that it is opened by.
            ///
            /// ```
            /// use tensorfmt::convert::Target;
            ///
            /// for &target in Target::ALL {
            ///     assert_eq!(Target::from_path(format!("x.{}", target.ending())), Some(target));
            /// }
            /// ```
            pub const fn ending(self) -> &'static str {
                match self {$(
                    Self::$Format => $usual,
                    $(Self::$Set => $ending,)?
                )*}
            }

            /// Whether it is several files.
            ///
            /// [`from_path`](Self::from_path) has an example.
            pub const fn is_set(self) -> bool {
                match self {$(
                    Self::$Format => false,
                    $(Self::$Set => true,)?
                )*}
            }
        }
    };
}

formats! { define! () }

impl Target {
    /// The target with this [`name`](Self::name).
    ///
    /// ```
    /// use tensorfmt::convert::Target;
    ///
    /// assert_eq!(Target::from_name("mag"), Some(Target::Mag));
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|target| target.name() == name)
    }

    /// The target that a path's ending stands for.
    ///
    /// ```
    /// use tensorfmt::DType;
    /// use tensorfmt::convert::Target;
    ///
    /// let target = Target::from_path("model.bpk").ok_or("no such ending")?;
    /// assert_eq!((target, Target::from_name("burnpack")), (Target::Burnpack, Some(target)));
    /// assert!(target.holds(DType::BF16) && !target.holds(DType::C64));
    /// assert!(!target.is_set() && Target::AeroSet.is_set());
    /// # Ok::<(), &str>(())
    /// ```
    pub fn from_path(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let format = Format::from_path(path)?;
        let is_json = path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        // A Shape file is one of primitiv's, but holds no tensor.
        if format == Format::Primitiv && PrimitivObject::from_path(path).is_none() {
            return None;
        }
        Self::ALL
            .iter()
            .copied()
            .find(|target| target.format() == format && target.is_set() == is_json)
    }

    /// Whether the target can hold a tensor of this shape as it is.
    pub(crate) fn holds_shape(self, shape: &Shape) -> bool {
        targets::capabilities(self).is_some_and(|target| {
            target.ranks.contains(&shape.rank()) && (target.empty || shape.elements() > 0)
        })
    }

    /// Whether the target has a checksum or hash over the data of every tensor.
    pub(crate) fn has_checksums(self) -> bool {
        targets::capabilities(self).is_some_and(|target| target.checksums)
    }

    /// Whether the target can hold elements of this dtype.
    ///
    /// ```
    /// use tensorfmt::DType;
    /// use tensorfmt::convert::Target;
    ///
    /// assert!(Target::Safetensors.holds(DType::BF16));
    /// assert!(!Target::Primitiv.holds(DType::BF16)); // f32 alone
    /// ```
    #[must_use]
    pub fn holds(self, dtype: DType) -> bool {
        targets::capabilities(self).is_some_and(|target| (target.holds)(dtype))
    }
}

/// What to do about tensors whose order isn't the target's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Keep the dims and transpose the data.
    #[default]
    KeepDims,
    /// Keep the bytes and reverse the dims.
    KeepBytes,
}

/// How to convert.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Cast all floats to this dtype, and of the other tensors those that the target can't hold.
    /// An integer dtype applies to all integers and booleans, never to floats, and only where
    /// every value fits. [`Plan::cast`] tells what became of it.
    pub cast: Option<DType>,
    /// Leave out tensors that the target can't hold, as losses, instead of refusing.
    pub skip_unsupported: bool,
    /// Write a file without tensors even if the source has some; otherwise that is an error, since most
    /// often a pattern was misspelt.
    pub allow_empty: bool,
    /// What to do about the order of elements.
    pub layout: Layout,
    /// Write a scalar as one dim of 1 where the target has no scalars.
    pub promote_scalars: bool,
    /// Compress with zstd at this level, where the target can; 0 is what the target has unless
    /// told otherwise: 3 for the data of zTensor, 6 for the metadata of AERO.
    pub zstd: Option<i32>,
    /// Which checksum every tensor gets, where the target has a choice.
    pub checksum: Option<Checksum>,
    /// How many bytes fill a shard (AERO).
    pub max_shard_bytes: Option<u64>,
    /// Write the set in this many parts, one file each, of as many bytes as can be: each may then be written
    /// by another process ([`Plan::write_part`]). Files are named after the set and by their numbers, as
    /// `model-00001-of-00004.aero`.
    pub parts: Option<u32>,
    /// How many shards a part has (AEROSET).
    pub max_part_shards: Option<u32>,
    /// Put a hash of every tensor into the index (AERO).
    pub tensor_hash: bool,
    /// Cover header, TOC and string table by a hash (AERO).
    pub ihsh: bool,
    /// Hash every page of so many bytes (AERO).
    pub phsh: Option<u64>,
    /// Start shards on a page (AERO).
    pub page_align: bool,
    /// Carry over the statistics that optimizers keep beside parameters (primitiv); between two
    /// primitiv files they always are.
    pub with_stats: bool,
    /// Which object a primitiv target is. Unless set a copy of a primitiv file stays what it is while
    /// its tensors fit in there, and all else is a model.
    pub primitiv: Option<PrimitivObject>,
    /// Keep a name as one part of a primitiv address instead of splitting it at `.`.
    pub whole_names: bool,
    /// Which releases of Burn shall read a burnpack target. Unless set, a tensor that comes from a
    /// burnpack file is spelled as it is there, and any other for the release that the metadata
    /// names, or the current one.
    pub burnpack: Option<BurnpackGeneration>,
}

/// The spellings that releases of Burn have for one and the same tensor.
///
/// ```
/// use tensorfmt::convert::BurnpackGeneration;
///
/// for name in ["0.20", "0.21"] {
///     let generation = BurnpackGeneration::from_name(name).ok_or("no such generation")?;
///     assert_eq!(generation.name(), name);
/// }
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BurnpackGeneration {
    /// burn-store 0.20: bools as a plain text, older quantization schemes, no scalars.
    V0_20,
    /// burn-store 0.21: older quantization schemes, no scalars.
    V0_21,
    /// burn-pack 0.22 and later.
    V0_22,
}

impl BurnpackGeneration {
    /// Every one, oldest first.
    pub const ALL: &'static [Self] = &[Self::V0_20, Self::V0_21, Self::V0_22];

    /// The release: `0.20`, `0.21`, `0.22`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_20 => "0.20",
            Self::V0_21 => "0.21",
            Self::V0_22 => "0.22",
        }
    }

    /// The one with this [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|generation| generation.name() == name)
    }
}

/// The objects that a primitiv file can be.
///
/// ```
/// use tensorfmt::convert::PrimitivObject;
///
/// assert_eq!(PrimitivObject::from_path("net.model"), Some(PrimitivObject::Model));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrimitivObject {
    /// `.model`: any number of parameters.
    #[default]
    Model,
    /// `.param`: one parameter, with its statistics.
    Parameter,
    /// `.optimizer`: configurations, taken from metadata.
    Optimizer,
    /// `.tensor`: one tensor.
    Tensor,
}

impl PrimitivObject {
    /// The object that a path's ending stands for.
    pub fn from_path(path: impl AsRef<Path>) -> Option<Self> {
        match path.as_ref().extension()?.to_str()? {
            "model" => Some(Self::Model),
            "param" => Some(Self::Parameter),
            "optimizer" | "trainer" => Some(Self::Optimizer),
            "tensor" => Some(Self::Tensor),
            _ => None,
        }
    }
}

/// A checksum over a tensor's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// None.
    None,
    /// CRC-32C.
    Crc32c,
    /// SHA-256.
    Sha256,
}

/// Something that the target can't hold, and that is not there after the conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// What kind of thing.
    pub kind: LossKind,
    /// Which: a tensor's name, a metadata key, or `tensor: field`.
    pub item: String,
    /// Why, or what became of it.
    pub reason: String,
}

/// What kind of thing a [`Loss`] is about.
///
/// ```
/// use tensorfmt::convert::LossKind;
///
/// assert_eq!(LossKind::Metadata.name(), "metadata");
/// println!("of the model itself: {}", LossKind::Metadata.is_of_model());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// A tensor that was left out on request.
    Tensor,
    /// Values that a cast changed, on request.
    Value,
    /// A shape that was changed.
    Shape,
    /// A name that was changed.
    Name,
    /// The order of some tensors.
    Order,
    /// A key of the file's metadata.
    Metadata,
    /// Something that the source says about one tensor: an id, a custom field, a scheme.
    Attribute,
    /// A checksum that the target has no place for. Of the model nothing is lost with it.
    Checksum,
    /// The generation of a file that is written as another one of its own format. All that it holds
    /// is there, but a program that knows the old one alone may not read it.
    Generation,
}

impl LossKind {
    /// The word in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Value => "value",
            Self::Shape => "shape",
            Self::Name => "name",
            Self::Order => "order",
            Self::Metadata => "metadata",
            Self::Attribute => "attribute",
            Self::Checksum => "checksum",
            Self::Generation => "generation",
        }
    }

    /// Whether something of the model itself is lost, which a strict conversion refuses.
    #[must_use]
    pub const fn is_of_model(self) -> bool {
        !matches!(self, Self::Checksum | Self::Generation)
    }
}

impl Loss {
    pub(crate) fn new(kind: LossKind, item: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            kind,
            item: item.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}", self.kind.name(), self.item, self.reason)
    }
}

/// A tensor that the target can't hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The tensor.
    pub tensor: String,
    /// Its dtype, as listings name it.
    pub dtype: String,
    /// Why.
    pub reason: String,
    /// Whether the source is to blame, not the target: its data is damaged.
    pub damaged: bool,
    /// What makes the conversion possible all the same, where something does.
    pub remedy: Option<Remedy>,
}

/// What lets a target hold a tensor after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// [`Options::cast`] to this dtype.
    Cast(DType),
    /// [`Options::promote_scalars`].
    PromoteScalars,
    /// [`Model::rename`], or to leave the tensor out.
    Rename,
    /// [`Options::skip_unsupported`], or to leave the tensor out.
    LeaveOut,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A refusal of the whole names no tensor, and none is without a dtype.
        if self.dtype.is_empty() && self.tensor.is_empty() {
            return f.write_str(&self.reason);
        }
        write!(
            f,
            "tensor {:?} ({}): {}",
            self.tensor, self.dtype, self.reason
        )
    }
}

/// A conversion that is known to work, short of I/O: nothing has been written yet.
///
/// ```
/// use tensorfmt::convert::{Model, Options, Target, plan};
/// use tensorfmt::{DType, Tensor, WriteOptions};
///
/// let mut model = Model::new();
/// model.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?);
/// let mut options = Options::default();
/// options.cast = Some(DType::BF16);
/// let plan = plan(model, Target::Safetensors, &options)?;
///
/// // Before anything is written:
/// assert!(plan.losses().is_empty() && plan.notes().is_empty());
/// assert_eq!(plan.cast().map(|cast| (cast.to, cast.changed)), Some((DType::BF16, 1)));
/// assert!(plan.casts().is_empty()); // of some tensors alone
/// assert_eq!((plan.target(), plan.data_len()), (Target::Safetensors, 4));
/// assert!(!plan.data_reordered() && plan.files_beside("model.safetensors").is_empty());
///
/// let file = plan.to_vec()?;
/// assert_eq!(plan.encoded_len(), Some(file.len() as u64));
/// let mut out = Vec::new();
/// plan.write_to(&mut out, &WriteOptions::default())?;
/// assert_eq!(out, file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Plan {
    target: Target,
    losses: Vec<Loss>,
    notes: Vec<Note>,
    cast: Option<CastReport>,
    casts: Vec<CastReport>,
    data_len: u64,
    inputs: Vec<FileId>,
    division: Option<parts::Division>,
    writer: Box<dyn Write>,
}

impl Plan {
    /// Everything that will not be in the target.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Options that changed nothing of what they could have changed, or a part of it.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What became of the cast that was asked for, if one was.
    #[must_use]
    pub fn cast(&self) -> Option<&CastReport> {
        self.cast.as_ref()
    }

    /// What became of each [`Model::cast`] of some tensors, in their order.
    #[must_use]
    pub fn casts(&self) -> &[CastReport] {
        &self.casts
    }

    /// What the plan writes.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    /// Whether the data gets another order than the tensors have, so that all of it is aligned, as in
    /// a safetensors file whose narrow tensors come first; the listing keeps theirs.
    #[must_use]
    pub fn data_reordered(&self) -> bool {
        self.writer.data_reordered()
    }

    /// Bytes of tensor data that will be written, for a progress bar.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// How long the file will be, where that is known before it is written: not of compressed data. Of a
    /// set it is all files together, but for their indices.
    #[must_use]
    pub fn encoded_len(&self) -> Option<u64> {
        self.writer.encoded_len(self.data_len)
    }

    /// The files that are written beside `path` as well: the parts and the index of an AERO set, the shards
    /// of one of safetensors.
    ///
    /// An AERO set's do not have their names from that of `path`, so they may belong to another set.
    pub fn files_beside(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        self.writer.files_beside(path.as_ref())
    }

    /// Writes the file at `path`, which appears only when it is complete.
    ///
    /// A single file may take its own source's place, which is read until it is complete.
    ///
    /// # Errors
    /// What the source or the disk fails with; the target is then as it was. [`Error::Usage`] where a file
    /// that is written is one of several that the source consists of.
    pub fn write_file(&self, path: impl AsRef<Path>, options: &WriteOptions<'_>) -> Result<()> {
        let path = path.as_ref();
        let alone = self.inputs.len() < 2 && !self.target.is_set();
        if !alone || options.in_place {
            let mut written = self.files_beside(path);
            written.push(path.to_path_buf());
            let is_input =
                |path: &&PathBuf| FileId::of(path).is_ok_and(|id| self.inputs.contains(&id));
            if let Some(input) = written.iter().find(is_input) {
                return Err(Error::Usage(format!(
                    "{} is, or leads to, a file of the input",
                    input.display()
                )));
            }
        }
        self.writer.write_file(path, options)
    }

    /// Writes the file to `out`. What a format keeps before its data is found by reading the data twice,
    /// since an output can't go back.
    ///
    /// # Errors
    /// What the source or `out` fails with; [`Error::Usage`] for a set, which is several files.
    pub fn write_to(&self, mut out: impl std::io::Write, options: &WriteOptions<'_>) -> Result<()> {
        self.writer.write_to(&mut out, options)
    }

    /// Writes the files of a set to where `out` puts them, the one called `name`, which names all others, last.
    /// Each part is read twice where a format keeps something before its data.
    ///
    /// ```
    /// use tensorfmt::convert::{Model, Options, Target, plan};
    /// use tensorfmt::{SetOutput, Tensor, WriteOptions};
    ///
    /// /// The names of files, and their bytes one after the other.
    /// #[derive(Default)]
    /// struct Named(Vec<String>, Vec<u8>);
    /// # impl std::io::Write for Named {
    /// #     fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
    /// #         self.1.write(bytes)
    /// #     }
    /// #     fn flush(&mut self) -> std::io::Result<()> {
    /// #         Ok(())
    /// #     }
    /// # }
    /// impl SetOutput for Named {
    ///     fn begin(&mut self, name: &str, _len: Option<u64>) -> std::io::Result<()> {
    ///         self.0.push(name.to_owned());
    ///         Ok(())
    ///     }
    /// }
    /// let mut model = Model::new();
    /// model.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?);
    /// let plan = plan(model, Target::SafetensorsSet, &Options::default())?;
    /// let mut out = Named::default();
    /// plan.write_set_to("m.safetensors.index.json", &mut out, &WriteOptions::default())?;
    /// assert_eq!(out.0, ["m-00001-of-00001.safetensors", "m.safetensors.index.json"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the source or `out` fails with; [`Error::Usage`] for a target that is one file.
    pub fn write_set_to(
        &self,
        name: &str,
        out: &mut dyn SetOutput,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        self.writer.write_set(name, out, options)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to).
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let len = self.encoded_len().unwrap_or(0);
        let mut out = tensor_core::codec::hinted_vec(len);
        self.write_to(&mut out, &WriteOptions::default())?;
        Ok(out)
    }
}

/// Holds `model` against `target`.
///
/// # Errors
/// [`Error::Refused`] with every tensor that the target can't hold, and each reason;
/// [`Error::Usage`] for an option that the target has no use for, and where no tensor would be left.
pub fn plan(model: Model, target: Target, options: &Options) -> Result<Plan> {
    targets::plan(model, target, options)
}

/// The items of a list in order, whose memory is given back on the way: a million tensors turn from what was
/// read into what is written, and must not be in memory twice.
pub(crate) fn shrinking<T>(mut items: Vec<T>) -> impl Iterator<Item = T> {
    items.reverse();
    std::iter::from_fn(move || {
        let item = items.pop();
        if items.capacity() > 1024 && items.len() < items.capacity() / 8 * 7 {
            items.shrink_to_fit();
        }
        item
    })
}
