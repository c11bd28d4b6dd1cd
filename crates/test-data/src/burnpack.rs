//! burnpack, every generation of it.
//!
//! A header of 10 bytes, one CBOR map, zeros up to a multiple of 256, then data at multiples of
//! 256; or, in the packed layout, everything without a gap. CBOR is put together from the few
//! functions below, which know heads and nothing of the format.

use crate::{Case, LeBuffer};

/// Every hand-assembled burnpack file.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        valid(),
        valid_encodings(),
        valid_layouts(),
        valid_schemes(),
        bad_headers(),
        bad_cbor(),
        bad_top(),
        bad_scalars(),
        bad_descriptors(),
        bad_schemes(),
        bad_ranges(),
        unsupported(),
    ]
    .concat()
}

/// A CBOR item, encoded.
pub(crate) type Item = Vec<u8>;

const NULL: u8 = 0xF6;
const BREAK: u8 = 0xFF;

/// A head in its shortest form.
#[allow(clippy::cast_possible_truncation, reason = "each arm holds its range")]
pub(crate) fn head(major: u8, value: u64) -> Item {
    match value {
        0..=23 => vec![major << 5 | value as u8],
        24..=0xFF => vec![major << 5 | 24, value as u8],
        0x100..=0xFFFF => [&[major << 5 | 25][..], &(value as u16).to_be_bytes()].concat(),
        0x1_0000..=0xFFFF_FFFF => [&[major << 5 | 26][..], &(value as u32).to_be_bytes()].concat(),
        _ => wide(major, value),
    }
}

/// A head in nine bytes, whatever the value.
fn wide(major: u8, value: u64) -> Item {
    [&[major << 5 | 27][..], &value.to_be_bytes()].concat()
}

fn uint(value: u64) -> Item {
    head(0, value)
}

/// The negative integer `-1 - value`.
fn negative(value: u64) -> Item {
    head(1, value)
}

pub(crate) fn text(text: &str) -> Item {
    [head(3, text.len() as u64), text.into()].concat()
}

fn array(items: &[Item]) -> Item {
    [head(4, items.len() as u64), items.concat()].concat()
}

fn uints(values: &[u64]) -> Item {
    let items: Vec<Item> = values.iter().map(|&value| uint(value)).collect();
    array(&items)
}

/// A map whose keys are items.
fn map_of(pairs: &[(Item, Item)]) -> Item {
    let mut map = head(5, pairs.len() as u64);
    for (key, value) in pairs {
        map.extend_from_slice(key);
        map.extend_from_slice(value);
    }
    map
}

pub(crate) fn map(pairs: &[(&str, Item)]) -> Item {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (text(key), value.clone()))
        .collect();
    map_of(&pairs)
}

/// A map or array without a length, from its items one after another.
fn open(major: u8, items: &[Item]) -> Item {
    [vec![major << 5 | 31], items.concat(), vec![BREAK]].concat()
}

/// Text in chunks.
fn chunks(parts: &[&str]) -> Item {
    let parts: Vec<Item> = parts.iter().map(|part| text(part)).collect();
    open(3, &parts)
}

/// A descriptor with a dtype that is a text.
fn tensor(dtype: &str, shape: &[u64], start: u64, end: u64) -> Item {
    descriptor(text(dtype), shape, start, end)
}

pub(crate) fn descriptor(dtype: Item, shape: &[u64], start: u64, end: u64) -> Item {
    map(&[
        ("dtype", dtype),
        ("shape", uints(shape)),
        ("data_offsets", uints(&[start, end])),
    ])
}

pub(crate) fn bools(store: &str) -> Item {
    map(&[("Bool", text(store))])
}

/// The top map with tensors alone.
fn tensors(tensors: &[(&str, Item)]) -> Item {
    map(&[("tensors", map(tensors))])
}

/// Header and metadata; data follows.
fn start(metadata: &[u8]) -> LeBuffer {
    let mut file = LeBuffer::new();
    file.tag("magic").text("NRUB");
    file.tag("version").u16(1);
    let size = u32::try_from(metadata.len()).expect("test files are small");
    file.tag("metadata_size").u32(size);
    file.tag("metadata").bytes(metadata);
    file.tag("metadata_end");
    file
}

/// A whole file of the aligned layout; each piece of data starts at a multiple of 256.
pub(crate) fn aligned(metadata: &[u8], data: &[&[u8]]) -> Vec<u8> {
    let mut file = start(metadata);
    file.pad_to(256, 0);
    for piece in data {
        file.pad_to(256, 0).bytes(piece);
    }
    file.into_vec()
}

/// A whole file of the packed layout.
pub(crate) fn packed(metadata: &[u8], data: &[&[u8]]) -> Vec<u8> {
    let mut file = start(metadata);
    for piece in data {
        file.bytes(piece);
    }
    file.into_vec()
}

/// A file of the aligned layout with one tensor `w` of four bytes, however described.
fn lone(descriptor: Item) -> Vec<u8> {
    aligned(&tensors(&[("w", descriptor)]), &[&[1, 2, 3, 4]])
}

/// The same, with something else beside `tensors`.
fn beside(key: &str, value: Item) -> Vec<u8> {
    let w = map(&[("w", tensor("U8", &[4], 0, 4))]);
    aligned(&map(&[("tensors", w), (key, value)]), &[&[1, 2, 3, 4]])
}

fn ramp(len: u8) -> Vec<u8> {
    (0..len).collect()
}

/// Two tensors, metadata and scalars: what many faults start from.
fn base_metadata() -> Item {
    let weight = map(&[
        ("dtype", text("F32")),
        ("shape", uints(&[2, 3])),
        ("data_offsets", uints(&[0, 24])),
        ("param_id", uint(u64::MAX)),
    ]);
    map(&[
        (
            "tensors",
            map(&[
                ("layer.weight", weight),
                ("mask", descriptor(bools("Native"), &[5], 256, 261)),
            ]),
        ),
        (
            "metadata",
            map(&[("format", text("burnpack")), ("note", text("h\u{e9}"))]),
        ),
        ("scalars", map(&[("step", map(&[("UInt", uint(1000))]))])),
    ])
}

