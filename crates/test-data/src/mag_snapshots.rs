//! magnetron's snapshots: 0.1.0 and 0.2.0 with a pool of names, 0.3.0 with a JSON document.
//!
//! Their cases are among those of mag, under names that start with `snapshot_`. Unless a case is
//! about the checksum it has the right one.

use crate::{Case, LeBuffer, crc32c};

/// Every hand-assembled snapshot.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        valid_pooled(),
        bad_pools(),
        bad_descriptors(),
        bad_layouts(),
        bad_sections(),
        other_versions(),
        valid_manifests(),
        bad_headers(),
        bad_documents(),
        bad_records(),
        bad_ranges(),
        unsupported(),
    ]
    .concat()
}

/// A snapshot 0.1.0 (`version` 100) or 0.2.0 (200) with these tensors in this order: name, dtype
/// code, dims and bytes.
#[must_use]
pub fn pooled_file(version: u32, tensors: &[(&str, u8, &[u64], &[u8])]) -> Vec<u8> {
    let step = u64::from(count(align(version)));
    let mut offset = 0u64;
    let mut records = Vec::new();
    for (key, &(_, dtype, shape, bytes)) in (0u32..).zip(tensors) {
        offset = offset.next_multiple_of(step);
        records.push(Tensor {
            dtype,
            key,
            numel: shape.iter().product(),
            offset,
            shape,
        });
        offset += u64::from(count(bytes.len()));
    }
    let names: Vec<&[u8]> = tensors.iter().map(|tensor| tensor.0.as_bytes()).collect();
    let mut file = pooled(version, &names, &records);
    for &(_, _, _, bytes) in tensors {
        file.pad_to(align(version), 0).bytes(bytes);
    }
    file.into_vec()
}

/// A snapshot 0.3.0 with this text as its metadata, this one as its map of tensors, and data.
#[must_use]
pub fn manifest_file(metadata: &str, map: &str, data: &[u8]) -> Vec<u8> {
    Manifest::new(document(metadata, map), data.to_vec()).file()
}

/// The two versions that have the same layout, and so the same faults, with a word for names.
const POOLED: [(&str, u32); 2] = [("0_1", 100), ("0_2", 200)];

const MAX: u64 = i64::MAX as u64;

/// A descriptor, its rank aside.
#[derive(Clone, Copy)]
struct Tensor<'a> {
    dtype: u8,
    key: u32,
    numel: u64,
    offset: u64,
    shape: &'a [u64],
}

/// Code 0 is f32 in every version.
const F32: u8 = 0;

/// The code of u8, which moved.
const fn u8_code(version: u32) -> u8 {
    if version == 100 { 4 } else { 5 }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("test files are small")
}

const fn align(version: u32) -> usize {
    if version == 100 { 1 } else { 16 }
}

/// Everything up to and with `BUF!` and the filler, checksum included.
fn pooled(version: u32, names: &[&[u8]], tensors: &[Tensor]) -> LeBuffer {
    let mut file = LeBuffer::new();
    file.tag("magic").text("MAG!");
    file.tag("version").u32(version);
    file.tag("timestamp").u64(1_764_547_200);
    file.tag("checksum").u32(0);
    file.tag("aux").u32(0);
    file.tag("metadata").u32(0);
    file.tag("tensors").u32(count(tensors.len()));
    file.tag("srp").text("SRP!");
    file.tag("strings").u32(count(names.len()));
    let mut end = 0;
    file.tag("string0").u32(end);
    for (index, name) in names.iter().enumerate() {
        end += count(name.len());
        file.tag(format!("string{}", index + 1)).u32(end);
    }
    file.tag("blob").bytes(&names.concat());
    file.tag("mdt").text("MDT!");
    file.tag("dsc").text("DSC!");
    for (index, tensor) in tensors.iter().enumerate() {
        let field = |name| format!("tensor{index}.{name}");
        let rank = u8::try_from(tensor.shape.len()).expect("a small rank");
        file.tag(field("rank")).u8(rank);
        file.tag(field("dtype")).u8(tensor.dtype);
        file.tag(field("aux")).u16(0);
        file.tag(field("key")).u32(tensor.key);
        file.tag(field("numel")).u64(tensor.numel);
        file.tag(field("offset")).u64(tensor.offset);
        file.tag(field("shape"));
        for &dim in tensor.shape {
            file.u64(dim);
        }
    }
    file.tag("buf").text("BUF!");
    seal(&mut file);
    file.pad_to(align(version), 0);
    file.tag("data");
    file
}

/// Writes the checksum over everything from `aux` up to `BUF!`.
fn seal(file: &mut LeBuffer) {
    let checksum = crc32c(&file.as_slice()[20..file.position("buf")]);
    file.set_u32_at("checksum", checksum);
}

