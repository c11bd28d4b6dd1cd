//! primitiv version 0.1, and the heads of the older generations.
//!
//! Three uint32 words, then the fields of one object in MessagePack, one after the other.

use crate::{Case, LeBuffer};

const SHAPE: u32 = 0x0;
const TENSOR: u32 = 0x100;
pub(crate) const PARAMETER: u32 = 0x200;
pub(crate) const MODEL: u32 = 0x300;
pub(crate) const OPTIMIZER: u32 = 0x400;

/// Every hand-assembled primitiv file.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        valid(),
        truncated(),
        wrong_types(),
        bad_shapes(),
        bad_names(),
        bad_counts(),
        unsupported(),
    ]
    .concat()
}

pub(crate) fn header(data_type: u32) -> LeBuffer {
    let mut file = LeBuffer::new();
    for (tag, word) in [("ver_major", 0), ("ver_minor", 1), ("data_type", data_type)] {
        file.tag(tag);
        uint(&mut file, word);
    }
    file
}

pub(crate) fn uint(file: &mut LeBuffer, value: u32) {
    file.u8(0xCE).u32_be(value);
}

/// A str in its shortest form, for texts of up to 31 bytes.
pub(crate) fn text(file: &mut LeBuffer, text: &[u8]) {
    file.u8(0xA0 | u8::try_from(text.len()).expect("a short text"))
        .bytes(text);
}

fn shape(file: &mut LeBuffer, dims: &[u32], batch: u32) {
    file.u8(0x90 | u8::try_from(dims.len()).expect("few dims"));
    for &dim in dims {
        uint(file, dim);
    }
    uint(file, batch);
}

/// A tensor whose elements count up from 0.
fn tensor(file: &mut LeBuffer, dims: &[u32], batch: u32) {
    shape(file, dims, batch);
    let count = u16::try_from(dims.iter().product::<u32>() * batch).expect("a small tensor");
    file.u8(0xC4)
        .u8(u8::try_from(count * 4).expect("a small tensor"));
    for index in 0..count {
        file.bytes(&f32::from(index).to_le_bytes());
    }
}

fn path(file: &mut LeBuffer, parts: &[&[u8]]) {
    file.u8(0x90 | u8::try_from(parts.len()).expect("few parts"));
    for part in parts {
        text(file, part);
    }
}

/// A model of parameters with a dim of 1 each and no statistics.
fn model(paths: &[&[&[u8]]]) -> Vec<u8> {
    let mut file = header(MODEL);
    uint(
        &mut file,
        u32::try_from(paths.len()).expect("few parameters"),
    );
    for parts in paths {
        path(&mut file, parts);
        tensor(&mut file, &[2], 1);
        uint(&mut file, 0);
    }
    file.into_vec()
}

/// A parameter with statistics of these keys.
fn parameter(stats: &[&[u8]]) -> Vec<u8> {
    let mut file = header(PARAMETER);
    tensor(&mut file, &[2, 3], 1);
    uint(
        &mut file,
        u32::try_from(stats.len()).expect("few statistics"),
    );
    for key in stats {
        text(&mut file, key);
        tensor(&mut file, &[2, 3], 1);
    }
    file.into_vec()
}

/// A file that ends after what `body` puts.
fn file(data_type: u32, body: impl FnOnce(&mut LeBuffer)) -> Vec<u8> {
    let mut file = header(data_type);
    body(&mut file);
    file.into_vec()
}

