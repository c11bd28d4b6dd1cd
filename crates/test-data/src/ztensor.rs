//! zTensor 0.1; the other generations are beside it.
//!
//! Magic, data at multiples of 64, a CBOR array of maps, its size. CBOR is put together byte by
//! byte here, so that every form there is can be written, and every one there is not.

use crate::{Case, LeBuffer, crc32c};

/// Every hand-assembled zTensor file.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        valid(),
        valid_cbor(),
        valid_zstd(),
        truncated(),
        bad_index(),
        bad_cbor(),
        bad_fields(),
        bad_data(),
        bad_zstd(),
        unsupported(),
        other_magics(),
        crate::ztensor_generations::cases(),
    ]
    .concat()
}

/// A CBOR item.
pub(crate) type Cbor = Vec<u8>;

/// A head with the shortest argument.
pub(crate) fn head(major: u8, argument: u64) -> Cbor {
    let major = major << 5;
    let bytes = argument.to_be_bytes();
    match argument {
        0..24 => vec![major | bytes[7]],
        24..0x100 => vec![major | 24, bytes[7]],
        0x100..0x1_0000 => [&[major | 25], &bytes[6..]].concat(),
        0x1_0000..0x1_0000_0000 => [&[major | 26], &bytes[4..]].concat(),
        _ => [&[major | 27], &bytes[..]].concat(),
    }
}

/// A head with an argument of eight bytes, whatever its value.
fn wide(major: u8, argument: u64) -> Cbor {
    [&[major << 5 | 27], &argument.to_be_bytes()[..]].concat()
}

pub(crate) fn uint(value: u64) -> Cbor {
    head(0, value)
}

pub(crate) fn text(text: &str) -> Cbor {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}

pub(crate) fn bytes(bytes: &[u8]) -> Cbor {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

pub(crate) fn array(items: &[Cbor]) -> Cbor {
    [head(4, items.len() as u64), items.concat()].concat()
}

/// Text in chunks of one byte, which is fine for ASCII.
fn chunked(text: &str) -> Cbor {
    let chunks = text.bytes().flat_map(|byte| [0x61, byte]);
    [0x7F].into_iter().chain(chunks).chain([0xFF]).collect()
}

pub(crate) fn dims(dims: &[u64]) -> Cbor {
    array(&dims.iter().copied().map(uint).collect::<Vec<_>>())
}

/// An entry as keys and values, each of them any item.
#[derive(Clone)]
struct Entry(Vec<(Cbor, Cbor)>);

impl Entry {
    /// Puts a value in place of that of `key`, or adds both at the end.
    fn set(mut self, key: &str, value: Cbor) -> Self {
        let key = text(key);
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, place)) => *place = value,
            None => self.0.push((key, value)),
        }
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.0.retain(|(known, _)| *known != text(key));
        self
    }

    fn pair(mut self, key: Cbor, value: Cbor) -> Self {
        self.0.push((key, value));
        self
    }

    fn reversed(mut self) -> Self {
        self.0.reverse();
        self
    }

    fn body(&self) -> Cbor {
        let pairs = self.0.iter();
        pairs
            .flat_map(|(key, value)| [&key[..], value].concat())
            .collect()
    }

    /// As the reference writes it: a map of indefinite length.
    fn map(&self) -> Cbor {
        [vec![0xBF], self.body(), vec![0xFF]].concat()
    }

    fn definite(&self) -> Cbor {
        [head(5, self.0.len() as u64), self.body()].concat()
    }
}

/// What the reference writes about a raw tensor without checksum.
fn entry(name: &str, offset: u64, size: u64, dtype: &str, shape: &[u64]) -> Entry {
    let entry = Entry(Vec::new())
        .set("name", text(name))
        .set("offset", uint(offset))
        .set("size", uint(size))
        .set("dtype", text(dtype))
        .set("layout", text("dense"))
        .set("shape", dims(shape))
        .set("encoding", text("raw"));
    match dtype {
        "bool" | "int8" | "uint8" => entry,
        _ => entry.set("data_endianness", text("little")),
    }
}

/// Two f32 at 64: what most faults are put into.
fn weight() -> Entry {
    entry("w", 64, 8, "float32", &[2])
}

const WEIGHT_DATA: [u8; 8] = [0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0];

/// Magic, data at multiples of 64 or where the last ended, the index as it is given.
fn file(blobs: &[&[u8]], index: &[u8]) -> LeBuffer {
    let mut file = LeBuffer::new();
    file.tag("magic").text("ZTEN0001");
    for (at, blob) in blobs.iter().enumerate() {
        file.pad_to(64, 0);
        file.tag(format!("data{at}")).bytes(blob);
    }
    file.tag("index").bytes(index);
    file.tag("index_size").u64(index.len() as u64);
    file
}

/// A file with the weight's data and this index.
fn indexed(index: &[u8]) -> Vec<u8> {
    file(&[&WEIGHT_DATA], index).into_vec()
}

/// A file with the weight's data and one entry.
fn lone(entry: &Entry) -> Vec<u8> {
    indexed(&array(&[entry.map()]))
}

/// A file with one blob and one entry.
fn stored(blob: &[u8], entry: &Entry) -> Vec<u8> {
    file(&[blob], &array(&[entry.map()])).into_vec()
}

fn crc_text(data: &[u8]) -> Cbor {
    text(&format!("crc32c:0x{:08X}", crc32c(data)))
}

fn len32(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("test files are small")
}

