#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;

use tensor_core::{At, Source};

use crate::limits::{MAX_DATA, MAX_RANK, MAX_VOLUME};
use crate::msgpack::Reader;
use crate::{Error, Result, Rule, Unsupported};

/// "File Format": which object a file holds.
///
/// ```
/// use primitiv_format::DataType;
///
/// let model = DataType::from_code(0x300).ok_or("no such code")?;
/// assert_eq!((model, model.code(), model.name()), (DataType::Model, 0x300, "Model"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// `0x0`: a shape alone.
    Shape,
    /// `0x100`: a tensor alone.
    Tensor,
    /// `0x200`: a parameter with its statistics.
    Parameter,
    /// `0x300`: parameters by address.
    Model,
    /// `0x400`: configurations of an optimizer.
    Optimizer,
}

impl DataType {
    /// The header's number.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Shape => 0x0,
            Self::Tensor => 0x100,
            Self::Parameter => 0x200,
            Self::Model => 0x300,
            Self::Optimizer => 0x400,
        }
    }

    /// The object that a number stands for.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0x0 => Self::Shape,
            0x100 => Self::Tensor,
            0x200 => Self::Parameter,
            0x300 => Self::Model,
            0x400 => Self::Optimizer,
            _ => return None,
        })
    }

    /// The name in the specification: `Model`, `Parameter`, ...
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shape => "Shape",
            Self::Tensor => "Tensor",
            Self::Parameter => "Parameter",
            Self::Model => "Model",
            Self::Optimizer => "Optimizer",
        }
    }
}

/// Bytes of the header: three uint32.
pub(crate) const HEADER: u64 = 15;
pub(crate) const VERSION: (u32, u32) = (0, 1);

/// "File Format": version and data type. Names the older generations.
pub(crate) fn header(source: &dyn Source, reader: &mut Reader<'_>) -> Result<DataType> {
    let at = At::new(0, "ver_major");
    if let Some(about) = era(source)? {
        return Err(Error::unsupported(Unsupported::Era { about }, at));
    }
    let major = reader.uint32("ver_major")?;
    let minor = reader.uint32("ver_minor")?;
    if (major, minor) == (0, DataType::Optimizer.code()) {
        let about = "a trainer file from before version 0.1, with a header of two words";
        return Err(Error::unsupported(Unsupported::Era { about }, at));
    }
    if (major, minor) != VERSION {
        return Err(Error::unsupported(
            Unsupported::Version { major, minor },
            at,
        ));
    }
    let at = reader.cursor.at("data_type");
    let code = reader.uint32("data_type")?;
    DataType::from_code(code).ok_or(Error::unsupported(Unsupported::DataType { code }, at))
}

/// The generations that are no MessagePack: YAML text, and Protocol Buffers whose fields fill the
/// file exactly.
fn era(source: &dyn Source) -> Result<Option<&'static str>> {
    let size = source.size();
    let head = source.read(0..size.min(16))?;
    if head.starts_with(b"name:") {
        return Ok(Some("YAML text, as primitiv 0.1.0-alpha wrote it"));
    }
    if !matches!(head.first(), Some(0x0A | 0x12)) {
        return Ok(None);
    }
    let mut offset = 0u64;
    while offset < size {
        let field = source.read(offset..size.min(offset.saturating_add(11)))?;
        // Fields 1 to 3, each with a length and that many bytes.
        let Some((0x0A | 0x12 | 0x1A, rest)) = field.split_first() else {
            return Ok(None);
        };
        let mut len = 0u64;
        let mut count = 1u64;
        let mut done = false;
        for (shift, &byte) in (0u32..).step_by(7).zip(rest) {
            count = count.saturating_add(1);
            let bits = u64::from(byte & 0x7F);
            len |= bits.checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                done = true;
                break;
            }
        }
        offset = match offset
            .checked_add(count)
            .and_then(|offset| offset.checked_add(len))
        {
            Some(next) if done && next <= size => next,
            _ => return Ok(None),
        };
    }
    Ok(Some("Protocol Buffers, as primitiv 0.2 wrote them"))
}

/// "Types", Shape, as stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredShape {
    /// All of them, with trailing ones, and one after the last.
    stored: [u64; MAX_RANK as usize + 1],
    /// How many there are without trailing ones.
    rank: usize,
    /// Their product.
    volume: u64,
    pub(crate) batch: u32,
    /// Whether ones were dropped.
    pub(crate) has_trailing_ones: bool,
}

impl StoredShape {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self> {
        let at = reader.cursor.at("dims");
        let rank = reader.array_len("dims")?;
        if rank > MAX_RANK {
            return Err(Error::invalid(Rule::Rank { got: rank }, at));
        }
        let mut stored = [1u64; MAX_RANK as usize + 1];
        let mut volume = 1u64;
        for dim in stored.iter_mut().take(rank as usize) {
            let at = reader.cursor.at("dims");
            *dim = reader.uint32("dims")?.into();
            if *dim == 0 {
                return Err(Error::invalid(Rule::Dim, at));
            }
            volume = volume.saturating_mul(*dim);
        }
        let at_batch = reader.cursor.at("batch");
        let batch = reader.uint32("batch")?;
        if batch == 0 {
            return Err(Error::invalid(Rule::Batch, at_batch));
        }
        if volume.saturating_mul(batch.into()) > MAX_VOLUME {
            return Err(Error::invalid(Rule::Volume, at));
        }
        let last = stored.iter().rposition(|&dim| dim != 1);
        let kept = last.map_or(0, |at| at.saturating_add(1));
        Ok(Self {
            stored,
            rank: kept,
            volume,
            batch,
            has_trailing_ones: kept < rank as usize,
        })
    }

    /// The dims without trailing ones.
    pub(crate) fn dims(&self) -> &[u64] {
        self.stored.get(..self.rank).unwrap_or_default()
    }

    /// The dims with the batch as the last one.
    pub(crate) fn with_batch(mut self) -> Vec<u64> {
        if let Some(slot) = self.stored.get_mut(self.rank) {
            *slot = self.batch.into();
        }
        let all = self.stored.get(..=self.rank);
        all.unwrap_or_default().to_vec()
    }

    /// The elements of all of the batch.
    fn elements(&self) -> u64 {
        self.volume.saturating_mul(self.batch.into())
    }
}

/// "Types", Tensor: its shape, and where its data lies.
pub(crate) struct StoredTensor {
    pub(crate) shape: StoredShape,
    pub(crate) offset: u64,
}

impl StoredTensor {
    /// Parses the shape and skips the data.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self> {
        let shape = StoredShape::parse(reader)?;
        let expected = shape.elements().saturating_mul(4);
        let at = reader.cursor.at("data");
        let got = u64::from(reader.bin_len("data")?);
        let offset = reader.cursor.position();
        if got > reader.cursor.remaining() {
            reader.skip_data(got, "data")?;
        }
        if got != expected || expected > MAX_DATA {
            return Err(Error::invalid(Rule::DataLength { expected, got }, at));
        }
        reader.skip_data(got, "data")?;
        Ok(Self { shape, offset })
    }
}
