#![deny(clippy::arithmetic_side_effects)]

use tensor_core::codec::{Cursor, Sink};
use tensor_core::{Shape, ShapeError, SinkError};

use crate::limits::{MAX_KEY, MAX_SIZE};
use crate::meta::MetaValue;
use crate::tensors::{Record, Tensors};
use crate::{DTypeCode, Error, Generation, Result, Rule, Unsupported};

/// "File Header": the first four bytes.
pub const MAGIC: [u8; 4] = *b"MAG!";
/// "Version": the one that this crate reads and writes.
pub(crate) const VERSION: u32 = 1;
/// "Data Layout": where tensor data may start.
pub(crate) const ALIGN: u64 = 64;
/// What real files fill the space between tensors with.
pub(crate) const FILL: u8 = 0xFF;

/// "File Header".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) checksum: u32,
    pub(crate) num_tensors: u32,
    pub(crate) num_meta_kv: u32,
}

impl Header {
    pub(crate) const SIZE: u64 = 24;
    /// Where the checksummed bytes of real files start.
    pub(crate) const CHECKSUMMED: u64 = 12;

    /// The rest of the header; the cursor is after magic and version.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self> {
        let checksum = cursor.u32_le("checksum")?;
        let num_tensors = cursor.u32_le("num_tensors")?;
        let num_meta_kv = cursor.u32_le("num_meta_kv")?;
        let at = cursor.at("aux");
        match cursor.u32_le("aux")? {
            0 => Ok(Self {
                checksum,
                num_tensors,
                num_meta_kv,
            }),
            got => Err(Error::invalid(Rule::HeaderAux { got }, at)),
        }
    }

    pub(crate) fn write<O: tensor_core::codec::Output>(
        &self,
        sink: &mut Sink<O>,
    ) -> Result<(), SinkError> {
        sink.put(&MAGIC)?;
        sink.put_u32_le(VERSION)?;
        sink.put_u32_le(self.checksum)?;
        sink.put_u32_le(self.num_tensors)?;
        sink.put_u32_le(self.num_meta_kv)?;
        sink.put_u32_le(0)
    }
}

/// "Metadata Record".
#[derive(Debug)]
pub(crate) struct MetaRecord<'a> {
    pub(crate) value: MetaValue,
    pub(crate) key: &'a str,
}

impl<'a> MetaRecord<'a> {
    /// With a key of one byte.
    pub(crate) const MIN_SIZE: u64 = 17;

    pub(crate) fn parse(cursor: &'a mut Cursor<'_>) -> Result<Self> {
        let at = cursor.at("metadata aux");
        let aux = cursor.u32_le("metadata aux")?;
        let [code, reserved @ ..] = aux.to_le_bytes();
        if reserved != [0; 3] {
            return Err(Error::invalid(Rule::MetaAux { got: aux }, at));
        }
        let payload = cursor.u64_le("metadata payload")?;
        let Some(value) = MetaValue::decode(code, payload) else {
            return Err(match code {
                0 => Error::invalid(Rule::MetaType, at),
                _ => Error::unsupported(Unsupported::MetaType { code }, at),
            });
        };
        let key = key(
            cursor,
            |got| Rule::MetaKeyLength { got },
            Rule::MetaKey,
            "metadata key",
        )?;
        Ok(Self { value, key })
    }

    pub(crate) fn write<O: tensor_core::codec::Output>(
        &self,
        sink: &mut Sink<O>,
    ) -> Result<(), SinkError> {
        sink.put_u32_le(self.value.code().into())?;
        sink.put_u64_le(self.value.payload())?;
        put_key(sink, self.key)
    }
}

/// "Tensor Record", as it is written.
pub(crate) struct TensorRecord<'a> {
    pub(crate) code: DTypeCode,
    pub(crate) offset: u64,
    pub(crate) shape: &'a Shape,
    pub(crate) key: &'a str,
}