/// A zstd frame of raw blocks without content size: magic, window of 1 MiB, one last block.
pub(crate) fn zstd_raw(data: &[u8]) -> Vec<u8> {
    let mut frame = LeBuffer::new();
    frame.u32(0xFD2F_B528).u8(0).u8(0x50);
    let block = len32(data) << 3 | 1;
    frame.bytes(&block.to_le_bytes()[..3]).bytes(data);
    frame.into_vec()
}

/// A zstd frame that decodes to `blocks` times 128 KiB of one byte.
pub(crate) fn zstd_run(blocks: usize, byte: u8) -> Vec<u8> {
    let mut frame = LeBuffer::new();
    frame.u32(0xFD2F_B528).u8(0).u8(0x50);
    for left in (0..blocks).rev() {
        let block = (128u32 << 10) << 3 | 1 << 1 | u32::from(left == 0);
        frame.bytes(&block.to_le_bytes()[..3]).u8(byte);
    }
    frame.into_vec()
}

/// A skippable frame.
fn zstd_skippable(data: &[u8]) -> Vec<u8> {
    let mut frame = LeBuffer::new();
    frame.u32(0x184D_2A50).u32(len32(data)).bytes(data);
    frame.into_vec()
}

/// An entry of compressed f32.
fn zstd_entry(size: usize, shape: &[u64]) -> Entry {
    entry("w", 64, size as u64, "float32", shape)
        .without("data_endianness")
        .set("encoding", text("zstd"))
}

fn zstd_file(blob: &[u8], shape: &[u64]) -> Vec<u8> {
    stored(blob, &zstd_entry(blob.len(), shape))
}

fn valid() -> Vec<Case> {
    let names = [
        ("float64", 8),
        ("float32", 4),
        ("float16", 2),
        ("bfloat16", 2),
        ("int64", 8),
        ("int32", 4),
        ("int16", 2),
        ("int8", 1),
        ("uint64", 8),
        ("uint32", 4),
        ("uint16", 2),
        ("uint8", 1),
        ("bool", 1),
    ];
    let mut dtypes = Vec::new();
    let mut blobs = Vec::new();
    for (at, (dtype, size)) in (1..).zip(names) {
        dtypes.push(entry(dtype, 64 * at, 3 * size as u64, dtype, &[3]).map());
        blobs.push((0..=255).take(3 * size).collect::<Vec<u8>>());
    }
    let blobs: Vec<&[u8]> = blobs.iter().map(Vec::as_slice).collect();
    // Section 7 of the account of the layout: an int16 pair, big-endian, and a bool scalar.
    let pair = entry("w", 64, 4, "int16", &[2])
        .set("data_endianness", text("big"))
        .set("checksum", text("crc32c:0x0C1DA94E"))
        .set("k", uint(7));
    let scalar = entry("m", 128, 1, "bool", &[]);
    let example = file(&[&[0, 1, 0, 2], &[1]], &array(&[pair.map(), scalar.map()]));
    let empty = [
        entry("a", 64, 0, "float32", &[0]),
        entry("b", 64, 0, "float32", &[3, 0, 5]),
        entry(
            "huge beside zero",
            64,
            0,
            "float64",
            &[u64::MAX, 0, u64::MAX],
        ),
        entry("w", 64, 8, "float32", &[2]),
        entry("trailing", 128, 0, "uint8", &[0]),
    ];
    let empty: Vec<Cbor> = empty.iter().map(Entry::map).collect();
    let mut trailing = file(&[&WEIGHT_DATA, &[]], &array(&empty));
    trailing.tag("end");
    let sha256 = "sha256:ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b";
    let rank65 = entry("r", 64, 8, "float32", &[[1; 64].as_slice(), &[2]].concat());
    let note = |value: &str| lone(&weight().set("checksum", text(value)));
    let wide_name = "n".repeat(70_000);
    vec![
        Case::valid(
            "empty",
            "no tensor: 17 bytes",
            file(&[], &[0x80]).into_vec(),
        ),
        Case::valid(
            "base",
            "one raw f32 tensor without checksum",
            lone(&weight()),
        ),
        Case::valid(
            "example",
            "a big-endian pair with checksum and custom field, a bool scalar",
            example.into_vec(),
        ),
        Case::valid(
            "dtypes",
            "all thirteen element types",
            file(&blobs, &array(&dtypes)).into_vec(),
        ),
        Case::valid(
            "empty_tensors",
            "tensors without elements share an offset with the next one",
            trailing.into_vec(),
        ),
        Case::valid(
            "no_layout",
            "without layout, as before the first release",
            lone(&weight().without("layout")),
        ),
        Case::valid(
            "no_endianness",
            "without data_endianness: little",
            lone(&weight().without("data_endianness")),
        ),
        Case::valid(
            "byte_endianness",
            "a byte order that means nothing for bytes",
            stored(
                &[7],
                &entry("b", 64, 1, "uint8", &[1]).set("data_endianness", text("big")),
            ),
        ),
        Case::valid(
            "nulls",
            "optional fields that are null",
            lone(
                &weight()
                    .set("layout", vec![0xF6])
                    .set("data_endianness", vec![0xF6])
                    .set("checksum", vec![0xF7]),
            ),
        ),
        Case::valid(
            "bool_bytes",
            "any byte is a bool",
            stored(&[0, 1, 2, 255], &entry("b", 64, 4, "bool", &[4])),
        ),
        Case::valid(
            "crc32c",
            "a checksum as the reference writes it",
            lone(&weight().set("checksum", crc_text(&WEIGHT_DATA))),
        ),
        Case::valid(
            "crc32c_forms",
            "lower case, leading zeros, no 0x",
            note(&format!("crc32c:000{:08x}", crc32c(&WEIGHT_DATA))),
        ),
        Case::valid(
            "crc32c_of_nothing",
            "the checksum of no bytes",
            stored(
                &[],
                &entry("e", 64, 0, "uint8", &[0]).set("checksum", text("crc32c:0x00000000")),
            ),
        ),
        Case::valid("sha256", "a SHA-256", note(sha256)),
        Case::valid(
            "sha256_upper",
            "its digits in upper case",
            note(&format!("sha256:{}", sha256[7..].to_uppercase())),
        ),
        Case::valid(
            "checksum_unknown",
            "an algorithm that nobody can check",
            note("md5:00"),
        ),
        Case::valid(
            "checksum_empty",
            "a checksum that is an empty text",
            note(""),
        ),
        Case::valid(
            "aliased",
            "two tensors with the same data",
            indexed(&array(&[
                weight().map(),
                weight().set("name", text("v")).map(),
            ])),
        ),
        Case::valid(
            "overlapping",
            "two tensors with some data in common: the text is silent",
            file(
                &[&[1; 72]],
                &array(&[
                    entry("a", 64, 72, "uint8", &[72]).map(),
                    entry("b", 128, 8, "uint8", &[8]).map(),
                ]),
            )
            .into_vec(),
        ),
        Case::valid(
            "names",
            "an empty name, one with NUL, one like a path, one that is long",
            indexed(&array(
                &["", "a\0b", "../x", &wide_name]
                    .map(|name| weight().set("name", text(name)).map()),
            )),
        ),
        Case::valid(
            "rank_65",
            "more dims than any array library has",
            stored(&WEIGHT_DATA, &rank65),
        ),
        Case::valid("gap", "unused bytes before the index", {
            let mut index = file(&[&WEIGHT_DATA, &[0xAA; 100]], &array(&[weight().map()]));
            index.set_u8_at("data1", 0xBB);
            index.into_vec()
        }),
        Case::valid("padding", "padding is not zero", {
            let mut padded = file(&[&WEIGHT_DATA], &array(&[weight().map()]));
            padded.set_bytes(8, &[0xFF; 56]);
            padded.into_vec()
        }),
    ]
}

