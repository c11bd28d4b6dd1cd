//! Generation 2: the frame, the manifest in deterministic CBOR, and the rules between its parts.

#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use tensor_core::{At, Bytes, DType, Source};
use xxhash_rust::xxh3::xxh3_64;

use crate::cbor::{Budget, Reader as CborReader, Skip};
use crate::encoding::Encoding;
use crate::layout::MAGIC_2;
use crate::manifest::{
    self, About, Assembly, ElementType, MAX_MANIFEST, Object, Owner, Parser, Resolved, Shard,
    Written, element_type, field,
};
use crate::v1::flat;
use crate::{Error, Generation, ReadOptions, Result, Rule, Unsupported, dtype};

/// Where data and the manifest may start.
const ALIGN: u64 = 4096;
const FOOTER: u64 = 40;
/// Magic and footer.
const MIN_FILE: u64 = 48;
const MAX_DEPTH: u64 = 32;
/// The layout whose parts the format has rules for.
pub(crate) const CSR: &str = "zt.sparse_csr/1";

fn fail<T>(at: At, field: &'static str, rule: Rule) -> Result<T> {
    let at = At { field, ..at };
    Err(Error::invalid(rule, at))
}

/// Parses a file whose first eight bytes were looked at.
// Long since it is the list of the checks, in the order in which the specification makes them.
pub(crate) fn parse(
    _: &Arc<dyn Source>,
    source: &dyn Source,
    options: &ReadOptions,
) -> Result<(Assembly, About, u64)> {
    let size = source.size();
    if size < MIN_FILE {
        return Err(manifest::truncated("footer", MIN_FILE, size));
    }
    let footer = size.saturating_sub(FOOTER);
    let word = |at: u64| field(source, footer.saturating_add(at));
    let at = At::new(footer, "footer");
    let got = word(32)?.to_le_bytes();
    if got != MAGIC_2 {
        return fail(at, "footer magic", Rule::FooterMagic { got });
    }
    let version = word(24)? & 0xFFFF_FFFF;
    if version != 2 {
        let about = alloc::format!("this is a zTensor file of footer version {version}");
        let what = Unsupported::Version {
            about: about.into(),
        };
        return Err(Error::unsupported(what, at));
    }
    let (offset, length, hash) = (word(0)?, word(8)?, word(16)?);
    let place = offset..offset.saturating_add(length);
    let assembly = Assembly::new(Generation::V2, options.limits, &place, source.size());
    if length == 0 {
        if offset != 0 || hash != 0 {
            return fail(at, "manifest_length", Rule::DataShard);
        }
        let about = About {
            is_data_shard: true,
            ..About::default()
        };
        return Ok((assembly, about, footer));
    }
    let max = MAX_MANIFEST;
    if length > max {
        let got = length;
        return fail(at, "manifest_length", Rule::ManifestSize { got, max });
    }
    if offset < ALIGN || offset.checked_rem(ALIGN) != Some(0) {
        return fail(
            at,
            "manifest_offset",
            Rule::ManifestAlignment { got: offset },
        );
    }
    let end = footer;
    let after = offset.checked_add(length).filter(|&after| after <= end);
    let Some(after) = after else {
        let size = length;
        return fail(
            at,
            "manifest_length",
            Rule::ManifestRange { offset, size, end },
        );
    };
    let manifest = manifest::bytes(source, offset..after, options)?;
    let found = xxh3_64(&manifest);
    if found != hash {
        return fail(at, "manifest_hash", Rule::ManifestHash { got: hash, found });
    }
    check_cbor(&manifest, offset)?;
    let mut reader = Reader {
        file: (0, footer),
        shards: Vec::new(),
        ranges: alloc::vec![(0, offset, after)],
        assembly,
    };
    let about = reader.root(&manifest, offset, options)?;
    reader.check_overlap(at)?;
    Ok((reader.assembly, about, offset))
}

/// Section "deterministic": one pass over all of it, so that the passes after it need not ask.
fn check_cbor(manifest: &Bytes, offset: u64) -> Result<()> {
    let mut reader = CborReader::new(manifest, offset, MAX_DEPTH);
    reader.strict = true;
    reader.field = "manifest";
    reader.walk(&mut Skip, &mut Budget::new(u64::MAX))?;
    match reader.remaining() {
        0 => Ok(()),
        bytes => reader.fail(Rule::ManifestTrailing {
            bytes: bytes as u64,
        }),
    }
}

struct Reader {
    /// This file's number among files, and where its data must have ended.
    file: (usize, u64),
    shards: Vec<Shard>,
    /// File, start and end of all data that has any bytes.
    ranges: Vec<(usize, u64, u64)>,
    assembly: Assembly,
}