impl Tensors {
    /// "Tensor Record": the next one of the file.
    pub(crate) fn parse_record(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let record_offset = cursor.position();
        let at = cursor.at("aux");
        let aux = cursor.u32_le("aux")?;
        let [code, rank, reserved @ ..] = aux.to_le_bytes();
        if reserved != [0; 2] {
            return Err(Error::invalid(Rule::TensorAux { got: aux }, at));
        }
        if rank == 0 {
            return Err(Error::invalid(Rule::TensorRank, at));
        }
        let code = DTypeCode::new(Generation::Version1, code.into());
        let at_numel = cursor.at("numel");
        let numel = cursor.u64_le("numel")?;
        let at_offset = cursor.at("offset");
        let offset = cursor.u64_le("offset")?;
        let at_shape = cursor.at("shape");
        let bytes = cursor.take(u64::from(rank).saturating_mul(8), "shape")?;
        let mut dims = [0u64; crate::limits::MAX_RANK];
        for (dim, bytes) in dims.iter_mut().zip(bytes.chunks_exact(8)) {
            *dim = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let dims = dims.get(..usize::from(rank)).unwrap_or_default();
        if let Some(&got) = dims.iter().find(|&&dim| dim == 0 || dim > MAX_SIZE) {
            return Err(Error::invalid(Rule::TensorDim { got }, at_shape));
        }
        let id = self.shapes.push(dims);
        let id = id.map_err(|_| Error::invalid(Rule::TensorShape, at_shape))?;
        let shape = self.shapes.get(id);
        let product = shape.elements();
        if numel != product || numel > MAX_SIZE {
            let rule = Rule::TensorNumel {
                stored: numel,
                product,
            };
            return Err(Error::invalid(rule, at_numel));
        }
        let data_len = match code.dtype().map(|dtype| shape.byte_len(dtype)) {
            None | Some(Ok(None)) => None,
            Some(Ok(Some(len))) if len <= MAX_SIZE => Some(len),
            Some(Ok(Some(_)) | Err(ShapeError::ByteOverflow | _)) => {
                return Err(Error::invalid(Rule::TensorSize { numel }, at_numel));
            }
        };
        if offset % ALIGN != 0 {
            let rule = Rule::TensorOffsetAlignment { got: offset };
            return Err(Error::invalid(rule, at_offset));
        }
        let key = key(
            cursor,
            |got| Rule::TensorKeyLength { got },
            Rule::TensorKey,
            "key",
        )?;
        let record = Record::new(record_offset, code, id, offset, data_len);
        self.push(key, record);
        Ok(())
    }
}

impl TensorRecord<'_> {
    /// With one dim and a key of one byte.
    pub(crate) const MIN_SIZE: u64 = 33;

    pub(crate) fn write<O: tensor_core::codec::Output>(
        &self,
        sink: &mut Sink<O>,
    ) -> Result<(), SinkError> {
        let rank = u8::try_from(self.shape.rank()).unwrap_or(u8::MAX);
        let code = u8::try_from(self.code.code()).unwrap_or(u8::MAX);
        sink.put(&[code, rank, 0, 0])?;
        sink.put_u64_le(self.shape.elements())?;
        sink.put_u64_le(self.offset)?;
        for &dim in self.shape.dims() {
            sink.put_u64_le(dim)?;
        }
        put_key(sink, self.key)
    }
}

fn key<'a>(
    cursor: &'a mut Cursor<'_>,
    length: impl Fn(u32) -> Rule,
    utf8: Rule,
    field: &'static str,
) -> Result<&'a str> {
    let at = cursor.at("key_length");
    let len = cursor.u32_le("key_length")?;
    if len == 0 || len > MAX_KEY {
        return Err(Error::invalid(length(len), at));
    }
    let at = cursor.at(field);
    let bytes = cursor.take(len.into(), field)?;
    core::str::from_utf8(bytes).map_err(|_| Error::invalid(utf8, at))
}

fn put_key<O: tensor_core::codec::Output>(sink: &mut Sink<O>, key: &str) -> Result<(), SinkError> {
    sink.put_u32_le(u32::try_from(key.len()).unwrap_or(u32::MAX))?;
    sink.put(key.as_bytes())
}
