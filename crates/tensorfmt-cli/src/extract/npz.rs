//! An .npz: a zip archive of .npy files, which NumPy opens by the names of the tensors.
//!
//! Files are stored uncompressed, one after the other, so that nothing is buffered and nothing is patched later:
//! each is followed by its checksum, and the directory at the end has all of it again. Sections are those of
//! PKWARE's APPNOTE 6.3.

use tensor_core::SinkError;
use tensor_core::codec::{Output, Sink, Ticker};
use tensorfmt::Error;

use super::Piece;

/// The greatest number that a field of 32 bits holds; this one says that there is a field of 64 bits.
const LARGE: u64 = 0xFFFF_FFFF;
/// What readers must know: 2.0, or 4.5 for fields of 64 bits.
const PLAIN_VERSION: u16 = 20;
const LARGE_VERSION: u16 = 45;
/// Checksum and lengths follow the data, and names are UTF-8.
const FLAGS: u16 = 1 << 3 | 1 << 11;
/// The first day that a zip archive knows: the same tensors give the same bytes.
const DATE: u16 = 1 << 5 | 1;

/// A file in the archive.
struct Member<'a> {
    name: &'a str,
    start: u64,
    len: u64,
    crc: u32,
}

/// An output that finds the checksum of what goes through.
struct Summed<O> {
    out: O,
    crc: crc32fast::Hasher,
}

impl<O: Output> Output for Summed<O> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.crc.update(bytes);
        self.out.put(bytes)
    }
}

/// Writes the pieces, each with its name and its head.
pub(super) fn write<O: Output>(
    mut out: O,
    pieces: &[(String, Vec<u8>, Piece)],
    ticker: &Ticker<'_>,
) -> Result<O, Error> {
    let mut members = Vec::with_capacity(pieces.len());
    let mut position = 0u64;
    for (name, head, piece) in pieces {
        let mut member = Member {
            name,
            start: position,
            len: (head.len() as u64).saturating_add(piece.data.size()),
            crc: 0,
        };
        let before = member.local_header();
        out.put(&before)?;
        let mut summed = Summed {
            out,
            crc: crc32fast::Hasher::new(),
        };
        summed.put(head)?;
        let mut sink = Sink::new(summed);
        let copied = sink.copy_from(&piece.data, ticker);
        copied.map_err(|error| error.of_tensor(&piece.tensor))?;
        let summed = sink.into_inner();
        (out, member.crc) = (summed.out, summed.crc.finalize());
        let after = member.descriptor();
        out.put(&after)?;
        let around = (before.len() + after.len()) as u64;
        position = position.saturating_add(member.len).saturating_add(around);
        members.push(member);
    }
    let mut len = 0u64;
    for member in &members {
        let header = member.directory_header();
        out.put(&header)?;
        len = len.saturating_add(header.len() as u64);
    }
    out.put(&end(members.len() as u64, len, position))?;
    Ok(out)
}

impl Member<'_> {
    /// 4.3.7: what comes before the data. Lengths of 64 bits are announced here, for what follows the data.
    fn local_header(&self) -> Vec<u8> {
        let mut extra = Fields::default();
        if self.is_large() {
            extra.u16(1).u16(16).u64(0).u64(0);
        }
        let mut fields = Fields::default();
        fields.u32(0x0403_4B50).u16(self.version());
        self.common(&mut fields, (0, 0, 0), &extra);
        fields.text(&[self.name, ENDING]).bytes(&extra);
        fields.0
    }

    /// 4.3.9: what comes after the data.
    fn descriptor(&self) -> Vec<u8> {
        let mut fields = Fields::default();
        fields.u32(0x0807_4B50).u32(self.crc);
        match self.is_large() {
            true => fields.u64(self.len).u64(self.len),
            false => fields.u32(low(self.len)).u32(low(self.len)),
        };
        fields.0
    }

    /// 4.3.12: what the directory has. Of the fields of 64 bits (4.5.3) there are those that are needed.
    fn directory_header(&self) -> Vec<u8> {
        let mut large = Fields::default();
        if self.is_large() {
            large.u64(self.len).u64(self.len);
        }
        if self.start >= LARGE {
            large.u64(self.start);
        }
        let mut extra = Fields::default();
        if !large.0.is_empty() {
            extra.u16(1).u16(short(large.0.len())).bytes(&large);
        }
        let mut fields = Fields::default();
        // Made on Unix: names are as they are, and the mode is that of a plain file.
        let made_by = 3 << 8 | LARGE_VERSION;
        fields.u32(0x0201_4B50).u16(made_by).u16(self.version());
        let len = low(self.len);
        self.common(&mut fields, (self.crc, len, len), &extra);
        fields.u16(0).u16(0).u16(0).u32(0o100_644 << 16);
        fields.u32(low(self.start));
        fields.text(&[self.name, ENDING]).bytes(&extra);
        fields.0
    }

    /// From the flags to the lengths of name and extra field.
    fn common(&self, fields: &mut Fields, (crc, stored, len): (u32, u32, u32), extra: &Fields) {
        fields.u16(FLAGS).u16(0).u16(0).u16(DATE);
        fields.u32(crc).u32(stored).u32(len);
        fields.u16(short(self.name.len() + ENDING.len()));
        fields.u16(short(extra.0.len()));
    }

    fn version(&self) -> u16 {
        match self.is_large() || self.start >= LARGE {
            true => LARGE_VERSION,
            false => PLAIN_VERSION,
        }
    }

    fn is_large(&self) -> bool {
        self.len >= LARGE
    }
}