fn base() -> LeBuffer {
    let mut file = start(&base_metadata());
    file.pad_to(256, 0).bytes(&ramp(24));
    file.pad_to(256, 0).bytes(&[1, 0, 1, 1, 0]);
    file
}

fn valid() -> Vec<Case> {
    let sizes = [
        ("F64", 8),
        ("F32", 4),
        ("Flex32", 4),
        ("F16", 2),
        ("BF16", 2),
        ("I64", 8),
        ("I32", 4),
        ("I16", 2),
        ("I8", 1),
        ("U64", 8),
        ("U32", 4),
        ("U16", 2),
        ("U8", 1),
    ];
    let mut cases: Vec<Case> = sizes
        .iter()
        .map(|&(dtype, size)| {
            let data = ramp(3 * size);
            let w = tensor(dtype, &[3], 0, 3 * u64::from(size));
            Case::valid(
                format!("dtype_{}", dtype.to_lowercase()),
                format!("three elements of {dtype}"),
                aligned(&tensors(&[("w", w)]), &[&data]),
            )
        })
        .collect();
    for (name, dtype, data) in [
        ("bool_legacy", text("Bool"), &[1, 0, 1][..]),
        ("bool_native", bools("Native"), &[1, 0, 1]),
        ("bool_u8", bools("U8"), &[1, 0, 2]),
        (
            "bool_u32",
            bools("U32"),
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
        ),
    ] {
        let w = descriptor(dtype, &[3], 0, data.len() as u64);
        cases.push(Case::valid(
            name,
            "three bools in one of four spellings",
            aligned(&tensors(&[("w", w)]), &[data]),
        ));
    }
    let scalar = |kind: &str, value: Item| map(&[(kind, value)]);
    let scalars = map(&[
        ("b", scalar("Bool", vec![0xF5])),
        (
            "double",
            scalar("Float", [&[0xFB][..], &0.1f64.to_be_bytes()].concat()),
        ),
        ("half", scalar("Float", vec![0xF9, 0x3C, 0x00])),
        ("int", scalar("Int", negative(i64::MAX as u64))),
        ("nan", scalar("Float", vec![0xF9, 0x7E, 0x00])),
        (
            "single",
            scalar("Float", [&[0xFA][..], &1e10f32.to_be_bytes()].concat()),
        ),
        ("uint", scalar("UInt", uint(u64::MAX))),
    ]);
    cases.extend([
        Case::valid(
            "base",
            "two tensors, metadata and a scalar",
            base().into_vec(),
        ),
        Case::valid(
            "empty",
            "no tensors: padded to 256 bytes",
            aligned(&tensors(&[]), &[]),
        ),
        Case::valid(
            "scalars",
            "each kind of scalar, floats in all three widths",
            aligned(&map(&[("tensors", map(&[])), ("scalars", scalars)]), &[]),
        ),
        Case::valid(
            "rank_0",
            "a shape of no dims is one element",
            lone(tensor("F32", &[], 0, 4)),
        ),
        Case::valid(
            "zero_elements",
            "a zero among dims whose product would not fit",
            aligned(
                &tensors(&[("w", tensor("F64", &[1 << 40, 0, 1 << 40], 0, 0))]),
                &[],
            ),
        ),
        Case::valid(
            "names",
            "names may be empty, hold NUL, dots, and any script",
            aligned(
                &tensors(&[
                    ("", tensor("U8", &[1], 0, 1)),
                    ("a\0b", tensor("U8", &[1], 256, 257)),
                    ("e\u{301}..", tensor("U8", &[1], 512, 513)),
                    ("\u{e9}..", tensor("U8", &[1], 768, 769)),
                ]),
                &[&[1], &[2], &[3], &[4]],
            ),
        ),
        Case::valid(
            "shared_param_id",
            "two tensors of one parameter, as optimizers have",
            aligned(
                &tensors(&["a", "b"].map(|name| {
                    let start = if name == "a" { 0 } else { 256 };
                    let tensor = map(&[
                        ("dtype", text("U8")),
                        ("shape", uints(&[1])),
                        ("data_offsets", uints(&[start, start + 1])),
                        ("param_id", uint(7)),
                    ]);
                    (name, tensor)
                })),
                &[&[1], &[2]],
            ),
        ),
    ]);
    cases
}

fn valid_encodings() -> Vec<Case> {
    let with_param_id = |id: Item| {
        map(&[
            ("dtype", text("U8")),
            ("shape", uints(&[4])),
            ("data_offsets", uints(&[0, 4])),
            ("param_id", id),
        ])
    };
    let indefinite = {
        let dtype = open(5, &[text("Bool"), chunks(&["Nat", "", "ive"])]);
        let shape = open(4, &[uint(2), uint(2)]);
        let offsets = open(4, &[uint(0), uint(4)]);
        let w = open(
            5,
            &[
                chunks(&["dty", "pe"]),
                dtype,
                text("shape"),
                shape,
                text("data_offsets"),
                offsets,
            ],
        );
        let all = open(5, &[chunks(&["lay", "er"]), w]);
        let pairs = open(5, &[text("k"), chunks(&["v", "alue"])]);
        let one = open(5, &[text("Int"), uint(1)]);
        let scalars = open(5, &[text("s"), one]);
        let top = [
            text("tensors"),
            all,
            text("metadata"),
            pairs,
            text("scalars"),
            scalars,
        ];
        aligned(&open(5, &top), &[&[1, 0, 0, 1]])
    };
    let any_order = {
        let w = map(&[
            ("data_offsets", uints(&[0, 4])),
            ("param_id", uint(1)),
            ("shape", uints(&[1])),
            ("dtype", text("F32")),
        ]);
        let top = map(&[("metadata", map(&[])), ("tensors", map(&[("w", w)]))]);
        aligned(&top, &[&[1, 2, 3, 4]])
    };
    let over_long = {
        let w = map(&[
            ("dtype", text("F32")),
            ("shape", [wide(4, 1), wide(0, 1)].concat()),
            (
                "data_offsets",
                [wide(4, 2), wide(0, 0), wide(0, 4)].concat(),
            ),
        ]);
        let name = [wide(3, 1), b"w".to_vec()].concat();
        let all = [wide(5, 1), name, w].concat();
        aligned(&map(&[("tensors", all)]), &[&[1, 2, 3, 4]])
    };
    let deepest = [vec![0x81; 128], vec![0]].concat();
    let unknown = array(&[
        map_of(&[(uint(1), vec![NULL])]),
        [vec![0xC1], uint(5)].concat(),
        open(2, &[vec![0x41, 0], vec![0x40]]),
        vec![0xF8, 0xFF],
        vec![0xF7],
    ]);
    vec![
        Case::valid(
            "indefinite_lengths",
            "maps, arrays and texts without a length",
            indefinite,
        ),
        Case::valid(
            "any_key_order",
            "keys in another order than writers have",
            any_order,
        ),
        Case::valid(
            "over_long_integers",
            "heads of nine bytes for small numbers",
            over_long,
        ),
        Case::valid(
            "unknown_keys",
            "unknown keys and values of all kinds are skipped",
            beside("later", unknown),
        ),
        Case::valid(
            "unknown_deepest",
            "an unknown value nested 128 deep",
            beside("later", deepest),
        ),
        Case::valid(
            "unknown_tensor_key",
            "an unknown key in a descriptor",
            lone(map(&[
                ("dtype", text("U8")),
                ("later", uints(&[1, 2])),
                ("shape", uints(&[4])),
                ("data_offsets", uints(&[0, 4])),
            ])),
        ),
        Case::valid(
            "param_id_null",
            "null stands for no id",
            lone(with_param_id(vec![NULL])),
        ),
        Case::valid(
            "param_id_bignum",
            "a bignum that fits 64 bits",
            lone(with_param_id(vec![0xC2, 0x49, 0, 1, 2, 3, 4, 5, 6, 7, 8])),
        ),
        Case::valid(
            "tagged",
            "the tag of self-described CBOR before the map",
            aligned(&[vec![0xD9, 0xD9, 0xF7], tensors(&[])].concat(), &[]),
        ),
    ]
}

