use alloc::boxed::Box;
use core::fmt;

use tensor_core::codec::rules;

rules! {
    /// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
    ///
    /// The format's text is its README ("Format", "Notes"); where it is silent, the page of this project
    /// says what is read and why.
    ///
    /// ```
    /// use safetensors_format::Archive;
    ///
    /// let error = Archive::from_bytes(&b"\x02\0\0\0\0\0\0\0[]"[..]).unwrap_err(); // a list, no map
    /// let rule = error.rule().map(|rule| rule.id());
    /// assert_eq!(rule, Some("safetensors.header.start"));
    /// assert_eq!(error.rule_id(), rule);
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Rule {
        /// "Notes": the header begins with `{`.
        #[rule("safetensors.header.start", "{}", Start(*got))]
        HeaderStart {
            /// Its first byte, `None` where it has none.
            got: Option<u8>,
        },
        /// "Format": the header is UTF-8.
        #[rule("safetensors.header.utf8", "the header is not UTF-8")]
        HeaderUtf8,
        /// "Format": the header is JSON.
        #[rule("safetensors.header.json", "the header is no JSON: {}", Expected(expected, *got))]
        HeaderJson {
            /// What had to be there.
            expected: &'static str,
            /// The byte that was found, `None` at the end.
            got: Option<u8>,
        },
        /// "Format": text in JSON has no bare control characters, only known escapes, and surrogates
        /// in pairs.
        #[rule("safetensors.header.text", "a bare control character, an unknown escape or half of a surrogate pair \
             in a text")]
        HeaderText,
        /// "Notes": the header may be filled up with spaces, and nothing else follows its object. Other
        /// white space of JSON is read as well.
        #[rule("safetensors.header.padding", "{}", Padding(*got))]
        HeaderPadding {
            /// The byte that was found.
            got: u8,
        },
        /// "Notes": no name is a duplicate.
        #[rule("safetensors.name.twice", "the name is that of entry {first} already")]
        NameDuplicate {
            /// The place of the first in the header.
            first: u64,
        },
        /// "Notes": `__metadata__` is no duplicate.
        #[rule("safetensors.metadata.twice", "duplicate __metadata__")]
        MetadataDuplicate,
        /// "Format": `__metadata__` maps text to text.
        #[rule("safetensors.metadata.type", "__metadata__ is not an object of text to text")]
        MetadataType,
        /// "Notes": no key of `__metadata__` is a duplicate.
        #[rule("safetensors.metadata.key_twice", "duplicate key {key:?} of __metadata__")]
        MetadataKeyDuplicate {
            /// The key.
            key: Box<str>,
        },
        /// "Format": a tensor is an object with dtype, shape and offsets.
        #[rule("safetensors.tensor.type", "not an object with dtype, shape and data_offsets")]
        TensorType,
        /// "Format": every tensor has all three fields.
        #[rule("safetensors.field.missing", "no {field}")]
        FieldMissing {
            /// The field.
            field: &'static str,
        },
        /// "Notes": no field is a duplicate.
        #[rule("safetensors.field.twice", "duplicate {field}")]
        FieldDuplicate {
            /// The field.
            field: &'static str,
        },
        /// "Format": a dtype is text, a shape a list of numbers, offsets two numbers.
        #[rule("safetensors.field.type", "{field} is not {expected}")]
        FieldType {
            /// The field.
            field: &'static str,
            /// What it has to be.
            expected: &'static str,
        },
        /// "Format": dims and offsets are whole numbers from 0 to 2^64-1, written with digits alone.
        #[rule("safetensors.field.number", "a number in {field} that is not written as a whole one from 0 to 2^64-1")]
        Number {
            /// The field.
            field: &'static str,
        },
        /// The product of the dims fits 64 bits at every step from the left, as readers multiply.
        #[rule("safetensors.tensor.shape", "the product of the dims does not fit 64 bits")]
        Shape,
        /// "Format": a tensor does not end before it begins.
        #[rule("safetensors.tensor.range", "its data ends at {end}, before it begins at {begin}")]
        Range {
            /// Where it begins.
            begin: u64,
            /// Where it ends.
            end: u64,
        },
        /// "Format": a tensor's bytes are what its dtype and shape ask for.
        #[rule("safetensors.tensor.size", "dtype and shape ask for {expected} bytes, data_offsets give {got}")]
        Size {
            /// Bytes that dtype and shape ask for; saturated.
            expected: u64,
            /// Bytes that the offsets give.
            got: u64,
        },
        /// Elements narrower than a byte fill whole bytes.
        #[rule("safetensors.tensor.part_byte", "dtype and shape ask for {bits} bits, which are no whole bytes")]
        PartByte {
            /// Bits that dtype and shape ask for; saturated.
            bits: u64,
        },
        /// "Notes": the data has no holes.
        #[rule("safetensors.data.hole", "the data from {begin} to {end} before it is no tensor's")]
        Hole {
            /// Where the hole begins, counted from the start of the data.
            begin: u64,
            /// Where it ends.
            end: u64,
        },
        /// "Notes": no two tensors share a byte of data, nor does an empty one lie inside another.
        #[rule("safetensors.data.overlap", "its data begins before {end}, the end of that of tensor {other:?}")]
        Overlap {
            /// Where the other one ends, counted from the start of the data.
            end: u64,
            /// The name of the other one.
            other: Box<str>,
        },
        /// "Notes": the tensors' data ends with the file.
        #[rule("safetensors.data.trailing", "{bytes} bytes at the end of the file are no tensor's")]
        Trailing {
            /// Bytes that no tensor has.
            bytes: u64,
        },
        /// A file that git or a hub keeps elsewhere has to be fetched first.
        #[rule("safetensors.lfs_pointer", "a Git LFS pointer, not the file itself")]
        LfsPointer,
        /// The index of a set is UTF-8.
        #[rule("safetensors.index.utf8", "the index is not UTF-8")]
        IndexUtf8,
        /// The index of a set is JSON.
        #[rule("safetensors.index.json", "the index is no JSON: {}", Expected(expected, *got))]
        IndexJson {
            /// What had to be there.
            expected: &'static str,
            /// The byte that was found, `None` at the end.
            got: Option<u8>,
        },
        /// Text in the JSON of an index is as in that of a header.
        #[rule("safetensors.index.text", "a bare control character, an unknown escape or half of a surrogate pair \
             in a text of the index")]
        IndexText,
        /// No key of an index is a duplicate.
        #[rule("safetensors.index.twice", "a duplicate key of the index")]
        IndexDuplicate,
        /// The index of a set has an object `weight_map` of names to files.
        #[rule("safetensors.index.weight_map", "the index has no weight_map of names to files")]
        WeightMap,
        /// A shard is a file in the folder of the index or below it: a relative path with `/` between its
        /// parts, none of them empty, `.` or `..`, and not the index itself.
        #[rule("safetensors.index.path", "its shard is no path to a file in the folder of the index or below: \
             {shard:?}")]
        ShardPath {
            /// The shard as the index names it.
            shard: Box<str>,
        },
        /// Every shard that the index names exists, and is a file.
        #[rule("safetensors.set.shard_missing", "the shard is missing, or no file; {} should be in it", Count(*tensors))]
        ShardMissing {
            /// How many tensors it should have.
            tensors: u64,
        },
        /// Every tensor of the index is in the shard that it names.
        #[rule("safetensors.set.tensor_missing", "the index has it in this shard, which doesn't")]
        SetTensor,
        /// Every tensor of the index is in the shard that it names, not in another one.
        #[rule("safetensors.set.tensor_elsewhere", "the index has it in this shard; it is in {shard:?}")]
        SetShard {
            /// The shard that it is in.
            shard: Box<str>,
        },
        /// The index names every tensor of its shards.
        #[rule("safetensors.set.unlisted", "the index doesn't name it in this shard")]
        SetUnlisted,
    }
}

