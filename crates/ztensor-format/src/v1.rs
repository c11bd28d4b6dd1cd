//! Generations 1.0, 1.1 and 1.2: the frame, and what its manifest says about the data.

#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;
use core::ops::Range;

use tensor_core::{At, Bytes, DType, Shape, Source};

use crate::encoding::Encoding;
use crate::layout::{ALIGN, MAGIC_1};
use crate::manifest::{
    self, About, Assembly, ElementType, MAX_MANIFEST, Object, Owner, Parser, Resolved, Written,
    element_type, field,
};
use crate::tensors::Obstacle;
use crate::{Error, Generation, ReadOptions, Result, Rule, Unsupported, dtype};

/// Parses a file whose first eight bytes were looked at.
// Long since it is the list of the checks, in the order in which the specification makes them.
pub(crate) fn parse(
    source: &Arc<dyn Source>,
    tail: &dyn Source,
    options: &ReadOptions,
) -> Result<(Assembly, About, u64)> {
    let (range, repeated) = frame(tail)?;
    let (start, place) = (range.start, range.clone());
    let manifest = manifest::bytes(tail, range, options)?;
    // The version only decides between 1.1 and 1.2, so it is known after a first pass.
    let mut parser = Parser::new(&manifest, start, Generation::V1_0, options.limits);
    let known = ["version", "generator", "attributes", "tensors", "objects"];
    let [version, generator, attributes, tensors, objects] = parser.root(known)?;
    let Some(version) = version else {
        return parser.fail(Rule::ManifestMissing { key: "version" });
    };
    let version = parser
        .at_position(version)
        .text("version", false)?
        .unwrap_or_default();
    let generation = match (generation_of(&version, start)?, repeated) {
        (_, false) => Generation::V1_0,
        (generation, true) => generation,
    };
    let (list, key) = match (generation, tensors, objects) {
        (Generation::V1_0, Some(tensors), _) => (tensors, "tensors"),
        (Generation::V1_1 | Generation::V1_2, _, Some(objects)) => (objects, "objects"),
        (Generation::V1_0, None, Some(_)) => {
            let ends = "the one magic, of version 1.0,";
            return parser.fail(Rule::Frame { ends });
        }
        (Generation::V1_0, ..) => return parser.fail(Rule::ManifestMissing { key: "tensors" }),
        (_, Some(_), None) => {
            let ends = "magics at both ends, of versions 1.1 and 1.2,";
            return parser.fail(Rule::Frame { ends });
        }
        _ => return parser.fail(Rule::ManifestMissing { key: "objects" }),
    };
    parser.generation = generation;
    let mut about = About {
        version: version.as_ref().into(),
        ..About::default()
    };
    if let Some(position) = attributes {
        let attributes = parser.at_position(position).attributes()?;
        about.attributes = Bytes::copy_from_slice(attributes);
    }
    if let Some(position) = generator {
        about.generator = parser
            .at_position(position)
            .text("generator", true)?
            .map(|text| text.as_ref().into());
    }
    let mut reader = Reader {
        source,
        options,
        start,
        #[cfg(feature = "zstd")]
        unsized_left: options.limits.max_unsized_bytes,
        #[cfg(feature = "zstd")]
        measured: alloc::collections::BTreeMap::new(),
        assembly: Assembly::new(generation, options.limits, &place, source.size()),
    };
    let mut parser = parser.at_position(list);
    let mut pairs = parser.map(key)?;
    let mut count = 0u64;
    while let Some(name) = parser.next(&mut pairs, true)? {
        let Some(name) = name else { continue };
        parser.reader.entry = Some(count);
        count = count.saturating_add(1);
        let object = parser.object(name)?;
        reader
            .object(&object)
            .map_err(|error| error.of_tensor(&object.name))?;
    }
    Ok((reader.assembly, about, start))
}

/// Where the manifest is, and whether the magic is repeated after its size.
fn frame(source: &dyn Source) -> Result<(Range<u64>, bool)> {
    /// Magic, one byte and its size.
    const MIN_FILE: u64 = 17;
    let size = source.size();
    if size < MIN_FILE {
        return Err(manifest::truncated("manifest size", MIN_FILE, size));
    }
    let last = size.saturating_sub(8);
    let repeated = field(source, last)?.to_le_bytes() == MAGIC_1;
    let place = match repeated {
        true => size.saturating_sub(16),
        false => last,
    };
    if place <= 8 {
        return Err(manifest::truncated(
            "manifest size",
            MIN_FILE.saturating_add(8),
            size,
        ));
    }
    let got = field(source, place)?;
    let max = place.saturating_sub(8).min(MAX_MANIFEST);
    if got == 0 || got > max {
        let rule = Rule::ManifestSize { got, max };
        let at = At::new(place, "manifest size");
        return Err(Error::invalid(rule, at));
    }
    Ok((place.saturating_sub(got)..place, repeated))
}