fn valid_layouts() -> Vec<Case> {
    let two = |second: u64| {
        tensors(&[
            ("a", tensor("U8", &[3], 0, 3)),
            ("b", tensor("U8", &[2], second, second + 2)),
        ])
    };
    let padded_to = |len: usize, tensors: &dyn Fn(&str) -> Item| {
        // A name of 256 bytes or more has a head of three bytes, an empty one of one.
        let empty = tensors("").len() + 10;
        let name = "n".repeat(len - empty - 2);
        let metadata = tensors(&name);
        assert_eq!(10 + metadata.len(), len);
        metadata
    };
    let fills = |start: u64| {
        move |name: &str| {
            tensors(&[
                (name, tensor("U8", &[3], 0, 3)),
                ("z", tensor("U8", &[2], start, start + 2)),
            ])
        }
    };
    let mut odd_gap = start(&two(512));
    odd_gap.pad_to(256, 0).bytes(&[1, 2, 3]).pad_to(512, 0);
    odd_gap.fill(256, 0).bytes(&[4, 5]);
    let mut dirty = start(&two(256));
    dirty
        .pad_to(256, 0xAA)
        .bytes(&[1, 2, 3])
        .pad_to(256, 0xAA)
        .bytes(&[4, 5]);
    let mut trailing = base();
    trailing.fill(17, 9);
    let reversed = tensors(&[
        ("a", tensor("U8", &[2], 256, 258)),
        ("b", tensor("U8", &[3], 0, 3)),
    ]);
    let exact_packed = padded_to(512, &fills(3));
    let exact_aligned = padded_to(512, &fills(256));
    let empty_last = tensors(&[
        ("a", tensor("U8", &[3], 0, 3)),
        ("b", tensor("U8", &[0], 256, 256)),
    ]);
    vec![
        Case::valid(
            "data_in_another_order",
            "the index is sorted by name, the data is not",
            aligned(&reversed, &[&[1, 2, 3], &[4, 5]]),
        ),
        Case::valid(
            "packed",
            "everything without a gap",
            packed(&two(3), &[&[1, 2, 3], &[4, 5]]),
        ),
        Case::valid(
            "packed_empty",
            "no tensors and no padding",
            packed(&tensors(&[]), &[]),
        ),
        Case::valid(
            "packed_multiples_of_256",
            "starts that an aligned file could have",
            packed(
                &tensors(&[
                    ("a", tensor("U8", &[256], 0, 256)),
                    ("b", tensor("U8", &[4], 256, 260)),
                ]),
                &[&[7; 256], &[1, 2, 3, 4]],
            ),
        ),
        Case::valid(
            "packed_trailing",
            "three bytes after a packed file",
            packed(&two(3), &[&[1, 2, 3], &[4, 5], &[0; 3]]),
        ),
        Case::valid(
            "packed_at_boundary",
            "metadata that ends at a multiple of 256: starts need not be multiples",
            packed(&exact_packed, &[&[1, 2, 3], &[4, 5]]),
        ),
        Case::valid(
            "aligned_at_boundary",
            "the same with starts that are",
            aligned(&exact_aligned, &[&[1, 2, 3], &[4, 5]]),
        ),
        Case::valid(
            "larger_gap",
            "256 bytes more than needed between tensors",
            odd_gap.into_vec(),
        ),
        Case::valid(
            "padding_not_zero",
            "padding of other bytes",
            dirty.into_vec(),
        ),
        Case::valid(
            "trailing_bytes",
            "17 bytes after the last tensor",
            trailing.into_vec(),
        ),
        Case::valid(
            "empty_tensor_last",
            "the file is padded up to an empty tensor",
            aligned(&empty_last, &[&[1, 2, 3], &[]]),
        ),
        Case::valid(
            "empty_tensor_shares_start",
            "an empty tensor where another starts, and one within it",
            aligned(
                &tensors(&[
                    ("a", tensor("U8", &[0], 0, 0)),
                    ("b", tensor("U16", &[150], 0, 300)),
                    ("c", tensor("U8", &[0, 5], 256, 256)),
                ]),
                &[&[3; 300]],
            ),
        ),
    ]
}

/// `{"storage": .., "len": ..}` with the filler that Burn writes.
fn block_size(dims: &[u64]) -> Item {
    let mut storage = dims.to_vec();
    storage.resize(5, 1);
    map(&[
        ("storage", uints(&storage)),
        ("len", uint(dims.len() as u64)),
    ])
}

