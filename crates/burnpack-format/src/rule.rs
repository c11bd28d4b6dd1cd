use alloc::boxed::Box;
use core::fmt;

use tensor_core::codec::rules;

use crate::limits::MAX_DEPTH;

rules! {
    /// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
    ///
    /// Sections are those of this project's account of the format, `docs/formats/burnpack.md`;
    /// "RFC 8949" is CBOR.
    ///
    /// ```
    /// use burnpack_format::Archive;
    ///
    /// let error = Archive::from_bytes(vec![0xA5; 200]).unwrap_err();
    /// let rule = error.rule().map(|rule| rule.id());
    /// assert_eq!(rule, Some("burnpack.header.magic"));
    /// assert_eq!(error.rule_id(), rule);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Rule {
        /// "Header": the magic is always `NRUB`.
        #[rule("burnpack.header.magic", "{}", Magic(*got, hint))]
        Magic {
            /// The first four bytes.
            got: [u8; 4],
            /// What the file looks like instead; empty where it is like nothing known.
            hint: &'static str,
        },
        /// RFC 8949: the metadata ends within an item.
        #[rule("burnpack.cbor.end", "the metadata ends within a CBOR item")]
        CborEnd,
        /// RFC 8949: a head that has no meaning, or not here (reserved length, stray break, chunk of
        /// another type).
        #[rule("burnpack.cbor.syntax", "not well-formed CBOR")]
        CborSyntax,
        /// RFC 8949: text is UTF-8, each chunk by itself.
        #[rule("burnpack.cbor.utf8", "text is not UTF-8")]
        CborUtf8,
        /// "Metadata": unknown values nest at most 128 deep, as in Burn's reader.
        #[rule("burnpack.cbor.depth", "CBOR items nest more than {MAX_DEPTH} deep")]
        CborDepth,
        /// "Metadata": one item fills the metadata.
        #[rule("burnpack.cbor.trailing", "{left} bytes after the map, within the metadata size")]
        Trailing {
            /// Bytes after it.
            left: u64,
        },
        /// "Metadata": the item is a map.
        #[rule("burnpack.top", "the metadata is not a map")]
        Top,
        /// "Metadata": keys are text.
        #[rule("burnpack.key", "a map key is not text")]
        Key,
        /// "Metadata": keys of a map are unique, known or not.
        #[rule("burnpack.key_duplicate", "a duplicate key in a map")]
        DuplicateKey,
        /// "Metadata": `tensors` is always there.
        #[rule("burnpack.tensors.missing", "no key \"tensors\"")]
        MissingTensors,
        /// "Metadata": `tensors` is a map.
        #[rule("burnpack.tensors", "\"tensors\" is not a map")]
        Tensors,
        /// "Metadata": `metadata` is a map.
        #[rule("burnpack.metadata", "\"metadata\" is not a map")]
        Metadata,
        /// "Metadata": values of `metadata` are text.
        #[rule("burnpack.metadata.value", "a value of \"metadata\" is not text")]
        MetadataValue,
        /// "Metadata": keys of `metadata` are unique.
        #[rule("burnpack.metadata.duplicate", "key of metadata pair {first} is used again")]
        MetadataDuplicate {
            /// The pair that has the key already.
            first: u64,
        },
        /// "Scalars": `scalars` is a map.
        #[rule("burnpack.scalars", "\"scalars\" is not a map")]
        Scalars,
        /// "Scalars": a scalar is a map of one entry, its kind.
        #[rule("burnpack.scalar", "a scalar is not a map of one entry")]
        Scalar,
        /// "Scalars": the value is of the kind's type and range.
        #[rule("burnpack.scalar.value", "the scalar's value is not of kind {kind}, or out of its range")]
        ScalarValue {
            /// The kind.
            kind: &'static str,
        },
        /// "Scalars": names are unique.
        #[rule("burnpack.scalar.duplicate", "name of scalar {first} is used again")]
        ScalarDuplicate {
            /// The scalar that has the name already.
            first: u64,
        },
        /// "Descriptor": a tensor's name is text.
        #[rule("burnpack.tensor.name", "a tensor's name is not text")]
        TensorName,
        /// "Descriptor": names are unique.
        #[rule("burnpack.tensor.duplicate", "name of tensor {first} is used again")]
        TensorDuplicate {
            /// The tensor that has the name already.
            first: u64,
        },
        /// "Descriptor": a tensor is described by a map.
        #[rule("burnpack.tensor.descriptor", "the descriptor is not a map")]
        Descriptor,
        /// "Descriptor": `dtype`, `shape` and `data_offsets` are always there.
        #[rule("burnpack.tensor.missing_key", "the descriptor has no key {key:?}")]
        MissingKey {
            /// The one that is not.
            key: &'static str,
        },
        /// "Dtype": a text, or a map of one entry.
        #[rule("burnpack.tensor.dtype", "dtype is neither text nor a map of one entry")]
        DType,
        /// "Quantization": the scheme is a map with the keys and types of one generation.
        #[rule("burnpack.tensor.scheme", "key {key:?} of the quantization scheme is missing or malformed")]
        Scheme {
            /// The key that is missing or wrong.
            key: &'static str,
        },
        /// "Descriptor": `shape` is an array of unsigned integers.
        #[rule("burnpack.tensor.shape", "shape is not an array of unsigned integers")]
        Shape,
        /// "Descriptor": the product of the dims fits 64 bits.
        #[rule("burnpack.tensor.shape_overflow", "the product of the dims does not fit 64 bits")]
        ShapeOverflow,
        /// "Descriptor": the number of bytes fits 64 bits.
        #[rule("burnpack.tensor.size_overflow", "{elements} elements take more than 2^64-1 bytes")]
        SizeOverflow {
            /// Number of elements.
            elements: u64,
        },
        /// "Descriptor": `data_offsets` is an array of two unsigned integers.
        #[rule("burnpack.tensor.data_offsets", "data_offsets is not an array of two unsigned integers")]
        Offsets,
        /// "Descriptor": data ends no earlier than it starts.
        #[rule("burnpack.tensor.offsets_order", "data ends at {end:#x}, before its start at {start:#x}")]
        OffsetsOrder {
            /// The first offset.
            start: u64,
            /// The second.
            end: u64,
        },
        /// "Data": offsets in the file fit 64 bits.
        #[rule("burnpack.tensor.offsets_overflow", "data offset {end:#x} lies beyond 64 bits in the file")]
        OffsetsOverflow {
            /// The larger offset.
            end: u64,
        },
        /// "Descriptor": data takes elements times element size.
        #[rule("burnpack.tensor.size", "data of {got} bytes, but dtype and shape ask for {expected}")]
        Size {
            /// What dtype and shape ask for.
            expected: u64,
            /// What the offsets span.
            got: u64,
        },
        /// "Descriptor": `param_id` is an unsigned 64-bit integer or null.
        #[rule("burnpack.tensor.param_id", "param_id is not an unsigned 64-bit integer")]
        ParamId,
        /// "Data": in the aligned layout data starts at a multiple of 256.
        #[rule("burnpack.tensor.alignment", "data offset {start:#x} is not a multiple of 256 in a file of the aligned layout")]
        Alignment {
            /// The first offset.
            start: u64,
        },
        /// "Data": each tensor's bytes are its own.
        #[rule("burnpack.tensor.overlap", "shares data bytes with tensor {other}")]
        Overlap {
            /// The tensor whose data it shares.
            other: u64,
        },
    }
}