#[cfg(feature = "std")]
impl Rule {
    /// The rule about the JSON of an index that is this one of a header, which is read in the same way.
    pub(crate) fn of_index(self) -> Self {
        match self {
            Self::HeaderJson { expected, got } => Self::IndexJson { expected, got },
            Self::HeaderText => Self::IndexText,
            rule => rule,
        }
    }
}

rules! {
    /// What a well-formed file has that this crate can't interpret.
    ///
    /// ```
    /// use safetensors_format::Unsupported;
    ///
    /// let what = Unsupported::DType { name: "F3".into() };
    /// assert_eq!(what.id(), "safetensors.dtype");
    /// assert!(Unsupported::IDS.contains(&what.id()));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unsupported {
        /// A dtype that the format did not have when this was written.
        #[rule("safetensors.dtype", "unknown dtype {name:?}; its bytes can still be copied")]
        DType {
            /// As the header spells it.
            name: Box<str>,
        },
    }
}

/// A byte of the file, as itself where that can be read.
struct Byte(u8);

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("NUL"),
            byte if byte.is_ascii_graphic() => write!(f, "`{}`", char::from(byte)),
            byte => write!(f, "byte {byte:#04x}"),
        }
    }
}

/// How a header begins that doesn't begin with `{`.
struct Start(Option<u8>);

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("the header is empty; it begins with `{`"),
            Some(b' ' | b'\t' | b'\r' | b'\n') => f.write_str(
                "white space before the header's `{`; the format has it begin with that",
            ),
            Some(byte) => write!(f, "the header begins with {}, not with `{{`", Byte(byte)),
        }
    }
}

/// What JSON requires at a place, and the byte that was found.
struct Expected<'a>(&'a str, Option<u8>);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.0;
        match self.1 {
            Some(byte) => write!(f, "{expected} expected, {} found", Byte(byte)),
            None => write!(f, "it ends where {expected} is expected"),
        }
    }
}

/// What follows a header's object and is no white space.
struct Padding(u8);

impl fmt::Display for Padding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str(
                "the header is filled up with NUL bytes; the format has spaces there, and readers \
                 refuse anything else",
            ),
            got => write!(
                f,
                "{} after the header's object; only spaces may follow it",
                Byte(got)
            ),
        }
    }
}

/// How many tensors.
struct Count(u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("one tensor"),
            count => write!(f, "{count} tensors"),
        }
    }
}
