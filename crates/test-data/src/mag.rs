//! mag version 1, and the heads of generations that no release wrote; snapshots have a file of
//! their own.
//!
//! A header of 24 bytes, metadata records, tensor records, then data at multiples of 64. Unless a
//! case is about the checksum it has the right one, so that no fault hides behind another.

use crate::{Case, LeBuffer, crc32_ieee, crc32c};

/// Every hand-assembled mag file.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        valid(),
        valid_layouts(),
        vec![demo()],
        truncated(),
        bad_headers(),
        bad_checksums(),
        bad_metadata(),
        bad_shapes(),
        bad_offsets(),
        bad_tensor_keys(),
        unsupported(),
        other_generations(),
        crate::mag_snapshots::cases(),
    ]
    .concat()
}

const F32: u8 = 0;
const F16: u8 = 1;
const BOOL: u8 = 2;
const I32: u8 = 3;

const I64_META: u32 = 1;
const F64_META: u32 = 2;

/// The largest dimension, element count and byte size.
const MAX: u64 = i64::MAX as u64;

/// A metadata record, its key length aside.
#[derive(Clone, Copy)]
struct Meta<'a> {
    aux: u32,
    payload: u64,
    key: &'a [u8],
}

/// A tensor record, its key length aside.
#[derive(Clone, Copy)]
struct Tensor<'a> {
    aux: u32,
    numel: u64,
    offset: u64,
    shape: &'a [u64],
    key: &'a [u8],
}

/// Six f32 in the first place that a file with few records has for data.
const WEIGHT: Tensor<'_> = tensor(F32, 128, &[2, 3], b"weight");
const WEIGHT_DATA: [f32; 6] = [0.0, 1.0, -2.5, 1e-3, 65504.0, f32::MIN_POSITIVE];

const STEPS: Meta<'_> = Meta {
    aux: I64_META,
    payload: 1000,
    key: b"steps",
};

#[allow(
    clippy::cast_possible_truncation,
    reason = "the largest rank here is 255"
)]
const fn tensor<'a>(dtype: u8, offset: u64, shape: &'a [u64], key: &'a [u8]) -> Tensor<'a> {
    let mut numel = 1u64;
    let mut axis = 0;
    while axis < shape.len() {
        numel = numel.wrapping_mul(shape[axis]);
        axis += 1;
    }
    Tensor {
        aux: dtype as u32 | (shape.len() as u32) << 8,
        numel,
        offset,
        shape,
        key,
    }
}

/// A small model with something of everything, for a first look.
fn demo() -> Case {
    let metas = [
        STEPS,
        Meta {
            aux: F64_META,
            payload: 0.001_f64.to_bits(),
            key: b"learning_rate",
        },
    ];
    let tensors = [
        tensor(F32, 320, &[8, 4], b"encoder.weight"),
        tensor(F16, 448, &[8], b"encoder.bias"),
        tensor(BOOL, 512, &[2, 4], b"encoder.mask"),
        tensor(I32, 576, &[4], b"vocabulary.ids"),
    ];
    let mut file = records(&metas, &tensors);
    file.pad_to(64, 0xFF);
    for index in 0..32u8 {
        file.bytes(&(f32::from(index) / 8.0 - 2.0).to_le_bytes());
    }
    for half in [
        0x3C00, 0xBC00, 0x3800, 0x4000, 0x0001, 0x7BFF, 0x8000, 0x0000,
    ] {
        file.u16(half);
    }
    file.pad_to(64, 0xFF);
    file.bytes(&[1, 0, 1, 1, 0, 0, 1, 0]);
    file.pad_to(64, 0xFF);
    for id in [101, 2023, 2003, 102] {
        file.u32(id);
    }
    file.pad_to(64, 0xFF);
    Case::valid(
        "demo",
        "a small model with metadata and all four dtypes",
        file.into_vec(),
    )
}

/// Header and records with the checksum in place; fields tagged as `meta0.key`, `tensor1.shape`.
fn records(metas: &[Meta], tensors: &[Tensor]) -> LeBuffer {
    let mut file = LeBuffer::new();
    file.tag("magic").text("MAG!");
    file.tag("version").u32(1);
    file.tag("checksum").u32(0);
    file.tag("num_tensors").u32(count(tensors.len()));
    file.tag("num_meta_kv").u32(count(metas.len()));
    file.tag("aux").u32(0);
    for (index, meta) in metas.iter().enumerate() {
        let field = |name| format!("meta{index}.{name}");
        file.tag(field("aux")).u32(meta.aux);
        file.tag(field("payload")).u64(meta.payload);
        file.tag(field("key_length")).u32(count(meta.key.len()));
        file.tag(field("key")).bytes(meta.key);
    }
    for (index, tensor) in tensors.iter().enumerate() {
        let field = |name| format!("tensor{index}.{name}");
        file.tag(field("aux")).u32(tensor.aux);
        file.tag(field("numel")).u64(tensor.numel);
        file.tag(field("offset")).u64(tensor.offset);
        file.tag(field("shape"));
        for &dim in tensor.shape {
            file.u64(dim);
        }
        file.tag(field("key_length")).u32(count(tensor.key.len()));
        file.tag(field("key")).bytes(tensor.key);
    }
    file.tag("records_end");
    seal(&mut file);
    file
}