fn valid() -> Vec<Case> {
    vec![
        Case::valid(
            "shape",
            "a shape alone",
            file(SHAPE, |f| shape(f, &[2, 3], 1)),
        ),
        Case::valid("shape_scalar", "no dims", file(SHAPE, |f| shape(f, &[], 1))),
        Case::valid(
            "shape_batch",
            "a batch of 32",
            file(SHAPE, |f| shape(f, &[2, 3], 32)),
        ),
        Case::valid(
            "shape_largest",
            "dims that multiply to 2^32-1",
            file(SHAPE, |f| shape(f, &[65535, 65537], 1)),
        ),
        Case::valid(
            "tensor",
            "a tensor alone",
            file(TENSOR, |f| tensor(f, &[2, 3], 1)),
        ),
        Case::valid(
            "tensor_scalar",
            "one element",
            file(TENSOR, |f| tensor(f, &[], 1)),
        ),
        Case::valid(
            "tensor_batch",
            "a batch of 3",
            file(TENSOR, |f| tensor(f, &[2], 3)),
        ),
        Case::valid(
            "tensor_rank_8",
            "the highest rank",
            file(TENSOR, |f| tensor(f, &[1, 2, 1, 2, 1, 2, 1, 2], 1)),
        ),
        Case::valid(
            "tensor_trailing_ones",
            "trailing ones, which mean nothing",
            file(TENSOR, |f| tensor(f, &[2, 1, 1], 1)),
        ),
        Case::valid("parameter", "a value without statistics", parameter(&[])),
        Case::valid(
            "parameter_adam",
            "two statistics",
            parameter(&[b"Adam.m2", b"Adam.m1"]),
        ),
        Case::valid(
            "parameter_empty_key",
            "a statistic named by nothing",
            parameter(&[b""]),
        ),
        Case::valid(
            "parameter_stat_batch",
            "a statistic with a batch, which a value may not have",
            file(PARAMETER, |f| {
                tensor(f, &[2], 1);
                uint(f, 1);
                text(f, b"b");
                tensor(f, &[2], 3);
            }),
        ),
        Case::valid("model_empty", "no parameter", model(&[])),
        Case::valid(
            "model",
            "addresses of one to three parts",
            model(&[&[b"a"], &[b"enc", b"W"], &[b"enc", b"rnn", b"b"]]),
        ),
        Case::valid(
            "model_unsorted",
            "in no order",
            model(&[&[b"z"], &[b"a"], &[b"m"]]),
        ),
        Case::valid(
            "model_dots",
            "two addresses that join to one name",
            model(&[&[b"a", b"b"], &[b"a.b"]]),
        ),
        Case::valid(
            "model_empty_part",
            "a part of no bytes",
            model(&[&[b""], &[b"a", b""]]),
        ),
        Case::valid(
            "model_wide_heads",
            "lengths in wider heads than they need",
            file(MODEL, |f| {
                uint(f, 1);
                f.u8(0xDC).u16_be(1).u8(0xD9).u8(1).bytes(b"w");
                f.u8(0xDD).u32_be(1);
                uint(f, 1);
                uint(f, 1);
                f.u8(0xC5).u16_be(4).bytes(&1f32.to_le_bytes());
                uint(f, 0);
            }),
        ),
        Case::valid(
            "optimizer",
            "an epoch and a rate",
            file(OPTIMIZER, |f| {
                f.u8(0x81);
                text(f, b"Optimizer.epoch");
                uint(f, 7);
                f.u8(0x81);
                text(f, b"SGD.eta");
                f.u8(0xCA).u32_be(0x3DCC_CCCD);
            }),
        ),
        Case::valid(
            "optimizer_empty",
            "two empty maps",
            file(OPTIMIZER, |f| {
                f.bytes(&[0x80, 0x80]);
            }),
        ),
    ]
}

fn truncated() -> Vec<Case> {
    let whole = parameter(&[b"Adam.m1"]);
    let at = |len: usize| whole[..len].to_vec();
    let case = |name: &str, about: &str, bytes| {
        Case::reject(format!("trunc_{name}"), "primitiv.truncated", about, bytes)
    };
    vec![
        case("empty", "no bytes", at(0)),
        case("in_ver_major", "inside of the first word", at(3)),
        case("after_ver_major", "after the first word", at(5)),
        case("after_header", "nothing but the header", at(15)),
        case("in_dims", "inside of a dim", at(18)),
        case("before_batch", "before the batch", at(26)),
        case("before_bin", "before the data's head", at(31)),
        case("in_data", "one byte of data missing", at(56)),
        case("before_n", "before the number of statistics", at(57)),
        case("in_stat_key", "inside of a key", at(66)),
        case(
            "in_stat",
            "one byte of a statistic missing",
            at(whole.len() - 1),
        ),
    ]
}