fn new_scheme(value: &str, store: Item, tensor: Item, block: Item) -> Item {
    map(&[(
        "QFloat",
        map(&[
            ("value", text(value)),
            ("store", store),
            ("mode", text("Symmetric")),
            ("tensor", tensor),
            ("block", block),
        ]),
    )])
}

fn old_scheme(store: Item, level: Item) -> Item {
    map(&[(
        "QFloat",
        map(&[
            ("value", text("Q8S")),
            ("param", text("F32")),
            ("store", store),
            ("level", level),
            ("mode", text("Symmetric")),
        ]),
    )])
}

fn quantized(dtype: Item, shape: &[u64], len: u8) -> Vec<u8> {
    let w = descriptor(dtype, shape, 0, len.into());
    aligned(&tensors(&[("w", w)]), &[&ramp(len)])
}

fn valid_schemes() -> Vec<Case> {
    let null = || vec![NULL];
    let native = || text("Native");
    let block =
        |dims: &[u64], dtype: &str| map(&[("size", block_size(dims)), ("dtype", text(dtype))]);
    let packed_u32 = map(&[("PackedU32", uint(0))]);
    let packed_native = map(&[("PackedNative", uint(0))]);
    let defaults = map(&[(
        "QFloat",
        map(&[
            ("value", text("Q8S")),
            ("store", native()),
            ("mode", text("Lookup")),
            ("later", uint(1)),
        ]),
    )]);
    vec![
        Case::valid(
            "quant_new_default",
            "neither scale: one f32 for the tensor",
            quantized(new_scheme("Q8S", native(), null(), null()), &[8, 4], 36),
        ),
        Case::valid(
            "quant_new_absent",
            "the scales' keys left out, an unknown one there",
            quantized(defaults, &[8, 4], 36),
        ),
        Case::valid(
            "quant_new_blocks",
            "blocks of four with an f32 scale each",
            quantized(
                new_scheme("Q8S", native(), null(), block(&[4], "F32")),
                &[8, 4],
                64,
            ),
        ),
        Case::valid(
            "quant_new_two_levels",
            "4-bit floats, scales of blocks and one of the tensor",
            quantized(
                new_scheme("E2M1", packed_native, text("F32"), block(&[16], "UE4M3")),
                &[2, 32],
                32 + 4 + 4,
            ),
        ),
        Case::valid(
            "quant_new_packed",
            "4-bit integers in u32, the last one not full",
            quantized(
                new_scheme("Q4F", packed_u32.clone(), text("F16"), null()),
                &[2, 9],
                2 * 2 * 4 + 2,
            ),
        ),
        Case::valid(
            "quant_old_tensor",
            "the older spelling, one scale",
            quantized(old_scheme(native(), text("Tensor")), &[8, 4], 36),
        ),
        Case::valid(
            "quant_old_blocks",
            "the older spelling, blocks",
            quantized(
                old_scheme(packed_u32, map(&[("Block", block_size(&[2, 2]))])),
                &[8, 4],
                64,
            ),
        ),
        Case::valid(
            "quant_old_u32",
            "burn-store 0.19's name for packed values",
            quantized(old_scheme(text("U32"), text("Tensor")), &[8, 4], 36),
        ),
        Case::valid(
            "quant_any_length",
            "the length of quantized data is nobody's rule",
            quantized(new_scheme("Q8S", native(), null(), null()), &[8, 4], 1),
        ),
    ]
}

fn bad_headers() -> Vec<Case> {
    let cut = |len: usize| base().truncate(len).as_slice().to_vec();
    let mut big_endian = base();
    big_endian.set_bytes_at("magic", b"BURN");
    let mut too_long = base();
    too_long.set_u32_at("metadata_size", 100_000);
    let mut safetensors = LeBuffer::new();
    safetensors.u64(8).text("{}      ");
    vec![
        Case::reject(
            "empty_file",
            "burnpack.truncated",
            "no bytes at all",
            Vec::new(),
        ),
        Case::reject("cut_magic", "burnpack.truncated", "three bytes", cut(3)),
        Case::reject(
            "cut_version",
            "burnpack.truncated",
            "half a version",
            cut(5),
        ),
        Case::reject(
            "cut_metadata_size",
            "burnpack.truncated",
            "half a size",
            cut(8),
        ),
        Case::reject(
            "cut_metadata",
            "burnpack.truncated",
            "half of the metadata",
            cut(60),
        ),
        Case::reject(
            "cut_padding",
            "burnpack.truncated",
            "no data section",
            cut(250),
        ),
        Case::reject(
            "cut_data",
            "burnpack.truncated",
            "one byte short",
            cut(256 + 256 + 4),
        ),
        Case::reject(
            "metadata_size_beyond_file",
            "burnpack.truncated",
            "metadata longer than the file",
            too_long.into_vec(),
        ),
        Case::reject(
            "magic_big_endian",
            "burnpack.header.magic",
            "the magic as a big-endian number",
            big_endian.into_vec(),
        ),
        Case::reject(
            "safetensors",
            "burnpack.header.magic",
            "a file of another format",
            safetensors.into_vec(),
        ),
        Case::reject(
            "message_pack",
            "burnpack.header.magic",
            "the start of a MessagePack map, as older recorders wrote",
            b"\x82\xA8metadata\x80".to_vec(),
        ),
    ]
}

/// A file whose metadata is this.
fn raw(metadata: &[u8]) -> Vec<u8> {
    aligned(metadata, &[])
}

