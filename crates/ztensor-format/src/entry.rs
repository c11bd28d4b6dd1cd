use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use tensor_core::codec::PieceId;
use tensor_core::{At, Bytes, DType, Order, Shape, SourceError, Value};

use crate::checksum::Checksum;
use crate::encoding::{Encoding, Endianness, Layout};
use crate::entry_map::each_pair;
use crate::index::Index;
#[cfg(feature = "generations")]
use crate::tensors::{Object, Obstacle, Part};
use crate::tensors::{Record, Uncommon};
use crate::{Generation, Unsupported, cbor, dtype};

/// One tensor of an [`Archive`](crate::Archive), as the index describes it: a view of the index, as cheap to
/// copy as a reference.
///
/// ```
/// use ztensor_format::{Archive, Builder, DType, Endianness, Order, Tensor};
///
/// # let mut builder = Builder::new();
/// # builder.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let entry = archive.entry("w").ok_or("no such tensor")?;
/// assert_eq!((entry.name(), entry.shape().dims()), ("w", &[2][..]));
/// assert_eq!((entry.dtype(), entry.order()), (Some(DType::F32), Order::RowMajor));
/// assert_eq!((entry.nbytes(), entry.stored_len()), (Some(8), Some(8)));
/// println!("at byte {:#x}", entry.offset());
/// assert_eq!((entry.encoding_name(), entry.endianness()), ("raw", Some(Endianness::Little)));
/// assert!(entry.layout().is_dense() && entry.layout_name() == "dense");
/// assert_eq!(entry.checksum().map(|sum| sum.algorithm().to_owned()).as_deref(), Some("crc32c"));
/// assert!(!entry.has_custom() && entry.has_same_custom(entry) && entry.custom_len() == 0);
/// // What only files of later generations have.
/// assert_eq!((entry.object(), entry.component(), entry.object_shape()), (None, None, None));
/// assert_eq!(entry.storage_dtype(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub(crate) index: &'a Index,
    pub(crate) ordinal: usize,
}

/// A field of an entry that the format gives no meaning.
///
/// ```
/// use ztensor_format::{Archive, Builder, Tensor, TensorOptions, Value};
///
/// let mut options = TensorOptions::new().with_custom("scale", 0.5)?;
/// options.set_custom("axis", 1i64)?; // where the options are kept
/// let mut builder = Builder::new();
/// builder.tensor_with("w", Tensor::from_slice(&[1.0f32], &[1])?, options)?;
///
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let fields = archive.entry("w").ok_or("no w")?.custom();
/// let scale = fields.iter().find(|field| field.key() == "scale").ok_or("no scale")?;
/// assert_eq!(scale.value(), Value::from(0.5));
/// assert_eq!(scale.cbor().first(), Some(&0xF9)); // a CBOR float of two bytes
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomField {
    key: String,
    cbor: Bytes,
}

impl CustomField {
    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value. Tags are left out, undefined is null, and a float is widened; what is exactly
    /// in the file is [`cbor`](Self::cbor).
    pub fn value(&self) -> Value {
        cbor::value_of(&self.cbor)
    }

    /// The value as it is in the file, one CBOR item: what
    /// [`TensorOptions::with_custom_cbor`](crate::TensorOptions::with_custom_cbor) takes.
    pub fn cbor(&self) -> &Bytes {
        &self.cbor
    }
}

impl CustomField {
    /// All of the encoded `pairs`, with or without the head of a map.
    pub(crate) fn all(pairs: &Bytes) -> Vec<Self> {
        let pairs = each_pair(pairs).into_iter();
        pairs.map(|(key, cbor)| Self { key, cbor }).collect()
    }
}

impl<'a> Entry<'a> {
    pub(crate) fn of(index: &'a Index, ordinal: usize) -> Option<Self> {
        (ordinal < index.tensors.len()).then_some(Self { index, ordinal })
    }

    pub(crate) fn is_of(self, index: &Index) -> bool {
        core::ptr::eq(self.index, index)
    }