/// What `version` says.
fn generation_of(version: &str, at: u64) -> Result<Generation> {
    let at = At::new(at, "version");
    let mut parts = version.split('.');
    let major = parts.next().unwrap_or_default();
    if major.is_empty() || !major.bytes().all(|digit| digit.is_ascii_digit()) {
        let rule = Rule::VersionSyntax;
        return Err(Error::invalid(rule, at));
    }
    if major.trim_start_matches('0') != "1" {
        let version: alloc::string::String = version.chars().take(40).collect();
        let about = alloc::format!("this is a zTensor file of version {version:?} in a 1.x frame");
        let what = Unsupported::Version {
            about: about.into(),
        };
        return Err(Error::unsupported(what, at));
    }
    Ok(match parts.next() {
        Some("0" | "1") | None => Generation::V1_1,
        _ => Generation::V1_2,
    })
}

struct Reader<'a> {
    source: &'a Arc<dyn Source>,
    options: &'a ReadOptions,
    /// Where the manifest starts, which is where data must have ended.
    start: u64,
    #[cfg(feature = "zstd")]
    unsized_left: u64,
    /// What was measured before, since components may share their data.
    #[cfg(feature = "zstd")]
    measured: alloc::collections::BTreeMap<(u64, u64), u64>,
    assembly: Assembly,
}

fn fail<T>(at: At, field: &'static str, rule: Rule) -> Result<T> {
    let at = At { field, ..at };
    Err(Error::invalid(rule, at))
}