fn bad_cbor() -> Vec<Case> {
    let whole = base_metadata();
    let mut one_short = base();
    let size = u32::try_from(whole.len() - 1).expect("test files are small");
    one_short.set_u32_at("metadata_size", size);
    let later = |value: &[u8]| {
        let top = [
            head(5, 2),
            text("tensors"),
            map(&[]),
            text("later"),
            value.to_vec(),
        ];
        raw(&top.concat())
    };
    let huge = |major: u8| later(&wide(major, u64::MAX >> 1));
    let name = |bytes: &[u8]| {
        let name = [head(3, bytes.len() as u64), bytes.to_vec()].concat();
        let all = map_of(&[(name, tensor("U8", &[4], 0, 4))]);
        aligned(&map(&[("tensors", all)]), &[&[1, 2, 3, 4]])
    };
    let pair = |value: Item| beside("metadata", map(&[("k", value)]));
    let deep = |byte: u8| [vec![byte; 129], vec![0]].concat();
    let end =
        |name: &str, about: &str, bytes| Case::reject(name, "burnpack.cbor.end", about, bytes);
    let syntax =
        |name: &str, about: &str, bytes| Case::reject(name, "burnpack.cbor.syntax", about, bytes);
    let utf8 =
        |name: &str, about: &str, bytes| Case::reject(name, "burnpack.cbor.utf8", about, bytes);
    let depth =
        |name: &str, about: &str, bytes| Case::reject(name, "burnpack.cbor.depth", about, bytes);
    let trailing = [tensors(&[]), vec![0]].concat();
    vec![
        end("metadata_empty", "a metadata size of 0", raw(&[])),
        end(
            "metadata_one_short",
            "the last item is cut",
            one_short.into_vec(),
        ),
        end(
            "huge_array",
            "an array of 2^63 items and none there",
            huge(4),
        ),
        end("huge_map", "a map of 2^63 pairs and none there", huge(5)),
        end("huge_text", "a text of 2^63 bytes and none there", huge(3)),
        end("huge_bytes", "bytes, 2^63 of them, and none there", huge(2)),
        end(
            "unterminated_array",
            "an array without its break",
            later(&[0x9F, 1]),
        ),
        end(
            "unterminated_text",
            "a text without its break",
            later(&[0x7F, 0x61, b'a']),
        ),
        end("huge_tensors", "a map of 2^63 tensors and none there", {
            raw(&[head(5, 1), text("tensors"), wide(5, u64::MAX >> 1)].concat())
        }),
        syntax(
            "reserved_info",
            "additional information 28 is reserved",
            later(&[0x1C]),
        ),
        syntax(
            "stray_break",
            "a break outside of anything open",
            later(&[BREAK]),
        ),
        syntax(
            "break_in_array",
            "a break in an array that has a length",
            later(&[0x81, BREAK]),
        ),
        syntax(
            "indefinite_integer",
            "an integer without a length",
            later(&[0x1F]),
        ),
        syntax(
            "odd_map",
            "a key without a value before the break",
            later(&[0xBF, 0, BREAK]),
        ),
        syntax(
            "chunk_of_other_type",
            "bytes among the chunks of a text",
            pair(vec![0x7F, 0x41, b'a', BREAK]),
        ),
        syntax(
            "nested_chunks",
            "a text in chunks among the chunks of a text",
            later(&[0x7F, 0x7F, 0x60, BREAK, BREAK]),
        ),
        syntax(
            "short_simple_value",
            "a simple value below 32 in two bytes",
            later(&[0xF8, 24]),
        ),
        utf8("name_not_utf8", "a lone continuation byte", name(b"a\x80")),
        utf8(
            "name_surrogate",
            "half of a surrogate pair",
            name(b"\xED\xA0\x80"),
        ),
        utf8("name_over_long", "a slash in two bytes", name(b"\xC0\xAF")),
        utf8(
            "value_not_utf8",
            "metadata that is not UTF-8",
            pair(vec![0x61, 0xFF]),
        ),
        utf8(
            "chunk_not_utf8",
            "a character split between chunks",
            pair(open(3, &[vec![0x61, 0xC3], vec![0x61, 0xA9]])),
        ),
        utf8(
            "skipped_not_utf8",
            "an unknown value that is not UTF-8",
            later(&[0x61, 0xFF]),
        ),
        utf8(
            "unknown_key_not_utf8",
            "an unknown key that is not UTF-8",
            raw(&[head(5, 2), text("tensors"), map(&[]), vec![0x61, 0xFF, 0]].concat()),
        ),
        depth("deep_arrays", "arrays nested 129 deep", later(&deep(0x81))),
        depth("deep_tags", "tags nested 129 deep", later(&deep(0xC6))),
        Case::reject(
            "trailing_metadata",
            "burnpack.cbor.trailing",
            "a byte after the map, within the metadata size",
            raw(&trailing),
        ),
    ]
}

fn bad_top() -> Vec<Case> {
    let none = || map(&[]);
    let twice = |key: &str, value: Item| {
        raw(&map(&[
            ("tensors", none()),
            (key, value.clone()),
            (key, value),
        ]))
    };
    let duplicate =
        |name: &str, about: &str, bytes| Case::reject(name, "burnpack.key_duplicate", about, bytes);
    vec![
        Case::reject(
            "top_array",
            "burnpack.top",
            "an array in place of the map",
            raw(&array(&[])),
        ),
        Case::reject(
            "top_key_integer",
            "burnpack.key",
            "a key that is a number",
            raw(&map_of(&[(text("tensors"), none()), (uint(1), uint(2))])),
        ),
        duplicate(
            "duplicate_tensors",
            "`tensors` twice",
            twice("tensors", none()),
        ),
        duplicate(
            "duplicate_metadata",
            "`metadata` twice",
            twice("metadata", none()),
        ),
        duplicate(
            "duplicate_scalars",
            "`scalars` twice",
            twice("scalars", none()),
        ),
        duplicate(
            "duplicate_unknown",
            "an unknown key twice",
            twice("later", uint(1)),
        ),
        Case::reject(
            "missing_tensors",
            "burnpack.tensors.missing",
            "metadata alone",
            raw(&map(&[("metadata", none())])),
        ),
        Case::reject(
            "tensors_array",
            "burnpack.tensors",
            "an array of tensors",
            raw(&map(&[("tensors", array(&[]))])),
        ),
        Case::reject(
            "metadata_text",
            "burnpack.metadata",
            "`metadata` is a text",
            beside("metadata", text("x")),
        ),
        Case::reject(
            "metadata_null",
            "burnpack.metadata",
            "`metadata` is null",
            beside("metadata", vec![NULL]),
        ),
        Case::reject(
            "metadata_key_integer",
            "burnpack.key",
            "a metadata key that is a number",
            beside("metadata", map_of(&[(uint(1), text("v"))])),
        ),
        Case::reject(
            "metadata_value_integer",
            "burnpack.metadata.value",
            "a metadata value that is a number",
            beside("metadata", map(&[("k", uint(1))])),
        ),
        Case::reject(
            "metadata_duplicate",
            "burnpack.metadata.duplicate",
            "a metadata key twice",
            beside("metadata", map(&[("k", text("1")), ("k", text("2"))])),
        ),
    ]
}