fn wrong_types() -> Vec<Case> {
    let case = |name: &str, about: &str, bytes| {
        Case::reject(format!("type_{name}"), "primitiv.type", about, bytes)
    };
    vec![
        case(
            "header_fixint",
            "a word as a fixint",
            vec![0, 1, 0xCE, 0, 0, 3, 0],
        ),
        case("header_nil", "a word as nil", vec![0xC0; 15]),
        case(
            "crlf",
            "a carriage return, as text mode leaves one",
            vec![0xCE, 0, 0, 0, 0, 0x0D],
        ),
        case(
            "dim_fixint",
            "a dim as a fixint",
            file(TENSOR, |f| {
                f.bytes(&[0x91, 0x02]);
            }),
        ),
        case(
            "dim_uint64",
            "a dim as a uint64",
            file(TENSOR, |f| {
                f.bytes(&[0x91, 0xCF]).fill(8, 0);
            }),
        ),
        case(
            "dims_map",
            "dims as a map",
            file(TENSOR, |f| {
                f.u8(0x81);
            }),
        ),
        case(
            "batch_nil",
            "a batch as nil",
            file(TENSOR, |f| {
                f.bytes(&[0x90, 0xC0]);
            }),
        ),
        case(
            "data_str",
            "data as a str",
            file(TENSOR, |f| {
                shape(f, &[], 1);
                f.u8(0xA4).fill(4, 0);
            }),
        ),
        case(
            "data_array",
            "data as an array",
            file(TENSOR, |f| {
                shape(f, &[], 1);
                f.u8(0x91).u8(0xCA).fill(4, 0);
            }),
        ),
        case(
            "data_ext",
            "data as an ext",
            file(TENSOR, |f| {
                shape(f, &[], 1);
                f.u8(0xD6).fill(5, 0);
            }),
        ),
        case(
            "reserved",
            "the byte that MessagePack never uses",
            file(TENSOR, |f| {
                f.u8(0xC1);
            }),
        ),
        case(
            "n_true",
            "a number of statistics as true",
            file(PARAMETER, |f| {
                tensor(f, &[], 1);
                f.u8(0xC3);
            }),
        ),
        case(
            "path_str",
            "an address as a str",
            file(MODEL, |f| {
                uint(f, 1);
                text(f, b"w");
                f.fill(32, 0);
            }),
        ),
        case(
            "path_nested",
            "an address in an address",
            file(MODEL, |f| {
                uint(f, 1);
                f.fill(100, 0x91);
            }),
        ),
        case(
            "name_bin",
            "a name as a bin",
            file(MODEL, |f| {
                uint(f, 1);
                f.bytes(&[0x91, 0xC4, 1, b'w']).fill(32, 0);
            }),
        ),
        case(
            "float64",
            "a configuration as a float64",
            file(OPTIMIZER, |f| {
                f.bytes(&[0x80, 0x81]);
                text(f, b"SGD.eta");
                f.u8(0xCB).fill(8, 0);
            }),
        ),
        case(
            "uint_in_floats",
            "an integer among the floats",
            file(OPTIMIZER, |f| {
                f.bytes(&[0x80, 0x81]);
                text(f, b"SGD.eta");
                uint(f, 1);
            }),
        ),
        case(
            "float_in_uints",
            "a float among the integers",
            file(OPTIMIZER, |f| {
                f.u8(0x81);
                text(f, b"epoch");
                f.u8(0xCA).fill(5, 0);
            }),
        ),
    ]
}