impl Reader<'_> {
    fn object(&mut self, object: &Object<'_>) -> Result<()> {
        let owner = object.owner();
        let dense = owner.format == "dense";
        if dense && !object.parts.iter().any(|part| part.name == "data") {
            return fail(object.at, "data", Rule::DenseData);
        }
        let start = self.assembly.open();
        for part in &object.parts {
            self.component(&owner, dense, object.dtype.as_deref(), part)?;
        }
        let known = ["dense", "sparse_csr", "sparse_coo"].contains(&owner.format);
        let is_old = self.assembly.generation == Generation::V1_0;
        let obstacle = (is_old && !known).then_some(Obstacle::Layout);
        if !dense || object.parts.len() > 1 {
            self.assembly.close(&owner, start, obstacle)?;
        }
        Ok(())
    }

    /// What a component's dtype is.
    fn element_type<'p>(
        &self,
        format: &str,
        dtype: Option<&'p str>,
        part: &'p Written<'_>,
    ) -> ElementType<'p> {
        if self.assembly.generation == Generation::V1_0 {
            let name = dtype.unwrap_or_default();
            return match (format, &*part.name) {
                ("dense", "data") | ("sparse_csr" | "sparse_coo", "values") => {
                    match dtype::from_name(name.as_bytes()) {
                        Some(dtype) => ElementType::plain(dtype),
                        None => ElementType::unknown(name),
                    }
                }
                ("sparse_csr", "indices" | "indptr") | ("sparse_coo", "coords") => {
                    ElementType::plain(DType::U64)
                }
                _ => ElementType {
                    obstacle: Some(Obstacle::Component),
                    ..ElementType::unknown("unknown")
                },
            };
        }
        let name = part.dtype.as_deref().unwrap_or_default();
        let Some(storage) = dtype::from_short_name(name) else {
            return ElementType::unknown(name);
        };
        match part.kind.as_deref() {
            None => ElementType::plain(storage),
            // In this generation a type over a dtype that is not its own is one that we don't
            // know, so there is no error.
            Some(kind) => element_type(storage, kind, self.assembly.generation)
                .unwrap_or_else(|_| ElementType::unknown(kind)),
        }
    }

    fn component(
        &mut self,
        object: &Owner<'_>,
        dense: bool,
        dtype: Option<&str>,
        part: &Written<'_>,
    ) -> Result<()> {
        self.check_place(part)?;
        let (at, offset, length) = (part.at, part.offset, part.length);
        let (encoding, encoding_name) = match part.encoding.as_deref() {
            None => (Encoding::Raw, None),
            Some(name) => (Encoding::from_name(name.as_bytes()), Some(name)),
        };
        let element_type = self.element_type(object.format, dtype, part);
        let is_data = dense && part.name == "data";
        let expected = match is_data {
            true => match element_type.len_of(object.shape) {
                Ok(expected) => expected,
                Err(()) => return fail(at, "shape", Rule::ShapeOverflow),
            },
            false => None,
        };
        let decoded = self.decoded_len(part, encoding, expected, element_type.width.is_some())?;
        let shape = match is_data {
            true => object.shape.clone(),
            false => match flat(decoded, element_type.width) {
                Ok(shape) => shape,
                Err(rule) => return fail(at, "length", rule),
            },
        };
        let component = (!is_data).then_some(&*part.name);
        self.assembly.push(
            object,
            component,
            &Resolved {
                element_type,
                shape,
                encoding,
                encoding_name,
                offset,
                length,
                decoded,
                digest: part.digest.as_ref(),
                shard: None,
            },
        )
    }

    /// Checks that a component lies between the magic and the manifest, and is aligned.
    fn check_place(&self, part: &Written<'_>) -> Result<()> {
        let (at, offset, size, end) = (part.at, part.offset, part.length, self.start);
        if offset.checked_rem(ALIGN) != Some(0) {
            let (got, align) = (offset, ALIGN);
            return fail(at, "offset", Rule::ComponentAlignment { got, align });
        }
        if offset == 0 {
            return fail(at, "offset", Rule::OffsetMagic);
        }
        if offset.checked_add(size).is_none_or(|after| after > end) {
            return fail(at, "length", Rule::ComponentRange { offset, size, end });
        }
        Ok(())
    }

    /// How many bytes a component decodes to, `None` where nothing tells; where dtype and shape ask for
    /// `expected`, what the file says must be that.
    fn decoded_len(
        &mut self,
        part: &Written<'_>,
        encoding: Encoding,
        expected: Option<u64>,
        is_typed: bool,
    ) -> Result<Option<u64>> {
        let at = part.at;
        let stated = part.decoded.filter(|_| encoding != Encoding::Raw);
        match (encoding, expected) {
            (Encoding::Raw, Some(expected)) if part.length != expected => {
                let got = part.length;
                fail(at, "length", Rule::SizeMismatch { got, expected })
            }
            (Encoding::Raw, _) => Ok(Some(part.length)),
            (_, Some(expected)) => match stated.filter(|&got| got != expected) {
                Some(got) => {
                    let rule = Rule::DecodedLength { got, expected };
                    fail(at, "uncompressed_length", rule)
                }
                None => Ok(Some(expected)),
            },
            (Encoding::Zstd, None) if stated.is_none() && is_typed => self.measure(part),
            (_, None) => Ok(stated),
        }
    }

    /// What compressed data decodes to where the file does not say.
    #[cfg(feature = "zstd")]
    fn measure(&mut self, part: &Written<'_>) -> Result<Option<u64>> {
        let (offset, length) = (part.offset, part.length);
        if let Some(&decoded) = self.measured.get(&(offset, length)) {
            return Ok(Some(decoded));
        }
        // Frames that decode to nothing take time too, and may be counted again and again.
        let (value, max) = (length, self.unsized_left);
        if value > max {
            let (limit, at) = ("max_unsized_bytes", At::new(offset, "data"));
            return Err(Error::Limit(tensor_core::LimitExceeded {
                limit,
                value,
                max,
                at,
            }));
        }
        let range = offset..offset.saturating_add(length);
        let blob = crate::encoding::Blob {
            stored: tensor_core::Window::new(self.source.clone(), range)?,
            decoded: self.unsized_left,
            max_window: self.options.limits.max_window_bytes,
            at: At::new(offset, "data"),
        };
        let (decoded, is_stated) = blob.measure()?;
        let cost = if is_stated {
            length
        } else {
            decoded.max(length)
        };
        self.unsized_left = self.unsized_left.saturating_sub(cost);
        self.measured.insert((offset, length), decoded);
        Ok(Some(decoded))
    }

    #[cfg(not(feature = "zstd"))]
    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the other one may fail"
    )]
    fn measure(&mut self, _: &Written<'_>) -> Result<Option<u64>> {
        let _ = (self.source, self.options);
        Ok(None)
    }
}

/// The shape of a component: one dim, of elements where their width is known, else of bytes, and
/// empty where not even those are.
pub(crate) fn flat(decoded: Option<u64>, width: Option<u64>) -> Result<Shape, Rule> {
    let (bytes, width) = (decoded.unwrap_or(0), width.unwrap_or(1));
    match (bytes.checked_div(width), bytes.checked_rem(width)) {
        (Some(elements), Some(0)) => Shape::new(&[elements]).map_err(|_| Rule::ShapeOverflow),
        _ => Err(Rule::ComponentWidth { bytes, width }),
    }
}