fn bad_scalars() -> Vec<Case> {
    let one = |kind: &str, value: Item| beside("scalars", map(&[("s", map(&[(kind, value)]))]));
    let lone = |value: Item| beside("scalars", map(&[("s", value)]));
    let shape =
        |name: &str, about: &str, bytes| Case::reject(name, "burnpack.scalar", about, bytes);
    let value =
        |name: &str, about: &str, bytes| Case::reject(name, "burnpack.scalar.value", about, bytes);
    vec![
        Case::reject(
            "scalars_array",
            "burnpack.scalars",
            "`scalars` is an array",
            beside("scalars", array(&[])),
        ),
        shape("scalar_number", "a number without its kind", lone(uint(1))),
        shape("scalar_empty_map", "no kind at all", lone(map(&[]))),
        shape(
            "scalar_two_kinds",
            "two kinds",
            lone(map(&[("Int", uint(1)), ("UInt", uint(1))])),
        ),
        value(
            "scalar_int_too_large",
            "2^63 as an i64",
            one("Int", uint(1 << 63)),
        ),
        value(
            "scalar_int_too_small",
            "-2^63-1 as an i64",
            one("Int", negative(1 << 63)),
        ),
        value(
            "scalar_int_float",
            "a float as an i64",
            one("Int", vec![0xF9, 0x3C, 0]),
        ),
        value(
            "scalar_uint_negative",
            "-1 as a u64",
            one("UInt", negative(0)),
        ),
        value(
            "scalar_float_integer",
            "an integer as a float",
            one("Float", uint(1)),
        ),
        value(
            "scalar_bool_integer",
            "an integer as a bool",
            one("Bool", uint(1)),
        ),
        Case::reject(
            "scalar_duplicate",
            "burnpack.scalar.duplicate",
            "a name twice",
            beside(
                "scalars",
                map(&[
                    ("s", map(&[("Int", uint(1))])),
                    ("s", map(&[("Int", uint(2))])),
                ]),
            ),
        ),
    ]
}

fn bad_descriptors() -> Vec<Case> {
    let of = |dtype: Item, shape: Item, offsets: Item| {
        lone(map(&[
            ("dtype", dtype),
            ("shape", shape),
            ("data_offsets", offsets),
        ]))
    };
    let dtyped = |dtype: Item| of(dtype, uints(&[4]), uints(&[0, 4]));
    let shaped = |shape: Item| of(text("U8"), shape, uints(&[0, 4]));
    let placed = |offsets: Item| of(text("U8"), uints(&[4]), offsets);
    let with_id = |id: Item| {
        lone(map(&[
            ("dtype", text("U8")),
            ("shape", uints(&[4])),
            ("data_offsets", uints(&[0, 4])),
            ("param_id", id),
        ]))
    };
    let without = |key: &str| {
        let pairs = [
            ("dtype", text("U8")),
            ("shape", uints(&[4])),
            ("data_offsets", uints(&[0, 4])),
        ];
        let rest: Vec<_> = pairs.into_iter().filter(|(name, _)| *name != key).collect();
        lone(map(&rest))
    };
    let case = |name: &str, rule, about: &str, bytes| Case::reject(name, rule, about, bytes);
    let missing = "burnpack.tensor.missing_key";
    let dtype = "burnpack.tensor.dtype";
    let shape = "burnpack.tensor.shape";
    let offsets = "burnpack.tensor.data_offsets";
    let param_id = "burnpack.tensor.param_id";
    vec![
        case(
            "name_integer",
            "burnpack.tensor.name",
            "a number as a name",
            {
                let all = map_of(&[(uint(1), tensor("U8", &[4], 0, 4))]);
                aligned(&map(&[("tensors", all)]), &[&[1, 2, 3, 4]])
            },
        ),
        case("name_bytes", "burnpack.tensor.name", "bytes as a name", {
            let all = map_of(&[(vec![0x41, b'w'], tensor("U8", &[4], 0, 4))]);
            aligned(&map(&[("tensors", all)]), &[&[1, 2, 3, 4]])
        }),
        case(
            "name_duplicate",
            "burnpack.tensor.duplicate",
            "a name twice",
            aligned(
                &tensors(&[
                    ("w", tensor("U8", &[1], 0, 1)),
                    ("w", tensor("U8", &[1], 256, 257)),
                ]),
                &[&[1], &[2]],
            ),
        ),
        case(
            "descriptor_array",
            "burnpack.tensor.descriptor",
            "a descriptor that is an array",
            lone(array(&[text("U8"), uints(&[4]), uints(&[0, 4])])),
        ),
        case("missing_dtype", missing, "no dtype", without("dtype")),
        case("missing_shape", missing, "no shape", without("shape")),
        case(
            "missing_offsets",
            missing,
            "no data_offsets",
            without("data_offsets"),
        ),
        case(
            "descriptor_duplicate_key",
            "burnpack.key_duplicate",
            "dtype twice",
            lone(map(&[
                ("dtype", text("U8")),
                ("dtype", text("U8")),
                ("shape", uints(&[4])),
                ("data_offsets", uints(&[0, 4])),
            ])),
        ),
        case(
            "descriptor_duplicate_unknown",
            "burnpack.key_duplicate",
            "an unknown key twice",
            lone(map(&[
                ("dtype", text("U8")),
                ("x", uint(1)),
                ("shape", uints(&[4])),
                ("data_offsets", uints(&[0, 4])),
                ("x", uint(2)),
            ])),
        ),
        case(
            "dtype_integer",
            dtype,
            "a number as a dtype",
            dtyped(uint(1)),
        ),
        case(
            "dtype_empty_map",
            dtype,
            "a map of no entry",
            dtyped(map(&[])),
        ),
        case(
            "dtype_two_entries",
            dtype,
            "a map of two entries",
            dtyped(map(&[("Bool", text("U8")), ("X", uint(1))])),
        ),
        case("bool_store_integer", dtype, "a number as a bool's store", {
            dtyped(map(&[("Bool", uint(1))]))
        }),
        case(
            "shape_integer",
            shape,
            "a number as a shape",
            shaped(uint(4)),
        ),
        case(
            "shape_negative",
            shape,
            "a dim of -4",
            shaped(array(&[negative(3)])),
        ),
        case(
            "shape_float",
            shape,
            "a dim of 4.0",
            shaped(array(&[vec![0xF9, 0x44, 0]])),
        ),
        case(
            "shape_overflow",
            "burnpack.tensor.shape_overflow",
            "2^63 times 2^63 elements",
            shaped(uints(&[1 << 63, 1 << 63])),
        ),
        case(
            "shape_wraps_to_size",
            "burnpack.tensor.shape_overflow",
            "dims whose product is 4 in 64 bits",
            shaped(uints(&[0x8000_0000_0000_0004, 2, 0x8000_0000_0000_0001])),
        ),
        case(
            "size_overflow",
            "burnpack.tensor.size_overflow",
            "2^62 elements of 8 bytes",
            of(text("F64"), uints(&[1 << 62]), uints(&[0, 4])),
        ),
        case(
            "size_wraps",
            "burnpack.tensor.size_overflow",
            "a number of bytes that is 4 in 64 bits",
            of(text("F32"), uints(&[(1 << 62) + 1]), uints(&[0, 4])),
        ),
        case(
            "size_longer",
            "burnpack.tensor.size",
            "four bytes for three elements",
            of(text("U8"), uints(&[3]), uints(&[0, 4])),
        ),
        case(
            "size_shorter",
            "burnpack.tensor.size",
            "four bytes for five elements",
            of(text("U8"), uints(&[5]), uints(&[0, 4])),
        ),
        case("offsets_integer", offsets, "one number", placed(uint(4))),
        case("offsets_one", offsets, "one offset", placed(uints(&[4]))),
        case(
            "offsets_three",
            offsets,
            "three offsets",
            placed(uints(&[0, 2, 4])),
        ),
        case("offsets_negative", offsets, "a start of -1", {
            placed(array(&[negative(0), uint(4)]))
        }),
        case(
            "offsets_backwards",
            "burnpack.tensor.offsets_order",
            "the end before the start",
            placed(uints(&[4, 0])),
        ),
        case(
            "param_id_negative",
            param_id,
            "an id of -1",
            with_id(negative(0)),
        ),
        case(
            "param_id_text",
            param_id,
            "an id that is text",
            with_id(text("7")),
        ),
        case("param_id_bignum_large", param_id, "an id of 2^64", {
            with_id(vec![0xC2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0])
        }),
    ]
}

