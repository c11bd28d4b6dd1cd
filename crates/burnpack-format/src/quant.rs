#![deny(clippy::arithmetic_side_effects)]

use core::fmt;

use tensor_core::Shape;

/// How to interpret the bytes of a quantized tensor ([`DTypeCode::QFloat`]).
///
/// Burn has spelled schemes in two ways under one version number; this type holds both, and
/// [`generation`](Self::generation) says which one a file uses. The older spelling's scale type is
/// [`tensor`](Self::tensor) where it had level `Tensor`, and part of [`block`](Self::block) where
/// it had level `Block`.
///
/// The data is the packed values, then one scale per block, if there are blocks, then one scale
/// for the whole tensor, if there is one.
///
/// ```
/// use burnpack_format::{QuantMode, QuantScheme, QuantStore, QuantValue, Shape};
///
/// let scheme = QuantScheme::new(QuantValue::Q8S, QuantStore::Native, QuantMode::Symmetric);
/// // 32 values of a byte each, and an f32 scale.
/// assert_eq!(scheme.expected_len(&Shape::new(&[8, 4])?), Some(36));
/// # Ok::<(), burnpack_format::ShapeError>(())
/// ```
///
/// [`DTypeCode::QFloat`]: crate::DTypeCode::QFloat
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QuantScheme {
    /// Which spelling the file has. A [`Builder`](crate::Builder) writes that of its
    /// [`Compat`](crate::Compat).
    pub generation: QuantGeneration,
    /// What one quantized value is.
    pub value: QuantValue,
    /// How values are packed into bytes.
    pub store: QuantStore,
    /// How values become numbers.
    pub mode: QuantMode,
    /// Type of the scale of the whole tensor. With neither this nor [`block`](Self::block) it is
    /// an `F32`.
    pub tensor: Option<QuantParam>,
    /// Blocks that have a scale each.
    pub block: Option<QuantBlock>,
}

impl QuantScheme {
    /// A scheme of the newer generation with one `F32` scale for the whole tensor.
    #[must_use]
    pub fn new(value: QuantValue, store: QuantStore, mode: QuantMode) -> Self {
        Self {
            generation: QuantGeneration::New,
            value,
            store,
            mode,
            tensor: None,
            block: None,
        }
    }

    /// How many bytes Burn 0.22 stores for a tensor of this shape; `None` where that is not known
    /// (values below 8 bits that are not packed) or beyond 64 bits.
    ///
    /// Readers, this one included, don't enforce it: other releases rounded in other ways.
    #[must_use]
    pub fn expected_len(&self, shape: &Shape) -> Option<u64> {
        let packed = |dim: u64, per_word: u64, word: u64| {
            let dims = shape.dims();
            let from_outermost = dims
                .len()
                .checked_sub(1)?
                .checked_sub(usize::try_from(dim).ok()?)?;
            let words = dims.iter().enumerate().map(|(axis, &dim)| {
                if axis == from_outermost {
                    dim.div_ceil(per_word)
                } else {
                    dim
                }
            });
            product(words)?.checked_mul(word)
        };
        let bits = self.value.bits();
        let values = match self.store {
            QuantStore::Native if bits == 8 => shape.elements(),
            QuantStore::PackedNative(dim) if self.value == QuantValue::E2M1 => packed(dim, 2, 1)?,
            QuantStore::PackedU32(dim) => packed(dim, 32u64.checked_div(bits)?, 4)?,
            QuantStore::Native | QuantStore::PackedNative(_) => return None,
        };
        let blocks = match &self.block {
            Some(block) => block.size.count(shape)?.checked_mul(block.dtype.size())?,
            None => 0,
        };
        let whole = match (self.tensor, &self.block) {
            (Some(tensor), _) => tensor.size(),
            (None, None) => QuantParam::F32.size(),
            (None, Some(_)) => 0,
        };
        values.checked_add(blocks)?.checked_add(whole)
    }
}

