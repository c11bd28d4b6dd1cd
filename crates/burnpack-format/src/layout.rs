#![deny(clippy::arithmetic_side_effects)]

use tensor_core::SinkError;
use tensor_core::codec::{Cursor, Sink};

use crate::{Error, Result, Rule, Unsupported};

/// "Header": the first four bytes; the number 0x4255524E ("BURN"), little-endian.
pub const MAGIC: [u8; 4] = *b"NRUB";
/// "Header": the version of every file so far.
pub(crate) const VERSION: u16 = 1;
/// "Data": where the data section and each tensor start in the aligned layout.
pub(crate) const ALIGN: u64 = 256;

/// "Header".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) metadata_size: u32,
}

impl Header {
    pub(crate) const SIZE: u64 = 10;

    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.at("magic");
        let got = cursor.array::<4>("magic")?;
        if got != MAGIC {
            let hint = resemblance(got, cursor);
            return Err(Error::invalid(Rule::Magic { got, hint }, at));
        }
        let at = cursor.at("version");
        let version = cursor.u16_le("version")?;
        if version != VERSION {
            let about = match version {
                0 => "a version that no release of Burn writes",
                0x0100 => "version 1 with its bytes swapped",
                _ => "a version later than any known release of Burn",
            };
            return Err(Error::unsupported(
                Unsupported::Version { version, about },
                at,
            ));
        }
        let metadata_size = cursor.u32_le("metadata_size")?;
        Ok(Self { metadata_size })
    }

    pub(crate) fn write<O: tensor_core::codec::Output>(
        &self,
        sink: &mut Sink<O>,
    ) -> Result<(), SinkError> {
        sink.put(&MAGIC)?;
        sink.put_u16_le(VERSION)?;
        sink.put_u32_le(self.metadata_size)
    }
}

/// What a file without the magic may be; users hand over the files that Burn wrote before.
fn resemblance(got: [u8; 4], cursor: &mut Cursor<'_>) -> &'static str {
    match got {
        [b'B', b'U', b'R', b'N'] => "the magic is stored as \"NRUB\", little-endian",
        [b'P', b'K', 3, 4] => "this looks like a ZIP archive, as PyTorch writes",
        [0x1F, 0x8B, ..] => "this looks like a gzip file, as Burn's older recorders wrote",
        [0x80..=0x8F | 0xDE | 0xDF, ..] => {
            "this looks like MessagePack, as Burn's older recorders wrote (.mpk)"
        }
        _ => {
            let rest = cursor.array::<5>("magic");
            match (got, rest) {
                ([_, _, _, _], Ok([_, _, 0, 0, b'{'])) => "this looks like a safetensors file",
                _ => "",
            }
        }
    }
}

/// Where the data section starts, and how tensors lie in it.
///
/// Files of both layouts say version 1, so they are told apart by content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Told apart by the file's length and the tensors' offsets. [`Archive::layout`] never says
    /// this.
    ///
    /// [`Archive::layout`]: crate::Archive::layout
    #[default]
    Auto,
    /// The data section starts at a multiple of 256, and so does each tensor: Burn 0.20 and later.
    Aligned,
    /// Everything follows everything without a gap: burn-store 0.19 and early 0.20 pre-releases.
    Packed,
}

impl Layout {
    /// A lower-case word for listings: `auto`, `aligned`, `packed`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Aligned => "aligned",
            Self::Packed => "packed",
        }
    }
}

/// What tells the layouts apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// Length of the file.
    pub(crate) file_len: u64,
    /// End of the metadata.
    pub(crate) metadata_end: u64,
    /// The largest end of a tensor, relative to the data section; 0 without tensors.
    pub(crate) data_len: u64,
    /// Whether every start is a multiple of [`ALIGN`].
    pub(crate) aligned: bool,
    /// Whether every start is the end of the tensor before, the first 0.
    pub(crate) chained: bool,
    /// Whether the metadata has what no writer of the packed layout wrote.
    pub(crate) modern: bool,
}

impl Evidence {
    /// Start of the data section in the aligned layout.
    pub(crate) fn aligned_start(&self) -> u64 {
        self.metadata_end
            .checked_next_multiple_of(ALIGN)
            .unwrap_or(u64::MAX)
    }

    /// "Generations": the layout of a file, in the order of the checks there; `None` where the
    /// file is too short for the one that it must have.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let file_len = Some(self.file_len);
        let aligned_end = self.aligned_start().checked_add(self.data_len);
        let packed_end = self.metadata_end.checked_add(self.data_len);
        let coincide = self.aligned_start() == self.metadata_end;
        let modern = self.modern || !self.chained;
        if file_len == aligned_end || (coincide && file_len > aligned_end) {
            if coincide && !self.aligned {
                Some(Layout::Packed)
            } else {
                Some(Layout::Aligned)
            }
        } else if file_len == packed_end && !(self.aligned && modern) {
            // Else it is an aligned file that lost as many bytes as its padding has.
            Some(Layout::Packed)
        } else if file_len > aligned_end && self.aligned {
            Some(Layout::Aligned)
        } else if file_len > packed_end && self.chained && !self.aligned {
            Some(Layout::Packed)
        } else if file_len > aligned_end {
            // Misaligned, which is what will be said about it.
            Some(Layout::Aligned)
        } else {
            None
        }
    }

    /// Where the file ends in a layout, trailing bytes aside.
    pub(crate) fn end(&self, layout: Layout) -> u64 {
        self.data_start(layout).saturating_add(self.data_len)
    }

    /// Where the data section starts in a layout.
    pub(crate) fn data_start(&self, layout: Layout) -> u64 {
        match layout {
            Layout::Packed => self.metadata_end,
            Layout::Aligned | Layout::Auto => self.aligned_start(),
        }
    }
}