fn valid_cbor() -> Vec<Case> {
    let wide_ints = weight()
        .set("offset", wide(0, 64))
        .set("size", vec![0x19, 0, 8])
        .set("shape", [wide(4, 1), wide(0, 2)].concat());
    let chunks = Entry(
        weight()
            .0
            .iter()
            .map(|(key, value)| {
                let plain = |item: &Cbor| String::from_utf8(item[1..].to_vec()).expect("text");
                let value = match value[0] >> 5 {
                    3 => chunked(&plain(value)),
                    _ => value.clone(),
                };
                (chunked(&plain(key)), value)
            })
            .collect(),
    );
    let tagged = Entry(
        weight()
            .0
            .iter()
            .map(|(key, value)| {
                (
                    [&[0xC6], &key[..]].concat(),
                    [&[0xD8, 99, 0xC7], &value[..]].concat(),
                )
            })
            .collect(),
    );
    let custom = weight()
        .set("int", uint(u64::MAX))
        .set("negative", wide(1, u64::MAX))
        .set("half", vec![0xF9, 0x3E, 0])
        .set("single", vec![0xFA, 0x3D, 0xCC, 0xCC, 0xCD])
        .set("double", [&[0xFB], &0.1f64.to_be_bytes()[..]].concat())
        .set("nan", vec![0xF9, 0x7E, 1])
        .set("true", vec![0xF5])
        .set("false", vec![0xF4])
        .set("null", vec![0xF6])
        .set("undefined", vec![0xF7])
        .set("bytes", bytes(&[0, 255]))
        .set("chunked bytes", vec![0x5F, 0x41, 1, 0x40, 0x42, 2, 3, 0xFF])
        .set("list", vec![0x9F, 1, 0x9F, 0xFF, 0x80, 0xFF])
        .set(
            "map",
            [
                vec![0xBF, 1, 0xF5, 0xF4, 0xA0],
                text("k"),
                vec![0xA1, 0x20, 2, 0xFF],
            ]
            .concat(),
        )
        .set("bignum", vec![0xC2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0])
        .set("time", [vec![0xC0], text("2025-06-04T00:00:00Z")].concat())
        .set("", text("empty key"))
        .set("Name", text("keys have a case"));
    let nested =
        |open: u8, depth: usize| weight().set("deep", [vec![open; depth], vec![0]].concat());
    let index = |items: &[u8]| indexed(items);
    vec![
        Case::valid(
            "definite",
            "maps of definite length",
            index(&array(&[weight().definite()])),
        ),
        Case::valid(
            "indefinite",
            "an array of indefinite length",
            index(&[vec![0x9F], weight().map(), vec![0xFF]].concat()),
        ),
        Case::valid(
            "indefinite_shape",
            "a shape of indefinite length",
            lone(&weight().set("shape", vec![0x9F, 2, 0xFF])),
        ),
        Case::valid(
            "wide_ints",
            "integers and lengths wider than needed",
            index(&[wide(4, 1), wide_ints.map()].concat()),
        ),
        Case::valid(
            "key_order",
            "fields in reverse order",
            lone(&weight().reversed()),
        ),
        Case::valid(
            "chunked_text",
            "every text in chunks of one byte",
            lone(&chunks),
        ),
        Case::valid(
            "tags",
            "the self-describe tag before the index, tags before every item",
            index(&[vec![0xD9, 0xD9, 0xF7], array(&[tagged.map()])].concat()),
        ),
        Case::valid("custom", "custom fields of every kind", lone(&custom)),
        Case::valid(
            "depth_128",
            "arrays nested 128 deep",
            lone(&nested(0x81, 128)),
        ),
    ]
}