fn bad_shapes() -> Vec<Case> {
    let rank_9 = file(SHAPE, |f| shape(f, &[2, 1, 1, 1, 1, 1, 1, 1, 1], 1));
    let huge = file(SHAPE, |f| {
        f.u8(0xDD).u32_be(u32::MAX);
    });
    let data = |dims: &[u32], batch, len: u8| {
        file(TENSOR, |f| {
            shape(f, dims, batch);
            f.u8(0xC4).u8(len).fill(len.into(), 0);
        })
    };
    let shape_case = |name: &str, rule, about: &str, dims: &[u32], batch| {
        Case::reject(name, rule, about, file(SHAPE, |f| shape(f, dims, batch)))
    };
    let (volume, length) = ("primitiv.shape.volume", "primitiv.tensor.data_length");
    vec![
        Case::reject(
            "rank_9",
            "primitiv.shape.rank",
            "nine dims, eight of them 1",
            rank_9,
        ),
        Case::reject(
            "rank_huge",
            "primitiv.shape.rank",
            "2^32-1 dims in five bytes",
            huge,
        ),
        shape_case("dim_zero", "primitiv.shape.dim", "a dim of 0", &[2, 0], 1),
        shape_case(
            "batch_zero",
            "primitiv.shape.batch",
            "a batch of 0",
            &[2],
            0,
        ),
        shape_case(
            "volume_wraps_to_0",
            volume,
            "2^16 x 2^16",
            &[65536, 65536],
            1,
        ),
        shape_case(
            "volume_wraps_to_2",
            volume,
            "2 mod 2^32",
            &[2_147_483_649, 2],
            1,
        ),
        shape_case(
            "volume_batch",
            volume,
            "the batch makes it too much",
            &[3],
            1_431_655_766,
        ),
        shape_case(
            "volume_u64",
            volume,
            "beyond 64 bits too",
            &[u32::MAX; 8],
            u32::MAX,
        ),
        Case::reject(
            "data_wrapped",
            volume,
            "the length that wraps",
            data(&[2_147_483_649, 2], 1, 8),
        ),
        Case::reject(
            "data_short",
            length,
            "an element missing",
            data(&[2, 3], 1, 20),
        ),
        Case::reject(
            "data_long",
            length,
            "an element too many",
            data(&[2, 3], 1, 28),
        ),
        Case::reject("data_odd", length, "no multiple of 4", data(&[2, 3], 1, 23)),
        Case::reject(
            "data_f64",
            length,
            "eight bytes an element",
            data(&[2, 3], 1, 48),
        ),
        Case::reject(
            "data_no_batch",
            length,
            "the batch forgotten",
            data(&[2], 3, 8),
        ),
        Case::reject(
            "value_batch",
            "primitiv.parameter.value_batch",
            "a batch in the value of a parameter",
            file(PARAMETER, |f| {
                tensor(f, &[2], 2);
                uint(f, 0);
            }),
        ),
    ]
}

fn bad_names() -> Vec<Case> {
    let utf8 = "primitiv.utf8";
    let config = |floats: bool| {
        file(OPTIMIZER, |f| {
            if floats {
                f.u8(0x80);
            }
            f.u8(0x82);
            for value in [1, 2] {
                text(f, b"k");
                f.u8(if floats { 0xCA } else { 0xCE }).u32_be(value);
            }
            if !floats {
                f.u8(0x80);
            }
        })
    };
    let (duplicate, conflict) = ("primitiv.model.duplicate", "primitiv.model.conflict");
    vec![
        Case::reject("utf8_path", utf8, "a stray byte", model(&[&[b"a\xFF"]])),
        Case::reject(
            "utf8_overlong",
            utf8,
            "an overlong slash",
            model(&[&[b"\xC0\xAF"]]),
        ),
        Case::reject(
            "utf8_surrogate",
            utf8,
            "half a surrogate pair",
            parameter(&[b"\xED\xA0\x80"]),
        ),
        Case::reject(
            "utf8_config",
            utf8,
            "in a configuration",
            file(OPTIMIZER, |f| {
                f.u8(0x81);
                text(f, b"\x80");
                uint(f, 1);
                f.u8(0x80);
            }),
        ),
        Case::reject(
            "path_empty",
            "primitiv.model.empty_path",
            "no parts",
            model(&[&[]]),
        ),
        Case::reject(
            "path_twice",
            duplicate,
            "one address twice",
            model(&[&[b"a"], &[b"b"], &[b"a"]]),
        ),
        Case::reject(
            "path_in_parameter",
            conflict,
            "a parameter inside of a parameter",
            model(&[&[b"a"], &[b"a", b"b"]]),
        ),
        Case::reject(
            "path_around_parameter",
            conflict,
            "the same, the longer address first",
            model(&[&[b"a", b"b", b"c"], &[b"z"], &[b"a"]]),
        ),
        Case::reject(
            "stat_twice",
            "primitiv.parameter.duplicate",
            "one statistic twice",
            parameter(&[b"m", b"n", b"m"]),
        ),
        Case::reject(
            "uint_twice",
            "primitiv.optimizer.duplicate",
            "an integer twice",
            config(false),
        ),
        Case::reject(
            "float_twice",
            "primitiv.optimizer.duplicate",
            "a float twice",
            config(true),
        ),
    ]
}