    pub(crate) fn record(self) -> &'a Record {
        self.index.tensors.record(self.ordinal)
    }

    fn uncommon(self) -> Option<&'a Uncommon> {
        self.index.tensors.uncommon(self.ordinal)
    }

    fn text(self, id: PieceId) -> &'a str {
        self.index.tensors.pieces.text(id)
    }

    /// The tensor's name: any text, also an empty one. Never use it as a path.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.index.tensors.names.get(self.ordinal)
    }

    /// The dtype, `None` where the format has none of that name, or this crate none for it.
    #[must_use]
    pub fn dtype(self) -> Option<DType> {
        self.record().dtype
    }

    /// The dtype's name as stored, such as `float32`, from version 1.1 on `f32`; that of the
    /// logical type where there is one.
    #[must_use]
    pub fn dtype_name(self) -> &'a str {
        let stored = self.uncommon().map_or("", |names| self.text(names.dtype));
        let Some(dtype) = self.dtype() else {
            return stored;
        };
        match self.index.generation {
            Generation::V0_1 | Generation::V1_0 => dtype::name_of(dtype).unwrap_or(stored),
            _ if stored.is_empty() => dtype.name(),
            _ => stored,
        }
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn shape(self) -> &'a Shape {
        self.index.tensors.shape(self.ordinal)
    }

    /// Always row-major.
    #[must_use]
    pub fn order(self) -> Order {
        Order::RowMajor
    }

    /// How the elements are laid out; only dense tensors can be read.
    #[must_use]
    pub fn layout(self) -> Layout {
        self.record().layout
    }

    /// The layout as stored; `dense` where the field is absent.
    #[must_use]
    pub fn layout_name(self) -> &'a str {
        #[cfg(feature = "generations")]
        if let Some(object) = self.owner() {
            return self.text(object.format);
        }
        match self.layout() {
            Layout::Other => self.uncommon().map_or("", |names| self.text(names.layout)),
            layout => layout.name(),
        }
    }

    /// How the data is stored.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        self.record().encoding
    }

    /// The encoding as stored.
    #[must_use]
    pub fn encoding_name(self) -> &'a str {
        match self.encoding() {
            Encoding::Other => self
                .uncommon()
                .map_or("", |names| self.text(names.encoding)),
            encoding => encoding.name(),
        }
    }

    /// Whether the data is in another file.
    pub(crate) fn is_elsewhere(self) -> bool {
        #[cfg(feature = "generations")]
        if let Some(part) = self.part() {
            return matches!(part.obstacle, Some(Obstacle::Shard(_)));
        }
        false
    }

    /// The byte order as stored, `None` where the field is absent. What is read is always
    /// little-endian.
    #[must_use]
    pub fn endianness(self) -> Option<Endianness> {
        self.record().endianness
    }

    /// The checksum of the data as stored, which [`Archive::verify`](crate::Archive::verify) compares.
    #[must_use]
    pub fn checksum(self) -> Option<Checksum> {
        self.index.tensors.checksum(self.ordinal)
    }

    /// Absolute offset of the data.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.record().offset
    }

    /// What a source failed with while this tensor's bytes were asked of it.
    pub(crate) fn unread(self, error: SourceError) -> SourceError {
        error.of_tensor(self.name(), Some(self.offset()))
    }

    /// Bytes that the data takes in the file; always known.
    #[must_use]
    pub fn stored_len(self) -> Option<u64> {
        Some(self.record().size)
    }

    /// Where the data is, as it is stored.
    pub(crate) fn range(self) -> Range<u64> {
        let record = self.record();
        record.offset..record.offset.saturating_add(record.size)
    }

    /// Bytes of the decoded data, `None` where the tensor can't be read.
    #[must_use]
    pub fn nbytes(self) -> Option<u64> {
        self.dense_len().map(|(_, len)| len)
    }

    /// Whether there are custom fields.
    #[must_use]
    pub fn has_custom(self) -> bool {
        !self.custom_piece().is_empty()
    }

    /// The custom fields, in file order; the attributes of the object from version 1.0 on. They
    /// are decoded with every call.
    #[must_use]
    pub fn custom(self) -> Vec<CustomField> {
        CustomField::all(&self.index.tensors.pieces.bytes(self.custom_piece()))
    }

    /// How many bytes the custom fields take in the index, without decoding them: what all components of an
    /// object say is there once.
    #[must_use]
    pub fn custom_len(self) -> u64 {
        self.custom_bytes().len() as u64
    }

    /// Whether the custom fields of another entry have the same bytes, without decoding them.
    #[must_use]
    pub fn has_same_custom(self, other: Entry<'_>) -> bool {
        self.custom_bytes() == other.custom_bytes()
    }

    fn custom_bytes(self) -> &'a [u8] {
        self.index.tensors.pieces.get(self.custom_piece())
    }

    fn custom_piece(self) -> PieceId {
        #[cfg(feature = "generations")]
        if let Some(object) = self.owner() {
            return object.attributes;
        }
        self.uncommon()
            .map_or(PieceId::EMPTY, |uncommon| uncommon.custom)
    }

    /// Dtype and decoded length of a tensor that is all there.
    pub(crate) fn dense_len(self) -> Option<(DType, u64)> {
        let dtype = self.dtype()?;
        #[cfg(feature = "generations")]
        let is_whole = match self.part() {
            Some(part) => part.obstacle.is_none(),
            None => self.layout().is_dense(),
        };
        #[cfg(not(feature = "generations"))]
        let is_whole = self.layout().is_dense();
        let known = is_whole && self.encoding() != Encoding::Other;
        let len = self.shape().byte_len(dtype).ok()??;
        known.then_some((dtype, len))
    }

    /// Whether elements are stored in the other byte order.
    pub(crate) fn is_swapped(self) -> bool {
        self.endianness() == Some(Endianness::Big)
            && self.dtype().is_some_and(|dtype| dtype.swap_size() > 1)
    }

    pub(crate) fn at(self, field: &'static str) -> At {
        let at = At::new(self.offset(), field);
        // What is not listed has no number.
        match self.ordinal < self.index.tensors.len() {
            true => at.entry(self.ordinal as u64),
            false => at,
        }
    }

    /// Why the tensor can't be read, if so.
    pub(crate) fn unsupported(self) -> Option<(Unsupported, At)> {
        #[cfg(feature = "generations")]
        let is_part = match self.part() {
            Some(part) => {
                if let Some(what) = part.obstacle.map(|obstacle| self.obstacle(obstacle)) {
                    let at = self.at("data");
                    return Some((what, at));
                }
                true
            }
            None => false,
        };
        #[cfg(not(feature = "generations"))]
        let is_part = false;
        let (what, field) = if self.dtype().is_none() {
            let name = self.dtype_name().into();
            (Unsupported::DType { name }, "dtype")
        } else if !self.layout().is_dense() && !is_part {
            let name = self.layout_name().into();
            (Unsupported::Layout { name }, "layout")
        } else {
            match self.encoding() {
                Encoding::Raw => return None,
                Encoding::Other => {
                    let name = self.encoding_name().into();
                    (Unsupported::Encoding { name }, "encoding")
                }
                Encoding::Zstd if self.is_swapped() => {
                    (Unsupported::ZstdEndianness, "data_endianness")
                }
                Encoding::Zstd | Encoding::ZstdSeekable if cfg!(feature = "zstd") => return None,
                Encoding::Zstd | Encoding::ZstdSeekable => (Unsupported::ZstdDisabled, "encoding"),
            }
        };
        let at = self.at(field);
        Some((what, at))
    }
}