fn valid_zstd() -> Vec<Case> {
    let frame = zstd_raw(&WEIGHT_DATA);
    let with_size = [
        &[0x28, 0xB5, 0x2F, 0xFD, 0x20, 8, 0x41, 0, 0],
        &WEIGHT_DATA[..],
    ]
    .concat();
    let empty = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 1, 0, 0];
    let concatenated = [
        zstd_skippable(b"before"),
        zstd_raw(&WEIGHT_DATA[..3]),
        zstd_skippable(b""),
        empty.to_vec(),
        zstd_raw(&WEIGHT_DATA[3..]),
        zstd_skippable(b"behind"),
    ]
    .concat();
    let run = zstd_run(64, 0);
    vec![
        Case::valid(
            "zstd",
            "a frame without content size",
            zstd_file(&frame, &[2]),
        ),
        Case::valid(
            "zstd_crc32c",
            "its checksum is that of the frame",
            stored(
                &frame,
                &zstd_entry(frame.len(), &[2]).set("checksum", crc_text(&frame)),
            ),
        ),
        Case::valid(
            "zstd_content_size",
            "a frame with content size",
            zstd_file(&with_size, &[2]),
        ),
        Case::valid(
            "zstd_frames",
            "concatenated, empty and skippable frames",
            zstd_file(&concatenated, &[2]),
        ),
        Case::valid(
            "zstd_empty",
            "a frame of nothing",
            zstd_file(&empty, &[0, 7]),
        ),
        Case::valid(
            "zstd_no_bytes",
            "no frame for no element",
            zstd_file(&[], &[0]),
        ),
        Case::valid(
            "zstd_ratio",
            "8 MiB of zeros in 262 bytes",
            zstd_file(&run, &[2 << 20]),
        ),
        Case::valid(
            "zstd_little",
            "a byte order that is what it is anyway",
            stored(
                &frame,
                &zstd_entry(frame.len(), &[2]).set("data_endianness", text("little")),
            ),
        ),
    ]
}

fn truncated() -> Vec<Case> {
    let base = lone(&weight());
    let cut = |name: &str, rule, about: &str, len: usize| {
        Case::reject(name, rule, about, base[..len].to_vec())
    };
    vec![
        cut("cut_empty", "ztensor.truncated", "no byte", 0),
        cut("cut_magic", "ztensor.truncated", "within the magic", 7),
        cut("cut_magic_only", "ztensor.truncated", "the magic alone", 8),
        cut(
            "cut_16",
            "ztensor.truncated",
            "one byte short of the smallest file",
            16,
        ),
        cut(
            "cut_padding",
            "ztensor.index.size",
            "within the padding, whose zeros are no index size",
            40,
        ),
        cut("cut_data", "ztensor.index.size", "within the data", 70),
        cut("cut_index", "ztensor.index.size", "within the index", 100),
        cut(
            "cut_footer",
            "ztensor.index.size",
            "the last byte is missing",
            base.len() - 1,
        ),
    ]
}

fn bad_index() -> Vec<Case> {
    let sized = |size: u64| {
        let mut file = file(&[&WEIGHT_DATA], &array(&[weight().map()]));
        file.set_u64_at("index_size", size);
        file.into_vec()
    };
    let right = array(&[weight().map()]).len() as u64;
    let whole = right + 72 - 8;
    let size = "ztensor.index.size";
    vec![
        Case::reject(
            "index_size_0",
            size,
            "an index has at least one byte",
            sized(0),
        ),
        Case::reject(
            "index_size_magic",
            size,
            "the index would cover the magic",
            sized(whole + 1),
        ),
        Case::reject(
            "index_size_2_63",
            size,
            "negative as a signed offset",
            sized(1 << 63),
        ),
        Case::reject(
            "index_size_max",
            size,
            "the largest number",
            sized(u64::MAX),
        ),
        Case::reject(
            "index_size_less",
            "ztensor.index.type",
            "starts with a map",
            sized(right - 1),
        ),
        Case::reject(
            "index_size_more",
            "ztensor.index.type",
            "starts with data",
            sized(right + 4),
        ),
        Case::reject(
            "index_map",
            "ztensor.index.type",
            "one map",
            indexed(&weight().map()),
        ),
        Case::reject(
            "index_int",
            "ztensor.index.type",
            "an integer",
            indexed(&[0]),
        ),
        Case::reject(
            "index_break",
            "ztensor.cbor.break",
            "a break alone",
            indexed(&[0xFF]),
        ),
        Case::reject(
            "index_trailing",
            "ztensor.index.trailing",
            "a byte after the array",
            indexed(&[array(&[weight().map()]), vec![0]].concat()),
        ),
        Case::reject(
            "entry_int",
            "ztensor.entry.type",
            "an entry is an integer",
            indexed(&array(&[uint(1)])),
        ),
        Case::reject(
            "entry_array",
            "ztensor.entry.type",
            "an entry is an array",
            indexed(&array(&[array(&[])])),
        ),
        Case::reject(
            "entry_break",
            "ztensor.cbor.break",
            "a definite array with a break",
            indexed(&[0x81, 0xFF]),
        ),
        Case::reject(
            "count_more",
            "ztensor.cbor.end",
            "one entry more than there are",
            indexed(&[vec![0x82], weight().map()].concat()),
        ),
        Case::reject(
            "count_less",
            "ztensor.index.trailing",
            "one entry less than there are",
            indexed(&[vec![0x81], weight().map(), weight().map()].concat()),
        ),
        Case::reject(
            "count_2_32",
            "ztensor.cbor.end",
            "2^32 entries in one",
            indexed(&[vec![0x9B, 0, 0, 0, 1, 0, 0, 0, 0], weight().map()].concat()),
        ),
        Case::reject(
            "count_max",
            "ztensor.cbor.end",
            "2^64-1 entries in none",
            indexed(&wide(4, u64::MAX)),
        ),
        Case::reject(
            "no_end",
            "ztensor.cbor.end",
            "an indefinite array without a break",
            indexed(&[vec![0x9F], weight().map()].concat()),
        ),
    ]
}