/// `w` f32 `[2, 3]` and `mask` u8 `[3]`, the second first in the file, as hashing may have it.
fn base(version: u32) -> LeBuffer {
    let mask = Tensor {
        dtype: u8_code(version),
        key: 1,
        numel: 3,
        offset: 0,
        shape: &[3],
    };
    let w = Tensor {
        dtype: F32,
        key: 0,
        numel: 6,
        offset: if version == 100 { 3 } else { 16 },
        shape: &[2, 3],
    };
    let mut file = pooled(version, &[b"w", b"mask"], &[mask, w]);
    file.bytes(&[1, 0, 255]);
    if version != 100 {
        file.fill(13, 0);
    }
    file.bytes(&f32s(&[0.0, 1.0, -2.5, 1e-3, 65504.0, -0.0]));
    file
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// The base with something changed, and the checksum right again.
fn changed(version: u32, change: impl FnOnce(&mut LeBuffer) -> &mut LeBuffer) -> Vec<u8> {
    let mut file = base(version);
    change(&mut file);
    seal(&mut file);
    file.into_vec()
}

/// Two strings in place of `w` and `mask`, each as long.
fn named(version: u32, w: &[u8], mask: &[u8]) -> Vec<u8> {
    changed(version, |file| {
        file.set_bytes_at("blob", &[w, mask].concat())
    })
}

/// The name of a case of one of the pooled versions.
fn name_of(version: &str, rest: &str) -> String {
    format!("snapshot_{version}_{rest}")
}

fn valid_pooled() -> Vec<Case> {
    let mut cases = Vec::new();
    for (label, version) in POOLED {
        let valid =
            |rest: &str, about: &str, bytes| Case::valid(name_of(label, rest), about, bytes);
        let codes = if version == 100 { 12 } else { 13 };
        cases.extend([
            valid(
                "base",
                "f32 [2, 3] and u8 [3], in the order of a hash table",
                base(version).into_vec(),
            ),
            valid(
                "empty",
                "no strings and no tensors",
                pooled(version, &[], &[]).into_vec(),
            ),
            valid("scalar", "rank 0: one element", {
                let scalar = Tensor {
                    dtype: F32,
                    key: 0,
                    numel: 1,
                    offset: 0,
                    shape: &[],
                };
                let mut file = pooled(version, &[b"r"], &[scalar]);
                file.bytes(&f32s(&[0.5]));
                file.into_vec()
            }),
            valid(
                "dtypes",
                "one element of each dtype, by the codes of this version",
                every_dtype(version, codes),
            ),
            valid(
                "no_elements",
                "zero dims: no bytes, and the others next to them may be huge",
                {
                    let last = if version == 100 { 4 } else { 16 };
                    let tensor = |key, offset, numel, shape| Tensor {
                        dtype: F32,
                        key,
                        numel,
                        offset,
                        shape,
                    };
                    let tensors = [
                        tensor(0, 0, 0, &[0, MAX][..]),
                        tensor(1, 0, 1, &[1]),
                        tensor(2, last, 0, &[3, 0]),
                    ];
                    let mut file = pooled(version, &[b"a", b"b", b"c"], &tensors);
                    file.bytes(&f32s(&[1.0])).pad_to(align(version), 0);
                    file.into_vec()
                },
            ),
            valid("rank_63", "the highest rank; releases make 16 at most", {
                let tensor = Tensor {
                    dtype: F32,
                    key: 0,
                    numel: 1,
                    offset: 0,
                    shape: &[1; 63],
                };
                let mut file = pooled(version, &[b"deep"], &[tensor]);
                file.bytes(&f32s(&[1.0]));
                file.into_vec()
            }),
            valid("unused_string", "a string that is no tensor's name", {
                let tensor = Tensor {
                    dtype: F32,
                    key: 1,
                    numel: 1,
                    offset: 0,
                    shape: &[1],
                };
                let mut file = pooled(version, &[b"nobody", "gr\u{FC}n".as_bytes()], &[tensor]);
                file.bytes(&f32s(&[1.0]));
                file.into_vec()
            }),
            valid(
                "name_with_nul",
                "a NUL in a name, which no release stores",
                named(version, b"\0", b"ma\0k"),
            ),
            valid(
                "timestamp",
                "the last second there can be, outside of the checksum",
                changed(version, |file| file.set_u64_at("timestamp", u64::MAX)),
            ),
        ]);
    }
    cases.push(Case::valid(
        name_of("0_2", "filler"),
        "filler that is not zero",
        {
            let file = base(200);
            let (buf, data) = (file.position("buf") + 4, file.position("data"));
            let mut bytes = file.into_vec();
            bytes[buf..data].fill(0xAA);
            bytes[data + 3..data + 16].fill(0xBB);
            bytes
        },
    ));
    cases
}

fn every_dtype(version: u32, codes: u8) -> Vec<u8> {
    let names: Vec<Vec<u8>> = (0..codes).map(|code| vec![b'a' + code]).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    // By code: f32 f16 bf16 (f8) bool u8 i8 u16 i16 u32 i32 u64 i64.
    let mut sizes = vec![4u64, 2, 2, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8];
    if version == 100 {
        sizes.remove(3);
    }
    let step = u64::from(count(align(version)));
    let mut offset = 0;
    let mut tensors = Vec::new();
    for (key, &size) in (0u8..).zip(&sizes) {
        tensors.push(Tensor {
            dtype: key,
            key: key.into(),
            numel: 1,
            offset,
            shape: &[1],
        });
        offset = (offset + size).next_multiple_of(step);
    }
    let mut file = pooled(version, &names, &tensors);
    for (code, &size) in (1u8..).zip(&sizes) {
        file.pad_to(if version == 100 { 1 } else { 16 }, 0);
        for byte in 0..u8::try_from(size).expect("an element") {
            // A bool is 0 or 1.
            file.u8(if size == 1 {
                1
            } else {
                code.wrapping_add(byte)
            });
        }
    }
    file.into_vec()
}

fn bad_pools() -> Vec<Case> {
    let mut cases = Vec::new();
    for (label, version) in POOLED {
        let mut reject = |rest: &str, rule, about: &str, bytes| {
            cases.push(Case::reject(name_of(label, rest), rule, about, bytes));
        };
        reject(
            "strings_max",
            "mag.truncated",
            "2^32-1 strings, of which the table has one more entry",
            changed(version, |file| file.set_u32_at("strings", u32::MAX)),
        );
        reject(
            "strings_many",
            "mag.truncated",
            "more strings than the file has bytes for",
            changed(version, |file| file.set_u32_at("strings", 1000)),
        );
        reject(
            "pool_start",
            "mag.snapshot.pool.start",
            "the first string starts at 1",
            changed(version, |file| file.set_u32_at("string0", 1)),
        );
        reject(
            "pool_empty_string",
            "mag.snapshot.pool.offset",
            "an empty string: an offset equal to the one before",
            changed(version, |file| file.set_u32_at("string1", 0)),
        );
        reject(
            "pool_descends",
            "mag.snapshot.pool.offset",
            "an offset below the one before",
            changed(version, |file| {
                file.set_u32_at("string1", 5).set_u32_at("string2", 1)
            }),
        );
        reject(
            "pool_end",
            "mag.truncated",
            "strings reach past the end of the file",
            changed(version, |file| file.set_u32_at("string2", u32::MAX)),
        );
        reject(
            "name_overlong",
            "mag.snapshot.pool.text",
            "an overlong form of the slash",
            named(version, b"w", b"a\xC0\xAFb"),
        );
        reject(
            "name_surrogate",
            "mag.snapshot.pool.text",
            "a surrogate in UTF-8",
            named(version, b"w", b"\xED\xA0\x80a"),
        );
        reject(
            "name_cut",
            "mag.snapshot.pool.text",
            "a character whose bytes two strings share",
            named(version, b"\xC3", b"\xBCabc"),
        );
        reject(
            "name_twice",
            "mag.snapshot.pool.duplicate",
            "two equal strings",
            {
                let tensors = [0, 1].map(|key| Tensor {
                    dtype: F32,
                    key,
                    numel: 0,
                    offset: 0,
                    shape: &[0],
                });
                pooled(version, &[b"twin", b"twin"], &tensors).into_vec()
            },
        );
    }
    cases
}

fn bad_descriptors() -> Vec<Case> {
    let mut cases = Vec::new();
    for (label, version) in POOLED {
        let mut reject = |rest: &str, rule, about: &str, bytes| {
            cases.push(Case::reject(name_of(label, rest), rule, about, bytes));
        };
        let shaped = |shape: &[u64], numel| {
            let tensor = Tensor {
                dtype: F32,
                key: 0,
                numel,
                offset: 0,
                shape,
            };
            let mut file = pooled(version, &[b"w"], &[tensor]);
            file.bytes(&f32s(&[1.0, 2.0, 3.0, 4.0]));
            file.into_vec()
        };
        reject(
            "tensors_max",
            "mag.truncated",
            "2^32-1 tensors",
            changed(version, |file| file.set_u32_at("tensors", u32::MAX)),
        );
        reject(
            "key_outside",
            "mag.snapshot.tensor.key",
            "key 2 of 2 strings",
            changed(version, |file| file.set_u32_at("tensor1.key", 2)),
        );
        reject(
            "key_twice",
            "mag.snapshot.tensor.key_twice",
            "both tensors have the first string as their name",
            changed(version, |file| file.set_u32_at("tensor0.key", 0)),
        );
        reject(
            "tensor_aux",
            "mag.snapshot.tensor.aux",
            "the second reserved byte of a descriptor is set",
            changed(version, |file| file.set_u16_at("tensor0.aux", 0x0100)),
        );
        reject(
            "rank_64",
            "mag.snapshot.tensor.rank",
            "one dim more than any reader takes",
            shaped(&[1; 64], 1),
        );
        reject(
            "dim",
            "mag.snapshot.tensor.dim",
            "a dim of 2^63 beside a zero",
            shaped(&[MAX + 1, 0], 0),
        );
        reject(
            "product",
            "mag.snapshot.tensor.shape",
            "dims whose product is 4 modulo 2^64",
            shaped(&[5, 3_689_348_814_741_910_324], 4),
        );
        reject(
            "product_beside_zero",
            "mag.snapshot.tensor.shape",
            "a zero does not hide that the others are too many",
            shaped(&[1 << 40, 0, 1 << 40], 0),
        );
        reject(
            "numel",
            "mag.snapshot.tensor.numel",
            "five elements of shape [4]",
            shaped(&[4], 5),
        );
        reject(
            "numel_of_none",
            "mag.snapshot.tensor.numel",
            "four elements of shape [4, 0]",
            shaped(&[4, 0], 4),
        );
        reject(
            "size",
            "mag.snapshot.tensor.size",
            "2^62 elements of four bytes",
            shaped(&[1 << 62], 1 << 62),
        );
        cases.push(Case::unsupported(
            name_of(label, "dtype_next"),
            "mag.dtype",
            "the first code that the version lacks, before a tensor that can be read",
            changed(version, |file| {
                file.set_u8_at("tensor0.dtype", if version == 100 { 12 } else { 13 })
            }),
        ));
        cases.push(Case::unsupported(
            name_of(label, "dtype_255"),
            "mag.dtype",
            "the last code there can be, on the last tensor, followed by bytes that belong to nothing",
            {
                let mut file = base(version);
                file.set_u8_at("tensor1.dtype", 255);
                seal(&mut file);
                file.fill(100, 7);
                file.into_vec()
            },
        ));
    }
    cases
}

fn bad_layouts() -> Vec<Case> {
    let mut cases = Vec::new();
    for (label, version) in POOLED {
        let mut reject = |rest: &str, rule, about: &str, bytes| {
            cases.push(Case::reject(name_of(label, rest), rule, about, bytes));
        };
        let second = if version == 100 { 3 } else { 16 };
        reject(
            "overlap",
            "mag.snapshot.tensor.offset",
            "the second tensor starts where the first does",
            changed(version, |file| file.set_u64_at("tensor1.offset", 0)),
        );
        reject(
            "gap",
            "mag.snapshot.tensor.offset",
            "16 bytes between the tensors",
            {
                let mut file = base(version);
                file.set_u64_at("tensor1.offset", second + 16);
                seal(&mut file);
                let mut bytes = file.as_slice().to_vec();
                let at = file.position("data") + 16;
                bytes.splice(at..at, [0; 16]);
                bytes
            },
        );
        reject(
            "offset_max",
            "mag.snapshot.tensor.offset",
            "an offset that wraps with the size",
            changed(version, |file| {
                file.set_u64_at("tensor1.offset", u64::MAX - 15)
            }),
        );
        reject(
            "leftover_offset",
            "mag.snapshot.tensor.offset",
            "left by a crash: a row of a larger tensor first, whose size moved the next",
            changed(version, |file| file.set_u64_at("tensor1.offset", 80)),
        );
        reject(
            "leftover_length",
            "mag.snapshot.length",
            "left by a crash: a row of a larger tensor last, whose size lengthened the file",
            {
                let mut file = base(version);
                file.fill(60, 0);
                file.into_vec()
            },
        );
        reject(
            "short",
            "mag.snapshot.length",
            "the last byte is missing",
            {
                let mut file = base(version);
                file.truncate(file.len() - 1);
                file.into_vec()
            },
        );
        reject(
            "empty_longer",
            "mag.snapshot.length",
            "no tensors, and a byte after them",
            {
                let mut file = pooled(version, &[], &[]);
                file.u8(0);
                file.into_vec()
            },
        );
        let unknown = |offset| {
            changed(version, |file| {
                file.set_u8_at("tensor0.dtype", 99)
                    .set_u64_at("tensor1.offset", offset)
            })
        };
        if version == 200 {
            reject(
                "after_unknown",
                "mag.snapshot.tensor.offset_unknown",
                "after a tensor of unknown size, at no multiple of 16",
                unknown(8),
            );
        }
        reject(
            "before_unknown",
            "mag.snapshot.tensor.offset_unknown",
            "after a tensor of unknown size, but before it",
            {
                let tensor = |dtype, key, offset| Tensor {
                    dtype,
                    key,
                    numel: 1,
                    offset,
                    shape: &[1],
                };
                let at = if version == 100 { 4 } else { 16 };
                let tensors = [tensor(F32, 0, 0), tensor(99, 1, at), tensor(F32, 2, 0)];
                let mut file = pooled(version, &[b"a", b"b", b"c"], &tensors);
                file.fill(64, 0);
                file.into_vec()
            },
        );
    }
    cases
}

fn bad_sections() -> Vec<Case> {
    let mut cases = Vec::new();
    for (label, version) in POOLED {
        let mut reject = |rest: &str, rule, about: &str, bytes| {
            cases.push(Case::reject(name_of(label, rest), rule, about, bytes));
        };
        for (tag, about) in [
            ("srp", "the marker of the strings"),
            ("mdt", "the marker of the metadata"),
            ("dsc", "the marker of the descriptors"),
            ("buf", "the marker of the data"),
        ] {
            reject(
                &format!("marker_{tag}"),
                "mag.snapshot.marker",
                &format!("{about} in lower case"),
                changed(version, |file| file.set_bytes_at(tag, tag.as_bytes())),
            );
        }
        reject(
            "aux",
            "mag.snapshot.aux",
            "the reserved field is 1",
            changed(version, |file| file.set_u32_at("aux", 1)),
        );
        reject(
            "metadata",
            "mag.snapshot.metadata",
            "one metadata record, which nothing describes",
            changed(version, |file| file.set_u32_at("metadata", 1)),
        );
        reject(
            "checksum",
            "mag.snapshot.checksum",
            "one bit of the checksum changed",
            {
                let mut file = base(version);
                let bit = file.as_slice()[16] ^ 1;
                file.set_u8_at("checksum", bit);
                file.into_vec()
            },
        );
        reject(
            "checksum_with_marker",
            "mag.snapshot.checksum",
            "a checksum that covers the marker of the data as well",
            {
                let mut file = base(version);
                let end = file.position("buf") + 4;
                let checksum = crc32c(&file.as_slice()[20..end]);
                file.set_u32_at("checksum", checksum);
                file.into_vec()
            },
        );
        reject(
            "checksum_name",
            "mag.snapshot.checksum",
            "a letter of a name changed after the checksum was made",
            {
                let mut file = base(version);
                file.set_u8_at("blob", b'v');
                file.into_vec()
            },
        );
        for (rest, len, about) in [
            ("cut_header", 31, "the last byte of the header is missing"),
            ("cut_marker", 35, "cut within the first marker"),
            ("cut_pool", 44, "cut within the table of strings"),
        ] {
            reject(rest, "mag.truncated", about, {
                let mut file = base(version);
                file.truncate(len);
                file.into_vec()
            });
        }
        reject(
            "cut_descriptor",
            "mag.truncated",
            "cut within the last descriptor",
            {
                let mut file = base(version);
                file.truncate(file.position("tensor1.shape") + 3);
                file.into_vec()
            },
        );
    }
    cases
}

/// What shares number 100 or comes near the numbers of snapshots.
fn other_versions() -> Vec<Case> {
    let mut cases = vec![
        Case::reject(
            "snapshot_100_short",
            "mag.truncated",
            "version 100 and 24 bytes, neither a file without records nor a snapshot",
            {
                let mut file = base(100);
                file.truncate(24).set_u8_at("aux", 1);
                file.into_vec()
            },
        ),
        Case::reject(
            "snapshot_100_marker_only",
            "mag.snapshot.metadata",
            "version 100 with the marker of strings, but a count of metadata",
            changed(100, |file| file.set_u32_at("metadata", 7)),
        ),
    ];
    for (label, version) in [("99", 99), ("101", 101), ("201", 201), ("301", 301)] {
        cases.push(Case::unsupported(
            format!("snapshot_version_{label}"),
            "mag.version",
            "next to the number of a snapshot",
            changed(200, |file| file.set_u32_at("version", version)),
        ));
    }
    cases
}

/// What a 0.3.0 file is made of.
struct Manifest {
    document: Vec<u8>,
    aux: u32,
    meta_offset: u64,
    meta_len: Option<u64>,
    data_offset: Option<u64>,
    data_len: Option<u64>,
    data: Vec<u8>,
}

impl Manifest {
    fn new(document: impl Into<Vec<u8>>, data: Vec<u8>) -> Self {
        Self {
            document: document.into(),
            aux: 0,
            meta_offset: 44,
            meta_len: None,
            data_offset: None,
            data_len: None,
            data,
        }
    }

    fn file(&self) -> Vec<u8> {
        let mut file = LeBuffer::new();
        let meta_len = self.document.len() as u64;
        let data_offset = (44 + meta_len).next_multiple_of(4096);
        file.text("MAG!").u32(300).u32(self.aux);
        file.u64(self.meta_offset);
        file.u64(self.meta_len.unwrap_or(meta_len));
        file.u64(self.data_offset.unwrap_or(data_offset));
        file.u64(self.data_len.unwrap_or(self.data.len() as u64));
        file.bytes(&self.document);
        file.pad_to(4096, 0).bytes(&self.data);
        file.into_vec()
    }
}

/// `w1` f32 `[2, 2]` at 0 and `mask` bool `[3]` at 4096.
const MAP: &str = concat!(
    r#"{"w1":{"shape":[2,2],"dtype":"float32","dtype_id":0,"offset":0,"nbytes":16},"#,
    r#""mask":{"shape":[3],"dtype":"boolean","dtype_id":4,"offset":4096,"nbytes":3}}"#,
);

fn map_data() -> Vec<u8> {
    let mut data = f32s(&[1.0, -2.0, 0.5, 3.0]);
    data.resize(4096, 0);
    data.extend([1, 0, 1]);
    data
}

/// A whole document around metadata and a map of tensors.
fn document(metadata: &str, map: &str) -> String {
    let head = concat!(
        r#""manifest_ver":1,"timestamp":"2026-01-01T00:00:00.000000+00:00","#,
        r#""magnetron_ver":"0.2.0","snapshot_ver":"0.3.0""#,
    );
    format!(r#"{{{head},"usr_metadata":{metadata},"tensor_map":{map}}}"#)
}

/// The two tensors with this metadata.
fn with_metadata(metadata: &str) -> Vec<u8> {
    Manifest::new(document(metadata, MAP), map_data()).file()
}

/// The two tensors, with text of the document replaced.
fn edited(old: &str, new: &str) -> Vec<u8> {
    let text = document(r#"{"lr":0.5}"#, MAP);
    assert!(text.contains(old), "{old}");
    Manifest::new(text.replacen(old, new, 1), map_data()).file()
}

/// One record under the name `w`, with `len` bytes of data.
fn lone(record: &str, len: usize) -> Vec<u8> {
    let map = format!(r#"{{"w":{record}}}"#);
    let data = (0u8..=250).cycle().take(len).collect();
    Manifest::new(document("{}", &map), data).file()
}

/// Any records, with `len` bytes of data.
fn mapped(records: &[(&str, &str, u64, u64)], len: usize) -> Vec<u8> {
    let record = |&(name, shape, offset, nbytes): &(&str, &str, u64, u64)| {
        format!(
            r#""{name}":{{"shape":{shape},"dtype":"uint8","dtype_id":5,"offset":{offset},"nbytes":{nbytes}}}"#
        )
    };
    let records: Vec<String> = records.iter().map(record).collect();
    let map = format!("{{{}}}", records.join(","));
    Manifest::new(document("{}", &map), vec![9; len]).file()
}

fn nested(levels: usize) -> String {
    // The document and its metadata are two levels.
    let inside = levels - 2;
    format!(
        r#"{{"deep":{}0{}}}"#,
        "[".repeat(inside),
        "]".repeat(inside)
    )
}

fn valid_manifests() -> Vec<Case> {
    let valid = |rest: &str, about: &str, bytes| Case::valid(name_of("0_3", rest), about, bytes);
    vec![
        valid(
            "base",
            "f32 [2, 2] and bool [3] on pages of their own",
            with_metadata("{}"),
        ),
        valid(
            "empty",
            "no tensors: no data at all",
            Manifest::new(document("{}", "{}"), Vec::new()).file(),
        ),
        valid(
            "empty_one_byte",
            "no tensors, and one byte of data, as the writer has it",
            Manifest::new(document("{}", "{}"), vec![0]).file(),
        ),
        valid("dtypes", "one element of each dtype", {
            let names = [
                "float32",
                "float16",
                "bfloat16",
                "float8_e4m3fn",
                "boolean",
                "uint8",
                "int8",
                "uint16",
                "int16",
                "uint32",
                "int32",
                "uint64",
                "int64",
            ];
            let sizes = [4u64, 2, 2, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8];
            let mut records = Vec::new();
            let mut data = Vec::new();
            for (id, (name, size)) in names.iter().zip(sizes).enumerate() {
                data.resize(id * 4096, 0);
                records.push(format!(
                    r#""{name}":{{"shape":[],"dtype":"{name}","dtype_id":{id},"offset":{},"nbytes":{size}}}"#,
                    id * 4096
                ));
                data.extend((0..size).map(|_| 1));
            }
            Manifest::new(document("{}", &format!("{{{}}}", records.join(","))), data).file()
        }),
        valid(
            "metadata",
            "values of every kind, nested",
            with_metadata(
                r#"{"epoch":3,"lr":5e-1,"note":"äö\u2028\ud83d\ude00\"\/\b\f\n\r\t","tags":["a",1,null,true,[2.5]],"nested":{"k":{"x":-7}},"none":null,"no":false,"empty":{},"":[]}"#,
            ),
        ),
        valid(
            "metadata_numbers",
            "NaN and infinities, integers of any size, floats of any form",
            with_metadata(
                r#"{"nan":NaN,"inf":[Infinity,-Infinity],"u64":18446744073709551615,"i64":-9223372036854775808,"i128":1180591620717411303424,"big":-1000000000000000000000000000000000000000000000001,"e":1E+400,"zero":-0,"tiny":-0.0e-5}"#,
            ),
        ),
        valid(
            "metadata_duplicates",
            "a key twice at the top and further in: the last one counts, in the first one's place",
            with_metadata(r#"{"1":"a","x":{"y":1,"z":2,"y":3},"1":"b"}"#),
        ),
        valid(
            "depth_1000",
            "as deep as a document may nest",
            with_metadata(&nested(1000)),
        ),
        valid(
            "white_space",
            "white space of all kinds wherever there may be any",
            {
                let text = document(r#"{"a":[1,2]}"#, MAP);
                let mut spaced = String::from("\n");
                for c in text.chars() {
                    match c {
                        '{' | '[' | ',' | ':' => spaced.push_str(&format!(" {c}\t\r\n")),
                        '}' | ']' => spaced.push_str(&format!("\n{c} ")),
                        c => spaced.push(c),
                    }
                }
                // The time stamp has colons of its own.
                let spaced = spaced.replace("00 :\t\r\n", "00:");
                Manifest::new(spaced, map_data()).file()
            },
        ),
        valid(
            "unknown_keys",
            "keys that nobody knows, in the document and in a record",
            edited(
                r#""lr":0.5},"tensor_map":{"w1":{"#,
                r#""lr":0.5},"x":[{"a":NaN,"a":"\u0000"}],"tensor_map":{"w1":{"y":{"z":[]},"#,
            ),
        ),
        valid("key_order", "keys in another order", {
            let text = concat!(
                r#"{"tensor_map":{"w":{"nbytes":1,"offset":0,"dtype_id":5,"dtype":"uint8","shape":[1]}},"#,
                r#""usr_metadata":{},"snapshot_ver":"9.9.9","magnetron_ver":"","timestamp":"","manifest_ver":1}"#,
            );
            Manifest::new(text, vec![7]).file()
        }),
        valid(
            "names",
            "the empty name, one with NUL, and one that is escaped where it need not be",
            mapped(
                &[
                    ("", "[1]", 0, 1),
                    ("a\\u0000b", "[1]", 4096, 1),
                    ("\\u0063", "[1]", 8192, 1),
                ],
                8193,
            ),
        ),
        valid(
            "no_elements",
            "tensors without bytes: before, between, at the end, and where another starts",
            mapped(
                &[
                    ("a", "[0]", 0, 0),
                    ("b", "[5]", 0, 5),
                    ("c", "[2,0]", 5, 0),
                    ("d", "[3]", 4096, 3),
                    ("e", "[0,9223372036854775807]", 4099, 0),
                ],
                4099,
            ),
        ),
        valid(
            "unordered",
            "tensors in another order than their data",
            mapped(&[("b", "[3]", 4096, 3), ("a", "[5]", 0, 5)], 4099),
        ),
        valid("rank_255", "as many dims as there may be", {
            let ones = vec!["1"; 255].join(",");
            mapped(&[("deep", &format!("[{ones}]"), 0, 1)], 1)
        }),
        valid(
            "unknown_dtype_name",
            "a name that nobody knows, with a code that is known",
            edited(r#""dtype":"float32""#, r#""dtype":"float""#),
        ),
        valid("trailing", "bytes after the data", {
            let mut bytes = with_metadata("{}");
            bytes.extend([7; 100]);
            bytes
        }),
        valid("later_data", "the data a page later than it needs to be", {
            let mut file = Manifest::new(document("{}", MAP), map_data());
            file.data_offset = Some(8192);
            let mut shifted = vec![0xAA; 4096];
            shifted.extend(map_data());
            file.data_len = Some(4099);
            file.data = shifted;
            file.file()
        }),
        valid("later_document", "the document eight bytes later", {
            let mut file = Manifest::new(format!("        {}", document("{}", MAP)), map_data());
            file.meta_offset = 52;
            file.meta_len = Some(file.document.len() as u64 - 8);
            file.file()
        }),
    ]
}

fn bad_headers() -> Vec<Case> {
    let reject = |rest: &str, rule, about: &str, change: fn(&mut Manifest)| {
        let mut file = Manifest::new(document("{}", MAP), map_data());
        change(&mut file);
        Case::reject(name_of("0_3", rest), rule, about, file.file())
    };
    let cut = |rest: &str, about: &str, len| {
        let mut bytes = with_metadata("{}");
        bytes.truncate(len);
        Case::reject(name_of("0_3", rest), "mag.truncated", about, bytes)
    };
    vec![
        cut("cut_header", "the last byte of the header is missing", 43),
        cut("cut_document", "cut within the document", 100),
        cut(
            "cut_data",
            "the last byte of the data is missing",
            4096 * 2 + 2,
        ),
        cut(
            "cut_before_data",
            "cut before the data, as a writer that was stopped leaves it",
            4096,
        ),
        reject(
            "meta_offset",
            "mag.manifest.meta_offset",
            "a document that starts within the header",
            |file| file.meta_offset = 43,
        ),
        reject(
            "meta_offset_max",
            "mag.truncated",
            "a document whose end wraps",
            |file| file.meta_offset = u64::MAX - 10,
        ),
        reject(
            "meta_len_zero",
            "mag.manifest.meta_len",
            "a document without a byte",
            |file| file.meta_len = Some(0),
        ),
        reject(
            "meta_len_max",
            "mag.truncated",
            "a document of 2^64-1 bytes",
            |file| file.meta_len = Some(u64::MAX),
        ),
        reject(
            "data_alignment",
            "mag.manifest.data_offset_alignment",
            "data at half a page",
            |file| file.data_offset = Some(4096 + 2048),
        ),
        reject(
            "data_in_document",
            "mag.manifest.data_offset",
            "data where the header is",
            |file| file.data_offset = Some(0),
        ),
        reject(
            "data_offset_max",
            "mag.truncated",
            "data whose end wraps",
            |file| file.data_offset = Some(u64::MAX - 4095),
        ),
        reject(
            "data_len_max",
            "mag.truncated",
            "data of 2^64-1 bytes",
            |file| file.data_len = Some(u64::MAX),
        ),
    ]
}

fn bad_documents() -> Vec<Case> {
    let reject = |rest: &str, rule, about: &str, bytes| {
        Case::reject(name_of("0_3", rest), rule, about, bytes)
    };
    let raw = |text: &[u8]| Manifest::new(text, map_data()).file();
    let mut cases = vec![
        reject("json_bom", "mag.manifest.json", "a byte order mark", {
            let mut text = b"\xEF\xBB\xBF".to_vec();
            text.extend(document("{}", MAP).into_bytes());
            raw(&text)
        }),
        reject(
            "json_nul",
            "mag.manifest.trailing",
            "a NUL after the document",
            {
                let mut text = document("{}", MAP).into_bytes();
                text.push(0);
                raw(&text)
            },
        ),
        reject(
            "json_array",
            "mag.manifest.json",
            "a list instead of an object",
            raw(b"[1,2]"),
        ),
        reject(
            "json_spaces",
            "mag.manifest.json",
            "nothing but white space",
            raw(b" \n "),
        ),
        reject(
            "json_two",
            "mag.manifest.trailing",
            "two documents",
            raw(format!("{0} {0}", document("{}", MAP)).as_bytes()),
        ),
        reject(
            "json_open",
            "mag.manifest.json",
            "a document that does not end",
            {
                let mut text = document("{}", MAP);
                text.pop();
                raw(text.as_bytes())
            },
        ),
        reject(
            "text_utf8",
            "mag.manifest.text",
            "a name that is not UTF-8",
            {
                let mut bytes = with_metadata("{}");
                let at = bytes
                    .windows(2)
                    .position(|pair| pair == b"w1")
                    .expect("the name");
                bytes[at] = 0xFF;
                bytes
            },
        ),
        reject(
            "text_surrogate_utf8",
            "mag.manifest.text",
            "a surrogate in UTF-8",
            {
                let mut text = document(r#"{"k":"???"}"#, MAP).into_bytes();
                let at = text
                    .windows(3)
                    .position(|three| three == b"???")
                    .expect("the mark");
                text[at..at + 3].copy_from_slice(b"\xED\xA0\x80");
                raw(&text)
            },
        ),
        reject(
            "depth_1001",
            "mag.manifest.depth",
            "one level deeper than a document may nest",
            with_metadata(&nested(1001)),
        ),
        reject(
            "depth_open",
            "mag.manifest.depth",
            "20,000 brackets that open and never close",
            with_metadata(&format!(r#"{{"deep":{}"#, "[".repeat(20_000))),
        ),
        reject(
            "depth_unknown_key",
            "mag.manifest.depth",
            "too deep under a key that is skipped",
            edited(
                r#""lr":0.5},"#,
                &format!(r#""lr":0.5}},"x":{},"#, "[".repeat(2000)),
            ),
        ),
        reject(
            "missing_record_key",
            "mag.manifest.missing",
            "a tensor without nbytes",
            edited(r#","nbytes":3"#, ""),
        ),
        reject(
            "type_record",
            "mag.manifest.type",
            "a tensor that is no object",
            edited(r#""tensor_map":{"w1":"#, r#""tensor_map":{"x":[],"w1":"#),
        ),
        reject(
            "duplicate_top",
            "mag.manifest.duplicate",
            "the time stamp twice",
            edited(r#""timestamp":"#, r#""timestamp":"","timestamp":"#),
        ),
        reject(
            "duplicate_unknown",
            "mag.manifest.duplicate",
            "a key twice that nobody knows",
            edited(r#""timestamp":"#, r#""x":1,"\u0078":2,"timestamp":"#),
        ),
        reject(
            "duplicate_in_record",
            "mag.manifest.duplicate",
            "two offsets of one tensor",
            edited(r#""offset":0"#, r#""offset":0,"offset":0"#),
        ),
        reject(
            "duplicate_tensor",
            "mag.tensor.duplicate",
            "two tensors of one name, one of them escaped",
            mapped(&[("ab", "[1]", 0, 1), ("\\u0061b", "[1]", 4096, 1)], 4097),
        ),
    ];
    for (rest, text, about) in [
        ("comma", r#"{"a":1,}"#, "a comma without a value"),
        ("no_comma", r#"{"a":1 "b":2}"#, "two values without a comma"),
        ("no_colon", r#"{"a" 1}"#, "a key without a colon"),
        ("bare_key", r#"{a:1}"#, "a key without quotes"),
        ("single_quotes", r#"{'a':1}"#, "a key in single quotes"),
        (
            "list_comma",
            r#"{"a":[1,]}"#,
            "a comma at the end of a list",
        ),
        ("mismatch", r#"{"a":[1}}"#, "a list that a brace ends"),
        (
            "leading_zero",
            r#"{"a":01}"#,
            "a number with a leading zero",
        ),
        ("plus", r#"{"a":+1}"#, "a number with a plus"),
        ("point", r#"{"a":1.}"#, "a number that ends with its point"),
        (
            "no_whole",
            r#"{"a":.5}"#,
            "a number that starts with its point",
        ),
        ("exponent", r#"{"a":1e}"#, "an exponent without digits"),
        ("minus", r#"{"a":-}"#, "a minus alone"),
        (
            "minus_nan",
            r#"{"a":-NaN}"#,
            "NaN with a sign, which no JSON has",
        ),
        ("lower_nan", r#"{"a":nan}"#, "NaN in lower case"),
        ("word", r#"{"a":nulL}"#, "a word that is none"),
        ("comment", r#"{"a":1/**/}"#, "a comment"),
        ("escape", r#"{"a":"\x41"}"#, "an escape that JSON lacks"),
        (
            "hex",
            r#"{"a":"\u00g0"}"#,
            "an escape with a digit that is none",
        ),
        ("control", "{\"a\":\"\n\"}", "a line break within a string"),
        ("raw_nul", "{\"a\":\"\0\"}", "a NUL within a string"),
    ] {
        cases.push(reject(
            &format!("json_{rest}"),
            "mag.manifest.json",
            about,
            with_metadata(text),
        ));
    }
    for (rest, text, about) in [
        ("high", r#""\ud800""#, "the first half alone"),
        ("low", r#""\udc00""#, "the second half alone"),
        ("two_high", r#""\ud800\ud800""#, "the first half twice"),
        (
            "then_text",
            r#""\ud800udc00""#,
            "the first half and then text",
        ),
        (
            "then_escape",
            r#""\ud800\n""#,
            "the first half and then another escape",
        ),
        (
            "then_plain",
            r#""\ud800\u0041""#,
            "the first half and then a whole character",
        ),
    ] {
        cases.push(reject(
            &format!("surrogate_{rest}"),
            "mag.manifest.surrogate",
            about,
            with_metadata(&format!(r#"{{"a":{text}}}"#)),
        ));
    }
    cases.push(reject(
        "surrogate_unknown_key",
        "mag.manifest.surrogate",
        "the first half alone in a string that is skipped",
        edited(r#""lr":0.5},"#, r#""lr":0.5},"x":"\ud9ff","#),
    ));
    for key in [
        "manifest_ver",
        "timestamp",
        "magnetron_ver",
        "snapshot_ver",
        "usr_metadata",
        "tensor_map",
    ] {
        cases.push(reject(
            &format!("missing_{key}"),
            "mag.manifest.missing",
            &format!("no {key}"),
            edited(&format!(r#""{key}""#), &format!(r#""{key}_""#)),
        ));
    }
    for (rest, old, new, about) in [
        (
            "manifest_ver",
            r#""manifest_ver":1"#,
            r#""manifest_ver":1.0"#,
            "a manifest_ver that is a float",
        ),
        (
            "manifest_ver_bool",
            r#""manifest_ver":1"#,
            r#""manifest_ver":true"#,
            "a manifest_ver that is a truth value",
        ),
        (
            "magnetron_ver",
            r#""magnetron_ver":"0.2.0""#,
            r#""magnetron_ver":2"#,
            "a magnetron_ver that is a number",
        ),
        (
            "usr_metadata",
            r#""usr_metadata":{"lr":0.5}"#,
            r#""usr_metadata":[]"#,
            "metadata that is a list",
        ),
        (
            "shape",
            r#""shape":[3]"#,
            r#""shape":3"#,
            "a shape that is a number",
        ),
        (
            "dim_float",
            r#""shape":[3]"#,
            r#""shape":[3.0]"#,
            "a dim that is a float",
        ),
        (
            "dim_negative",
            r#""shape":[3]"#,
            r#""shape":[-3]"#,
            "a dim below zero",
        ),
        (
            "dim_bool",
            r#""shape":[3]"#,
            r#""shape":[true]"#,
            "a dim that is a truth value",
        ),
        (
            "offset_text",
            r#""offset":4096"#,
            r#""offset":"4096""#,
            "an offset that is text",
        ),
        (
            "offset_negative",
            r#""offset":4096"#,
            r#""offset":-4096"#,
            "an offset below zero",
        ),
        (
            "offset_bool",
            r#""offset":0"#,
            r#""offset":false"#,
            "an offset that is a truth value",
        ),
        (
            "offset_2_64",
            r#""offset":0"#,
            r#""offset":18446744073709551616"#,
            "an offset of 2^64",
        ),
        (
            "nbytes_nan",
            r#""nbytes":3"#,
            r#""nbytes":NaN"#,
            "nbytes that are no number",
        ),
        (
            "dtype",
            r#""dtype":"boolean""#,
            r#""dtype":4"#,
            "a dtype that is a number",
        ),
        (
            "dtype_id_negative",
            r#""dtype_id":4"#,
            r#""dtype_id":-4"#,
            "a dtype_id below zero",
        ),
        (
            "dtype_id_float",
            r#""dtype_id":4"#,
            r#""dtype_id":4.0"#,
            "a dtype_id that is a float",
        ),
    ] {
        cases.push(reject(
            &format!("type_{rest}"),
            "mag.manifest.type",
            about,
            edited(old, new),
        ));
    }
    cases
}

fn bad_records() -> Vec<Case> {
    let reject = |rest: &str, rule, about: &str, bytes| {
        Case::reject(name_of("0_3", rest), rule, about, bytes)
    };
    let ones = vec!["1"; 256].join(",");
    vec![
        reject(
            "rank_256",
            "mag.manifest.tensor.rank",
            "one dim more than there may be",
            mapped(&[("w", &format!("[{ones}]"), 0, 1)], 1),
        ),
        reject(
            "dim",
            "mag.manifest.tensor.dim",
            "a dim of 2^63 beside a zero",
            mapped(&[("w", "[9223372036854775808,0]", 0, 0)], 1),
        ),
        reject(
            "dim_huge",
            "mag.manifest.tensor.dim",
            "a dim beyond 128 bits",
            mapped(&[("w", &format!("[1{}]", "0".repeat(60)), 0, 0)], 1),
        ),
        reject(
            "product",
            "mag.manifest.tensor.shape",
            "dims whose product is 4 modulo 2^64",
            lone(
                r#"{"shape":[5,3689348814741910324],"dtype":"float32","dtype_id":0,"offset":0,"nbytes":16}"#,
                16,
            ),
        ),
        reject(
            "dtype_name",
            "mag.manifest.tensor.dtype",
            "the name of another code",
            edited(r#""dtype":"boolean""#, r#""dtype":"uint8""#),
        ),
        reject(
            "dtype_name_of_unknown",
            "mag.manifest.tensor.dtype",
            "a known name with a code that is not",
            edited(r#""dtype_id":4"#, r#""dtype_id":13"#),
        ),
        reject(
            "nbytes",
            "mag.manifest.tensor.nbytes",
            "a byte more than the shape asks for",
            edited(r#""nbytes":3"#, r#""nbytes":4"#),
        ),
        reject(
            "nbytes_wraps",
            "mag.manifest.tensor.nbytes",
            "2^62 elements of four bytes, which are none modulo 2^64",
            lone(
                r#"{"shape":[4611686018427387904],"dtype":"float32","dtype_id":0,"offset":0,"nbytes":0}"#,
                1,
            ),
        ),
    ]
}

fn bad_ranges() -> Vec<Case> {
    let reject = |rest: &str, rule, about: &str, bytes| {
        Case::reject(name_of("0_3", rest), rule, about, bytes)
    };
    vec![
        reject(
            "range",
            "mag.manifest.tensor.range",
            "a tensor that ends after the data",
            mapped(&[("a", "[5]", 0, 5)], 4),
        ),
        reject(
            "range_wraps",
            "mag.manifest.tensor.range",
            "an offset that wraps with the length",
            mapped(&[("a", "[4096]", u64::MAX - 4095, 4096)], 4096),
        ),
        reject(
            "range_empty",
            "mag.manifest.tensor.range",
            "a tensor without bytes after the data",
            mapped(&[("a", "[1]", 0, 1), ("b", "[0]", 2, 0)], 1),
        ),
        reject(
            "offset_alignment",
            "mag.manifest.tensor.offset_alignment",
            "a tensor at half a page",
            mapped(&[("a", "[5]", 0, 5), ("b", "[5]", 2048, 5)], 2053),
        ),
        reject(
            "overlap",
            "mag.manifest.tensor.overlap",
            "two tensors that share a byte",
            mapped(&[("b", "[1]", 4096, 1), ("a", "[4097]", 0, 4097)], 4097),
        ),
        reject(
            "overlap_same",
            "mag.manifest.tensor.overlap",
            "two tensors in one place",
            mapped(&[("a", "[5]", 0, 5), ("b", "[5]", 0, 5)], 5),
        ),
        reject(
            "gap_before",
            "mag.manifest.tensor.gap",
            "a page before the first tensor",
            mapped(&[("a", "[1]", 4096, 1)], 4097),
        ),
        reject(
            "gap_between",
            "mag.manifest.tensor.gap",
            "a page between two tensors, and one without bytes there",
            mapped(
                &[
                    ("a", "[4096]", 0, 4096),
                    ("e", "[0]", 5000, 0),
                    ("b", "[1]", 8192, 1),
                ],
                8193,
            ),
        ),
        reject(
            "gap_behind",
            "mag.manifest.tensor.gap",
            "a page after the last tensor",
            mapped(&[("a", "[1]", 0, 1)], 4097),
        ),
        reject(
            "gap_alone",
            "mag.manifest.tensor.gap",
            "a page of data and no tensor",
            Manifest::new(document("{}", "{}"), vec![0; 4096]).file(),
        ),
        reject(
            "inside",
            "mag.manifest.tensor.inside",
            "a tensor without bytes inside another",
            mapped(&[("a", "[5]", 0, 5), ("e", "[0]", 4, 0)], 5),
        ),
    ]
}

fn unsupported() -> Vec<Case> {
    let unsupported = |rest: &str, what, about: &str, bytes| {
        Case::unsupported(name_of("0_3", rest), what, about, bytes)
    };
    let aux = |aux| {
        let mut file = Manifest::new(document("{}", MAP), map_data());
        file.aux = aux;
        file.file()
    };
    vec![
        unsupported(
            "big_endian",
            "mag.manifest.big_endian",
            "big-endian data",
            aux(1),
        ),
        unsupported(
            "aux",
            "mag.manifest.aux",
            "a bit that nobody knows",
            aux(1 << 31),
        ),
        unsupported(
            "aux_both",
            "mag.manifest.aux",
            "a bit that nobody knows, and big-endian data",
            aux(3),
        ),
        unsupported(
            "manifest_2",
            "mag.manifest.version",
            "the manifest after this one",
            edited(r#""manifest_ver":1"#, r#""manifest_ver":2"#),
        ),
        unsupported(
            "manifest_huge",
            "mag.manifest.version",
            "a manifest_ver beyond 128 bits",
            edited(
                r#""manifest_ver":1"#,
                &format!(r#""manifest_ver":-1{}"#, "0".repeat(60)),
            ),
        ),
        unsupported(
            "dtype_13",
            "mag.dtype",
            "the first dtype_id without a meaning, beside a tensor that can be read",
            edited(
                r#""dtype":"boolean","dtype_id":4"#,
                r#""dtype":"float4_e2m1","dtype_id":13"#,
            ),
        ),
        unsupported(
            "dtype_huge",
            "mag.dtype",
            "a dtype_id beyond 64 bits",
            edited(
                r#""dtype":"boolean","dtype_id":4"#,
                r#""dtype":"x","dtype_id":18446744073709551620"#,
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that a released magnetron 0.1.5 wrote, as the format's page prints it.
    #[test]
    fn a_file_written_out() {
        let scalar = Tensor {
            dtype: F32,
            key: 0,
            numel: 1,
            offset: 0,
            shape: &[],
        };
        let mut file = pooled(100, &[b"r"], &[scalar]);
        file.set_u64_at("timestamp", 0x6B0A_4923);
        file.bytes(&[0x03, 0x0A, 0x11, 0x18]);
        let mut expected = b"MAG!\x64\0\0\0\x23\x49\x0A\x6B\0\0\0\0\x49\x18\x96\x28".to_vec();
        expected.extend(b"\0\0\0\0\0\0\0\0\x01\0\0\0SRP!\x01\0\0\0\0\0\0\0\x01\0\0\0r");
        expected.extend(b"MDT!DSC!\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        expected.extend(b"BUF!\x03\x0A\x11\x18");
        assert_eq!(file.as_slice(), expected);
        assert_eq!(pooled(200, &[b"r"], &[scalar]).position("data"), 0x60);
    }
}
