//! What the facade adds to each codec: one file per format, all with the same three parts. How
//! listings describe the file, how its tensors enter a [`Model`], and what it holds as a target.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensor_core::codec::HasEntries;
use tensor_core::{
    DType, FileId, Misfit, Order, Patch, SetOutput, Shape, Source, TensorSpec, Value, WriteOptions,
};

use crate::convert::{Casting, Model, ModelTensor, Unreadable};
use crate::{Error, Format, ReadOptions, Result};

macro_rules! modules {
    (() $($Format:ident {
        about: $about:literal,
        feature: $feature:literal,
        codec: $krate:ident as $module:ident,
        $($rest:tt)*
    })*) => {$(
        #[cfg(feature = $feature)]
        pub(crate) mod $module;
    )*};
}

formats! { modules! () }

#[allow(dead_code, reason = "a build may have few codecs, or none")]
mod shared;

#[allow(unused_imports, reason = "a build may have few codecs, or none")]
pub(crate) use shared::{lose_attributes, lose_generation, lose_metadata, one_file};

/// What the facade asks of an open file or set of a codec beside what all of them have.
#[allow(dead_code, reason = "a build may have few codecs, or none")]
pub(crate) trait Describe: HasEntries {
    /// The version or generation, as people name it.
    fn version_name(&self) -> String;

    /// Every file that is read, as far as they are there.
    fn read_files(&self) -> Vec<FileId>;