fn bad_cbor() -> Vec<Case> {
    let custom = |value: Cbor| lone(&weight().set("x", value));
    // Nothing after the item but the end of the index.
    let last = |field: &str, value: Cbor| {
        indexed(&array(&[weight()
            .without(field)
            .set(field, value)
            .definite()]))
    };
    let unended = |pairs: Cbor| indexed(&[vec![0x81, 0xBF], pairs].concat());
    let (end, bad_head) = ("ztensor.cbor.end", "ztensor.cbor.head");
    let (stop, chunk) = ("ztensor.cbor.break", "ztensor.cbor.chunk");
    let (simple, utf8) = ("ztensor.cbor.simple", "ztensor.cbor.utf8");
    vec![
        Case::reject(
            "map_no_end",
            end,
            "a map without a break",
            unended(weight().body()),
        ),
        Case::reject(
            "map_odd",
            stop,
            "a map that ends after a key",
            unended([weight().body(), text("x"), vec![0xFF]].concat()),
        ),
        Case::reject(
            "map_break",
            stop,
            "a definite map with a break",
            indexed(&[0x81, 0xA1, 0xFF]),
        ),
        Case::reject(
            "map_count",
            end,
            "more pairs than there are",
            indexed(&[vec![0x81, 0xB8, 200], weight().body()].concat()),
        ),
        Case::reject(
            "bytes_max",
            end,
            "2^64-1 bytes in none",
            last("x", wide(2, u64::MAX)),
        ),
        Case::reject(
            "text_2_32",
            end,
            "2^32 bytes of text in none",
            custom(wide(3, 1 << 32)),
        ),
        Case::reject(
            "array_max",
            end,
            "2^64-1 items in none",
            last("x", wide(4, u64::MAX)),
        ),
        Case::reject(
            "map_max",
            end,
            "2^64-1 pairs, which are more items than 64 bits count",
            last("x", wide(5, u64::MAX)),
        ),
        Case::reject(
            "shape_max",
            end,
            "a shape of 2^64-1 dims",
            last("shape", wide(4, u64::MAX)),
        ),
        Case::reject(
            "name_max",
            end,
            "a name of 2^64-1 bytes",
            lone(&weight().set("name", wide(3, u64::MAX))),
        ),
        Case::reject(
            "head_28",
            bad_head,
            "reserved additional information",
            custom(vec![0x1C]),
        ),
        Case::reject("head_30", bad_head, "the same for text", custom(vec![0x7E])),
        Case::reject(
            "int_indefinite",
            bad_head,
            "an integer of indefinite length",
            custom(vec![0x1F]),
        ),
        Case::reject(
            "tag_indefinite",
            bad_head,
            "a tag of indefinite length",
            custom(vec![0xDF, 0]),
        ),
        Case::reject(
            "value_break",
            stop,
            "a break in place of a value",
            custom(vec![0xFF]),
        ),
        Case::reject(
            "tag_break",
            stop,
            "a tag of a break",
            custom(vec![0xC1, 0xFF]),
        ),
        Case::reject(
            "list_break",
            stop,
            "a definite list with a break",
            custom(vec![0x81, 0xFF]),
        ),
        Case::reject(
            "inner_map_odd",
            stop,
            "an inner map that ends after a key",
            custom(vec![0xBF, 0, 0xFF]),
        ),
        Case::reject(
            "chunk_type",
            chunk,
            "bytes within text",
            custom(vec![0x7F, 0x41, 0, 0xFF]),
        ),
        Case::reject(
            "chunk_nested",
            chunk,
            "indefinite text within text",
            custom(vec![0x7F, 0x7F, 0xFF, 0xFF]),
        ),
        Case::reject(
            "chunk_tag",
            chunk,
            "a tag within bytes",
            custom(vec![0x5F, 0xC1, 0x40, 0xFF]),
        ),
        Case::reject(
            "simple_0",
            simple,
            "an unassigned simple value",
            custom(vec![0xE0]),
        ),
        Case::reject(
            "simple_255",
            simple,
            "one of two bytes",
            custom(vec![0xF8, 255]),
        ),
        Case::reject(
            "simple_wide",
            simple,
            "false in two bytes",
            custom(vec![0xF8, 20]),
        ),
        Case::reject(
            "custom_utf8",
            utf8,
            "custom text is not UTF-8",
            custom(vec![0x61, 0xFF]),
        ),
        Case::reject(
            "key_utf8",
            utf8,
            "a custom key is not UTF-8",
            lone(&weight().pair(vec![0x61, 0x80], vec![0])),
        ),
        Case::reject(
            "name_utf8",
            utf8,
            "a surrogate in a name",
            lone(&weight().set("name", vec![0x63, 0xED, 0xA0, 0x80])),
        ),
        Case::reject(
            "name_cut",
            utf8,
            "a name ends within a character",
            lone(&weight().set("name", vec![0x61, 0xC3])),
        ),
        Case::reject(
            "chunk_utf8",
            utf8,
            "a character in two chunks",
            lone(&weight().set("name", vec![0x7F, 0x61, 0xC3, 0x61, 0xA9, 0xFF])),
        ),
        Case::reject(
            "dtype_utf8",
            utf8,
            "a dtype is not UTF-8",
            lone(&weight().set("dtype", vec![0x61, 0xFF])),
        ),
        Case::reject(
            "deep_arrays",
            "max_value_depth",
            "100,000 arrays in each other",
            custom(vec![0x81; 100_000]),
        ),
        Case::reject(
            "deep_maps",
            "max_value_depth",
            "50,000 maps in each other",
            custom([0xA1, 0].repeat(50_000)),
        ),
        Case::reject(
            "deep_indefinite",
            "max_value_depth",
            "100,000 arrays of indefinite length",
            custom(vec![0x9F; 100_000]),
        ),
        Case::reject(
            "deep_tags",
            "max_value_depth",
            "100,000 tags on one item",
            custom([vec![0xC1; 100_000], vec![0]].concat()),
        ),
        Case::reject(
            "deep_mixed",
            "max_value_depth",
            "tags and arrays together nest 130 deep",
            custom([[0xC1, 0x81].repeat(65), vec![0]].concat()),
        ),
        Case::reject(
            "many_items",
            "max_custom_item_count",
            "a list of 300,000 nulls",
            custom([wide(4, 300_000), vec![0xF6; 300_000]].concat()),
        ),
    ]
}