impl Reader {
    fn root(&mut self, manifest: &Bytes, base: u64, options: &ReadOptions) -> Result<About> {
        let mut parser = Parser::new(manifest, base, Generation::V2, options.limits);
        let [objects, shards, attributes] = parser.root(["objects", "shards", "attributes"])?;
        let Some(objects) = objects else {
            return parser.fail(Rule::ManifestMissing { key: "objects" });
        };
        let mut about = About::default();
        if let Some(position) = attributes {
            let attributes = parser.at_position(position).attributes()?;
            about.attributes = Bytes::copy_from_slice(attributes);
        }
        if let Some(position) = shards {
            self.shards = shard_list(&mut parser.at_position(position))?;
        }
        let mut parser = parser.at_position(objects);
        let mut pairs = parser.map("objects")?;
        let mut count = 0u64;
        while let Some(name) = parser.next(&mut pairs, true)? {
            let Some(name) = name else { continue };
            parser.reader.entry = Some(count);
            count = count.saturating_add(1);
            let object = parser.object(name)?;
            self.object(&object)
                .map_err(|error| error.of_tensor(&object.name))?;
        }
        about.shards = core::mem::take(&mut self.shards);
        Ok(about)
    }

    fn object(&mut self, object: &Object<'_>) -> Result<()> {
        let (owner, at) = (object.owner(), object.at);
        let dense = owner.format == "dense";
        match &*object.parts {
            [] => return fail(at, "parts", Rule::ObjectEmpty),
            [part] if dense && part.name == "data" => {}
            _ if dense => return fail(at, "parts", Rule::DenseData),
            _ => {}
        }
        let start = self.assembly.open();
        let mut sizes = Vec::new();
        for part in &object.parts {
            self.place(part)?;
            let element_type = element_type_of(part)?;
            if owner.format == CSR {
                sizes.push((&*part.name, part, element_type.width));
            }
            self.part(&owner, dense, part, element_type)?;
        }
        if owner.format == CSR {
            check_csr(&owner, &sizes, at)?;
        }
        if !dense {
            self.assembly.close(&owner, start, None)?;
        }
        Ok(())
    }

    /// Checks where a part's data is.
    fn place(&mut self, part: &Written<'_>) -> Result<()> {
        let at = part.at;
        let (offset, size) = (part.offset, part.length);
        let (file, end) = match part.shard.as_deref() {
            None => self.file,
            Some(label) => {
                let found = self.shards.binary_search_by(|shard| {
                    // As the manifest has them: by length, then by bytes.
                    (shard.label.len(), &*shard.label).cmp(&(label.len(), label))
                });
                let shard = found.ok().and_then(|at| Some((at, self.shards.get(at)?)));
                match shard {
                    Some((at, shard)) => (at.saturating_add(1), shard.size.saturating_sub(FOOTER)),
                    None => return fail(at, "shard", Rule::ShardUnknown),
                }
            }
        };
        if offset.checked_rem(ALIGN) != Some(0) {
            let rule = Rule::ComponentAlignment {
                got: offset,
                align: ALIGN,
            };
            return fail(at, "blob", rule);
        }
        if offset == 0 {
            return fail(at, "blob", Rule::OffsetMagic);
        }
        let Some(after) = offset.checked_add(size).filter(|&after| after <= end) else {
            return fail(at, "blob", Rule::ComponentRange { offset, size, end });
        };
        if size > 0 {
            self.ranges.push((file, offset, after));
        }
        Ok(())
    }

    fn part(
        &mut self,
        object: &Owner<'_>,
        dense: bool,
        part: &Written<'_>,
        element_type: ElementType<'_>,
    ) -> Result<()> {
        let at = part.at;
        let (encoding, encoding_name) = match part.encoding.as_deref() {
            None => (Encoding::Raw, None),
            Some("zt.zstd-seekable/1") => (Encoding::ZstdSeekable, None),
            Some(name) => (Encoding::Other, Some(name)),
        };
        let decoded = part.decoded.unwrap_or(part.length);
        let shape = if dense {
            match element_type.len_of(object.shape) {
                Ok(Some(expected)) if expected != decoded => {
                    let rule = match encoding {
                        Encoding::Raw => Rule::SizeMismatch {
                            got: decoded,
                            expected,
                        },
                        _ => Rule::DecodedLength {
                            got: decoded,
                            expected,
                        },
                    };
                    return fail(at, "data", rule);
                }
                Ok(_) => object.shape.clone(),
                Err(()) => return fail(at, "shape", Rule::ShapeOverflow),
            }
        } else {
            let width = match element_type.half {
                true => Some(1),
                false => element_type.width,
            };
            match flat(Some(decoded), width) {
                Ok(shape) => shape,
                Err(rule) => return fail(at, "blob", rule),
            }
        };
        let component = (!dense).then_some(&*part.name);
        self.assembly.push(
            object,
            component,
            &Resolved {
                element_type,
                shape,
                encoding,
                encoding_name,
                offset: part.offset,
                length: part.length,
                decoded: Some(decoded),
                digest: part.digest.as_ref(),
                shard: part.shard.as_deref(),
            },
        )
    }

