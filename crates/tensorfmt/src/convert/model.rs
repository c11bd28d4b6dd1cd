use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tensor_core::{DType, FileId, Kind, Order, Shape, Source, Transposed, Value};

use super::choices::{Casting, OwnCast};
use super::record::Record;
use super::{PrimitivObject, Refusal, Target, natural};
use crate::codec::{About, Native};
use crate::{Archive, Entry, Error, Format, Result};

/// What all formats have in common: metadata, and tensors whose data stays in its file until it
/// is pulled.
///
/// Change it before it is written:
///
/// ```
/// use tensorfmt::convert::{Model, ModelTensor, Options};
/// use tensorfmt::{Archive, Bytes, DType, Shape, Tensor, TensorSpec, Value, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let mut model = Model::new();
/// model.tensor("layer.10", Tensor::from_slice(&[0.5f32, 1.5], &[1, 2])?);
/// model.tensor("layer.2", Tensor::from_slice(&[2.5f32, 3.5], &[1, 2])?);
/// let spec = TensorSpec::new(DType::F32, Shape::new(&[2])?);
/// model.deferred("head", spec, Bytes::from_static(&[0; 8]))?; // any source
/// model.retain(|name| name.starts_with("layer"));
/// model.rename(|name| name.replace("layer", "block"))?;
/// model.sort(); // 2 before 10
/// model.set_metadata("format", "pt");
/// model.set_metadata("scratch", "x");
/// model.drop_metadata(|key| key == "scratch");
/// model.cast("norms", DType::BF16, |name| name == "block.2");
/// assert_eq!(model.keep_dtype(|name| name == "block.10"), 1);
/// model.transpose(|name| name == "block.10")?;
/// model.save(&path, &Options::default(), &WriteOptions::default())?;
///
/// let archive = Archive::open(&path)?;
/// let names: Vec<&str> = archive.entries().map(|entry| entry.name()).collect();
/// assert_eq!(names, ["block.2", "block.10"]);
/// assert_eq!(archive.metadata_value("format"), Some(Value::from("pt")));
///
/// // Of a file: all for its own format or another one, or all but the tensors.
/// let same = Model::of_for(&archive, tensorfmt::convert::Target::Mag);
/// assert_eq!(same.tensors.len(), 2);
/// let mut one = Model::about(&archive);
/// one.tensors = ModelTensor::of(&archive, archive.entry("block.2"));
/// assert_eq!(one.tensors.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The format that it was read from, if it was.
    pub(crate) format: Option<Format>,
    /// Its version or generation, as people name it.
    #[allow(dead_code, reason = "a build may have few codecs, or none")]
    pub(crate) version: String,
    /// The object that a primitiv file is of.
    pub(crate) primitiv: Option<PrimitivObject>,
    /// File-level metadata, in order.
    pub metadata: Vec<(String, Value)>,
    /// The tensors, in order.
    pub tensors: Vec<ModelTensor>,
    /// Metadata keys whose integer burnpack held as a signed one.
    pub(crate) signed: Vec<String>,
    /// Why some of the file's metadata is not here, if it isn't.
    pub(crate) fault: Option<String>,
    /// Why the file holds nothing that could be converted, if it doesn't.
    pub(crate) nothing: Option<String>,
    /// Tensors that no entry is for, each with the file that holds it.
    pub(crate) unlisted: Vec<(String, String)>,
    /// What the writer of an AERO file chose for it as a whole.
    #[cfg(feature = "aero")]
    pub(crate) aero: Option<aero_format::Style>,
    /// What is wrong with a set of which all that is whole is here.
    pub(crate) faults: Vec<String>,
    /// What a set's index says beside its tensors.
    pub(crate) said_by_index: Vec<String>,
    /// Casts of some tensors.
    pub(crate) casts: Vec<OwnCast>,
    /// How many tensors the file has.
    pub(crate) had: usize,
    /// The files that it is read from.
    pub(crate) inputs: Vec<FileId>,
}

