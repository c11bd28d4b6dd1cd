#![deny(clippy::arithmetic_side_effects)]

mod parser;
mod scheme;
mod tensors;

use alloc::vec::Vec;

use tensor_core::codec::{Cursor, NameTable};
use tensor_core::{At, LimitExceeded, Source, Truncated};

use self::parser::{Contents, GenerationSigns, Memory, Parser};
pub(crate) use self::tensors::{Record, Tensors};
use crate::generation::Generation;
use crate::layout::{ALIGN, Evidence, Header, Layout};
use crate::meta::{MetaEntry, ScalarEntry};
use crate::{Error, ReadOptions, Result, Rule};

/// Everything that a file says about its tensors. One that exists is valid: every range in
/// bounds, aligned and disjoint, every name unique, every size that of dtype and shape.
#[derive(Debug)]
pub(crate) struct Index {
    /// In the order of the data.
    pub(crate) tensors: Tensors,
    pub(crate) metadata: Vec<MetaEntry>,
    pub(crate) scalars: Vec<ScalarEntry>,
    pub(crate) layout: Layout,
    pub(crate) generation: Generation,
    pub(crate) metadata_end: u64,
    pub(crate) data_start: u64,
    /// Where the last tensor ends.
    pub(crate) data_end: u64,
    /// Whether the file's length is the only sign of the packed layout.
    pub(crate) ambiguous: bool,
    metadata_names: NameTable,
    scalar_names: NameTable,
}

impl Index {
    pub(crate) fn parse(source: &dyn Source, options: &ReadOptions) -> Result<Self> {
        let size = source.size();
        let metadata_end = metadata_end(source, options)?;
        let metadata = source.read(Header::SIZE..metadata_end)?;
        let copied = source.contiguous().is_none();
        let memory = Memory::new(size, if copied { metadata_end } else { 0 });
        let Contents {
            mut tensors,
            metadata: pairs,
            scalars,
            signs,
            span,
            metadata_names,
            scalar_names,
        } = Parser::parse(&metadata, options.limits, memory)?;
        // Where it was read from a file its memory is freed before the next steps need it.
        drop(metadata);
        tensors.shrink();
        if !span.sorted {
            tensors.sort()?;
        }
        index_names(&mut tensors)?;
        let chained = check_overlap(&tensors)?;
        let version = burn_version(&pairs);
        let evidence = Evidence {
            file_len: size,
            metadata_end,
            data_len: span.data_len,
            aligned: span.aligned,
            chained,
            modern: signs.bool_map
                || signs.new_scheme
                || signs.scalars
                || version.is_some_and(writes_aligned),
        };
        let layout = place_data(&tensors, &evidence, options.layout)?;
        let data_start = evidence.data_start(layout);
        let ambiguous = layout == Layout::Packed
            && options.layout == Layout::Auto
            && span.aligned
            && data_start != evidence.aligned_start()
            && version.is_none();
        Ok(Self {
            tensors,
            generation: generation(signs, layout, version),
            metadata: pairs,
            scalars,
            layout,
            metadata_end,
            data_start,
            data_end: evidence.end(layout),
            ambiguous,
            metadata_names,
            scalar_names,
        })
    }

    pub(crate) fn find_metadata(&self, key: &str) -> Option<&MetaEntry> {
        self.metadata.get(
            self.metadata_names
                .find(&self.metadata, MetaEntry::key, key)?,
        )
    }

    pub(crate) fn find_scalar(&self, name: &str) -> Option<&ScalarEntry> {
        self.scalars.get(
            self.scalar_names
                .find(&self.scalars, ScalarEntry::name, name)?,
        )
    }
}

/// "Header": where the metadata ends, which lies within the file and the limit.
fn metadata_end(source: &dyn Source, options: &ReadOptions) -> Result<u64> {
    let mut cursor = Cursor::new(source, 0..source.size())?;
    cursor.expect_up_to(Header::SIZE);
    let header = Header::parse(&mut cursor)?;
    let at = At::new(6, "metadata_size");
    let metadata_size = u64::from(header.metadata_size);
    let available = cursor.remaining();
    if metadata_size > available {
        let needed = metadata_size;
        return Err(Error::from(Truncated {
            at,
            needed,
            available,
        }));
    }
    let max = options.limits.max_metadata_bytes;
    if metadata_size > max {
        return Err(Error::Limit(LimitExceeded {
            limit: "max_metadata_bytes",
            value: metadata_size,
            max,
            at,
        }));
    }
    Ok(Header::SIZE.saturating_add(metadata_size))
}