    /// Ranges of one file are the same or apart.
    fn check_overlap(&mut self, at: At) -> Result<()> {
        self.ranges.sort_unstable();
        for pair in self.ranges.windows(2) {
            let [first, second] = pair else { continue };
            if first.0 == second.0 && first != second && second.1 < first.2 {
                let (offset, end) = (second.1, first.2);
                return fail(at, "blob", Rule::BlobOverlap { offset, end });
            }
        }
        Ok(())
    }
}

fn element_type_of<'p>(part: &'p Written<'_>) -> Result<ElementType<'p>> {
    let at = part.at;
    let name = part.dtype.as_deref().unwrap_or_default();
    // The text has no bool: it is a logical type.
    let storage = dtype::from_short_name(name).filter(|&dtype| dtype != DType::Bool);
    let Some(storage) = storage else {
        return fail(at, "dtype", Rule::DTypeValue);
    };
    match part.kind.as_deref() {
        None => Ok(ElementType::plain(storage)),
        Some(kind) => match element_type(storage, kind, Generation::V2) {
            Ok(element_type) => Ok(element_type),
            Err(rule) => fail(at, "type", rule),
        },
    }
}

fn shard_list(parser: &mut Parser<'_>) -> Result<Vec<Shard>> {
    let mut shards = Vec::new();
    let mut pairs = parser.map("shards")?;
    while let Some(label) = parser.next(&mut pairs, true)? {
        let Some(label) = label else { continue };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=64).contains(&label.len()) || label.starts_with('.') || !label.bytes().all(fits) {
            return parser.fail(Rule::ShardName);
        }
        let (mut size, mut digest) = (None, None);
        let mut fields = parser.map("shard")?;
        while let Some(key) = parser.next(&mut fields, false)? {
            match key.as_deref() {
                Some("size") => size = parser.uint("size", false)?,
                Some("digest") => digest = parser.text("digest", false)?,
                _ => parser.skip()?,
            }
        }
        let (Some(size), Some(digest)) = (size, digest) else {
            let key = match size {
                None => "size",
                Some(_) => "digest",
            };
            return parser.fail(Rule::ManifestMissing { key });
        };
        if size < MIN_FILE {
            return parser.fail(Rule::ShardSize { got: size });
        }
        let digest = parser.digest(&digest)?;
        shards.push(Shard {
            label: label.as_ref().into(),
            size,
            digest,
        });
    }
    Ok(shards)
}

/// What the manifest alone says about a sparse matrix.
fn check_csr(
    object: &Owner<'_>,
    parts: &[(&str, &Written<'_>, Option<u64>)],
    at: At,
) -> Result<()> {
    let &[rows, _] = object.shape.dims() else {
        return fail(at, "shape", Rule::CsrShape);
    };
    let find = |name: &str| parts.iter().find(|(known, ..)| *known == name);
    let (Some(values), Some(indices), Some(indptr), 3) =
        (find("values"), find("indices"), find("indptr"), parts.len())
    else {
        return fail(at, "parts", Rule::CsrParts);
    };
    let dtype = |part: &Written<'_>| match (part.dtype.as_deref(), &part.kind) {
        (Some("u32"), None) => Some(4),
        (Some("u64"), None) => Some(8u64),
        _ => None,
    };
    let width = match (dtype(indices.1), dtype(indptr.1)) {
        (Some(one), Some(other)) if one == other => one,
        _ => return fail(at, "dtype", Rule::CsrDType),
    };
    let size = |part: &Written<'_>| part.decoded.unwrap_or(part.length);
    let pointers = rows.checked_add(1).and_then(|rows| rows.checked_mul(width));
    let count = size(indices.1).checked_div(width).unwrap_or(0);
    let whole = size(indices.1).checked_rem(width) == Some(0);
    let values_fit = match (values.1.kind.as_deref(), values.2) {
        (Some("f4_e2m1"), _) => size(values.1) == count.div_ceil(2),
        (_, Some(width)) => count.checked_mul(width) == Some(size(values.1)),
        (_, None) => true,
    };
    if pointers != Some(size(indptr.1)) || !whole || !values_fit {
        return fail(at, "parts", Rule::CsrSize);
    }
    Ok(())
}