fn bad_schemes() -> Vec<Case> {
    let case = |name: &str, about: &str, pairs: &[(&str, Item)]| {
        let dtype = map(&[("QFloat", map(pairs))]);
        Case::reject(
            name,
            "burnpack.tensor.scheme",
            about,
            quantized(dtype, &[8, 4], 36),
        )
    };
    let value = || ("value", text("Q8S"));
    let store = || ("store", text("Native"));
    let mode = || ("mode", text("Symmetric"));
    let param = || ("param", text("F32"));
    let level = || ("level", text("Tensor"));
    let size = |storage: Item, len: Item| map(&[("storage", storage), ("len", len)]);
    let block = |size: Item| map(&[("size", size), ("dtype", text("F32"))]);
    let five = || uints(&[4, 1, 1, 1, 1]);
    let with = |name: &str, about: &str, last: (&str, Item)| {
        case(name, about, &[value(), store(), mode(), last])
    };
    vec![
        Case::reject(
            "scheme_text",
            "burnpack.tensor.scheme",
            "a scheme that is text",
            quantized(map(&[("QFloat", text("Q8S"))]), &[8, 4], 36),
        ),
        case("scheme_no_value", "no value", &[store(), mode()]),
        case("scheme_no_store", "no store", &[value(), mode()]),
        case("scheme_no_mode", "no mode", &[value(), store()]),
        with("scheme_no_param", "a level without its param", level()),
        with("scheme_no_level", "a param without its level", param()),
        case(
            "scheme_mixed",
            "keys of both generations",
            &[
                value(),
                param(),
                store(),
                level(),
                mode(),
                ("block", vec![NULL]),
            ],
        ),
        case(
            "scheme_value_integer",
            "a number as the value",
            &[("value", uint(8)), store(), mode()],
        ),
        case(
            "scheme_store_two",
            "a store of two entries",
            &[
                value(),
                (
                    "store",
                    map(&[("PackedU32", uint(0)), ("PackedNative", uint(0))]),
                ),
                mode(),
            ],
        ),
        with(
            "scheme_block_integer",
            "a number as the block",
            ("block", uint(4)),
        ),
        with(
            "scheme_block_no_dtype",
            "a block without the type of its scale",
            ("block", map(&[("size", size(five(), uint(1)))])),
        ),
        with(
            "scheme_block_four",
            "a block size of four numbers",
            ("block", block(size(uints(&[4, 1, 1, 1]), uint(1)))),
        ),
        with(
            "scheme_block_len",
            "a block of six dims",
            ("block", block(size(five(), uint(6)))),
        ),
        with(
            "scheme_block_large",
            "a block of 256",
            ("block", block(size(uints(&[256, 1, 1, 1, 1]), uint(1)))),
        ),
        Case::reject(
            "scheme_duplicate_key",
            "burnpack.key_duplicate",
            "the value twice",
            quantized(
                map(&[("QFloat", map(&[value(), value(), store(), mode()]))]),
                &[8, 4],
                36,
            ),
        ),
    ]
}