rules! {
    /// What a well-formed file has that this crate can't interpret.
    ///
    /// ```
    /// use burnpack_format::Unsupported;
    ///
    /// let what = Unsupported::DType { name: "F4".into() };
    /// assert_eq!(what.id(), "burnpack.dtype");
    /// assert!(Unsupported::IDS.contains(&what.id()));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unsupported {
        /// A version other than 1.
        #[rule("burnpack.version", "burnpack version {version}: {about}; this reader handles version 1")]
        Version {
            /// The header's version field.
            version: u16,
            /// What is known about it.
            about: &'static str,
        },
        /// An element type that no known release has.
        #[rule("burnpack.dtype", "unknown dtype {name:?}")]
        DType {
            /// Its name in the file, or a description of what it has of unknown parts.
            name: Box<str>,
        },
        /// A scalar of a kind that no known release has.
        #[rule("burnpack.scalar_kind", "unknown kind of scalar {kind:?}")]
        Scalar {
            /// The kind's name in the file.
            kind: Box<str>,
        },
    }
}

/// The first bytes of a file that has not the magic, and what it is like.
struct Magic<'a>([u8; 4], &'a str);

impl fmt::Display for Magic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (got, hint) = (self.0, self.1);
        write!(
            f,
            "starts with bytes {got:02x?} instead of the magic \"NRUB\""
        )?;
        match hint {
            "" => Ok(()),
            hint => write!(f, "; {hint}"),
        }
    }
}