/// "Metadata": no two tensors have one name.
fn index_names(tensors: &mut Tensors) -> Result<()> {
    let Err(duplicate) = tensors.index_names() else {
        return Ok(());
    };
    // The one that is later in the file is at fault, whatever the order of the data.
    let (a, b) = (duplicate.first, duplicate.second);
    let ordinal = |position| tensors.record(position).ordinal;
    let (first, second) = match ordinal(a) < ordinal(b) {
        true => (a, b),
        false => (b, a),
    };
    let first = ordinal(first).into();
    Err(tensors.invalid(second, Rule::TensorDuplicate { first }, "tensors"))
}

/// Decides on the layout, which all tensors fit into.
fn place_data(tensors: &Tensors, evidence: &Evidence, wanted: Layout) -> Result<Layout> {
    let records = || tensors.records.iter().enumerate();
    let last = || records().max_by_key(|(_, record)| record.end());
    // Offsets that no file can have come first: they would saturate below.
    let end = evidence.data_len;
    if evidence.aligned_start().checked_add(end).is_none() {
        let rule = Rule::OffsetsOverflow { end };
        return Err(match last() {
            Some((position, _)) => tensors.invalid(position, rule, "data_offsets"),
            None => Error::invalid(rule, At::new(evidence.metadata_end, "padding")),
        });
    }
    let layout = match wanted {
        Layout::Auto => evidence.layout(),
        layout => (evidence.file_len >= evidence.end(layout)).then_some(layout),
    };
    let Some(layout) = layout else {
        let likely = match wanted {
            Layout::Auto if evidence.aligned || evidence.modern => Layout::Aligned,
            Layout::Auto => Layout::Packed,
            layout => layout,
        };
        let truncated = |at| Truncated {
            at,
            needed: evidence.end(likely),
            available: evidence.file_len,
        };
        return Err(match last() {
            Some((position, record)) => {
                let error = Error::from(truncated(record.at("data_offsets")));
                error.of_tensor(tensors.names.get(position))
            }
            None => truncated(At::new(evidence.metadata_end, "padding")).into(),
        });
    };
    if layout == Layout::Aligned && !evidence.aligned {
        let misaligned = |(_, record): &(usize, &Record)| record.start % ALIGN != 0;
        if let Some((position, record)) = records().find(misaligned) {
            let start = record.start;
            return Err(tensors.invalid(position, Rule::Alignment { start }, "data_offsets"));
        }
    }
    Ok(layout)
}

/// Checks that no two tensors share a byte, and tells whether they follow each other without a
/// gap. They come in the order of their data.
fn check_overlap(tensors: &Tensors) -> Result<bool> {
    let mut last: Option<usize> = None;
    let mut last_end = 0;
    let mut chained = true;
    for (position, record) in tensors.records.iter().enumerate() {
        chained &= record.start == last_end;
        if record.len == 0 {
            continue;
        }
        if let Some(last) = last.filter(|_| last_end > record.start) {
            let other = tensors.record(last).ordinal;
            let (first, later) = match other < record.ordinal {
                true => (other, position),
                false => (record.ordinal, last),
            };
            let other = first.into();
            return Err(tensors.invalid(later, Rule::Overlap { other }, "data_offsets"));
        }
        last_end = record.end();
        last = Some(position);
    }
    Ok(chained)
}

/// The release that the metadata names, where it is Burn's own.
fn burn_version(metadata: &[MetaEntry]) -> Option<&str> {
    let value = |key: &str| {
        let pair = metadata.iter().find(|pair| pair.key() == key);
        pair.map(MetaEntry::value)
    };
    if value("producer") != Some("burn") {
        return None;
    }
    value("version").filter(|version| version.starts_with("0."))
}

/// Whether a release of Burn writes the aligned layout.
fn writes_aligned(version: &str) -> bool {
    let pre_release = version.strip_prefix("0.20.0-pre.").map(str::as_bytes);
    !version.starts_with("0.19.") && !matches!(pre_release, Some([b'1'..=b'4']))
}

/// The generation of releases that write these signs in the metadata, with data in this layout.
fn generation(signs: GenerationSigns, layout: Layout, version: Option<&str>) -> Generation {
    if layout == Layout::Packed && !signs.bool_map && !signs.new_scheme && !signs.scalars {
        Generation::V0_19
    } else if signs.scalars || signs.new_scheme {
        Generation::Current
    } else if signs.bool_text {
        Generation::V0_20
    } else {
        // What is spelled counts for more than what the text says: a file may have been
        // rewritten since. A file of 0.19 that is aligned was.
        let old = |version: &str| version.starts_with("0.19.") || version.starts_with("0.20.");
        match version {
            Some(version) if old(version) && !signs.bool_map => Generation::V0_20,
            Some(version) if old(version) || version.starts_with("0.21.") => Generation::V0_21,
            Some(_) if signs.old_scheme => Generation::V0_21,
            Some(_) => Generation::Current,
            None if signs.old_scheme && signs.bool_map => Generation::V0_21,
            None => Generation::Unknown,
        }
    }
}
