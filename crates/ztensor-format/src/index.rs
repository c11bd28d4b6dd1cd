#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;
use core::ops::Range;

use tensor_core::codec::check_index_memory;
use tensor_core::{At, LimitExceeded, Source};

use crate::cbor::Header;
use crate::entry_map::{EntryParser, MIN_ENTRY};
use crate::layout::{self, FOOTER, MAGIC, Magic};
use crate::tensors::{RECORD_MEMORY, Tensors};
use crate::text::{Tail, Text};
use crate::{Error, Generation, Limits, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: all data aligned and
/// before the index, every name unique, sizes those of the shape where they are known.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) tensors: Tensors,
    #[cfg(feature = "zstd")]
    pub(crate) limits: Limits,
    /// Where it starts, which is where data must have ended.
    pub(crate) start: u64,
    pub(crate) generation: Generation,
    #[cfg(feature = "generations")]
    pub(crate) about: crate::manifest::About,
}

impl Index {
    pub(crate) fn parse(source: &Arc<dyn Source>, options: &ReadOptions) -> Result<Self> {
        let tail = Tail::new(&**source)?;
        #[cfg(feature = "generations")]
        {
            let parse = match layout::check_magic(&tail)? {
                Magic::V0 => return Self::parse_v0(&tail, options),
                Magic::V1 => crate::v1::parse,
                Magic::V2 => crate::v2::parse,
            };
            let (assembly, about, start) = parse(source, &tail, options)?;
            let generation = assembly.generation;
            Ok(Self {
                tensors: assembly.finish()?,
                #[cfg(feature = "zstd")]
                limits: options.limits,
                start,
                generation,
                about,
            })
        }
        #[cfg(not(feature = "generations"))]
        match layout::check_magic(&tail)? {
            Magic::V0 => Self::parse_v0(&tail, options),
        }
    }

    fn parse_v0(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let range = index_range(source)?;
        let start = range.start;
        let limits = options.limits;
        let mut text = Text::new(source, range, limits.max_value_depth);
        let count = text.parse(|reader| match reader.item()? {
            Header::Array(count) => Ok(count),
            Header::Break => reader.fail(Rule::CborBreak),
            _ => reader.fail(Rule::IndexType),
        })?;
        let mut parser = EntryParser::new(limits, start);
        let max = limits.max_tensor_count.min(MOST_TENSORS);
        if let Some(count) = count {
            if count > text.remaining() {
                return text.fail(Rule::CborEnd);
            }
            // More can't follow, so no count takes more memory than the index itself asks for.
            let most = text.remaining().checked_div(MIN_ENTRY).unwrap_or(0);
            let most = usize::try_from(count.min(most)).unwrap_or(usize::MAX);
            let least = (most as u64).saturating_mul(RECORD_MEMORY);
            check_memory(least, source.size(), &limits, text.at())?;
            if count > max {
                return Err(too_many(text.at(), count, max));
            }
            parser.tensors.reserve(most)?;
        }
        while count != Some(parser.tensors.len() as u64) {
            let ordinal = parser.tensors.len() as u64;
            text.entry = Some(ordinal);
            if !text.parse(|reader| parser.parse(reader, count.is_none()))? {
                break;
            }
            if ordinal >= max {
                return Err(too_many(text.at(), ordinal.saturating_add(1), max));
            }
            let memory = parser.tensors.memory().saturating_add(text.memory());
            check_memory(memory, source.size(), &limits, text.at())?;
        }
        text.entry = None;
        match text.remaining() {
            0 => {}
            bytes => return text.fail(Rule::IndexTrailing { bytes }),
        }
        drop(text);

        let mut tensors = parser.tensors;
        if let Err(twice) = tensors.finish() {
            let first = twice.first as u64;
            let at = At::new(start, "name").entry(twice.second as u64);
            let error = Error::invalid(Rule::NameDuplicate { first }, at);
            return Err(error.of_tensor(tensors.names.get(twice.second)));
        }
        Ok(Self {
            tensors,
            #[cfg(feature = "zstd")]
            limits,
            start,
            generation: Generation::V0_1,
            #[cfg(feature = "generations")]
            about: crate::manifest::About::default(),
        })
    }
}

/// The most tensors that are read, whatever the limits.
pub(crate) const MOST_TENSORS: u64 = u32::MAX as u64;

/// Section 3.3: where the index is.
fn index_range(source: &dyn Source) -> Result<Range<u64>> {
    let footer = source.size().saturating_sub(FOOTER);
    let mut field = [0; 8];
    source.read_into(footer, &mut field)?;
    let got = u64::from_le_bytes(field);
    let max = footer.saturating_sub(MAGIC.len() as u64);
    if got == 0 || got > max {
        let rule = Rule::IndexSize { got, max };
        let at = At::new(footer, "Total CBOR Blob Size");
        return Err(Error::invalid(rule, at));
    }
    Ok(footer.saturating_sub(got)..footer)
}

/// Fails where a list of tensors takes more memory than it may beside a file of that length.
pub(crate) fn check_memory(memory: u64, file_len: u64, limits: &Limits, at: At) -> Result<()> {
    check_index_memory(memory)?;
    let (value, max) = (
        memory.saturating_sub(file_len),
        limits.max_index_overhead_bytes,
    );
    if value > max {
        let limit = "max_index_overhead_bytes";
        return Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }));
    }
    Ok(())
}

fn too_many(at: At, value: u64, max: u64) -> Error {
    Error::Limit(LimitExceeded {
        limit: "max_tensor_count",
        value,
        max,
        at,
    })
}