    /// A tensor with everything that the file says about it, for a model.
    fn model_tensor(&self, entry: Self::Entry<'_>, about: About) -> ModelTensor;

    /// Adds to a model what only its own format knows of the file as a whole.
    fn add_to(&self, _model: &mut Model) {}

    /// What to write over the file to make it what a writer of its own format would.
    fn patch(&self, _writer: &dyn Write) -> Result<std::result::Result<Patch, Misfit>> {
        Ok(Err(Misfit::Layout("a set is several files")))
    }

    /// File-level metadata, in file order.
    fn metadata_pairs(&self) -> Vec<(String, Value)> {
        Vec::new()
    }

    /// The same one by one, for a walk over more pairs than are to be held at once.
    fn each_pair(&self, take: &mut dyn FnMut(&str, &Value)) {
        for (key, value) in self.metadata_pairs() {
            take(&key, &value);
        }
    }

    /// Why metadata is missing from the pairs, where some can't be read.
    fn metadata_fault(&self) -> Option<crate::Error> {
        None
    }

    /// Facts that are no metadata, under the keys of listings.
    fn facts(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Size of the index in bytes as decoded, where it is compressed.
    fn index_len(&self) -> u64 {
        0
    }

    /// Whether the metadata says that dims are in the other order.
    fn has_reversed_dims(&self) -> bool {
        false
    }

    /// Whether it is several files.
    fn is_several(&self) -> bool {
        false
    }

    /// The part of a set that holds a tensor's bytes.
    fn part_name(&self, _entry: Self::Entry<'_>) -> Option<&str> {
        None
    }

    /// Tensors that the parts of a set hold and its index doesn't list, each with the name of its part.
    fn unlisted_tensors(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// What is odd about the files of a set, and no fault.
    fn odd_facts(&self) -> &[String] {
        &[]
    }

    /// What a salvaging reader went past.
    fn faults_passed(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A builder of a target's codec, filled.
#[allow(dead_code, reason = "a build may have few codecs, or none")]
pub(crate) trait Write: fmt::Debug + Send + Sync {
    /// The builder, for its own codec to find it again.
    fn as_any(&self) -> &dyn Any;

    /// The files written beside `path`.
    fn files_beside(&self, _path: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// How long the file will be; of a set, the data that goes into its parts.
    fn encoded_len(&self, data_len: u64) -> Option<u64>;

    /// Whether the data is in another order than the index.
    fn data_reordered(&self) -> bool {
        false
    }

    /// Writes the file front to back.
    fn write_to(&self, _out: &mut dyn io::Write, _options: &WriteOptions<'_>) -> Result<()> {
        let message = "a set is several files, which one output can't take";
        Err(Error::Usage(message.into()))
    }

    /// Writes the files of a set called `name`, one after the other.
    fn write_set(
        &self,
        _name: &str,
        _out: &mut dyn SetOutput,
        _options: &WriteOptions<'_>,
    ) -> Result<()> {
        let message = "a file is no set, and is written to one output";
        Err(Error::Usage(message.into()))
    }

    /// Writes one part of a set front to back, counted from 0.
    fn write_part(
        &self,
        _part: usize,
        _out: &mut dyn io::Write,
        _options: &WriteOptions<'_>,
    ) -> Result<()> {
        let message = "a file is written in one piece";
        Err(Error::Usage(message.into()))
    }

    /// What who joins the parts of a set must know to write its index.
    fn index_style(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Writes the file, or all files of the set.
    fn write_file(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()>;
}

/// The error for a format that this build leaves out.
pub(crate) fn disabled(format: Format, _source: impl Source, _options: &ReadOptions) -> Error {
    Error::Disabled(format)
}

/// What a listing says about a tensor beside name, shape and place.
#[allow(dead_code, reason = "a build may have few codecs, or none")]
pub(crate) trait DescribeEntry<'a>: Copy {
    /// The file's own name of the dtype.
    fn stored_dtype(self) -> Cow<'a, str>;

    /// Bytes in the file, `None` where that is unknown.
    fn stored_bytes(self) -> Option<u64>;

    /// Shard and offset within it, where a set says these instead of an offset in a file.
    fn in_shard(self) -> Option<(u32, u64)> {
        None
    }

    /// How the bytes are stored.
    fn encoding(self) -> Cow<'a, str> {
        Cow::Borrowed("raw")
    }

    /// What only this format says, under the keys of listings.
    fn extras(self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// The same for people: what the file says once for many entries, and at length, is only named.
    fn extras_in_short(self) -> Vec<(&'static str, Value)> {
        self.extras()
    }

    /// The object that this is a part of, where the file says things once for several entries.
    fn object_name(self) -> Option<&'a str> {
        None
    }

    /// Whether the objects that this and another are parts of are said to be the same, byte by byte.
    fn says_as(self, _other: Self) -> bool {
        false
    }

    /// Dims and bytes that the file says once for several entries.
    fn said_once(self) -> u64 {
        0
    }
}

/// What a target can hold.
pub(crate) struct Capabilities {
    pub(crate) holds: fn(DType) -> bool,
    pub(crate) ranks: RangeInclusive<usize>,
    /// Whether a dim may be 0.
    pub(crate) empty: bool,
    pub(crate) order: Order,
    /// Whether what is written has a checksum or hash over the data of every tensor.
    pub(crate) checksums: bool,
    /// Why a name can't be held.
    pub(crate) name: fn(&str) -> Option<String>,
}

/// A part of a set that was written alone.
#[allow(dead_code, reason = "a build may have few codecs, or none")]
pub(crate) struct SetPart {
    /// The name of its file, and where that is.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Of the file; empty where the set doesn't say it.
    pub(crate) sha256: String,
}

/// A tensor as the target will hold it.
#[allow(dead_code, reason = "a build may have few codecs, or none")]
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) spec: TensorSpec,
    pub(crate) data: Arc<dyn Source>,
    pub(crate) attributes: Vec<(String, Value)>,
    /// The tensor in terms of the target's own format, if that is where it comes from and its
    /// data was not changed on the way.
    pub(crate) native: Option<Native>,
}

/// What a codec says about a tensor of its own that it can write again as it was. A million tensors have one
/// each, so what is large is elsewhere.
#[derive(Clone)]
pub(crate) enum Native {
    /// Whether the index had its hash.
    #[cfg(feature = "aero")]
    Aero { hashed: bool },
    /// One whose dtype has no meaning here: its code, and the data as stored.
    #[cfg(feature = "aero")]
    AeroCoded(aero_format::DTypeCode),
    /// The tensor itself, with its dtype as spelled and the data as stored: its archive, and its position there.
    #[cfg(feature = "burnpack")]
    Burnpack(Box<(burnpack_format::Archive, usize)>),
    /// The parts of its address.
    #[cfg(feature = "primitiv")]
    Primitiv(Box<[String]>),
    /// The tensor itself, with its dtype, its extra keys and its bytes: its archive, and its position there.
    #[cfg(feature = "safetensors")]
    Safetensors(Box<(safetensors_format::Archive, usize)>),
    /// How it was stored, with all custom fields.
    #[cfg(feature = "ztensor")]
    Ztensor(Box<ztensor_format::TensorOptions>),
    /// An entry that is written again as it is stored: one that can't be read, or is compressed.
    #[cfg(feature = "ztensor")]
    ZtensorStored(Box<ZtensorStored>),
}

/// How an entry is stored, the archive that it is of, and its name there.
#[cfg(feature = "ztensor")]
pub(crate) type ZtensorStored = (
    ztensor_format::TensorOptions,
    ztensor_format::Archive,
    String,
);

/// What the source's own format says about a tensor and no other can hold.
pub(crate) fn own_attributes(native: &Native) -> Vec<(String, Value)> {
    match native {
        #[cfg(feature = "safetensors")]
        Native::Safetensors(_) => safetensors::extras(native).collect(),
        #[allow(unreachable_patterns, reason = "a build may have one codec only")]
        _ => Vec::new(),
    }
}

/// What is wanted of a tensor beside its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Nothing.
    Values,
    /// What is said about it, for a file of another format.
    Elsewhere,
    /// That, and how its own format can write it again as it was.
    Home,
}

impl Native {
    /// The format in whose terms it is.
    pub(crate) fn format(&self) -> Format {
        match *self {
            #[cfg(feature = "aero")]
            Self::Aero { .. } | Self::AeroCoded(_) => Format::Aero,
            #[cfg(feature = "burnpack")]
            Self::Burnpack(..) => Format::Burnpack,
            #[cfg(feature = "primitiv")]
            Self::Primitiv(_) => Format::Primitiv,
            #[cfg(feature = "safetensors")]
            Self::Safetensors(..) => Format::Safetensors,
            #[cfg(feature = "ztensor")]
            Self::Ztensor(_) | Self::ZtensorStored(..) => Format::Ztensor,
        }
    }
}

/// A tensor of a model with what every entry says about itself.
pub(crate) fn tensor(
    name: &str,
    dtype: Option<DType>,
    dtype_name: Cow<'_, str>,
    shape: &Shape,
    order: Order,
    data: std::result::Result<Arc<dyn Source>, Unreadable>,
) -> ModelTensor {
    ModelTensor {
        name: name.to_owned(),
        dtype,
        // Most are names of ours, which need no memory.
        dtype_name: match dtype {
            Some(dtype) if dtype.name() == dtype_name => Cow::Borrowed(dtype.name()),
            _ => Cow::Owned(dtype_name.into_owned()),
        },
        shape: shape.clone(),
        order,
        data,
        attributes: Vec::new(),
        checksum: None,
        native: None,
        unread: None,
        is_stat: false,
        casting: Casting::default(),
        turned: false,
        ordinal: u32::MAX,
        input: 0,
    }
}