/// What entries have from version 1.0 on.
#[cfg(feature = "generations")]
impl<'a> Entry<'a> {
    /// The object that this is a component of, where it is not one tensor.
    #[must_use]
    pub fn object(self) -> Option<&'a str> {
        self.name().get(..self.object_len()?)
    }

    /// The component's own name, the end of the entry's.
    #[must_use]
    pub fn component(self) -> Option<&'a str> {
        // After the object's name there is a slash.
        self.name().get(self.object_len()?.saturating_add(1)..)
    }

    /// The shape of the object that this is a component of; the entry's own is that of its
    /// elements in a row.
    #[must_use]
    pub fn object_shape(self) -> Option<&'a Shape> {
        self.object_len()?;
        Some(self.index.tensors.shapes.get(self.owner()?.shape))
    }

    /// The dtype that a logical type is stored as.
    pub fn storage_dtype(self) -> Option<&'a str> {
        self.part()?.storage.map(DType::name)
    }

    pub(crate) fn part(self) -> Option<&'a Part> {
        self.index.tensors.part(self.ordinal)
    }

    /// What the components of its object share.
    pub(crate) fn owner(self) -> Option<&'a Object> {
        self.index.tensors.object(self.part()?)
    }

    fn object_len(self) -> Option<usize> {
        usize::try_from(self.part()?.component_of?).ok()
    }

    /// The components that it stands for, where these can't be listed.
    pub(crate) fn hidden(self) -> impl Iterator<Item = Entry<'a>> {
        let index = self.index;
        let hidden = index.tensors.hidden(self.ordinal);
        hidden.map(move |ordinal| Entry { index, ordinal })
    }

    fn obstacle(self, obstacle: Obstacle) -> Unsupported {
        match obstacle {
            Obstacle::DType => Unsupported::DType {
                name: self.dtype_name().into(),
            },
            Obstacle::Type => Unsupported::Type {
                name: self.dtype_name().into(),
            },
            Obstacle::Encoding => Unsupported::Encoding {
                name: self.encoding_name().into(),
            },
            Obstacle::Component => Unsupported::Component {
                name: self.component().unwrap_or_default().into(),
            },
            Obstacle::Layout => Unsupported::Layout {
                name: self.layout_name().into(),
            },
            Obstacle::NameCollision => Unsupported::NameCollision,
            Obstacle::Shard(label) => Unsupported::Shard {
                label: self.text(label).into(),
            },
        }
    }
}

/// Name, dtype and dims: `w f32 [2, 3]`.
impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Some(dtype) => write!(f, "{} {dtype} {}", self.name(), self.shape()),
            None => write!(f, "{} {} {}", self.name(), self.dtype_name(), self.shape()),
        }
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name())
            .field("dtype", &self.dtype_name())
            .field("shape", self.shape())
            .field("encoding", &self.encoding_name())
            .field("offset", &self.offset())
            .field("size", &self.record().size)
            .finish_non_exhaustive()
    }
}
