//! AERO version 0.1.
//!
//! A header, a table of contents with a BLAKE3 hash for each chunk, names, then the chunks: a
//! tensor index in MessagePack, weights, and metadata. Nothing is compressed.

use std::ops::Range;

use crate::{Case, LeBuffer};

const F32: u64 = 1;
const U8: u64 = 5;
const PACKED: u64 = 0x8000;

/// Every hand-assembled AERO file.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        valid(),
        valid_tensors(),
        valid_integrity(),
        truncated(),
        bad_header(),
        bad_toc(),
        bad_chunks(),
        bad_messagepack(),
        bad_fields(),
        bad_tensors(),
        bad_integrity(),
        bad_json(),
        beyond_limits(),
        unsupported(),
    ]
    .concat()
}

/// A chunk as the table of contents names it.
#[derive(Clone)]
pub(crate) struct Chunk {
    fourcc: [u8; 4],
    flags: u32,
    name: Vec<u8>,
    payload: Vec<u8>,
}

pub(crate) fn chunk(
    fourcc: &[u8; 4],
    flags: u32,
    name: impl AsRef<[u8]>,
    payload: Vec<u8>,
) -> Chunk {
    Chunk {
        fourcc: *fourcc,
        flags,
        name: name.as_ref().to_vec(),
        payload,
    }
}

/// A shard whose bytes count up from 0.
fn shard(id: usize, len: u8) -> Chunk {
    chunk(
        b"WTSH",
        0x2,
        format!("weights.shard{id}"),
        (0..len).collect(),
    )
}

pub(crate) fn tidx(payload: Vec<u8>) -> Chunk {
    chunk(b"TIDX", 0x4, "tensors", payload)
}

pub(crate) fn json(text: &str) -> Chunk {
    chunk(b"MJSN", 0, "meta.json", text.into())
}

fn manifest(payload: Vec<u8>) -> Chunk {
    chunk(b"MMSG", 0, "manifest", payload)
}

/// A file with every field of the header at a tag, those of chunk 2 at `2.offset` and the like,
/// and payloads at `2.payload`.
pub(crate) fn assemble(chunks: &[Chunk], toc_at_end: bool) -> LeBuffer {
    let mut file = LeBuffer::new();
    file.tag("magic").bytes(b"AERO");
    file.tag("version_major").u16(0).tag("version_minor").u16(1);
    file.tag("header_size").u32(96);
    file.tag("toc_offset").u64(0).tag("toc_length").u64(0);
    file.tag("string_table_offset").u64(0);
    file.tag("string_table_length").u64(0);
    file.tag("file_flags").u64(0);
    file.tag("uuid").fill(16, 0x11).tag("reserved").fill(28, 0);
    if !toc_at_end {
        toc(&mut file, chunks);
    }
    file.pad_to(8, 0).tag("strings");
    for chunk in chunks {
        file.bytes(&chunk.name).u8(0);
    }
    file.pad_to(8, 0).tag("strings_end");
    for (at, chunk) in chunks.iter().enumerate() {
        file.pad_to(16, 0);
        file.tag(format!("{at}.payload")).bytes(&chunk.payload);
    }
    if toc_at_end {
        file.pad_to(8, 0);
        toc(&mut file, chunks);
    }
    let strings = file.position("strings");
    let len = file.position("strings_end") - strings;
    let toc = file.position("entry_count") as u64;
    file.set_u64_at("string_table_offset", strings as u64);
    file.set_u64_at("string_table_length", len as u64);
    file.set_u64_at("toc_offset", toc);
    file.set_u64_at("toc_length", 16 + 80 * chunks.len() as u64);
    for (at, chunk) in chunks.iter().enumerate() {
        let start = file.position(&format!("{at}.payload"));
        place(&mut file, at, start..start + chunk.payload.len());
    }
    file
}

fn toc(file: &mut LeBuffer, chunks: &[Chunk]) {
    let count = u32::try_from(chunks.len()).expect("few chunks");
    file.tag("entry_count").u32(count).tag("toc_reserved");
    file.u32(0).u64(0);
    let mut name_off = 0;
    for (at, chunk) in chunks.iter().enumerate() {
        let len = u32::try_from(chunk.name.len()).expect("a short name");
        file.tag(format!("{at}.fourcc")).bytes(&chunk.fourcc);
        file.tag(format!("{at}.flags")).u32(chunk.flags);
        file.tag(format!("{at}.offset")).u64(0);
        file.tag(format!("{at}.length")).u64(0);
        file.tag(format!("{at}.ulen")).u64(0);
        file.tag(format!("{at}.name_off")).u32(name_off);
        file.tag(format!("{at}.name_len")).u32(len);
        file.tag(format!("{at}.reserved")).u64(0);
        file.tag(format!("{at}.hash")).fill(32, 0);
        name_off += len + 1;
    }
}

/// Makes a range the payload of a chunk, hash included.
fn place(file: &mut LeBuffer, at: usize, range: Range<usize>) {
    let len = range.len() as u64;
    let hash = blake3(&file.as_slice()[range.clone()]);
    file.set_u64_at(&format!("{at}.offset"), range.start as u64);
    file.set_u64_at(&format!("{at}.length"), len);
    file.set_u64_at(&format!("{at}.ulen"), len);
    file.set_bytes_at(&format!("{at}.hash"), &hash);
}