/// One tensor of a [`Model`].
///
/// ```
/// use tensorfmt::convert::Model;
/// use tensorfmt::{DType, Order, Source, Tensor};
///
/// let mut model = Model::new();
/// let matrix = Tensor::from_slice(&[1u8, 3, 2, 4], &[2, 2])?.with_order(Order::ColumnMajor);
/// model.tensor("m", matrix);
/// let tensor = model.tensors[0].clone().named("matrix");
/// assert_eq!((tensor.name(), tensor.dtype()), ("matrix", Some(DType::U8)));
/// assert_eq!((tensor.shape().dims(), tensor.order()), (&[2, 2][..], Order::ColumnMajor));
/// assert_eq!(tensor.data()?.read(0..4)?, &[1, 3, 2, 4][..]); // as stored
/// assert_eq!(tensor.rows()?.read(0..4)?, &[1, 2, 3, 4][..]); // last dim fastest
/// assert!(tensor.attributes().is_empty()); // what only its format says
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ModelTensor {
    /// The name; see [`Model::rename`].
    pub(crate) name: String,
    pub(crate) dtype: Option<DType>,
    pub(crate) dtype_name: Cow<'static, str>,
    pub(crate) shape: Shape,
    pub(crate) order: Order,
    /// Why there are no bytes, where there are none.
    pub(crate) data: Result<Arc<dyn Source>, Unreadable>,
    /// What only some formats say about a tensor: ids, custom fields, schemes.
    pub(crate) attributes: Vec<(String, Value)>,
    /// A check value that the source file holds for the tensor, as text.
    pub(crate) checksum: Option<String>,
    /// How the source's own format can write the tensor again as it was.
    pub(crate) native: Option<Native>,
    /// Why there are no values, where there are bytes.
    pub(crate) unread: Option<String>,
    /// Whether it is a statistic that an optimizer keeps about another tensor.
    pub(crate) is_stat: bool,
    /// Which cast it gets.
    pub(crate) casting: Casting,
    /// Whether its dims are swapped, so that it differs from the file's.
    pub(crate) turned: bool,
    /// Which tensor of its file it is, where it came with all of them.
    pub(crate) ordinal: u32,
    /// Which of several merged models it comes from.
    pub(crate) input: u32,
}

/// Why a tensor's data can't be had.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    /// Whether the file is to blame, rather than this build or a generation.
    pub(crate) damaged: bool,
    pub(crate) reason: String,
}

impl Unreadable {
    pub(crate) fn of(error: impl Into<Error>) -> Self {
        let error = error.into();
        Self {
            damaged: matches!(error.kind(), Kind::Invalid | Kind::Limit),
            reason: error.to_string(),
        }
    }
}

impl Model {
    /// Everything in `archive`; no data is read.
    #[must_use]
    pub fn of(archive: &Archive) -> Self {
        Self::with(archive, archive.entries(), About::Home)
    }

    /// Everything in `archive`, for a conversion to `target`: where that is another format, fields that only
    /// the archive's own format can write are left out, which takes a third of the memory.
    #[must_use]
    pub fn of_for(archive: &Archive, target: Target) -> Self {
        let about = match archive.format() == target.format() {
            true => About::Home,
            false => About::Elsewhere,
        };
        Self::with(archive, archive.entries(), about)
    }

    /// Everything in `archive` but its tensors: its metadata above all.
    #[must_use]
    pub fn about(archive: &Archive) -> Self {
        Self::with(archive, core::iter::empty(), About::Values)
    }

    fn with<'a>(archive: &Archive, entries: impl Iterator<Item = Entry<'a>>, about: About) -> Self {
        let tensors = Tensors::with(archive, about);
        let mut model = Self {
            format: Some(archive.format()),
            version: archive.version(),
            primitiv: None,
            tensors: (0..)
                .zip(entries)
                .map(|(ordinal, entry)| ModelTensor {
                    ordinal,
                    ..tensors.get(entry)
                })
                .collect(),
            metadata: archive.metadata(),
            #[cfg(feature = "aero")]
            aero: None,
            faults: archive.faults(),
            said_by_index: Vec::new(),
            casts: Vec::new(),
            had: archive.entries().len(),
            inputs: archive.files(),
            unlisted: archive.unlisted(),
            fault: archive.metadata_fault().map(|error| error.to_string()),
            signed: Vec::new(),
            nothing: None,
        };
        archive.add_to(&mut model);
        Record::restore(&mut model, archive.file_len());
        model
    }

    /// Keeps only the tensors whose name `keep` accepts.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.tensors.retain(|tensor| keep(&tensor.name));
    }

    /// Gives every tensor the name that `rename` makes of its own.
    ///
    /// # Errors
    /// [`Error::Usage`] where two tensors would have one name; the names are then as they were.
    pub fn rename(&mut self, rename: impl Fn(&str) -> String) -> Result<()> {
        let names: Vec<String> = self
            .tensors
            .iter()
            .map(|tensor| rename(&tensor.name))
            .collect();
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Error::Usage(format!(
                "two tensors would be named {twice:?}"
            )));
        }
        for (tensor, name) in self.tensors.iter_mut().zip(names) {
            #[cfg(feature = "primitiv")]
            if tensor.name != name && matches!(tensor.native, Some(Native::Primitiv(_))) {
                // The parts of its address are not those of the new name.
                tensor.native = None;
            }
            tensor.name = name;
        }
        Ok(())
    }

    /// Sorts the tensors by name in [`natural`] order, layer 2 before layer 10; statistics stay behind
    /// their parameter.
    pub fn sort(&mut self) {
        let mut owner = String::new();
        let mut tensors: Vec<(String, ModelTensor)> = Vec::with_capacity(self.tensors.len());
        for tensor in std::mem::take(&mut self.tensors) {
            if !tensor.is_stat_of(&owner) {
                owner.clone_from(&tensor.name);
            }
            tensors.push((owner.clone(), tensor));
        }
        tensors.sort_by(|(a, x), (b, y)| natural(a, b).then_with(|| natural(&x.name, &y.name)));
        self.tensors = tensors.into_iter().map(|(_, tensor)| tensor).collect();
    }

    /// Sets a metadata value, in its old place if the key is there.
    pub fn set_metadata(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.metadata.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.metadata.push((key, value)),
        }
    }

    /// Drops the metadata whose key `drop` accepts.
    pub fn drop_metadata(&mut self, drop: impl Fn(&str) -> bool) {
        self.metadata.retain(|(key, _)| !drop(key));
    }
}