fn bad_ranges() -> Vec<Case> {
    let case = |name: &str, rule, about: &str, bytes| Case::reject(name, rule, about, bytes);
    let two = |a: (u64, u64), b: (u64, u64), data: &[&[u8]]| {
        aligned(
            &tensors(&[
                ("a", tensor("U8", &[a.1 - a.0], a.0, a.1)),
                ("b", tensor("U8", &[b.1 - b.0], b.0, b.1)),
            ]),
            data,
        )
    };
    let empty_at = |start: u64| lone(tensor("U8", &[0], start, start));
    // An aligned file that lost exactly as many bytes as its padding has is as long as a packed
    // one; that it has scalars tells.
    let metadata = base_metadata();
    let lost = 256 - (10 + metadata.len()) % 256;
    let mut disguised = base();
    let len = disguised.len() - lost;
    disguised.truncate(len);
    vec![
        case(
            "end_past_file",
            "burnpack.truncated",
            "one byte more than there is",
            lone(tensor("U8", &[5], 0, 5)),
        ),
        case(
            "start_past_file",
            "burnpack.truncated",
            "an empty tensor past the end",
            empty_at(1 << 20),
        ),
        case(
            "offsets_overflow",
            "burnpack.tensor.offsets_overflow",
            "offsets that fit 64 bits only without the data section's",
            empty_at(u64::MAX),
        ),
        case(
            "offsets_wrap",
            "burnpack.tensor.offsets_overflow",
            "an offset that comes to 0 in 64 bits",
            empty_at(u64::MAX - 255),
        ),
        case(
            "misaligned",
            "burnpack.tensor.alignment",
            "a start of 4 in a file of the aligned layout's length",
            two((0, 4), (4, 8), &[&[1, 2, 3, 4, 5, 6, 7, 8]]),
        ),
        case(
            "misaligned_trailing",
            "burnpack.tensor.alignment",
            "a start of 5, a gap and trailing bytes",
            two((0, 4), (5, 8), &[&[1, 2, 3, 4, 5, 6, 7, 8], &[9]]),
        ),
        case(
            "overlap_same",
            "burnpack.tensor.overlap",
            "two tensors in one place",
            two((0, 4), (0, 4), &[&[1, 2, 3, 4]]),
        ),
        case(
            "overlap_within",
            "burnpack.tensor.overlap",
            "a tensor within another",
            two((0, 300), (256, 260), &[&[7; 300]]),
        ),
        case(
            "lost_as_much_as_padding",
            "burnpack.truncated",
            "an aligned file cut to a packed one's length",
            disguised.into_vec(),
        ),
    ]
}

fn unsupported() -> Vec<Case> {
    let version = |version: u16| {
        let mut file = base();
        file.set_u16_at("version", version);
        file.into_vec()
    };
    let dtyped = |dtype: Item| lone(descriptor(dtype, &[4], 0, 4));
    let scheme = |pairs: &[(&str, Item)]| {
        let native = [
            ("value", text("Q8S")),
            ("store", text("Native")),
            ("mode", text("Symmetric")),
        ];
        let mut all = pairs.to_vec();
        all.extend(
            native
                .into_iter()
                .filter(|(key, _)| pairs.iter().all(|(k, _)| k != key)),
        );
        dtyped(map(&[("QFloat", map(&all))]))
    };
    let dtype =
        |name: &str, about: &str, bytes| Case::unsupported(name, "burnpack.dtype", about, bytes);
    let head = |name: &str, about: &str, number| {
        Case::unsupported(name, "burnpack.version", about, version(number))
    };
    let block = |size: Item, dtype: &str| map(&[("size", size), ("dtype", text(dtype))]);
    vec![
        head("version_0", "a version that nobody writes", 0),
        head("version_2", "the next version", 2),
        head("version_swapped", "version 1, big-endian", 256),
        dtype(
            "dtype_unknown",
            "a dtype that is not known",
            dtyped(text("F128")),
        ),
        dtype(
            "dtype_lower_case",
            "names are case sensitive",
            dtyped(text("f32")),
        ),
        dtype(
            "dtype_qfloat_text",
            "a quantized dtype without a scheme",
            dtyped(text("QFloat")),
        ),
        dtype("dtype_unknown_map", "an unknown dtype with a value", {
            dtyped(map(&[("Complex", uints(&[1]))]))
        }),
        dtype(
            "bool_store_unknown",
            "a bool held in an unknown way",
            dtyped(bools("U64")),
        ),
        dtype(
            "scheme_value",
            "unknown quantized values",
            scheme(&[("value", text("Q3S"))]),
        ),
        dtype(
            "scheme_store",
            "an unknown store",
            scheme(&[("store", text("Bits"))]),
        ),
        dtype("scheme_store_map", "an unknown store with a value", {
            scheme(&[("store", map(&[("PackedU64", uint(0))]))])
        }),
        dtype(
            "scheme_mode",
            "an unknown mode",
            scheme(&[("mode", text("Affine"))]),
        ),
        dtype(
            "scheme_tensor",
            "an unknown type of scale",
            scheme(&[("tensor", text("F8"))]),
        ),
        dtype("scheme_block", "an unknown type of a block's scale", {
            scheme(&[("block", block(block_size(&[4]), "F8"))])
        }),
        dtype("scheme_level", "an unknown level", {
            scheme(&[("param", text("F32")), ("level", text("Channel"))])
        }),
        Case::unsupported(
            "scalar_kind",
            "burnpack.scalar_kind",
            "a kind of scalar that is not known",
            beside(
                "scalars",
                map(&[("s", map(&[("Complex", uints(&[1, 2]))]))]),
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_file_comes_out_byte_for_byte() {
        // The 138 bytes of a file of burn-store 0.19.1.
        let w = map(&[
            ("dtype", text("F32")),
            ("shape", uints(&[4])),
            ("data_offsets", uints(&[0, 16])),
            ("param_id", uint(1)),
        ]);
        let metadata = map(&[
            ("tensors", map(&[("w", w)])),
            (
                "metadata",
                map(&[
                    ("format", text("burnpack")),
                    ("producer", text("burn")),
                    ("version", text("0.19.1")),
                ]),
            ),
        ]);
        let data: Vec<u8> = [-5.125f32, 4.25, 5.625, 10.125]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let file = packed(&metadata, &[&data]);
        assert_eq!(file.len(), 138);
        assert_eq!(file[..16], *b"NRUB\x01\0\x70\0\0\0\xA2\x67tens");
        assert_eq!(file[0x17..0x29], *b"\x65dtype\x63F32\x65shape\x81\x04");
        assert_eq!(
            file[0x29..0x43],
            *b"\x6Cdata_offsets\x82\0\x10\x68param_id\x01"
        );
        assert_eq!(file[0x7A..0x7E], [0, 0, 0xA4, 0xC0]);
    }
}