fn bad_counts() -> Vec<Case> {
    let case = |name: &str, about: &str, bytes| {
        Case::reject(format!("count_{name}"), "primitiv.truncated", about, bytes)
    };
    let trailing = [parameter(&[]), vec![0]].concat();
    let second = [parameter(&[]), parameter(&[])].concat();
    vec![
        case(
            "parameters",
            "2^32-1 parameters",
            file(MODEL, |f| uint(f, u32::MAX)),
        ),
        case(
            "stats",
            "2^32-1 statistics",
            file(PARAMETER, |f| {
                tensor(f, &[], 1);
                uint(f, u32::MAX);
            }),
        ),
        case(
            "path",
            "2^32-1 parts",
            file(MODEL, |f| {
                uint(f, 1);
                f.u8(0xDD).u32_be(u32::MAX).fill(32, 0xA0);
            }),
        ),
        case(
            "uints",
            "2^32-1 integers",
            file(OPTIMIZER, |f| {
                f.u8(0xDF).u32_be(u32::MAX);
            }),
        ),
        case(
            "floats",
            "65535 floats",
            file(OPTIMIZER, |f| {
                f.u8(0x80).u8(0xDE).u16_be(u16::MAX);
            }),
        ),
        case(
            "str",
            "a str of 2^32-1 bytes",
            file(MODEL, |f| {
                uint(f, 1);
                f.bytes(&[0x91, 0xDB]).u32_be(u32::MAX).fill(32, b'a');
            }),
        ),
        case(
            "bin",
            "a bin of 2^32-1 bytes",
            file(TENSOR, |f| {
                shape(f, &[2], 1);
                f.u8(0xC6).u32_be(u32::MAX);
            }),
        ),
        Case::reject(
            "trailing_byte",
            "primitiv.trailing_bytes",
            "a byte too many",
            trailing,
        ),
        Case::reject(
            "second_object",
            "primitiv.trailing_bytes",
            "two files in one",
            second,
        ),
    ]
}

fn unsupported() -> Vec<Case> {
    let version = |major: u32, minor: u32| {
        let mut file = LeBuffer::new();
        for word in [major, minor, PARAMETER] {
            uint(&mut file, word);
        }
        file.into_vec()
    };
    let era = |name: &str, about: &str, bytes: &[u8]| {
        Case::unsupported(format!("era_{name}"), "primitiv.era", about, bytes.to_vec())
    };
    let mut cases: Vec<Case> = [
        (0, 0),
        (0, 2),
        (1, 0),
        (0, 0x0100_0000),
        (u32::MAX, u32::MAX),
    ]
    .into_iter()
    .map(|(major, minor)| {
        let name = format!("version_{major}_{minor}");
        let about = "a version that nobody has written";
        Case::unsupported(name, "primitiv.version", about, version(major, minor))
    })
    .collect();
    cases.extend([1, 0x500].map(|code| {
        let name = format!("data_type_{code:x}");
        Case::unsupported(
            name,
            "primitiv.data_type",
            "an unknown object",
            file(code, |_| {}),
        )
    }));
    cases.extend([
        era("yaml", "YAML text", b"name: w\nvalue:\n  shape: [2]\n"),
        era(
            "protobuf",
            "a name and a value",
            b"\x0A\x01w\x12\x02\x0A\x00",
        ),
        era("protobuf_unnamed", "a value alone", b"\x12\x02\x0A\x00"),
        era(
            "two_words",
            "a trainer with a header of two words",
            &[0xCE, 0, 0, 0, 0, 0xCE, 0, 0, 4, 0, 0x80, 0x80],
        ),
    ]);
    cases
}