/// 4.3.14 to 4.3.16: the end, with fields of 64 bits before it where they are needed.
fn end(count: u64, len: u64, start: u64) -> Vec<u8> {
    let mut fields = Fields::default();
    if count >= 0xFFFF || len >= LARGE || start >= LARGE {
        fields.u32(0x0606_4B50).u64(44);
        fields.u16(3 << 8 | LARGE_VERSION).u16(LARGE_VERSION);
        fields
            .u32(0)
            .u32(0)
            .u64(count)
            .u64(count)
            .u64(len)
            .u64(start);
        let here = start.saturating_add(len);
        fields.u32(0x0706_4B50).u32(0).u64(here).u32(1);
    }
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    fields.u32(0x0605_4B50).u16(0).u16(0).u16(count).u16(count);
    fields.u32(low(len)).u32(low(start)).u16(0);
    fields.0
}

/// What NumPy takes away from a name.
const ENDING: &str = ".npy";

/// The longest name that the archive has room for.
pub(super) const MOST_NAME: usize = 0xFFFF - ENDING.len();

/// A number, or what says that it is elsewhere.
fn low(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The length of a name or of a few fields.
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Little-endian fields.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn text(&mut self, parts: &[&str]) -> &mut Self {
        for part in parts {
            self.0.extend_from_slice(part.as_bytes());
        }
        self
    }

    fn bytes(&mut self, fields: &Self) -> &mut Self {
        self.0.extend_from_slice(&fields.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths and places of files beyond 4 GiB are where PKWARE has them.
    #[test]
    fn fields_of_64_bits_are_there_where_they_are_needed() {
        let member = |start, len| Member {
            name: "w",
            start,
            len,
            crc: 7,
        };
        let extra = |member: &Member<'_>| member.directory_header().split_off(46 + 5);
        let number = |values: &[u64]| -> Vec<u8> {
            let mut bytes = vec![1, 0, u8::try_from(values.len() * 8).unwrap(), 0];
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            bytes
        };
        assert!(extra(&member(LARGE - 1, LARGE - 1)).is_empty());
        assert_eq!(extra(&member(LARGE, 5)), number(&[LARGE]));
        assert_eq!(extra(&member(5, LARGE)), number(&[LARGE, LARGE]));
        let both = member(1 << 40, 1 << 33);
        assert_eq!(extra(&both), number(&[1 << 33, 1 << 33, 1 << 40]));
        let header = both.directory_header();
        assert_eq!(header[20..28], [0xFF; 8]);
        assert_eq!(header[42..46], [0xFF; 4]);
        assert_eq!(both.descriptor().len(), 24);
        assert_eq!(member(1 << 40, 5).descriptor().len(), 16);
        assert_eq!(end(3, 100, 1000).len(), 22);
        assert_eq!(end(3, 100, LARGE).len(), 56 + 20 + 22);
        assert_eq!(end(0xFFFF, 100, 1000).len(), 56 + 20 + 22);
    }
}