/// Writes the checksum over everything from the counts to the end of the records.
fn seal(file: &mut LeBuffer) {
    let checksum = crc32c(&file.as_slice()[12..file.position("records_end")]);
    file.set_u32_at("checksum", checksum);
}

/// Fills with 0xFF up to `offset`, then appends data.
fn data(file: &mut LeBuffer, offset: usize, data: &[u8]) {
    let gap = offset
        .checked_sub(file.len())
        .expect("data goes after what is there");
    file.fill(gap, 0xFF).bytes(data);
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("test files are small")
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn ramp(len: u8) -> Vec<u8> {
    (0..len).collect()
}

/// Two metadata records and two tensors, each field tagged: what most faults start from.
///
/// `weight` is f32 `[2, 3]` at 192 and `mask` is bool `[5]` at 256, where the file ends with the
/// last byte of data.
fn base() -> LeBuffer {
    let lr = Meta {
        aux: F64_META,
        payload: 0.125f64.to_bits(),
        key: b"lr",
    };
    let weight = Tensor {
        offset: 192,
        ..WEIGHT
    };
    let mask = tensor(BOOL, 256, &[5], b"mask");
    let mut file = records(&[STEPS, lr], &[weight, mask]);
    data(&mut file, 192, &f32s(&WEIGHT_DATA));
    data(&mut file, 256, &[1, 0, 1, 1, 0]);
    file
}

/// The base with something changed, and the checksum right again.
fn changed(change: impl FnOnce(&mut LeBuffer) -> &mut LeBuffer) -> Vec<u8> {
    let mut file = base();
    change(&mut file);
    seal(&mut file);
    file.into_vec()
}

/// One tensor and no metadata; `len` bytes of data at 128.
fn lone(tensor: Tensor, len: u8) -> Vec<u8> {
    let mut file = records(&[], &[tensor]);
    data(&mut file, 128, &ramp(len));
    file.into_vec()
}

fn valid() -> Vec<Case> {
    let meta = |aux, payload, key| Meta { aux, payload, key };
    let with = |metas: &[Meta], tensors: &[Tensor], offset, bytes: &[u8]| {
        let mut file = records(metas, tensors);
        data(&mut file, offset, bytes);
        file.into_vec()
    };
    let long_key = vec![b'k'; 65535];
    let ones = [1u64; 255];
    vec![
        Case::valid(
            "empty",
            "no metadata and no tensors: the header alone",
            records(&[], &[]).into_vec(),
        ),
        Case::valid(
            "base",
            "two metadata records, an f32 and a bool tensor, odd key lengths",
            base().into_vec(),
        ),
        Case::valid(
            "metadata_i64",
            "integers 0, -1 and both ends of the range",
            records(
                &[
                    meta(I64_META, 0, b"zero"),
                    meta(I64_META, u64::MAX, b"minus one"),
                    meta(I64_META, MAX, b"max"),
                    meta(I64_META, MAX + 1, b"min"),
                ],
                &[],
            )
            .into_vec(),
        ),
        Case::valid(
            "metadata_f64",
            "negative zero, infinity, the smallest subnormal, a NaN with a payload",
            records(
                &[
                    meta(F64_META, 0x8000_0000_0000_0000, b"-0"),
                    meta(F64_META, 0x7FF0_0000_0000_0000, b"inf"),
                    meta(F64_META, 1, b"subnormal"),
                    meta(F64_META, 0xFFF8_0000_0000_BEEF, b"nan"),
                ],
                &[],
            )
            .into_vec(),
        ),
        Case::valid(
            "dtype_f32",
            "f32 [2, 3]",
            with(&[], &[WEIGHT], 128, &f32s(&WEIGHT_DATA)),
        ),
        Case::valid(
            "dtype_f16",
            "f16 [4]: 1, -2, infinity, the smallest subnormal",
            with(
                &[],
                &[tensor(F16, 128, &[4], b"half")],
                128,
                &[0x00, 0x3C, 0x00, 0xC0, 0x00, 0x7C, 0x01, 0x00],
            ),
        ),
        Case::valid(
            "dtype_bool",
            "bool [2, 2]: one byte per element",
            with(
                &[],
                &[tensor(BOOL, 128, &[2, 2], b"mask")],
                128,
                &[0, 1, 1, 0],
            ),
        ),
        Case::valid(
            "dtype_bool_other_bytes",
            "bool [3] holding 2 and 255: kept as they are until someone asks for bools",
            with(&[], &[tensor(BOOL, 128, &[3], b"mask")], 128, &[1, 2, 255]),
        ),
        Case::valid(
            "dtype_i32",
            "i32 [3]: -1 and both ends of the range",
            with(
                &[],
                &[tensor(I32, 128, &[3], b"ids")],
                128,
                &[
                    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0x00, 0x00, 0x00, 0x80,
                ],
            ),
        ),
        Case::valid(
            "rank_1",
            "one dimension of 1: what stands for a scalar",
            lone(tensor(F32, 128, &[1], b"x"), 4),
        ),
        Case::valid(
            "rank_7",
            "seven dimensions, one more than any released writer makes",
            lone(tensor(BOOL, 128, &[2, 1, 3, 1, 2, 1, 2], b"deep"), 24),
        ),
        Case::valid(
            "rank_255",
            "255 dimensions of 1",
            with(&[], &[tensor(BOOL, 2112, &ones, b"x")], 2112, &[1]),
        ),
        Case::valid(
            "key_65535_bytes",
            "the longest key there can be",
            records(&[meta(I64_META, 1, &long_key)], &[]).into_vec(),
        ),
        Case::valid(
            "key_utf8",
            "keys of two, three and four byte characters",
            with(
                &[meta(I64_META, 1, "größe".as_bytes())],
                &[tensor(BOOL, 128, &[2], "重み🧲".as_bytes())],
                128,
                &[1, 0],
            ),
        ),
        Case::valid(
            "key_in_both_maps",
            "a tensor and a metadata record with the same key",
            with(
                &[meta(I64_META, 6, b"weight")],
                &[WEIGHT],
                128,
                &f32s(&WEIGHT_DATA),
            ),
        ),
        Case::valid(
            "checksum_ieee",
            "the checksum as the text of the format has it: IEEE over the header with the field as zero and the records",
            changed_checksum(|file| crc32_ieee(&unsealed(file))),
        ),
    ]
}

fn valid_layouts() -> Vec<Case> {
    let weight = |offset| Tensor { offset, ..WEIGHT };
    let mask = |offset| tensor(BOOL, offset, &[64], b"mask");
    let values = f32s(&WEIGHT_DATA);
    let layout = |tensors: &[Tensor], fill: &dyn Fn(&mut LeBuffer)| {
        let mut file = records(&[], tensors);
        fill(&mut file);
        file.into_vec()
    };
    vec![
        Case::valid(
            "slack_after_metadata",
            "eight zero bytes per metadata record at the end, as the released writer leaves them",
            {
                let mut file = records(&[STEPS], &[]);
                file.fill(8, 0);
                file.into_vec()
            },
        ),
        Case::valid(
            "slack_after_data",
            "0xFF up to a multiple of 64, then zero bytes",
            {
                let mut file = base();
                file.pad_to(64, 0xFF).fill(100, 0);
                file.into_vec()
            },
        ),
        Case::valid(
            "cut_in_tail_padding",
            "all elements are there, the padding after the last ones is not",
            {
                let mut file = base();
                file.fill(3, 0xFF);
                file.into_vec()
            },
        ),
        Case::valid(
            "no_gap_before_data",
            "the records end on a multiple of 64, where data starts at once",
            layout(
                &[
                    tensor(BOOL, 128, &[1], b"twenty-byte-long-key"),
                    tensor(BOOL, 192, &[1], b"twenty-byte-long-kex"),
                ],
                &|file| {
                    assert_eq!(file.len(), 128);
                    data(file, 128, &[1]);
                    data(file, 192, &[0]);
                },
            ),
        ),
        Case::valid(
            "neighbours_touch",
            "one tensor of exactly 64 bytes, the next straight after it",
            layout(&[mask(128), weight(192)], &|file| {
                data(file, 128, &ramp(64));
                data(file, 192, &values);
            }),
        ),
        Case::valid(
            "junk_after_view",
            "the span of a view's whole storage is kept: what follows the elements is neither data nor 0xFF",
            layout(&[weight(128), mask(256)], &|file| {
                data(file, 128, &values);
                file.bytes(&ramp(104));
                data(file, 256, &ramp(64));
            }),
        ),
        Case::valid(
            "gap_between_tensors",
            "a kilobyte of zeros between two tensors",
            layout(&[weight(128), mask(1216)], &|file| {
                data(file, 128, &values);
                file.fill(1024, 0);
                data(file, 1216, &ramp(64));
            }),
        ),
        Case::valid(
            "gap_before_data",
            "data starts two steps of 64 later than it could",
            layout(&[weight(256)], &|file| data(file, 256, &values)),
        ),
        Case::valid(
            "offsets_descending",
            "the first tensor's data lies after the second's",
            layout(&[weight(192), mask(128)], &|file| {
                data(file, 128, &ramp(64));
                data(file, 192, &values);
            }),
        ),
    ]
}

fn truncated() -> Vec<Case> {
    const RULE: &str = "mag.truncated";
    let file = base();
    let mut cases = vec![Case::reject(
        "cut_to_nothing",
        RULE,
        "no byte at all",
        Vec::new(),
    )];

    // In the middle of every field: after its first byte. A file cut within its magic is too
    // short to tell what it is, so the cut lies after the third byte of it.
    for (tag, start) in file.tags().filter(|(tag, _)| *tag != "records_end") {
        let keep = if tag == "magic" { 3 } else { start + 1 };
        cases.push(Case::reject(
            format!("cut_in_{}", tag.replace('.', "_")),
            RULE,
            format!("the file ends within {tag}"),
            file.as_slice()[..keep].to_vec(),
        ));
    }

    let end = file.position("records_end");
    let mut cut = |name: &str, about: &str, keep: usize| {
        let bytes = file.as_slice()[..keep].to_vec();
        cases.push(Case::reject(name, RULE, about, bytes));
    };
    cut("cut_after_header", "counts above zero, but no record", 24);
    cut("cut_after_records", "records without data", end);
    cut(
        "cut_in_gap",
        "the file ends in the gap before the data",
        191,
    );
    cut("cut_before_data", "the file ends where data starts", 192);
    cut(
        "cut_in_data",
        "the last tensor lacks its last byte",
        file.len() - 1,
    );

    let claim = |field, value: u32| changed(|file| file.set_u32_at(field, value));
    cases.extend([
        Case::reject(
            "num_tensors_max",
            RULE,
            "2^32-1 tensors in a file of a few hundred bytes",
            claim("num_tensors", u32::MAX),
        ),
        Case::reject(
            "num_meta_kv_max",
            RULE,
            "2^32-1 metadata records in a file of a few hundred bytes",
            claim("num_meta_kv", u32::MAX),
        ),
        Case::reject(
            "meta_key_past_end",
            RULE,
            "a metadata key that would run past the end of the file",
            claim("meta1.key_length", 65535),
        ),
        Case::reject(
            "tensor_key_past_end",
            RULE,
            "a tensor key that would run past the end of the file",
            claim("tensor1.key_length", 65535),
        ),
        Case::reject(
            "tensor_rank_255_no_dims",
            RULE,
            "rank 255 in a file without room",
            {
                let wide = Tensor {
                    aux: u32::from(F32) | 255 << 8,
                    ..WEIGHT
                };
                lone(wide, 24)
            },
        ),
        Case::reject(
            "data_past_end",
            RULE,
            "data would start at the end of the file",
            lone(
                Tensor {
                    offset: 192,
                    ..tensor(BOOL, 0, &[3], b"mask")
                },
                64,
            ),
        ),
        Case::reject(
            "data_far_past_end",
            RULE,
            "data would start at 2^62",
            lone(
                Tensor {
                    offset: 1 << 62,
                    ..tensor(BOOL, 0, &[3], b"mask")
                },
                64,
            ),
        ),
        Case::reject(
            "data_of_max_size",
            RULE,
            "2^63-1 bytes, the largest size there can be, in a small file",
            lone(tensor(BOOL, 128, &[MAX], b"mask"), 64),
        ),
    ]);
    cases
}

fn bad_headers() -> Vec<Case> {
    let magic = |bytes: &[u8]| changed(|file| file.set_bytes_at("magic", bytes));
    vec![
        Case::reject(
            "magic_other",
            "mag.header.magic",
            "the last byte of the magic differs",
            magic(b"MAG?"),
        ),
        Case::reject(
            "magic_lower_case",
            "mag.header.magic",
            "the magic in lower case",
            magic(b"mag!"),
        ),
        Case::reject(
            "magic_reversed",
            "mag.header.magic",
            "the magic as a big-endian writer would store it",
            magic(b"!GAM"),
        ),
        Case::reject(
            "version_0",
            "mag.header.version",
            "versions start at 1",
            changed(|file| file.set_u32_at("version", 0)),
        ),
        Case::reject(
            "header_aux_low_bit",
            "mag.header.aux",
            "the lowest reserved bit of the header",
            changed(|file| file.set_u32_at("aux", 1)),
        ),
        Case::reject(
            "header_aux_high_bit",
            "mag.header.aux",
            "the highest reserved bit of the header",
            changed(|file| file.set_u32_at("aux", 1 << 31)),
        ),
    ]
}

/// Header and records of the base with the checksum field as zero.
fn unsealed(file: &LeBuffer) -> Vec<u8> {
    let mut file = file.clone();
    file.set_u32_at("checksum", 0);
    file.as_slice()[..file.position("records_end")].to_vec()
}

/// The base with a checksum of another making.
fn changed_checksum(checksum: impl FnOnce(&LeBuffer) -> u32) -> Vec<u8> {
    let mut file = base();
    let checksum = checksum(&file);
    file.set_u32_at("checksum", checksum);
    file.into_vec()
}

/// The base with something changed that the checksum no longer fits.
fn tampered(change: impl FnOnce(&mut LeBuffer) -> &mut LeBuffer) -> Vec<u8> {
    let mut file = base();
    change(&mut file);
    file.into_vec()
}

fn bad_checksums() -> Vec<Case> {
    let ieee_of = |change: fn(&mut LeBuffer) -> &mut LeBuffer| {
        let mut file = base();
        let checksum = crc32_ieee(&unsealed(&file));
        file.set_u32_at("checksum", checksum);
        change(&mut file);
        file.into_vec()
    };
    let cases = [
        (
            "checksum_zero",
            "zero, as a write that failed leaves it, is no sign of a file without checksum",
            changed_checksum(|_| 0),
        ),
        ("checksum_zero_empty", "zero in a file without records", {
            let mut file = records(&[], &[]);
            file.set_u32_at("checksum", 0);
            file.into_vec()
        }),
        (
            "checksum_bit_flipped",
            "one bit of the field is wrong",
            changed_checksum(|file| crc32c(&unsealed(file)[12..]) ^ 0x0001_0000),
        ),
        (
            "checksum_big_endian",
            "the right value in the wrong byte order",
            changed_checksum(|file| crc32c(&unsealed(file)[12..]).swap_bytes()),
        ),
        (
            "checksum_crc32c_whole_header",
            "CRC-32C over the whole header with the field as zero",
            changed_checksum(|file| crc32c(&unsealed(file))),
        ),
        (
            "checksum_crc32c_with_data",
            "CRC-32C that runs on to the end of the file",
            changed_checksum(|file| crc32c(&file.as_slice()[12..])),
        ),
        (
            "checksum_ieee_from_12",
            "IEEE over the range that only CRC-32C has",
            changed_checksum(|file| crc32_ieee(&unsealed(file)[12..])),
        ),
        (
            "checksum_ieee_with_data",
            "IEEE that runs on to the end of the file",
            changed_checksum(|file| {
                let mut file = file.clone();
                file.set_u32_at("checksum", 0);
                crc32_ieee(file.as_slice())
            }),
        ),
        (
            "checksum_ieee_header_only",
            "IEEE over the header without the records",
            changed_checksum(|file| crc32_ieee(&unsealed(file)[..24])),
        ),
        (
            "checksum_ieee_key_changed",
            "the checksum of the text, but a key has changed",
            ieee_of(|file| file.set_bytes_at("tensor1.key", b"mast")),
        ),
        (
            "meta_payload_changed",
            "a metadata value has changed",
            tampered(|file| file.set_u64_at("meta0.payload", 1001)),
        ),
        (
            "meta_key_changed",
            "a metadata key has changed",
            tampered(|file| file.set_bytes_at("meta0.key", b"stepz")),
        ),
        (
            "tensor_key_changed",
            "a tensor key has changed",
            tampered(|file| file.set_bytes_at("tensor1.key", b"mast")),
        ),
        (
            "tensor_offset_changed",
            "an offset has changed to another that would do",
            tampered(|file| file.set_u64_at("tensor1.offset", 320).fill(64, 0)),
        ),
        (
            "tensor_dtype_changed",
            "a data type has changed to another that would fit",
            tampered(|file| file.set_u8_at("tensor0.aux", I32)),
        ),
        (
            "num_tensors_one_less",
            "the last tensor is not counted",
            changed(|file| file.set_u32_at("num_tensors", 1)),
        ),
    ];
    cases
        .into_iter()
        .map(|(name, about, bytes)| Case::reject(name, "mag.header.checksum", about, bytes))
        .collect()
}

fn bad_metadata() -> Vec<Case> {
    let of = |meta: Meta| {
        let mut file = records(&[meta], &[WEIGHT]);
        data(&mut file, 128, &f32s(&WEIGHT_DATA));
        file.into_vec()
    };
    let aux = |aux| of(Meta { aux, ..STEPS });
    let long_key = vec![b'k'; 65536];
    let mut cases = vec![
        Case::reject(
            "meta_aux_low_bit",
            "mag.meta.aux",
            "the lowest reserved bit of a metadata record",
            aux(I64_META | 1 << 8),
        ),
        Case::reject(
            "meta_aux_high_bit",
            "mag.meta.aux",
            "the highest reserved bit of a metadata record",
            aux(I64_META | 1 << 31),
        ),
        Case::reject(
            "num_meta_kv_one_more",
            "mag.meta.aux",
            "a tensor record counted as metadata: its rank falls on reserved bits",
            {
                let mut file = records(&[], &[tensor(F16, 128, &[2], b"half"), WEIGHT]);
                file.set_u32_at("num_tensors", 1);
                file.set_u32_at("num_meta_kv", 1);
                seal(&mut file);
                file.into_vec()
            },
        ),
        Case::reject(
            "meta_type_0",
            "mag.meta.type",
            "the tag of tensors, which no metadata record may have",
            aux(0),
        ),
        Case::reject(
            "meta_key_empty",
            "mag.meta.key_length",
            "a key of no bytes",
            of(Meta { key: b"", ..STEPS }),
        ),
        Case::reject(
            "meta_key_65536_bytes",
            "mag.meta.key_length",
            "a key one byte too long, all of it in the file",
            records(
                &[Meta {
                    key: &long_key,
                    ..STEPS
                }],
                &[],
            )
            .into_vec(),
        ),
        Case::reject(
            "meta_key_length_max",
            "mag.meta.key_length",
            "a key of 2^32-1 bytes",
            changed(|file| file.set_u32_at("meta0.key_length", u32::MAX)),
        ),
        Case::reject(
            "meta_key_twice",
            "mag.meta.duplicate",
            "two metadata records with one key and different values",
            records(
                &[
                    STEPS,
                    Meta {
                        payload: 7,
                        ..STEPS
                    },
                ],
                &[],
            )
            .into_vec(),
        ),
        Case::reject(
            "meta_key_twice_apart",
            "mag.meta.duplicate",
            "two metadata records with one key and one value, another between them",
            records(
                &[
                    STEPS,
                    Meta {
                        key: b"stops",
                        ..STEPS
                    },
                    STEPS,
                ],
                &[],
            )
            .into_vec(),
        ),
    ];
    for (name, about, key) in BAD_UTF8 {
        cases.push(Case::reject(
            format!("meta_key_{name}"),
            "mag.meta.key",
            *about,
            of(Meta { key, ..STEPS }),
        ));
    }
    cases
}

const BAD_UTF8: &[(&str, &str, &[u8])] = &[
    ("overlong", "an overlong form of a slash", b"a\xC0\xAFb"),
    ("surrogate", "half of a surrogate pair", b"a\xED\xA0\x80b"),
    (
        "above_10ffff",
        "a code point above U+10FFFF",
        b"a\xF4\x90\x80\x80",
    ),
    (
        "cut_character",
        "a character cut after two of three bytes",
        b"a\xE2\x82",
    ),
    (
        "lone_continuation",
        "a continuation byte with nothing before it",
        b"\x80a",
    ),
    ("byte_ff", "a byte that no UTF-8 text has", b"a\xFFb"),
];

fn bad_shapes() -> Vec<Case> {
    let numel = |numel, tensor: Tensor| lone(Tensor { numel, ..tensor }, 64);
    let of = |dtype, shape: &[u64]| lone(tensor(dtype, 128, shape, b"x"), 64);
    vec![
        Case::reject(
            "tensor_aux_low_bit",
            "mag.tensor.aux",
            "the lowest reserved bit of a tensor record",
            lone(
                Tensor {
                    aux: WEIGHT.aux | 1 << 16,
                    ..WEIGHT
                },
                24,
            ),
        ),
        Case::reject(
            "tensor_aux_high_bit",
            "mag.tensor.aux",
            "the highest reserved bit of a tensor record",
            lone(
                Tensor {
                    aux: WEIGHT.aux | 1 << 31,
                    ..WEIGHT
                },
                24,
            ),
        ),
        Case::reject(
            "num_tensors_one_more",
            "mag.tensor.aux",
            "the padding counted as a tensor record: its 0xFF fall on reserved bits",
            changed(|file| file.set_u32_at("num_tensors", 3)),
        ),
        Case::reject(
            "rank_0",
            "mag.tensor.rank",
            "no dimension, one element",
            of(F32, &[]),
        ),
        Case::reject(
            "dim_0",
            "mag.tensor.dim",
            "a dimension of zero, in the middle",
            of(F32, &[2, 0, 3]),
        ),
        Case::reject(
            "dim_above_max",
            "mag.tensor.dim",
            "a dimension of 2^63",
            of(BOOL, &[1, MAX + 1]),
        ),
        Case::reject(
            "dim_u64_max",
            "mag.tensor.dim",
            "a dimension of 2^64-1",
            of(BOOL, &[u64::MAX]),
        ),
        Case::reject(
            "shape_overflow",
            "mag.tensor.shape",
            "dimensions whose product is 2^65",
            numel(24, tensor(F32, 128, &[1 << 33, 1 << 32], b"x")),
        ),
        Case::reject(
            "shape_overflow_wraps",
            "mag.tensor.shape",
            "dimensions whose product is 4 above 2^64: it wraps to the element count stored",
            of(F32, &[5, 3_689_348_814_741_910_324]),
        ),
        Case::reject(
            "shape_overflow_three",
            "mag.tensor.shape",
            "three dimensions whose product overflows at the last",
            numel(1, tensor(F32, 128, &[1 << 31, 1 << 31, 1 << 31], b"x")),
        ),
        Case::reject(
            "numel_too_high",
            "mag.tensor.numel",
            "one element more than the shape has",
            numel(7, WEIGHT),
        ),
        Case::reject(
            "numel_too_low",
            "mag.tensor.numel",
            "one element less than the shape has",
            numel(5, WEIGHT),
        ),
        Case::reject(
            "numel_zero",
            "mag.tensor.numel",
            "no elements beside a shape that has six",
            numel(0, WEIGHT),
        ),
        Case::reject(
            "numel_is_bytes",
            "mag.tensor.numel",
            "the byte size where the element count belongs",
            numel(24, WEIGHT),
        ),
        Case::reject(
            "numel_u64_max",
            "mag.tensor.numel",
            "2^64-1 elements beside a small shape",
            numel(u64::MAX, WEIGHT),
        ),
        Case::reject(
            "numel_above_max",
            "mag.tensor.numel",
            "2^63 elements, as the shape has: one more than allowed",
            of(BOOL, &[1 << 62, 2]),
        ),
        Case::reject(
            "size_overflow",
            "mag.tensor.size",
            "2^62 f32: the byte size is 2^64 and wraps to zero",
            of(F32, &[1 << 62]),
        ),
        Case::reject(
            "size_overflow_wraps",
            "mag.tensor.size",
            "2^62+6 f32: the byte size wraps to the 24 that are there",
            of(F32, &[(1 << 62) + 6]),
        ),
        Case::reject(
            "size_above_max",
            "mag.tensor.size",
            "2^62 f16: a byte size of 2^63, one more than allowed",
            of(F16, &[1 << 62]),
        ),
    ]
}

fn bad_offsets() -> Vec<Case> {
    let at = |offset| lone(Tensor { offset, ..WEIGHT }, 64);
    let pair = |first: Tensor, second: Tensor| {
        let mut file = records(&[], &[first, second]);
        data(&mut file, 128, &ramp(192));
        file.into_vec()
    };
    let wide = tensor(BOOL, 128, &[65], b"wide");
    let mask = |offset| tensor(BOOL, offset, &[3], b"mask");
    let inside = {
        let long = Tensor {
            key: b"a.longer.key.that.moves.the.end.of.the.records",
            ..WEIGHT
        };
        let mut file = records(&[STEPS], &[long]);
        assert!(file.len() > 128);
        data(&mut file, 192, &ramp(64));
        file.into_vec()
    };
    vec![
        Case::reject(
            "offset_of_32",
            "mag.tensor.offset_alignment",
            "data on a multiple of 32 instead of 64",
            at(160),
        ),
        Case::reject(
            "offset_off_by_one",
            "mag.tensor.offset_alignment",
            "data one byte past a multiple of 64",
            at(129),
        ),
        Case::reject(
            "offset_zero",
            "mag.tensor.offset",
            "data at the start of the file",
            at(0),
        ),
        Case::reject(
            "offset_in_records",
            "mag.tensor.offset",
            "data at 64, within its own record",
            at(64),
        ),
        Case::reject(
            "offset_before_end_of_records",
            "mag.tensor.offset",
            "data at 128, a few bytes before the records end",
            inside,
        ),
        Case::reject(
            "offset_plus_size_overflow",
            "mag.tensor.offset",
            "data of 65 bytes at 2^64-64",
            lone(
                Tensor {
                    offset: u64::MAX - 63,
                    ..wide
                },
                64,
            ),
        ),
        Case::reject(
            "overlap_same_range",
            "mag.tensor.overlap",
            "two tensors with the same bytes",
            pair(
                mask(128),
                Tensor {
                    key: b"mark",
                    ..mask(128)
                },
            ),
        ),
        Case::reject(
            "overlap_last_byte",
            "mag.tensor.overlap",
            "65 bytes at 128 reach one byte into the tensor at 192",
            pair(wide, mask(192)),
        ),
        Case::reject(
            "overlap_descending",
            "mag.tensor.overlap",
            "the same with the later data first in the records",
            pair(mask(192), wide),
        ),
        Case::reject(
            "overlap_within",
            "mag.tensor.overlap",
            "a small tensor in the middle of a large one",
            pair(tensor(BOOL, 128, &[192], b"wide"), mask(192)),
        ),
        Case::reject(
            "overlap_not_next",
            "mag.tensor.overlap",
            "three tensors: the first reaches past the second into the third",
            {
                let wide = tensor(BOOL, 192, &[150], b"wide");
                let next = mask(256);
                let last = Tensor {
                    key: b"last",
                    ..mask(320)
                };
                let mut file = records(&[], &[wide, next, last]);
                data(&mut file, 192, &ramp(150));
                file.into_vec()
            },
        ),
    ]
}

fn bad_tensor_keys() -> Vec<Case> {
    let keyed = |key| lone(Tensor { key, ..WEIGHT }, 24);
    let long_key = vec![b'k'; 65536];
    let mut cases = vec![
        Case::reject(
            "tensor_key_empty",
            "mag.tensor.key_length",
            "a key of no bytes",
            keyed(b""),
        ),
        Case::reject(
            "tensor_key_65536_bytes",
            "mag.tensor.key_length",
            "a key one byte too long, all of it in the file",
            {
                let offset = 65664;
                let long = Tensor {
                    offset,
                    key: &long_key,
                    ..WEIGHT
                };
                let mut file = records(&[], &[long]);
                data(&mut file, 65664, &f32s(&WEIGHT_DATA));
                file.into_vec()
            },
        ),
        Case::reject(
            "tensor_key_length_max",
            "mag.tensor.key_length",
            "a key of 2^32-1 bytes",
            changed(|file| file.set_u32_at("tensor0.key_length", u32::MAX)),
        ),
        Case::reject(
            "tensor_key_twice",
            "mag.tensor.duplicate",
            "two tensors with one key",
            {
                let again = tensor(BOOL, 192, &[3], b"weight");
                let mut file = records(&[], &[WEIGHT, again]);
                data(&mut file, 128, &ramp(67));
                file.into_vec()
            },
        ),
    ];
    for (name, about, key) in BAD_UTF8 {
        cases.push(Case::reject(
            format!("tensor_key_{name}"),
            "mag.tensor.key",
            *about,
            keyed(key),
        ));
    }
    cases
}

fn unsupported() -> Vec<Case> {
    let version = |version| changed(|file| file.set_u32_at("version", version));
    let dtype = |code| {
        let mut file = records(
            &[],
            &[tensor(code, 128, &[6], b"other"), {
                Tensor {
                    offset: 192,
                    ..WEIGHT
                }
            }],
        );
        data(&mut file, 128, &ramp(64));
        data(&mut file, 192, &f32s(&WEIGHT_DATA));
        file.into_vec()
    };
    let meta_type = |aux| {
        records(
            &[
                STEPS,
                Meta {
                    aux,
                    key: b"x",
                    ..STEPS
                },
            ],
            &[],
        )
        .into_vec()
    };
    vec![
        Case::unsupported(
            "version_2",
            "mag.version",
            "the version after this one",
            version(2),
        ),
        Case::unsupported(
            "version_max",
            "mag.version",
            "the highest version number there can be",
            version(u32::MAX),
        ),
        Case::unsupported(
            "version_byte_swapped",
            "mag.version",
            "version 1 in big-endian: a file from a big-endian host",
            version(1u32.swap_bytes()),
        ),
        Case::unsupported(
            "dtype_4",
            "mag.dtype",
            "code 4, i8 in later builds, beside a tensor that can be read",
            dtype(4),
        ),
        Case::unsupported(
            "dtype_11",
            "mag.dtype",
            "a code that no build had",
            dtype(11),
        ),
        Case::unsupported(
            "dtype_255",
            "mag.dtype",
            "the last code there can be",
            dtype(255),
        ),
        Case::unsupported(
            "meta_type_3",
            "mag.meta.type",
            "the first metadata type without a meaning",
            meta_type(3),
        ),
        Case::unsupported(
            "meta_type_255",
            "mag.meta.type",
            "the last metadata type there can be",
            meta_type(255),
        ),
    ]
}

/// Files of the same project with the same extension, told apart by the first 36 bytes.
fn other_generations() -> Vec<Case> {
    vec![
        Case::unsupported(
            "legacy_ampersand",
            "mag.version",
            "the layout before version 1, with one f32 tensor: magic MAG&, sections with markers",
            {
                let mut file = LeBuffer::new();
                file.text("MAG&").u32(1).u32(0).u32(1).u32(0).u32(0);
                file.text("KVDT").text("THDR").u32(1);
                for dim in [2, 1, 1, 1, 1, 1] {
                    file.u64(dim);
                }
                file.u32(u32::from(F32) | 1 << 8).fill(64, 0).text("w");
                file.text("TDAT").bytes(&f32s(&[1.0, 2.0]));
                file.into_vec()
            },
        ),
        Case::unsupported(
            "version_100_records",
            "mag.version",
            "version 100 as unreleased builds wrote it: this layout under another number",
            changed(|file| file.set_u32_at("version", 100)),
        ),
        Case::unsupported(
            "version_100_records_empty",
            "mag.version",
            "the same without records: 24 bytes",
            {
                let mut file = records(&[], &[]);
                file.set_u32_at("version", 100);
                file.into_vec()
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_lies_as_drawn() {
        let file = base();
        let positions: Vec<_> = file.tags().map(|(_, at)| at).collect();
        let expected = [
            0, 4, 8, 12, 16, 20, // header
            24, 28, 36, 40, // steps
            45, 49, 57, 61, // lr
            63, 67, 75, 83, 99, 103, // weight
            109, 113, 121, 129, 137, 141, // mask
            145, // end of the records
        ];
        assert_eq!(positions, expected);
        assert_eq!(file.len(), 256 + 5);
        assert!(file.as_slice()[145..192].iter().all(|&byte| byte == 0xFF));
    }

    #[test]
    fn records_of_a_file_written_out() {
        let mut file = records(&[STEPS], &[tensor(I32, 128, &[2], b"w")]);
        file.set_u32_at("checksum", 0);
        let mut expected: Vec<u8> = Vec::new();
        expected.extend(b"MAG!\x01\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0");
        expected.extend(b"\x01\0\0\0\xE8\x03\0\0\0\0\0\0\x05\0\0\0steps");
        expected.extend(b"\x03\x01\0\0\x02\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0");
        expected.extend(b"\x02\0\0\0\0\0\0\0\x01\0\0\0w");
        assert_eq!(file.as_slice(), expected);
    }
}