fn bad_fields() -> Vec<Case> {
    let with = |field: &str, value: Cbor| lone(&weight().set(field, value));
    let mut cases = vec![
        Case::reject(
            "key_int",
            "ztensor.entry.key",
            "a key is an integer",
            lone(&weight().pair(uint(1), uint(1))),
        ),
        Case::reject(
            "key_bytes",
            "ztensor.entry.key",
            "a key is bytes",
            lone(&weight().pair(bytes(b"x"), uint(1))),
        ),
        Case::reject(
            "key_null",
            "ztensor.entry.key",
            "a key is null",
            lone(&weight().pair(vec![0xF6], uint(1))),
        ),
        Case::reject(
            "duplicate_field",
            "ztensor.entry.duplicate_key",
            "two sizes",
            lone(&weight().pair(text("size"), uint(8))),
        ),
        Case::reject(
            "duplicate_custom",
            "ztensor.entry.duplicate_key",
            "a custom key twice",
            lone(
                &weight()
                    .pair(text("x"), uint(1))
                    .pair(chunked("x"), uint(2)),
            ),
        ),
        Case::reject(
            "duplicate_name",
            "ztensor.name.duplicate",
            "two tensors of one name",
            indexed(&array(&[weight().map(), weight().map()])),
        ),
        Case::reject(
            "shape_negative",
            "ztensor.shape.dim",
            "a negative dim",
            with("shape", vec![0x81, 0x20]),
        ),
        Case::reject(
            "shape_float",
            "ztensor.shape.dim",
            "a dim that is a float",
            with("shape", vec![0x81, 0xF9, 0x40, 0]),
        ),
        Case::reject(
            "shape_bignum",
            "ztensor.shape.dim",
            "a dim above 2^64",
            with("shape", vec![0x81, 0xC2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        Case::reject(
            "shape_wraps_0",
            "ztensor.shape.overflow",
            "elements wrap to 0",
            lone(&entry("w", 64, 0, "float32", &[1 << 32, 1 << 32])),
        ),
        Case::reject(
            "shape_wraps_2",
            "ztensor.shape.overflow",
            "elements wrap to the true count",
            with("shape", dims(&[(1 << 63) + 1, 2])),
        ),
        Case::reject(
            "shape_bytes",
            "ztensor.shape.overflow",
            "bytes wrap to 0",
            lone(&entry("w", 64, 0, "float32", &[1 << 62])),
        ),
        Case::reject(
            "offset_1",
            "ztensor.offset.alignment",
            "not a multiple of 64",
            with("offset", uint(72)),
        ),
        Case::reject(
            "offset_0",
            "ztensor.offset.magic",
            "on the magic",
            with("offset", uint(0)),
        ),
        Case::reject(
            "offset_end",
            "ztensor.data.range",
            "past the end",
            with("offset", uint(1 << 20)),
        ),
        Case::reject(
            "offset_wraps",
            "ztensor.data.range",
            "the end wraps to a small number",
            with("offset", uint(u64::MAX - 63)),
        ),
        Case::reject(
            "size_index",
            "ztensor.data.range",
            "data runs into the index",
            lone(&entry("w", 64, 12, "float32", &[3])),
        ),
        Case::reject(
            "size_2_62",
            "ztensor.data.range",
            "a size that the shape agrees with",
            lone(&entry("w", 64, 1 << 62, "float32", &[1 << 60])),
        ),
        Case::reject(
            "size_max",
            "ztensor.data.range",
            "the largest size",
            with("size", uint(u64::MAX)),
        ),
        Case::reject(
            "size_short",
            "ztensor.size.mismatch",
            "less than the shape asks for",
            with("size", uint(4)),
        ),
        Case::reject(
            "size_long",
            "ztensor.size.mismatch",
            "more than the shape asks for",
            with("shape", dims(&[1])),
        ),
        Case::reject(
            "size_scalar",
            "ztensor.size.mismatch",
            "a scalar is one element",
            with("shape", dims(&[])),
        ),
        Case::reject(
            "size_zero",
            "ztensor.size.mismatch",
            "data for no element",
            with("shape", dims(&[0])),
        ),
        Case::reject(
            "endianness",
            "ztensor.data_endianness.value",
            "neither little nor big",
            with("data_endianness", text("middle")),
        ),
        Case::reject(
            "endianness_case",
            "ztensor.data_endianness.value",
            "case matters",
            with("data_endianness", text("Big")),
        ),
    ];
    for (field, missing, ill_typed) in [
        ("name", "ztensor.name.missing", "ztensor.name.type"),
        ("offset", "ztensor.offset.missing", "ztensor.offset.type"),
        ("size", "ztensor.size.missing", "ztensor.size.type"),
        ("dtype", "ztensor.dtype.missing", "ztensor.dtype.type"),
        ("shape", "ztensor.shape.missing", "ztensor.shape.type"),
        (
            "encoding",
            "ztensor.encoding.missing",
            "ztensor.encoding.type",
        ),
        ("layout", "", "ztensor.layout.type"),
        ("data_endianness", "", "ztensor.data_endianness.type"),
        ("checksum", "", "ztensor.checksum.type"),
    ] {
        if !missing.is_empty() {
            let name = format!("{field}_missing");
            cases.push(Case::reject(
                name,
                missing,
                "a required field is not there",
                lone(&weight().without(field)),
            ));
            let name = format!("{field}_null");
            cases.push(Case::reject(
                name,
                ill_typed,
                "a required field is null",
                with(field, vec![0xF6]),
            ));
        }
        let wrong = match field {
            "offset" | "size" => [
                ("text", text("64")),
                ("negative", head(1, 63)),
                ("float", vec![0xF9, 0x54, 0]),
            ],
            "shape" => [("int", uint(2)), ("text", text("2")), ("map", vec![0xA0])],
            _ => [
                ("int", uint(1)),
                ("bytes", bytes(b"raw")),
                ("array", array(&[])),
            ],
        };
        for (what, value) in wrong {
            let name = format!("{field}_is_{what}");
            cases.push(Case::reject(
                name,
                ill_typed,
                format!("{field} is of type {what}"),
                with(field, value),
            ));
        }
    }
    cases
}

fn bad_data() -> Vec<Case> {
    let with = |checksum: &str| lone(&weight().set("checksum", text(checksum)));
    let (syntax, mismatch) = ("ztensor.checksum.syntax", "ztensor.checksum.mismatch");
    let wrong = format!("crc32c:0x{:08X}", crc32c(&WEIGHT_DATA) ^ 1);
    let mut flipped = lone(&weight().set("checksum", crc_text(&WEIGHT_DATA)));
    flipped[64] ^= 1;
    vec![
        Case::reject("crc32c_wrong", mismatch, "another checksum", with(&wrong)),
        Case::reject("crc32c_flip", mismatch, "other data", flipped),
        Case::reject(
            "crc32c_hex",
            syntax,
            "not hexadecimal",
            with("crc32c:0x0000000G"),
        ),
        Case::reject("crc32c_none", syntax, "no digits", with("crc32c:0x")),
        Case::reject("crc32c_sign", syntax, "a sign", with("crc32c:0x+1")),
        Case::reject("crc32c_long", syntax, "33 bits", with("crc32c:0x100000000")),
        Case::reject(
            "sha256_wrong",
            mismatch,
            "another digest",
            with(&format!("sha256:{}", "0".repeat(64))),
        ),
        Case::reject(
            "sha256_short",
            syntax,
            "62 digits",
            with(&format!("sha256:{}", "0".repeat(62))),
        ),
        Case::reject(
            "sha256_hex",
            syntax,
            "not hexadecimal",
            with(&format!("sha256:{}", "x".repeat(64))),
        ),
        Case::reject(
            "unknown_and_wrong",
            mismatch,
            "an unknown dtype does not excuse damage",
            lone(
                &weight()
                    .set("dtype", text("float8"))
                    .set("checksum", text(&wrong)),
            ),
        ),
    ]
}

fn bad_zstd() -> Vec<Case> {
    let good = zstd_raw(&WEIGHT_DATA);
    let frame = "ztensor.zstd.frame";
    let (longer, shorter) = ("ztensor.zstd.longer", "ztensor.zstd.shorter");
    let cut = "ztensor.zstd.truncated";
    // Content sizes of eight bytes: one that lies small, one that lies huge.
    let lying = |size: u64| {
        let mut lying = LeBuffer::new();
        lying.u32(0xFD2F_B528).u8(0xC0).u8(0x50).u64(size);
        lying.bytes(&[0x41, 0, 0]).bytes(&WEIGHT_DATA);
        lying.into_vec()
    };
    let mut checked = good.clone();
    checked[4] |= 4;
    checked.extend([0; 4]);
    let mut window = good.clone();
    window[5] = 0xA0;
    let mut segment = LeBuffer::new();
    segment
        .u32(0xFD2F_B528)
        .u8(0xE0)
        .u64(1 << 40)
        .bytes(&[0x41, 0, 0])
        .bytes(&WEIGHT_DATA);
    let bomb = zstd_run(2048, 0);
    let reject = |name: &str, rule, about: &str, blob: &[u8], shape: &[u64]| {
        Case::reject(name, rule, about, zstd_file(blob, shape))
    };
    vec![
        reject("zstd_not", frame, "no frame", b"not a frame at all", &[2]),
        reject(
            "zstd_nothing",
            shorter,
            "no bytes for two elements",
            &[],
            &[2],
        ),
        reject(
            "zstd_cut",
            cut,
            "the last byte is missing",
            &good[..good.len() - 1],
            &[2],
        ),
        reject("zstd_cut_head", cut, "ends within a head", &good[..3], &[2]),
        reject(
            "zstd_cut_second",
            cut,
            "a second frame ends within its head",
            &[&good[..], &good[..5]].concat(),
            &[2],
        ),
        reject("zstd_longer", longer, "one element more", &good, &[1]),
        reject(
            "zstd_longer_empty",
            longer,
            "elements where none is asked for",
            &good,
            &[0],
        ),
        reject(
            "zstd_longer_frames",
            longer,
            "a second frame",
            &[&good[..], &good].concat(),
            &[2],
        ),
        reject("zstd_shorter", shorter, "one element less", &good, &[3]),
        reject(
            "zstd_64_tib",
            shorter,
            "a claim of 64 TiB",
            &good,
            &[1 << 44],
        ),
        reject(
            "zstd_claim",
            shorter,
            "a claim that such a frame could keep, but does not",
            &zstd_run(1000, 0),
            &[32_800_000],
        ),
        reject(
            "zstd_garbage",
            frame,
            "bytes after the frame",
            &[&good[..], b"junk!"].concat(),
            &[2],
        ),
        reject(
            "zstd_checksum",
            frame,
            "the frame's own checksum is wrong",
            &checked,
            &[2],
        ),
        reject(
            "zstd_window",
            "max_window_bytes",
            "a window of 1 GiB",
            &window,
            &[2],
        ),
        reject(
            "zstd_window_second",
            "max_window_bytes",
            "the same in a second frame",
            &[zstd_skippable(b"x"), zstd_raw(&[]), window.clone()].concat(),
            &[2],
        ),
        reject(
            "zstd_segment",
            "max_window_bytes",
            "one segment of 1 TiB",
            segment.as_slice(),
            &[2],
        ),
        reject(
            "zstd_bomb",
            longer,
            "256 MiB from 8 KiB, for 16 bytes",
            &bomb,
            &[4],
        ),
        reject(
            "zstd_lies_huge",
            frame,
            "a content size of 2^60",
            &lying(1 << 60),
            &[2],
        ),
        reject(
            "zstd_lies_small",
            frame,
            "a content size of 4 for 8 bytes",
            &lying(4),
            &[2],
        ),
        Case::reject(
            "zstd_crc32c_of_decoded",
            "ztensor.checksum.mismatch",
            "the checksum is of what is stored, not of what it decodes to",
            stored(
                &good,
                &zstd_entry(good.len(), &[2]).set("checksum", crc_text(&WEIGHT_DATA)),
            ),
        ),
    ]
}

fn unsupported() -> Vec<Case> {
    let beside = |entry: Entry| {
        let other = weight().set("name", text("readable"));
        indexed(&array(&[entry.map(), other.map()]))
    };
    let with = |field: &str, value: &str| beside(weight().set(field, text(value)));
    let frame = zstd_raw(&WEIGHT_DATA);
    let (dtype, layout) = ("ztensor.dtype", "ztensor.layout");
    vec![
        Case::unsupported(
            "dtype_complex",
            dtype,
            "an element type of later releases",
            with("dtype", "complex64"),
        ),
        Case::unsupported(
            "dtype_case",
            dtype,
            "case matters",
            with("dtype", "Float32"),
        ),
        Case::unsupported("dtype_empty", dtype, "an empty name", with("dtype", "")),
        Case::unsupported(
            "encoding_lz4",
            "ztensor.encoding",
            "an encoding nobody writes",
            with("encoding", "lz4"),
        ),
        Case::unsupported(
            "layout_coo",
            layout,
            "coordinates",
            with("layout", "sparsecoo"),
        ),
        Case::unsupported(
            "layout_csr",
            layout,
            "compressed rows",
            with("layout", "sparsecsr"),
        ),
        Case::unsupported(
            "layout_other",
            layout,
            "a layout nobody writes",
            with("layout", "blocksparse"),
        ),
        Case::unsupported(
            "layout_size",
            layout,
            "sparse data has any size",
            beside(
                weight()
                    .set("layout", text("sparsecoo"))
                    .set("shape", dims(&[1000, 1000])),
            ),
        ),
        Case::unsupported(
            "zstd_big",
            "ztensor.zstd.endianness",
            "compressed and big-endian",
            stored(
                &frame,
                &zstd_entry(frame.len(), &[2]).set("data_endianness", text("big")),
            ),
        ),
    ]
}

fn other_magics() -> Vec<Case> {
    let version = "ztensor.version";
    let magic = |magic: &[u8]| {
        let mut file = file(&[], &[0x80]);
        file.set_bytes_at("magic", magic);
        file.into_vec()
    };
    vec![
        Case::unsupported(
            "version_0002",
            version,
            "a version nobody writes",
            magic(b"ZTEN0002"),
        ),
        Case::reject(
            "magic",
            "ztensor.magic",
            "another magic",
            magic(b"ZTEM0001"),
        ),
        Case::reject("magic_zero", "ztensor.magic", "no magic", magic(&[0; 8])),
    ]
}