/// Makes the [`ModelTensor`]s of an archive one by one, for work over more tensors than should be in memory at
/// once.
///
/// ```
/// use tensorfmt::Archive;
/// use tensorfmt::convert::Tensors;
///
/// # let mut builder = tensorfmt::mag::Builder::new();
/// # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let tensors = Tensors::new(&archive); // `described` also says what only the format does
/// for entry in archive.entries() {
///     assert_eq!(tensors.get(entry).data()?.size(), 8);
/// }
/// let described = Tensors::described(&archive);
/// let entry = archive.entry("w").ok_or("no w")?;
/// println!("{:?}", described.get(entry).attributes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Tensors<'a> {
    archive: &'a Archive,
    reversed: bool,
    about: About,
}

impl<'a> Tensors<'a> {
    /// Those of `archive`, for their values: other attributes of a tensor, which very many may share,
    /// isn't looked up. No data is read.
    #[must_use]
    pub fn new(archive: &'a Archive) -> Self {
        Self::with(archive, About::Values)
    }

    /// Those of `archive`, with all attributes of a tensor, as [`ModelTensor::attributes`] tells.
    #[must_use]
    pub fn described(archive: &'a Archive) -> Self {
        Self::with(archive, About::Elsewhere)
    }

    fn with(archive: &'a Archive, about: About) -> Self {
        Self {
            archive,
            reversed: archive.has_reversed_dims(),
            about,
        }
    }

    /// The tensor of an entry of the archive.
    #[must_use]
    pub fn get(&self, entry: Entry<'_>) -> ModelTensor {
        let mut tensor = self.archive.model_tensor(entry, self.about);
        if self.reversed {
            tensor.shape = tensor.shape.reversed();
        }
        tensor
    }
}

impl ModelTensor {
    /// These tensors of `archive`, in the same order; no data is read.
    pub fn of<'a>(archive: &Archive, entries: impl IntoIterator<Item = Entry<'a>>) -> Vec<Self> {
        let tensors = Tensors::with(archive, About::Home);
        let entries = entries.into_iter();
        entries.map(|entry| tensors.get(entry)).collect()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a statistic of the tensor of this name.
    pub(crate) fn is_stat_of(&self, owner: &str) -> bool {
        let rest = self.name.strip_prefix(owner);
        self.is_stat && rest.is_some_and(|rest| rest.starts_with(':'))
    }

    /// The dtype, `None` where it is unknown.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The dtype's name in listings: ours where it is known, else the file's.
    #[must_use]
    pub fn dtype_name(&self) -> &str {
        &self.dtype_name
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Which dim varies fastest.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// What only its format says about the tensor: ids, custom fields, quantization; nothing where it was made
    /// for its values alone.
    pub fn attributes(&self) -> Vec<(String, Value)> {
        let own = self.native.iter().flat_map(crate::codec::own_attributes);
        self.attributes.iter().cloned().chain(own).collect()
    }

    /// The decoded, little-endian bytes in stored order; a bool is one byte.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason why there are none.
    pub fn data(&self) -> Result<Arc<dyn Source>> {
        self.data.clone().map_err(|Unreadable { damaged, reason }| {
            let (tensor, dtype) = (self.name.clone(), self.dtype_name.to_string());
            Error::Refused(vec![Refusal {
                tensor,
                dtype,
                reason,
                damaged,
                remedy: None,
            }])
        })
    }

    /// The bytes with the last dim fastest, whatever their order in the file; they are moved
    /// while they are read.
    ///
    /// # Errors
    /// As [`data`](Self::data), and where the dtype has no element size.
    pub fn rows(&self) -> Result<Arc<dyn Source>> {
        let data = self.data()?;
        let free = self.order == Order::RowMajor || self.shape.is_order_free();
        match (free, self.dtype) {
            (true, _) | (_, None) => Ok(data),
            (false, Some(dtype)) => {
                let rows = Transposed::new(data, dtype, &self.shape, self.order)
                    .map_err(|error| Error::Usage(error.to_string()))?;
                Ok(Arc::new(rows))
            }
        }
    }
}

impl fmt::Debug for ModelTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelTensor")
            .field("name", &self.name)
            .field("dtype", &self.dtype_name)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