fn blake3(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn file(chunks: &[Chunk]) -> Vec<u8> {
    assemble(chunks, false).into_vec()
}

/// One f32 tensor of three elements, with something changed afterwards.
fn changed(change: impl FnOnce(&mut LeBuffer)) -> Vec<u8> {
    let mut file = assemble(&[index(&[weight()]), shard(0, 12)], false);
    change(&mut file);
    file.into_vec()
}

/// An unsigned integer in its shortest form.
pub(crate) fn uint(value: u64) -> Vec<u8> {
    let mut out = LeBuffer::new();
    match value {
        0..=0x7F => out.bytes(&value.to_be_bytes()[7..]),
        0x80..=0xFF => out.u8(0xCC).bytes(&value.to_be_bytes()[7..]),
        0x100..=0xFFFF => out.u8(0xCD).bytes(&value.to_be_bytes()[6..]),
        0x1_0000..=0xFFFF_FFFF => out.u8(0xCE).bytes(&value.to_be_bytes()[4..]),
        _ => out.u8(0xCF).u64_be(value),
    };
    out.into_vec()
}

pub(crate) fn text(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    let len = u16::try_from(text.len()).expect("a short text");
    let mut out = LeBuffer::new();
    match u8::try_from(len) {
        Ok(len) if len < 32 => out.u8(0xA0 | len),
        Ok(len) => out.u8(0xD9).u8(len),
        Err(_) => out.u8(0xDA).u16_be(len),
    };
    out.bytes(text).clone().into_vec()
}

fn bin(bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(bytes.len()).expect("a short bin");
    [&[0xC4, len], bytes].concat()
}

/// A list in its shortest form.
fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let mut out = LeBuffer::new();
    match u16::try_from(items.len()).expect("few items") {
        len @ 0..=15 => out.bytes(&(0x90 | len).to_be_bytes()[1..]),
        len => out.u8(0xDC).u16_be(len),
    };
    out.bytes(&items.concat()).clone().into_vec()
}

/// A map of up to 15 pairs.
fn map(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    assert!(pairs.len() < 16, "few pairs");
    let mut out = (0x80..).take(pairs.len() + 1).last().into_iter().collect();
    for (key, value) in pairs {
        out = [out, text(key), value.clone()].concat();
    }
    out
}