/// For listings: value, store, mode and scales in one line.
impl fmt::Display for QuantScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.value.name(),
            self.store,
            self.mode.name()
        )?;
        match (self.tensor, &self.block) {
            (None, None) => write!(f, ", F32 scale"),
            (Some(tensor), None) => write!(f, ", {} scale", tensor.name()),
            (tensor, Some(block)) => {
                let (size, dtype) = (block.size.dims(), block.dtype.name());
                write!(f, ", {dtype} scale per block of {size:?}")?;
                match tensor {
                    Some(tensor) => write!(f, ", {} scale", tensor.name()),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Product of the dims, `None` on overflow; a zero wins over any overflow.
fn product(dims: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    if dims.clone().any(|dim| dim == 0) {
        return Some(0);
    }
    dims.into_iter()
        .try_fold(1u64, |product, dim| product.checked_mul(dim))
}

/// Which of two spellings of a scheme a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantGeneration {
    /// Keys `param` and `level`: burn-store 0.19 to 0.21, and burn-pack 0.22.0-pre.1. Later
    /// readers of Burn take these for a scheme with one F32 scale, without an error.
    Old,
    /// Keys `tensor` and `block`: burn-pack 0.22.0 and later.
    #[default]
    New,
}

macro_rules! names {
    (
        $(#[$meta:meta])* $enum:ident {
            $($(#[$variant_meta:meta])* $variant:ident,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $enum {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $enum {
            /// Every one, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in the file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }

            /// The one with this [`name`](Self::name).
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|this| this.name() == name)
            }
        }
    };
}

names! {
    /// What one quantized value is.
    ///
    /// ```
    /// use burnpack_format::QuantValue;
    ///
    /// assert_eq!(QuantValue::from_name("Q4F"), Some(QuantValue::Q4F));
    /// assert_eq!((QuantValue::Q8S.bits(), QuantValue::Q4F.bits()), (8, 4));
    /// ```
    QuantValue {
        /// 8-bit integer, full range.
        Q8F,
        /// 8-bit integer, symmetric range.
        Q8S,
        /// 8-bit float with 5 exponent bits.
        E5M2,
        /// 8-bit float with 4 exponent bits.
        E4M3,
        /// 4-bit integer, full range.
        Q4F,
        /// 4-bit integer, symmetric range.
        Q4S,
        /// 4-bit float with 2 exponent bits.
        E2M1,
        /// 2-bit integer, full range.
        Q2F,
        /// 2-bit integer, symmetric range.
        Q2S,
    }
}

impl QuantValue {
    /// Bits of one value: 8, 4 or 2.
    #[must_use]
    pub const fn bits(self) -> u64 {
        match self {
            Self::Q8F | Self::Q8S | Self::E5M2 | Self::E4M3 => 8,
            Self::Q4F | Self::Q4S | Self::E2M1 => 4,
            Self::Q2F | Self::Q2S => 2,
        }
    }
}

names! {
    /// How quantized values become numbers.
    ///
    /// ```
    /// use burnpack_format::QuantMode;
    ///
    /// assert_eq!(QuantMode::from_name("Symmetric"), Some(QuantMode::Symmetric));
    /// ```
    QuantMode {
        /// By a scale.
        Symmetric,
        /// Values are table indices. Burn 0.22 and later.
        Lookup,
    }
}

names! {
    /// The type of a scale.
    ///
    /// ```
    /// use burnpack_format::QuantParam;
    ///
    /// assert_eq!(QuantParam::from_name("BF16"), Some(QuantParam::BF16));
    /// assert_eq!((QuantParam::F32.size(), QuantParam::BF16.size()), (4, 2));
    /// ```
    QuantParam {
        /// binary32.
        F32,
        /// binary16.
        F16,
        /// bfloat16.
        BF16,
        /// 8-bit power of two.
        UE8M0,
        /// 8-bit float without a sign.
        UE4M3,
    }
}

impl QuantParam {
    /// Bytes of one scale.
    #[must_use]
    pub const fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::UE8M0 | Self::UE4M3 => 1,
        }
    }
}

/// How quantized values are packed into bytes. Dims are counted from the innermost, which is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuantStore {
    /// One value after another in their own type.
    Native,
    /// Values below 8 bits, packed along this dim into their native carrier.
    PackedNative(u64),
    /// As many values as fit, packed along this dim into a `u32`. burn-store 0.19 wrote `"U32"`
    /// for dim 0.
    PackedU32(u64),
}

impl fmt::Display for QuantStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => write!(f, "Native"),
            Self::PackedNative(dim) => write!(f, "PackedNative({dim})"),
            Self::PackedU32(dim) => write!(f, "PackedU32({dim})"),
        }
    }
}

/// Blocks of a tensor that have a scale each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantBlock {
    /// The extent of a block.
    pub size: BlockSize,
    /// The type of its scale.
    pub dtype: QuantParam,
}

/// The extent of a block along the trailing dims, of which there are at most five; along the dims
/// before them it is 1.
///
/// ```
/// use burnpack_format::{BlockSize, Shape};
///
/// let block = BlockSize::new(&[2, 4]).ok_or("at most five dims")?;
/// assert_eq!(block.dims(), &[2, 4]);
/// assert_eq!(block.count(&Shape::new(&[4, 8])?), Some(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockSize {
    storage: [u8; Self::MAX_RANK],
    len: u8,
}

impl BlockSize {
    /// The most dims that a block can have an extent along.
    pub const MAX_RANK: usize = 5;

    /// The extent along the trailing dims, outermost first; `None` for more than five.
    #[must_use]
    pub fn new(dims: &[u8]) -> Option<Self> {
        let mut storage = [1; Self::MAX_RANK];
        storage.get_mut(..dims.len())?.copy_from_slice(dims);
        let len = u8::try_from(dims.len()).ok()?;
        Some(Self { storage, len })
    }

    /// As the file has it: five numbers, of which the first `len` count.
    pub(crate) fn from_storage(storage: [u8; Self::MAX_RANK], len: u8) -> Option<Self> {
        (usize::from(len) <= Self::MAX_RANK).then_some(Self { storage, len })
    }

    /// The numbers with their filler, and how many of them count.
    pub(crate) fn storage(&self) -> (&[u8; Self::MAX_RANK], u8) {
        (&self.storage, self.len)
    }

    /// The extent along the trailing dims, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[u8] {
        self.storage
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// How many blocks a tensor of this shape has; `None` where an extent is 0, the block has more
    /// dims than the shape, or the count is beyond 64 bits.
    #[must_use]
    pub fn count(&self, shape: &Shape) -> Option<u64> {
        let dims = shape.dims();
        let leading = dims.len().checked_sub(self.dims().len())?;
        if self.dims().contains(&0) {
            return None;
        }
        let extents = core::iter::repeat_n(1, leading).chain(self.dims().iter().copied());
        let counts = dims
            .iter()
            .zip(extents)
            .map(|(&dim, extent)| dim.div_ceil(u64::from(extent)));
        product(counts)
    }
}