/// A tensor as the index describes it: values by key.
#[derive(Clone)]
struct Tensor(Vec<(&'static str, Vec<u8>)>);

impl Tensor {
    fn new(name: &str, dtype: u64, shape: &[u64], data: Range<u64>) -> Self {
        let dims: Vec<Vec<u8>> = shape.iter().copied().map(uint).collect();
        Self(vec![
            ("name", text(name)),
            ("dtype", uint(dtype)),
            ("shape", list(&dims)),
            ("shard_id", uint(0)),
            ("data_off", uint(data.start)),
            ("data_len", uint(data.end - data.start)),
            ("flags", uint(0)),
        ])
    }

    /// The same with another value, in the place of one or at the end.
    fn with(mut self, key: &'static str, value: Vec<u8>) -> Self {
        match self.0.iter_mut().find(|(present, _)| *present == key) {
            Some(place) => place.1 = value,
            None => self.0.push((key, value)),
        }
        self
    }

    fn twice(mut self, key: &'static str, value: Vec<u8>) -> Self {
        self.0.push((key, value));
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.0.retain(|(present, _)| *present != key);
        self
    }
}

fn weight() -> Tensor {
    Tensor::new("w", F32, &[3], 0..12)
}

fn index(tensors: &[Tensor]) -> Chunk {
    let maps: Vec<Vec<u8>> = tensors.iter().map(|tensor| map(&tensor.0)).collect();
    tidx(map(&[("tensors", list(&maps))]))
}

/// These tensors over one shard of 64 bytes.
fn tensors(tensors: &[Tensor]) -> Vec<u8> {
    file(&[index(tensors), shard(0, 64)])
}

fn valid() -> Vec<Case> {
    let one = [index(&[weight()]), shard(0, 12)];
    let and = |more: Chunk| file(&[one[0].clone(), one[1].clone(), more]);
    let second = weight().with("name", text("v")).with("shard_id", uint(1));
    vec![
        Case::valid("empty", "no chunks", file(&[])),
        Case::valid("one_tensor", "an index and a shard", file(&one)),
        Case::valid(
            "two_shards",
            "a tensor in each of two shards",
            file(&[
                index(&[weight(), second.clone()]),
                shard(0, 12),
                shard(1, 12),
            ]),
        ),
        Case::valid(
            "sparse_shards",
            "shard ids with a gap",
            file(&[index(&[second.with("shard_id", uint(70))]), shard(70, 12)]),
        ),
        Case::valid(
            "toc_at_end",
            "the TOC after the payloads",
            assemble(&one, true).into_vec(),
        ),
        Case::valid(
            "toc_slack",
            "a TOC that is longer than its entries",
            changed(|f| {
                f.set_u64_at("toc_length", 16 + 80 * 2 + 8);
            }),
        ),
        Case::valid(
            "toc_reserved",
            "reserved words of the TOC's header that are not 0",
            changed(|f| {
                f.set_bytes_at("toc_reserved", &[0xFF; 12]);
            }),
        ),
        Case::valid("reversed", "the shard before the index", {
            file(&[one[1].clone(), one[0].clone()])
        }),
        Case::valid(
            "unknown_chunk",
            "an unknown chunk, marked as optional",
            and(chunk(b"XTRA", 0x8, "extra", vec![7; 5])),
        ),
        Case::valid(
            "unknown_chunk_unmarked",
            "an unknown chunk without that mark, its type not in ASCII",
            and(chunk(b"\xFF\0\x01 ", 0, "extra", vec![7; 5])),
        ),
        Case::valid(
            "unknown_flags",
            "a chunk with flags that have no meaning",
            and(chunk(b"XTRA", 0xFFFF_FFF0, "extra", vec![7; 5])),
        ),
        Case::valid(
            "unnamed_chunk",
            "a chunk with an empty name and payload",
            and(chunk(b"XTRA", 0x8, "", vec![])),
        ),
        Case::valid(
            "nul_in_name",
            "a chunk name with a NUL in it",
            and(chunk(b"XTRA", 0x8, "a\0b", vec![1])),
        ),
        Case::valid(
            "same_name",
            "one name for chunks of two types",
            and(chunk(b"XTRA", 0x8, "tensors", vec![1])),
        ),
        Case::valid(
            "shared_names",
            "a name inside of another one",
            changed(|f| {
                f.set_u32_at("0.name_off", 8 + 8)
                    .set_u32_at("0.name_len", 5);
            }),
        ),
        Case::valid(
            "trailing_bytes",
            "bytes that no chunk has",
            changed(|f| {
                f.fill(3, 0xAA);
            }),
        ),
        Case::valid(
            "padding",
            "a gap that is not zeros",
            changed(|f| {
                let at = f.position("1.payload") - 1;
                f.set_bytes(at, &[0xAA]);
            }),
        ),
        Case::valid(
            "json",
            "metadata in JSON",
            and(json(
                r#"{"architecture":"mlp","model_name":"m\u00e4","n":[1,2.5,null]}"#,
            )),
        ),
        Case::valid("json_two", "two JSON chunks", {
            let other = chunk(b"MJSN", 0, "other.json", b"[]".to_vec());
            file(&[json("{}"), other, one[0].clone(), one[1].clone()])
        }),
        Case::valid(
            "json_unhashed",
            "a hash of zeros, as one writer leaves it",
            {
                let mut file = assemble(&[json("{}"), one[0].clone(), one[1].clone()], false);
                file.set_bytes_at("0.hash", &[0; 32]);
                file.into_vec()
            },
        ),
        Case::valid(
            "manifest",
            "a manifest",
            and(manifest(map(&[
                (
                    "format",
                    map(&[
                        ("name", text("AERO")),
                        ("version", list(&[uint(0), uint(1)])),
                    ]),
                ),
                ("model", map(&[("name", text("m"))])),
                ("chunks", list(&[])),
                ("shards", list(&[])),
            ]))),
        ),
        Case::valid(
            "manifest_kinds",
            "a manifest with values of other kinds, and one that is no map",
            file(&[
                manifest(map(&[
                    ("nil", vec![0xC0]),
                    ("float", [&[0xCB][..], &2.5f64.to_be_bytes()].concat()),
                    ("least", vec![0xD3, 0x80, 0, 0, 0, 0, 0, 0, 0]),
                    ("most", uint(u64::MAX)),
                    ("bin", bin(b"\xFF\0")),
                    ("ext", vec![0xD4, 5, 1]),
                ])),
                chunk(b"MMSG", 0, "other", vec![0xC3]),
            ]),
        ),
        Case::valid("weights_alone", "a shard without an index", file(&one[1..])),
        Case::valid(
            "index_alone",
            "an index whose shards are in other files",
            file(&one[..1]),
        ),
        Case::valid("index_empty", "an index of no tensors", file(&[index(&[])])),
    ]
}

fn valid_tensors() -> Vec<Case> {
    let sizes = [2, 4, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1];
    let mut end = 0;
    let every: Vec<Tensor> = (0u64..)
        .zip(sizes)
        .map(|(code, size)| {
            let start = end;
            end += size;
            Tensor::new(&format!("dtype_{code}"), code, &[1], start..end)
        })
        .collect();
    let one = |tensor: Tensor| tensors(&[tensor]);
    let of = |dtype, shape: &[u64], data| one(Tensor::new("w", dtype, shape, data));
    let hash = hex(&blake3(&(0..12).collect::<Vec<u8>>()));
    vec![
        Case::valid("dtypes", "every dtype but packed", tensors(&every)),
        Case::valid("scalar", "no dims", of(F32, &[], 0..4)),
        Case::valid("zero_elements", "a dim of 0", of(F32, &[2, 0], 0..0)),
        Case::valid(
            "zero_elements_at_end",
            "nothing, where the shard ends",
            of(F32, &[0], 64..64),
        ),
        Case::valid(
            "zero_elements_wide",
            "a dim of 0 beside ones that overflow",
            of(F32, &[1 << 62, 1 << 62, 0], 0..0),
        ),
        Case::valid(
            "empty_shard",
            "a shard of no bytes",
            file(&[index(&[Tensor::new("w", F32, &[0], 0..0)]), shard(0, 0)]),
        ),
        Case::valid("rank_32", "the highest rank", of(F32, &[1; 32], 0..4)),
        Case::valid(
            "unaligned",
            "an f32 at an odd offset",
            tensors(&[
                Tensor::new("a", U8, &[3], 0..3),
                Tensor::new("b", F32, &[2], 3..11),
            ]),
        ),
        Case::valid(
            "shared_data",
            "one range and an overlapping one for two more tensors",
            tensors(&[
                Tensor::new("a", F32, &[3], 0..12),
                Tensor::new("b", F32, &[3], 0..12),
                Tensor::new("c", F32, &[3], 4..16),
            ]),
        ),
        Case::valid(
            "unsorted_gaps",
            "tensors with gaps between, in no order",
            tensors(&[
                Tensor::new("z", F32, &[1], 40..44),
                Tensor::new("a", F32, &[1], 8..12),
            ]),
        ),
        Case::valid(
            "data_len_long",
            "more data than the shape asks for",
            of(F32, &[3], 0..32),
        ),
        Case::valid(
            "packed",
            "packed data with its codec",
            one(Tensor::new("w", PACKED, &[32], 0..34)
                .with("quant_id", uint(0))
                .with("quant_params", map(&[("ggml_type", uint(8))]))),
        ),
        Case::valid(
            "packed_bare",
            "packed data without a word on it",
            of(PACKED, &[1000], 0..5),
        ),
        Case::valid(
            "flags",
            "flags that have no meaning",
            one(weight().with("flags", uint(u64::MAX))),
        ),
        Case::valid("no_flags", "no flags", one(weight().without("flags"))),
        Case::valid(
            "unknown_keys",
            "keys beyond those of the format",
            one(weight()
                .with("note", list(&[text("x"), vec![0xC0]]))
                .with("ext", vec![0xD4, 5, 1])),
        ),
        Case::valid(
            "unknown_root_key",
            "a key beside tensors",
            file(&[tidx(map(&[("x", vec![0xC2]), ("tensors", list(&[]))]))]),
        ),
        Case::valid("key_order", "keys in reverse order", {
            let mut tensor = weight();
            tensor.0.reverse();
            one(tensor)
        }),
        Case::valid(
            "wide_integers",
            "integers in wider heads than they need",
            one(weight()
                .with("dtype", vec![0xCD, 0, 1])
                .with("shape", vec![0xDD, 0, 0, 0, 1, 0xD2, 0, 0, 0, 3])
                .with("data_len", vec![0xD3, 0, 0, 0, 0, 0, 0, 0, 12])),
        ),
        Case::valid(
            "empty_name",
            "a name of no bytes",
            one(weight().with("name", text(""))),
        ),
        Case::valid(
            "unicode_name",
            "a name beyond ASCII, with a NUL",
            one(weight().with("name", text("層.\0.\u{1F980}"))),
        ),
        Case::valid(
            "long_name",
            "a name of 4096 bytes",
            one(weight().with("name", text([b'n'; 4096]))),
        ),
        Case::valid(
            "tensor_hash",
            "a hash of the tensor",
            one(weight().with("hash_b3", text(hash))),
        ),
        Case::valid(
            "tensor_hash_empty",
            "an empty text for a hash",
            one(weight().with("hash_b3", text(""))),
        ),
    ]
}

/// An IHSH payload of `end` and a digest, up to 256 bytes with zeros.
fn ihsh(algo: &str, ranges: &[(u64, u64)], digest: &[u8]) -> Vec<u8> {
    let ranges: Vec<Vec<u8>> = ranges
        .iter()
        .map(|&(start, end)| list(&[uint(start), uint(end)]))
        .collect();
    map(&[
        ("algo", text(algo)),
        ("covered_ranges", list(&ranges)),
        ("digest", bin(digest)),
    ])
}

/// One tensor after an IHSH of `len` bytes, made from where the payloads start and the digest.
fn controlled(len: usize, payload: impl FnOnce(u64, [u8; 32]) -> Vec<u8>) -> LeBuffer {
    let blank = chunk(b"IHSH", 0x8, "control.integrity", vec![0; len]);
    let mut file = assemble(&[blank, index(&[weight()]), shard(0, 12)], false);
    let start = file.position("0.payload");
    let mut control = file.clone();
    control.truncate(start);
    for at in 0..3 {
        control.set_bytes_at(&format!("{at}.hash"), &[0; 32]);
    }
    let payload = payload(start as u64, blake3(control.as_slice()));
    assert!(payload.len() <= len, "{} bytes", payload.len());
    file.set_bytes(start, &payload);
    place(&mut file, 0, start..start + len);
    file
}

fn phsh(shard: &str, page_size: u64, digests: &[Vec<u8>]) -> Chunk {
    let name = format!("{shard}.phsh");
    let digests: Vec<Vec<u8>> = digests.iter().map(|digest| bin(digest)).collect();
    let payload = map(&[
        ("shard_name", text(shard)),
        ("page_size", uint(page_size)),
        ("digests", list(&digests)),
    ]);
    chunk(b"PHSH", 0x8, name, payload)
}

/// Hashes of the pages of a shard of 12 bytes.
fn pages(page_size: usize) -> Vec<Vec<u8>> {
    let pages = shard(0, 12).payload;
    pages
        .chunks(page_size)
        .map(|page| blake3(page).to_vec())
        .collect()
}

fn paged(chunk: Chunk) -> Vec<u8> {
    file(&[index(&[weight()]), shard(0, 12), chunk])
}

fn valid_integrity() -> Vec<Case> {
    let own = |end, digest: [u8; 32]| ihsh("blake3-256", &[(0, end)], &digest);
    let exact = own(0x200, [0; 32]).len();
    vec![
        Case::valid(
            "ihsh",
            "a digest of the control structures",
            controlled(256, own).into_vec(),
        ),
        Case::valid(
            "ihsh_exact",
            "the same without zeros after it",
            controlled(exact, own).into_vec(),
        ),
        Case::valid(
            "phsh",
            "hashes of pages, the last one short",
            paged(phsh("weights.shard0", 8, &pages(8))),
        ),
        Case::valid(
            "phsh_bytes",
            "pages of one byte",
            paged(phsh("weights.shard0", 1, &pages(1))),
        ),
        Case::valid(
            "phsh_one_page",
            "a page that is longer than the shard",
            paged(phsh("weights.shard0", 4 << 20, &pages(12))),
        ),
        Case::valid(
            "phsh_empty",
            "no pages of an empty shard",
            file(&[shard(0, 0), phsh("weights.shard0", 4096, &[])]),
        ),
    ]
}

fn truncated() -> Vec<Case> {
    let whole = assemble(&[index(&[weight()]), shard(0, 12)], false);
    let at = |len: usize| whole.as_slice()[..len].to_vec();
    let before = |tag: &str| at(whole.position(tag));
    let case = |name: &str, about: &str, bytes| {
        Case::reject(format!("trunc_{name}"), "aero.truncated", about, bytes)
    };
    vec![
        case("no_bytes", "no bytes", at(0)),
        case("in_magic", "inside of the magic", at(3)),
        case("after_magic", "nothing but the magic", at(4)),
        case("in_header", "inside of the header", at(95)),
        case("after_header", "nothing but the header", at(96)),
        case("in_toc", "inside of an entry", before("1.offset")),
        case("before_strings", "before the names", before("strings")),
        case("before_index", "before the index", before("0.payload")),
        case("before_shard", "before the shard", before("1.payload")),
        case("in_shard", "one byte of data missing", at(whole.len() - 1)),
        case(
            "toc_far",
            "a TOC past the end",
            changed(|f| {
                f.set_u64_at("toc_offset", 1 << 40);
            }),
        ),
        case(
            "toc_long",
            "a TOC that ends past the end",
            changed(|f| {
                f.set_u64_at("toc_length", 1 << 40);
            }),
        ),
        case(
            "strings_far",
            "names past the end",
            changed(|f| {
                f.set_u64_at("string_table_offset", 1 << 40);
            }),
        ),
        case(
            "chunk_long",
            "a chunk that ends past the end",
            changed(|f| {
                f.set_u64_at("1.length", 1 << 40)
                    .set_u64_at("1.ulen", 1 << 40);
            }),
        ),
    ]
}

fn bad_header() -> Vec<Case> {
    let set = |name: &str, rule, about: &str, tag: &str, value: u64| {
        let bytes = changed(|f| {
            f.set_u64_at(tag, value);
        });
        Case::reject(name, rule, about, bytes)
    };
    let size = |name: &str, value| {
        let bytes = changed(|f| {
            f.set_u32_at("header_size", value);
        });
        Case::reject(name, "aero.header.header_size", "another size", bytes)
    };
    let magic = |name: &str, about: &str, magic: &[u8; 4]| {
        let bytes = changed(|f| {
            f.set_bytes_at("magic", magic);
        });
        Case::reject(name, "aero.header.magic", about, bytes)
    };
    let (toc, length) = ("aero.toc.range", "aero.toc.length");
    let strings = "aero.string_table.range";
    vec![
        magic("magic", "a letter changed", b"AERQ"),
        magic("magic_case", "in lower case", b"aero"),
        size("header_size_95", 95),
        size("header_size_0", 0),
        set(
            "file_flags",
            "aero.header.file_flags",
            "a flag of the file",
            "file_flags",
            1,
        ),
        Case::reject(
            "header_reserved",
            "aero.header.reserved",
            "the last reserved byte is not 0",
            changed(|f| {
                let last = f.position("reserved") + 27;
                f.set_bytes(last, &[1]);
            }),
        ),
        set("toc_in_header", toc, "from 88 on", "toc_offset", 88),
        set("toc_at_0", toc, "over the header", "toc_offset", 0),
        set("toc_wraps", toc, "beyond 64 bits", "toc_offset", u64::MAX),
        set("toc_length_0", length, "no length", "toc_length", 0),
        set("toc_length_15", length, "no head", "toc_length", 15),
        set(
            "toc_length_short",
            length,
            "a byte less than two entries",
            "toc_length",
            175,
        ),
        Case::reject(
            "entry_count_huge",
            length,
            "2^32-1 entries",
            changed(|f| {
                f.set_u32_at("entry_count", u32::MAX);
            }),
        ),
        set(
            "strings_wrap",
            strings,
            "names beyond 64 bits",
            "string_table_offset",
            u64::MAX,
        ),
        set(
            "strings_in_header",
            strings,
            "names inside of the header",
            "string_table_offset",
            52,
        ),
        set(
            "strings_in_toc",
            strings,
            "names inside of the TOC",
            "string_table_offset",
            112,
        ),
    ]
}

fn bad_toc() -> Vec<Case> {
    let case = |name: &str, rule, about: &str, change: &dyn Fn(&mut LeBuffer)| {
        Case::reject(name, rule, about, changed(|f| change(f)))
    };
    let name = "aero.toc.name";
    vec![
        case("name_off", name, "a name past the table", &|f| {
            f.set_u32_at("1.name_off", 24);
        }),
        case("name_len", name, "a name that ends past the table", &|f| {
            f.set_u32_at("1.name_len", 17);
        }),
        case("name_wraps", name, "an end that wraps in 32 bits", &|f| {
            f.set_u32_at("1.name_off", u32::MAX - 7);
            f.set_u32_at("1.name_len", 16);
        }),
        case("name_utf8", "aero.toc.name_utf8", "a byte 0xFF", &|f| {
            f.set_bytes_at("strings", &[0xFF]);
        }),
        case("entry_reserved", "aero.toc.reserved", "not 0", &|f| {
            f.set_u64_at("1.reserved", 1 << 63);
        }),
        case("chunk_wraps", "aero.chunk.range", "beyond 64 bits", &|f| {
            f.set_u64_at("1.offset", u64::MAX - 15);
            f.set_u64_at("1.length", 16).set_u64_at("1.ulen", 16);
        }),
        Case::reject(
            "toc_destroyed",
            "aero.toc.destroyed",
            "an IHSH and nothing but zeros after it",
            {
                let mut file =
                    controlled(256, |end, digest| ihsh("blake3-256", &[(0, end)], &digest));
                let (second, end) = (file.position("1.fourcc"), file.position("strings"));
                file.set_bytes(second, &vec![0; end - second]);
                file.into_vec()
            },
        ),
        Case::reject(
            "chunk_twice",
            "aero.chunk.duplicate",
            "two shards of one name",
            file(&[index(&[weight()]), shard(0, 12), shard(0, 13)]),
        ),
        Case::reject(
            "unknown_chunk_twice",
            "aero.chunk.duplicate",
            "two unknown chunks without a name",
            file(&[
                chunk(b"XTRA", 0x8, "", vec![]),
                chunk(b"XTRA", 0x8, "", vec![1]),
            ]),
        ),
    ]
}

fn bad_chunks() -> Vec<Case> {
    let case = |name: &str, rule, about: &str, change: &dyn Fn(&mut LeBuffer)| {
        Case::reject(name, rule, about, changed(|f| change(f)))
    };
    let (overlap, hash) = ("aero.chunk.overlap", "aero.chunk.blake3");
    let compressed = "aero.chunk.compressed";
    let extra = |flags| {
        let extra = chunk(b"XTRA", flags, "extra", vec![7; 32]);
        assemble(&[index(&[weight()]), shard(0, 12), extra], false)
    };
    let over = |name: &str, about: &str, range: fn(&LeBuffer) -> Range<usize>| {
        let mut file = extra(0x8);
        let range = range(&file);
        place(&mut file, 2, range);
        Case::reject(name, overlap, about, file.into_vec())
    };
    let mut extra_flip = extra(0x8);
    extra_flip.set_u8_at("2.payload", 6);
    vec![
        over("over_header", "a chunk in the header", |_| 48..96),
        over("over_toc", "a chunk in the TOC", |_| 96..112),
        over("over_strings", "a chunk in the names", |f| {
            f.position("strings")..f.position("strings_end")
        }),
        over("over_shard", "the last byte of the shard in a chunk", |f| {
            f.position("1.payload") + 11..f.position("2.payload") + 8
        }),
        over("in_index", "a chunk within the index", |f| {
            f.position("0.payload") + 1..f.position("0.payload") + 2
        }),
        case(
            "tidx_overrun",
            "aero.chunk.tidx_overrun",
            "the index runs over the first weights",
            &|f| {
                let (start, end) = (f.position("0.payload"), f.position("1.payload"));
                place(f, 0, start..end + 4);
            },
        ),
        case(
            "shard_unaligned",
            "aero.chunk.alignment",
            "a shard at a multiple of 8",
            &|f| {
                f.fill(8, 0);
                let start = f.position("1.payload") + 8;
                place(f, 1, start..start + 12);
            },
        ),
        case("shard_zstd", compressed, "a shard with the flag", &|f| {
            f.set_u32_at("1.flags", 0x3);
        }),
        Case::reject("ihsh_zstd", compressed, "an IHSH with the flag", {
            let mut file = controlled(256, |end, digest| ihsh("blake3-256", &[(0, end)], &digest));
            file.set_u32_at("0.flags", 0x9);
            file.into_vec()
        }),
        Case::reject("phsh_zstd", compressed, "a PHSH with the flag", {
            let mut pages = phsh("weights.shard0", 8, &pages(8));
            pages.flags = 0x9;
            paged(pages)
        }),
        case("ulen_short", "aero.chunk.ulen", "a byte less", &|f| {
            f.set_u64_at("1.ulen", 11);
        }),
        case("ulen_0", "aero.chunk.ulen", "none at all", &|f| {
            f.set_u64_at("1.ulen", 0);
        }),
        case("zstd", "aero.chunk.zstd", "no frame under the flag", &|f| {
            f.set_u32_at("0.flags", 0x5);
        }),
        case("hash_index", hash, "a bit of the index's hash", &|f| {
            let at = f.position("0.hash");
            let byte = f.as_slice()[at] ^ 1;
            f.set_bytes(at, &[byte]);
        }),
        case("hash_index_zero", hash, "zeros for a hash", &|f| {
            f.set_bytes_at("0.hash", &[0; 32]);
        }),
        case("flip_index", hash, "a letter of the index", &|f| {
            let at = f.position("0.payload") + 5;
            f.set_bytes(at, b"S");
        }),
        case("flip_shard", hash, "a byte of the shard", &|f| {
            f.set_u8_at("1.payload", 1);
        }),
        Case::reject(
            "flip_unknown",
            hash,
            "a byte of an unknown chunk",
            extra_flip.into_vec(),
        ),
    ]
}

fn bad_messagepack() -> Vec<Case> {
    let (malformed, structure) = ("aero.msgpack", "aero.tidx.structure");
    let case = |name: &str, rule, about: &str, payload| {
        let bytes = file(&[tidx(payload), shard(0, 12)]);
        Case::reject(format!("index_{name}"), rule, about, bytes)
    };
    let whole = index(&[weight()]).payload;
    let tensors = |value| map(&[("tensors", value)]);
    let cut = |len: usize| whole[..len].to_vec();
    let deep = [map(&[("x", vec![])]), vec![0x91; 5000], vec![0xC0]].concat();
    vec![
        case("no_bytes", malformed, "no bytes", vec![]),
        case("cut_in_key", malformed, "cut in a key", cut(5)),
        case(
            "cut_at_end",
            malformed,
            "the last byte missing",
            cut(whole.len() - 1),
        ),
        case(
            "trailing",
            malformed,
            "a byte too many",
            [&whole[..], &[0xC0]].concat(),
        ),
        case("reserved", malformed, "the byte 0xC1", vec![0xC1]),
        case(
            "list_huge",
            malformed,
            "2^32-1 tensors",
            tensors(vec![0xDD, 0xFF, 0xFF, 0xFF, 0xFF]),
        ),
        case(
            "map_huge",
            malformed,
            "2^32-1 pairs",
            vec![0xDF, 0xFF, 0xFF, 0xFF, 0xFF],
        ),
        case(
            "text_huge",
            malformed,
            "a key of 2^32-1 bytes",
            vec![0x81, 0xDB, 0xFF, 0xFF, 0xFF, 0xFF],
        ),
        case(
            "bin_huge",
            malformed,
            "a bin of 2^32-1 bytes",
            map(&[("x", vec![0xC6, 0xFF, 0xFF, 0xFF, 0xFF])]),
        ),
        case("deep", "max_value_depth", "5000 lists in each other", deep),
        case("list", structure, "a list", list(&[])),
        case("nil", structure, "nil", vec![0xC0]),
        case("no_tensors", structure, "no pair", map(&[])),
        case(
            "other_key",
            structure,
            "the key in upper case",
            map(&[("TENSORS", list(&[]))]),
        ),
        case("tensors_map", structure, "a map", tensors(map(&[]))),
        case("tensors_nil", structure, "nil", tensors(vec![0xC0])),
        case(
            "tensor_list",
            structure,
            "a tensor as a list",
            tensors(list(&[list(&[])])),
        ),
        case(
            "tensors_twice",
            "aero.tidx.duplicate_key",
            "tensors twice",
            map(&[("tensors", list(&[])), ("tensors", list(&[]))]),
        ),
        Case::reject(
            "manifest_reserved",
            malformed,
            "a manifest of 0xC1",
            file(&[manifest(vec![0xC1])]),
        ),
        Case::reject(
            "manifest_trailing",
            malformed,
            "a byte after the manifest",
            file(&[manifest(vec![0x80, 0x80])]),
        ),
        Case::reject(
            "manifest_no_bytes",
            malformed,
            "a manifest of no bytes",
            file(&[manifest(vec![])]),
        ),
        Case::reject(
            "manifest_deep",
            "max_value_depth",
            "5000 lists in each other in a manifest",
            file(&[manifest([vec![0x91; 5000], vec![0xC0]].concat())]),
        ),
    ]
}

fn bad_fields() -> Vec<Case> {
    let keys = ["name", "dtype", "shape", "shard_id", "data_off", "data_len"];
    let mut cases: Vec<Case> = keys
        .into_iter()
        .map(|key| {
            let bytes = tensors(&[weight().without(key)]);
            let about = format!("no {key}");
            Case::reject(format!("no_{key}"), "aero.tidx.missing", about, bytes)
        })
        .collect();
    let field = |name: &str, key, about: &str, value| {
        let bytes = tensors(&[weight().with(key, value)]);
        Case::reject(name, "aero.tidx.field", about, bytes)
    };
    let minus_one = || vec![0xFF];
    let float = || [&[0xCA][..], &3f32.to_be_bytes()].concat();
    cases.extend([
        field("dtype_text", "dtype", "a text", text("f32")),
        field("dtype_negative", "dtype", "-1", minus_one()),
        field("dtype_wraps", "dtype", "1 mod 2^16", uint(0x1_0001)),
        field("shape_text", "shape", "a text", text("3")),
        field("shape_integer", "shape", "an integer", uint(3)),
        field("shape_map", "shape", "a map", map(&[("x", uint(3))])),
        field("dim_negative", "shape", "-1", list(&[minus_one()])),
        field("dim_float", "shape", "3.0", list(&[float()])),
        field("dim_wide", "shape", "2^63", list(&[uint(1 << 63), uint(0)])),
        field("shard_id_negative", "shard_id", "-1", minus_one()),
        field("shard_id_wide", "shard_id", "2^31", uint(1 << 31)),
        field("shard_id_wraps", "shard_id", "0 mod 2^32", uint(1 << 32)),
        field("data_off_negative", "data_off", "-1", minus_one()),
        field("data_off_nil", "data_off", "nil", vec![0xC0]),
        field("data_len_negative", "data_len", "-1", minus_one()),
        field("data_len_float", "data_len", "3.0", float()),
        field("flags_text", "flags", "a text", text("x")),
        field("quant_id_text", "quant_id", "a text", text("x")),
        Case::reject(
            "key_twice",
            "aero.tidx.duplicate_key",
            "data_len twice",
            tensors(&[weight().twice("data_len", uint(12))]),
        ),
    ]);
    cases
}

fn bad_tensors() -> Vec<Case> {
    let case = |name: &str, rule, about: &str, tensor: Tensor| {
        Case::reject(name, rule, about, tensors(&[tensor]))
    };
    let (name, overflow) = ("aero.tidx.name", "aero.tidx.overflow");
    let (len, range) = ("aero.tidx.data_len", "aero.tidx.data_range");
    let (shard_rule, hash) = ("aero.tidx.shard", "aero.tidx.hash_b3");
    let of = |shape: &[u64], data| Tensor::new("w", F32, shape, data);
    let named = |value| weight().with("name", value);
    let hashed = |value| weight().with("hash_b3", value);
    vec![
        case("name_bin", name, "a bin", named(bin(b"w"))),
        case("name_integer", name, "an integer", named(uint(1))),
        case("tensor_name_utf8", name, "no UTF-8", named(text(b"\xFF"))),
        Case::reject(
            "tensor_twice",
            "aero.tidx.duplicate",
            "two tensors of one name",
            tensors(&[
                weight(),
                weight().with("name", text("v")),
                weight().with("data_off", uint(12)),
            ]),
        ),
        case(
            "elements_wrap",
            overflow,
            "2^64 elements",
            of(&[1 << 32, 1 << 32], 0..0),
        ),
        case("bytes_wrap", overflow, "2^64 bytes", of(&[1 << 62], 0..0)),
        case(
            "packed_wraps",
            overflow,
            "2^64 elements of packed data",
            Tensor::new("w", PACKED, &[1 << 32, 1 << 32], 0..1),
        ),
        case("data_len_short", len, "a byte missing", of(&[3], 0..11)),
        case("data_len_0", len, "no data", of(&[3], 0..0)),
        case("scalar_no_data", len, "one element of none", of(&[], 0..0)),
        case("data_far", range, "past the shard", of(&[3], 64..76)),
        case("data_end", range, "a byte past it", of(&[3], 53..65)),
        case("data_empty_far", range, "0 bytes past it", of(&[0], 65..65)),
        case(
            "data_wraps",
            range,
            "an end beyond 64 bits",
            of(&[3], u64::MAX - 11..u64::MAX).with("data_len", uint(12)),
        ),
        case(
            "shard_none",
            shard_rule,
            "an id that no shard has",
            weight().with("shard_id", uint(1)),
        ),
        Case::reject(
            "shard_name",
            shard_rule,
            "a shard under another name",
            file(&[
                index(&[weight()]),
                chunk(b"WTSH", 0x2, "weights.shard00", vec![0; 12]),
            ]),
        ),
        Case::reject(
            "shard_type",
            shard_rule,
            "a chunk of that name and another type",
            file(&[
                index(&[weight()]),
                chunk(b"XTRA", 0x2, "weights.shard0", vec![0; 12]),
                shard(1, 12),
            ]),
        ),
        case("hash_short", hash, "63 digits", hashed(text([b'0'; 63]))),
        case("hash_letters", hash, "no digits", hashed(text([b'g'; 64]))),
        case("hash_bin", hash, "a bin", hashed(bin(&[0; 32]))),
        case(
            "hash_wrong",
            "aero.tensor.hash_b3",
            "the hash of something else",
            hashed(text([b'0'; 64])),
        ),
    ]
}

fn bad_integrity() -> Vec<Case> {
    let (structure, digest) = ("aero.ihsh.structure", "aero.ihsh.digest");
    let control = |name: &str, about: &str, payload: &dyn Fn(u64, [u8; 32]) -> Vec<u8>| {
        let bytes = controlled(256, payload).into_vec();
        Case::reject(format!("ihsh_{name}"), structure, about, bytes)
    };
    let algo = "blake3-256";
    let own = |end, digest: [u8; 32]| ihsh(algo, &[(0, end)], &digest);
    let tampered = |name: &str, about: &str, change: &dyn Fn(&mut LeBuffer)| {
        let mut file = controlled(256, own);
        change(&mut file);
        Case::reject(format!("ihsh_{name}"), digest, about, file.into_vec())
    };
    let pages_case = |name: &str, about: &str, chunk| {
        let rule = "aero.phsh.structure";
        Case::reject(format!("phsh_{name}"), rule, about, paged(chunk))
    };
    let name = "weights.shard0";
    let with = |change: &dyn Fn(&mut Chunk)| {
        let mut chunk = phsh(name, 8, &pages(8));
        change(&mut chunk);
        chunk
    };
    let short = vec![pages(8)[0].clone(), vec![0; 31]];
    vec![
        control("zeros", "nothing but zeros", &|_, _| vec![]),
        control("list", "a list", &|_, _| list(&[])),
        control("short_digest", "31 bytes", &|end, digest| {
            ihsh(algo, &[(0, end)], &digest[..31])
        }),
        control("no_range", "no range", &|_, digest| {
            ihsh(algo, &[], &digest)
        }),
        control("two_ranges", "two ranges", &|end, digest| {
            ihsh(algo, &[(0, 96), (96, end)], &digest)
        }),
        control("from_1", "a range from 1 on", &|end, digest| {
            ihsh(algo, &[(1, end)], &digest)
        }),
        control("header_alone", "a range of the header", &|_, digest| {
            ihsh(algo, &[(0, 96)], &digest)
        }),
        control("far", "a range past the end", &|_, digest| {
            ihsh(algo, &[(0, 1 << 40)], &digest)
        }),
        control("tail", "a byte among the zeros", &|end, digest| {
            [own(end, digest), vec![0, 0, 1]].concat()
        }),
        control("no_algo", "no algorithm", &|end, digest| {
            map(&[
                ("covered_ranges", list(&[list(&[uint(0), uint(end)])])),
                ("digest", bin(&digest)),
            ])
        }),
        Case::reject(
            "ihsh_wrong",
            digest,
            "a digest of zeros",
            controlled(256, |end, _| own(end, [0; 32])).into_vec(),
        ),
        tampered("uuid", "another uuid", &|f| {
            f.set_u8_at("uuid", 0x12);
        }),
        tampered("flags", "another flag of a chunk", &|f| {
            f.set_u32_at("2.flags", 0);
        }),
        tampered("name", "another letter of a name", &|f| {
            f.set_bytes_at("strings", b"C");
        }),
        pages_case("page_size_0", "no page size", phsh(name, 0, &pages(8))),
        pages_case("few", "a page missing", phsh(name, 4, &pages(8))),
        pages_case("many", "a page too many", phsh(name, 12, &pages(8))),
        pages_case("short_digest", "31 bytes", phsh(name, 8, &short)),
        pages_case(
            "other_name",
            "the name of another shard inside",
            with(&|chunk| {
                chunk.payload = phsh("weights.shard1", 8, &pages(8)).payload;
            }),
        ),
        pages_case(
            "no_shard",
            "pages of a shard that is not there",
            phsh("weights.shard1", 8, &pages(8)),
        ),
        pages_case(
            "trailing",
            "a byte too many",
            with(&|chunk| chunk.payload.push(0)),
        ),
        pages_case("list", "a list", with(&|chunk| chunk.payload = list(&[]))),
        Case::reject(
            "phsh_wrong",
            "aero.phsh.digest",
            "the pages in the wrong order",
            paged(phsh(
                name,
                8,
                &pages(8).into_iter().rev().collect::<Vec<_>>(),
            )),
        ),
    ]
}

fn bad_json() -> Vec<Case> {
    let case = |name: &str, about: &str, text: &str| {
        let bytes = file(&[json(text)]);
        Case::reject(format!("json_{name}"), "aero.json", about, bytes)
    };
    vec![
        case("no_bytes", "no bytes", ""),
        case("cut", "cut in a key", "{\"a"),
        case("trailing", "two values", "{}{}"),
        case("nan", "a number that JSON lacks", r#"{"a":NaN}"#),
        case("deep", "5000 lists in each other", &"[".repeat(5000)),
        case(
            "deep_closed",
            "the same, all of them closed",
            &["[".repeat(5000), "]".repeat(5000)].concat(),
        ),
    ]
}

fn beyond_limits() -> Vec<Case> {
    let claim = |ulen| {
        changed(|f| {
            f.set_u32_at("0.flags", 0x5).set_u64_at("0.ulen", ulen);
        })
    };
    vec![
        Case::reject(
            "strings_long",
            "max_string_table_bytes",
            "names of more than 512 MiB",
            changed(|f| {
                f.set_u64_at("string_table_length", (512 << 20) + 1);
            }),
        ),
        Case::reject(
            "rank_33",
            "max_tensor_dim_count",
            "33 dims",
            tensors(&[Tensor::new("w", F32, &[1; 33], 0..4)]),
        ),
        Case::reject(
            "name_4097",
            "max_name_bytes",
            "a name of 4097 bytes",
            tensors(&[weight().with("name", text([b'n'; 4097]))]),
        ),
        Case::reject(
            "ulen_long",
            "max_metadata_bytes",
            "an index of more than 2 GiB under the zstd flag",
            claim((2 << 30) + 1),
        ),
        Case::reject(
            "ulen_bomb",
            "max_metadata_ratio",
            "an index of 1 GiB from a few bytes",
            claim(1 << 30),
        ),
    ]
}

fn unsupported() -> Vec<Case> {
    let mut cases: Vec<Case> = [(0, 0), (0, 2), (1, 0), (1, 1), (0x100, 0), (0, 0x100)]
        .into_iter()
        .map(|(major, minor)| {
            let bytes = changed(|f| {
                f.set_u16_at("version_major", major);
                f.set_u16_at("version_minor", minor);
            });
            let (name, about) = (format!("version_{major}_{minor}"), "another version");
            Case::unsupported(name, "aero.version", about, bytes)
        })
        .collect();
    cases.extend([13, 0x7FFF, 0x8001, 0xFFFF].map(|code| {
        let bytes = tensors(&[weight(), Tensor::new("x", code, &[3], 12..24)]);
        let about = "a tensor of an unknown dtype beside one of a known";
        Case::unsupported(format!("dtype_{code:x}"), "aero.dtype", about, bytes)
    }));
    cases.push(Case::unsupported(
        "ihsh_algo",
        "aero.ihsh.algo",
        "another hash algorithm",
        controlled(256, |end, digest| ihsh("sha-256", &[(0, end)], &digest)).into_vec(),
    ));
    cases
}
