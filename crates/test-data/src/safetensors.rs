//! `.safetensors`: a length, a header of JSON, and data without holes.
//!
//! Headers are written out as text, since their spelling is what most cases are about.

use crate::{Case, LeBuffer};

/// Every hand-assembled safetensors file.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        valid(),
        valid_dtypes(),
        valid_names_and_keys(),
        vec![demo()],
        truncated(),
        bad_headers(),
        bad_json(),
        bad_metadata(),
        bad_fields(),
        bad_numbers(),
        bad_sizes(),
        bad_tiling(),
        limits(),
        unsupported(),
    ]
    .concat()
}

/// A file of this header, as it stands, and this data.
pub(crate) fn file(header: impl AsRef<[u8]>, data: &[u8]) -> Vec<u8> {
    let header = header.as_ref();
    let mut file = LeBuffer::new();
    file.u64(header.len() as u64).bytes(header).bytes(data);
    file.into_vec()
}

/// A header of one tensor of four bytes, and what else stands in its object.
fn one(more: &str) -> String {
    format!(r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]{more}}}}}"#)
}

/// A header of one tensor with these three fields.
fn fields(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}"#)
}

const FOUR: &[u8] = &[1, 2, 3, 4];

fn demo() -> Case {
    let header = concat!(
        r#"{"__metadata__":{"format":"pt","step":"1000"},"#,
        r#""encoder.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"#,
        r#""encoder.bias":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},"#,
        r#""mask":{"dtype":"BOOL","shape":[3],"data_offsets":[28,31]}}   "#,
    );
    let mut data = LeBuffer::new();
    for value in [0.0f32, 1.0, -2.5, 1e-3, 65504.0, f32::MIN_POSITIVE] {
        data.bytes(&value.to_le_bytes());
    }
    data.u16(0x3F80).u16(0xC040).bytes(&[1, 0, 1]);
    let about = "a small model with metadata, two float kinds and a mask";
    Case::valid("demo", about, file(header, data.as_slice()))
}

fn valid() -> Vec<Case> {
    let two = |first: &str, second: &str| {
        format!(
            r#"{{"a":{{"dtype":"U8","shape":[2],"data_offsets":{first}}},"b":{{"dtype":"U8","shape":[2],"data_offsets":{second}}}}}"#
        )
    };
    let empties = concat!(
        r#"{"c":{"dtype":"F64","shape":[0],"data_offsets":[4,4]},"#,
        r#""a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"#,
        r#""b":{"dtype":"F32","shape":[2,0,3],"data_offsets":[0,0]},"#,
        r#""d":{"dtype":"I8","shape":[0],"data_offsets":[4,4]}}"#,
    );
    let rank = vec!["1"; 300].join(",");
    let wide = fields(r#""U8""#, &format!("[{rank},4]"), "[0,4]");
    let spaced = " {\r\n\t\"a\" : { \"dtype\" :\"U8\" , \"shape\" : [ 4 ] ,\n\"data_offsets\" : [ 0 , 4 ] } }";
    vec![
        Case::valid("empty", "no tensor at all", file("{}", &[])),
        Case::valid(
            "one",
            "one tensor, header not filled up",
            file(one(""), FOUR),
        ),
        Case::valid(
            "scalar",
            "no dims, one element",
            file(fields(r#""I32""#, "[]", "[0,4]"), FOUR),
        ),
        Case::valid(
            "padding",
            "filled up with spaces",
            file(one("") + "      ", FOUR),
        ),
        Case::valid(
            "padding_tab_line",
            "filled up with other white space",
            file(one("") + " \t\r\n", FOUR),
        ),
        Case::valid(
            "space_inside",
            "white space wherever JSON has it",
            file(spaced.trim_start(), FOUR),
        ),
        Case::valid(
            "data_out_of_order",
            "the first tensor's data is the second",
            file(two("[2,4]", "[0,2]"), FOUR),
        ),
        Case::valid(
            "empty_tensors",
            "tensors without elements, at either end of another",
            file(empties, FOUR),
        ),
        Case::valid(
            "zero_first",
            "a dim of 0 before dims whose product overflows",
            file(
                fields(r#""U8""#, "[0,1099511627776,1099511627776]", "[0,0]"),
                &[],
            ),
        ),
        Case::valid("rank_301", "many dims", file(wide, FOUR)),
        Case::valid(
            "unaligned",
            "a double at an odd place",
            file(
                r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}}"#,
                &[7, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F],
            ),
        ),
    ]
}

fn valid_dtypes() -> Vec<Case> {
    let names = [
        ("BOOL", 8),
        ("U8", 8),
        ("I8", 8),
        ("F8_E5M2", 8),
        ("F8_E4M3", 8),
        ("F8_E8M0", 8),
        ("F8_E4M3FNUZ", 8),
        ("F8_E5M2FNUZ", 8),
        ("I16", 16),
        ("U16", 16),
        ("F16", 16),
        ("BF16", 16),
        ("I32", 32),
        ("U32", 32),
        ("F32", 32),
        ("C64", 64),
        ("F64", 64),
        ("I64", 64),
        ("U64", 64),
        ("F4", 4),
        ("F6_E2M3", 6),
        ("F6_E3M2", 6),
    ];
    let cases = names.map(|(name, bits)| {
        let shape = if bits < 8 { "[2,2,2]" } else { "[2]" };
        let len = if bits < 8 { bits } else { bits / 4 };
        let data: Vec<u8> = (1..=len).map(|byte: u8| byte.wrapping_mul(37)).collect();
        let header = fields(&format!("{name:?}"), shape, &format!("[0,{len}]"));
        let low = name.to_ascii_lowercase();
        let about = format!("dtype {name}, {bits} bits an element");
        Case::valid(format!("dtype_{low}"), about, file(header, &data))
    });
    let escaped = fields(r#""\u00558""#, "[4]", "[0,4]");
    let mut cases = cases.to_vec();
    cases.push(Case::valid(
        "dtype_escaped",
        "a dtype spelled with an escape",
        file(escaped, FOUR),
    ));
    cases
}

fn valid_names_and_keys() -> Vec<Case> {
    let named = |name: &str| file(one("").replacen("\"a\"", name, 1), FOUR);
    let metadata = |text: &str| file(format!(r#"{{"__metadata__":{text}}}"#), &[]);
    let deep = |levels: usize| format!(r#","x":{}{}"#, "[".repeat(levels), "]".repeat(levels));
    vec![
        Case::valid("name_empty", "a name of no bytes", named(r#""""#)),
        Case::valid(
            "name_escapes",
            "a name with every kind of escape",
            named(r#""\"\\\/\b\f\n\r\t\u0000\u00e9\ud83d\ude00""#),
        ),
        Case::valid(
            "name_unicode",
            "a name beyond ASCII, as itself",
            named("\"größe \u{1F600}\""),
        ),
        Case::valid(
            "name_metadata_upper",
            "a name that is nearly the header's own",
            named(r#""__METADATA__""#),
        ),
        Case::valid("metadata_empty", "metadata without pairs", metadata("{}")),
        Case::valid(
            "metadata_null",
            "null where metadata would be",
            metadata("null"),
        ),
        Case::valid(
            "metadata_pairs",
            "pairs out of order, one of them empty",
            metadata(r#"{"z":"1","a":"","\u006d":"\n"}"#),
        ),
        Case::valid(
            "metadata_escaped",
            "metadata under an escaped name",
            file(r#"{"\u005f_metadata__":{"k":"v"}}"#, &[]),
        ),
        Case::valid(
            "metadata_last",
            "metadata after the tensors",
            file(
                one("").replacen("]}}", r#"]},"__metadata__":{"k":"v"}}"#, 1),
                FOUR,
            ),
        ),
        Case::valid(
            "extra_key",
            "a key of the tensor's own",
            file(one(r#","unit":"m""#), FOUR),
        ),
        Case::valid(
            "extra_keys",
            "keys of every kind of value, one of them twice",
            file(
                one(
                    r#","s":"t\u0041","n":-1.5e3,"big":123456789012345678901234567890,"l":[1,{"k":[]},null],"l":true,"":{}"#,
                ),
                FOUR,
            ),
        ),
        Case::valid(
            "extra_deep",
            "as deep as readers go: 127 levels",
            file(one(&deep(125)), FOUR),
        ),
        Case::valid(
            "field_escaped",
            "a field spelled with an escape",
            file(one("").replacen("shape", r"\u0073hape", 1), FOUR),
        ),
    ]
}

fn truncated() -> Vec<Case> {
    const RULE: &str = "safetensors.truncated";
    let length = |len: u64| {
        let mut file = LeBuffer::new();
        file.u64(len).text("{}");
        file.into_vec()
    };
    let whole = file(one(""), FOUR);
    vec![
        Case::reject("file_0_bytes", RULE, "nothing", Vec::new()),
        Case::reject(
            "file_7_bytes",
            RULE,
            "less than the length",
            vec![2, 0, 0, 0, 0, 0, 0],
        ),
        Case::reject(
            "length_above",
            RULE,
            "a header one byte longer than the file",
            length(3),
        ),
        Case::reject(
            "length_wraps",
            RULE,
            "a length that wraps with the eight bytes before it",
            length(u64::MAX - 7),
        ),
        Case::reject("length_huge", RULE, "the largest length", length(u64::MAX)),
        Case::reject(
            "length_limit",
            RULE,
            "as long as a header may be, in a short file",
            length(100_000_000),
        ),
        Case::reject(
            "length_big_endian",
            RULE,
            "a length in the other order of bytes",
            length(2 << 56),
        ),
        Case::reject(
            "data_cut",
            RULE,
            "the last byte of the data is gone",
            whole[..whole.len() - 1].to_vec(),
        ),
        Case::reject(
            "data_none",
            RULE,
            "all of the data is gone",
            whole[..whole.len() - 4].to_vec(),
        ),
        Case::reject(
            "offset_beyond",
            RULE,
            "a tensor that ends beyond the file",
            file(fields(r#""U8""#, "[4]", "[4,8]"), FOUR),
        ),
        Case::reject(
            "unknown_beyond",
            RULE,
            "the same of an unknown dtype",
            file(fields(r#""Q9""#, "[4]", "[0,8]"), FOUR),
        ),
        Case::reject(
            "empty_beyond",
            RULE,
            "an empty tensor beyond the file",
            file(fields(r#""U8""#, "[0]", "[9,9]"), FOUR),
        ),
    ]
}

fn bad_headers() -> Vec<Case> {
    const START: &str = "safetensors.header.start";
    const PADDING: &str = "safetensors.header.padding";
    let one = one("");
    vec![
        Case::reject("length_zero", START, "no header", file("", FOUR)),
        Case::reject(
            "start_space",
            START,
            "a space before the object",
            file(format!(" {one}"), FOUR),
        ),
        Case::reject("start_list", START, "a list", file("[]", &[])),
        Case::reject("start_null", START, "null", file("null", &[])),
        Case::reject(
            "start_bom",
            START,
            "a byte order mark",
            file(format!("\u{FEFF}{one}"), FOUR),
        ),
        Case::reject(
            "padding_nul",
            PADDING,
            "filled up with NUL",
            file(format!("{one}\0\0"), FOUR),
        ),
        Case::reject(
            "padding_space_nul",
            PADDING,
            "filled up with spaces, then NUL",
            file(format!("{one}  \0"), FOUR),
        ),
        Case::reject(
            "padding_comma",
            PADDING,
            "a comma after the object",
            file(format!("{one},"), FOUR),
        ),
        Case::reject(
            "padding_object",
            PADDING,
            "a second object",
            file(format!("{one} {{}}"), FOUR),
        ),
        Case::reject(
            "utf8_name",
            "safetensors.header.utf8",
            "a name in Latin-1",
            file(
                b"{\"\xE9\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                &[],
            ),
        ),
        Case::reject(
            "utf8_overlong",
            "safetensors.header.utf8",
            "a slash in two bytes",
            file(b"{\"__metadata__\":{\"\xC0\xAF\":\"\"}}", &[]),
        ),
    ]
}

fn bad_json() -> Vec<Case> {
    const JSON: &str = "safetensors.header.json";
    const TEXT: &str = "safetensors.header.text";
    let json = |name: &str, about: &str, header: String| {
        Case::reject(name, JSON, about, file(header, FOUR))
    };
    let text = |name: &str, about: &str, spelled: &str| {
        Case::reject(
            name,
            TEXT,
            about,
            file(one("").replacen("\"a\"", spelled, 1), FOUR),
        )
    };
    let one = |more: &str| one(more);
    vec![
        json(
            "json_unclosed",
            "the object does not end",
            one("").trim_end_matches('}').into(),
        ),
        json("json_brace", "nothing but the brace", "{".into()),
        json(
            "json_comma_end",
            "a comma before the end",
            one("").replace("}}", "},}"),
        ),
        json(
            "json_comma_none",
            "no comma between two fields",
            one("").replace(",\"shape\"", "\"shape\""),
        ),
        json(
            "json_colon_none",
            "no colon after a name",
            one("").replacen(":{", "{", 1),
        ),
        json(
            "json_quotes_single",
            "another kind of quotes",
            one("").replace('"', "'"),
        ),
        json("json_comment", "a comment", one("/**/")),
        json(
            "json_nan",
            "NaN in a key that is skipped",
            one(r#","x":NaN"#),
        ),
        json(
            "json_number",
            "half a number in a key that is skipped",
            one(r#","x":1."#),
        ),
        json(
            "json_zeros",
            "a number with a zero before it in a key that is skipped",
            one(r#","x":01"#),
        ),
        json(
            "json_brackets",
            "brackets that don't match",
            one(r#","x":[}"#),
        ),
        json(
            "json_text_unclosed",
            "a text that does not end",
            r#"{"a"#.into(),
        ),
        text("text_control", "a bare control character", "\"a\u{1}\""),
        text(
            "text_escape",
            "an escape that JSON doesn't have",
            r#""\x41""#,
        ),
        text("text_hex", "a digit that is none", r#""\u00g0""#),
        text("text_sign", "a sign among the digits", r#""\u+041""#),
        text("text_surrogate", "half a pair of surrogates", r#""\ud83d""#),
        text(
            "text_surrogates_swapped",
            "a pair of surrogates in the wrong order",
            r#""\ude00\ud83d""#,
        ),
        Case::reject(
            "text_surrogate_skipped",
            TEXT,
            "half a pair in a key that is skipped",
            file(one(r#","x":["\ud83d"]"#), FOUR),
        ),
    ]
}

fn bad_metadata() -> Vec<Case> {
    const TYPE: &str = "safetensors.metadata.type";
    let of = |name: &str, about: &str, text: &str| {
        Case::reject(
            name,
            TYPE,
            about,
            file(format!(r#"{{"__metadata__":{text}}}"#), &[]),
        )
    };
    vec![
        of("metadata_list", "a list for metadata", "[]"),
        of("metadata_text", "a text for metadata", r#""a""#),
        of("metadata_false", "false for metadata", "false"),
        of("metadata_number", "a number as value", r#"{"a":1}"#),
        of("metadata_value_null", "null as value", r#"{"a":null}"#),
        of(
            "metadata_tensor",
            "a tensor of the header's own name",
            r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#,
        ),
        Case::reject(
            "metadata_twice",
            "safetensors.metadata.twice",
            "duplicate metadata",
            file(r#"{"__metadata__":{},"__metadata__":{}}"#, &[]),
        ),
        Case::reject(
            "metadata_twice_escaped",
            "safetensors.metadata.twice",
            "once under an escaped name",
            file(r#"{"__metadata__":null,"__metadata_\u005f":{}}"#, &[]),
        ),
        Case::reject(
            "metadata_key_twice",
            "safetensors.metadata.key_twice",
            "a duplicate key",
            file(r#"{"__metadata__":{"a":"1","b":"2","\u0061":"1"}}"#, &[]),
        ),
    ]
}

fn bad_fields() -> Vec<Case> {
    const TYPE: &str = "safetensors.field.type";
    const MISSING: &str = "safetensors.field.missing";
    const TWICE: &str = "safetensors.field.twice";
    let of = |name: &str, rule: &'static str, about: &str, header: String| {
        Case::reject(name, rule, about, file(header, FOUR))
    };
    let tensor = |text: &str| format!(r#"{{"a":{text}}}"#);
    let dtype = |text: &str| fields(text, "[4]", "[0,4]");
    let shape = |text: &str| fields(r#""U8""#, text, "[0,4]");
    let offsets = |text: &str| fields(r#""U8""#, "[4]", text);
    let twice = |name: &str| one("").replacen("{\"dtype", &format!("{{\"{name}\":[4],\"dtype"), 1);
    let names = |second: &str| {
        format!(
            r#"{{"a":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}},{second}:{{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}}}"#
        )
    };
    vec![
        of(
            "tensor_list",
            "safetensors.tensor.type",
            "a list with the three values",
            tensor(r#"["U8",[4],[0,4]]"#),
        ),
        of(
            "tensor_null",
            "safetensors.tensor.type",
            "null for a tensor",
            tensor("null"),
        ),
        of(
            "tensor_empty",
            MISSING,
            "an object with nothing in it",
            tensor("{}"),
        ),
        of(
            "dtype_missing",
            MISSING,
            "no dtype",
            tensor(r#"{"shape":[4],"data_offsets":[0,4]}"#),
        ),
        of(
            "shape_missing",
            MISSING,
            "no shape",
            tensor(r#"{"dtype":"U8","data_offsets":[0,4]}"#),
        ),
        of(
            "offsets_missing",
            MISSING,
            "offsets under their oldest name",
            tensor(r#"{"dtype":"U8","shape":[4],"offsets":[0,4]}"#),
        ),
        of(
            "dtype_twice",
            TWICE,
            "two dtypes, the same",
            one(r#","dtype":"U8""#),
        ),
        of(
            "dtype_twice_escaped",
            TWICE,
            "two dtypes, one key with an escape",
            one(r#","\u0064type":"I8""#),
        ),
        of("shape_twice", TWICE, "two shapes, the same", twice("shape")),
        of(
            "offsets_twice",
            TWICE,
            "two pairs of offsets",
            one(r#","data_offsets":[0,4]"#),
        ),
        of("dtype_null", TYPE, "null for a dtype", dtype("null")),
        of(
            "dtype_object",
            TYPE,
            "an object for a dtype",
            dtype(r#"{"U8":null}"#),
        ),
        of("dtype_number", TYPE, "a number for a dtype", dtype("8")),
        of("shape_null", TYPE, "null for a shape", shape("null")),
        of("shape_number", TYPE, "a number for a shape", shape("4")),
        of("shape_text", TYPE, "a text for a shape", shape(r#""4""#)),
        of("shape_dim_null", TYPE, "null for a dim", shape("[4,null]")),
        of(
            "shape_dim_text",
            TYPE,
            "a text for a dim",
            shape(r#"["4"]"#),
        ),
        of("shape_dim_list", TYPE, "a list for a dim", shape("[[4]]")),
        of("offsets_null", TYPE, "null for offsets", offsets("null")),
        of("offsets_none", TYPE, "no offset", offsets("[]")),
        of("offsets_one", TYPE, "one offset", offsets("[4]")),
        of("offsets_three", TYPE, "three offsets", offsets("[0,4,4]")),
        of(
            "offsets_object",
            TYPE,
            "an object for offsets",
            offsets(r#"{"0":4}"#),
        ),
        of(
            "name_twice",
            "safetensors.name.twice",
            "two tensors of one name",
            names(r#""a""#),
        ),
        of(
            "name_twice_escaped",
            "safetensors.name.twice",
            "one of them with an escape",
            names(r#""\u0061""#),
        ),
    ]
}

fn bad_numbers() -> Vec<Case> {
    const RULE: &str = "safetensors.field.number";
    let words = [
        ("minus", "-4"),
        ("minus_zero", "-0"),
        ("plus", "+4"),
        ("point", "4.0"),
        ("exponent", "4e0"),
        ("zeros", "04"),
        ("hex", "0x4"),
        ("two_64", "18446744073709551616"),
        ("long", "100000000000000000000000000000000000000004"),
    ];
    let cases = words.iter().flat_map(|(name, word)| {
        let shape = fields(r#""U8""#, &format!("[{word}]"), "[0,4]");
        let offsets = fields(r#""U8""#, "[4]", &format!("[0,{word}]"));
        [
            Case::reject(
                format!("dim_{name}"),
                RULE,
                format!("{word} for a dim"),
                file(shape, FOUR),
            ),
            Case::reject(
                format!("offset_{name}"),
                RULE,
                format!("{word} for an offset"),
                file(offsets, FOUR),
            ),
        ]
    });
    cases.collect()
}

fn bad_sizes() -> Vec<Case> {
    const SIZE: &str = "safetensors.tensor.size";
    const SHAPE: &str = "safetensors.tensor.shape";
    let of =
        |name: &str, rule: &'static str, about: &str, (dtype, shape, end): (&str, &str, usize)| {
            let header = fields(&format!("{dtype:?}"), shape, &format!("[0,{end}]"));
            let data: Vec<u8> = FOUR.iter().copied().cycle().take(end).collect();
            Case::reject(name, rule, about, file(header, &data))
        };
    vec![
        of("size_less", SIZE, "one byte too few", ("U8", "[5]", 4)),
        of("size_more", SIZE, "one byte too many", ("U8", "[3]", 4)),
        of(
            "size_scalar",
            SIZE,
            "a scalar of two elements",
            ("U16", "[]", 4),
        ),
        of(
            "size_wraps_bytes",
            SIZE,
            "2^62 elements of four bytes",
            ("F32", "[4611686018427387904]", 0),
        ),
        of(
            "size_wraps_bits",
            SIZE,
            "2^61 + 1 elements of eight bits",
            ("U8", "[2305843009213693953]", 1),
        ),
        of(
            "size_wraps_f4",
            SIZE,
            "2^64 - 2 elements of four bits",
            ("F4", "[18446744073709551614]", 4),
        ),
        of(
            "size_f4",
            SIZE,
            "three bytes for four halves of one",
            ("F4", "[4]", 3),
        ),
        of(
            "size_f6",
            SIZE,
            "two bytes for four elements of six bits",
            ("F6_E2M3", "[4]", 2),
        ),
        of(
            "part_byte_f4",
            "safetensors.tensor.part_byte",
            "three elements of four bits",
            ("F4", "[3]", 2),
        ),
        of(
            "part_byte_f6",
            "safetensors.tensor.part_byte",
            "three elements of six bits",
            ("F6_E3M2", "[3]", 3),
        ),
        of(
            "shape_wraps",
            SHAPE,
            "a product that wraps to what is stored",
            ("U8", "[4294967296,4294967296,4]", 0),
        ),
        of(
            "shape_wraps_zero",
            SHAPE,
            "a 0 after a product that overflows",
            ("U8", "[1099511627776,1099511627776,0]", 0),
        ),
        of(
            "shape_wraps_unknown",
            SHAPE,
            "the same of an unknown dtype",
            ("Q9", "[4294967296,4294967296]", 4),
        ),
        Case::reject(
            "range_backwards",
            "safetensors.tensor.range",
            "an end before its begin",
            file(fields(r#""U8""#, "[4]", "[4,0]"), FOUR),
        ),
    ]
}

fn bad_tiling() -> Vec<Case> {
    const HOLE: &str = "safetensors.data.hole";
    const OVERLAP: &str = "safetensors.data.overlap";
    const TRAILING: &str = "safetensors.data.trailing";
    let list = |tensors: &[(&str, &str, &str)]| {
        let items = tensors
            .iter()
            .zip('a'..)
            .map(|((dtype, shape, offsets), name)| {
                format!(
                    r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#
                )
            });
        format!("{{{}}}", items.collect::<Vec<_>>().join(","))
    };
    let of = |name: &str, rule: &'static str, about: &str, tensors: &[(&str, &str, &str)]| {
        Case::reject(name, rule, about, file(list(tensors), FOUR))
    };
    vec![
        of(
            "hole_start",
            HOLE,
            "a hole before the first",
            &[("U8", "[2]", "[2,4]")],
        ),
        of(
            "hole_inside",
            HOLE,
            "a hole between two",
            &[("U8", "[1]", "[0,1]"), ("U8", "[2]", "[2,4]")],
        ),
        of(
            "hole_unknown",
            HOLE,
            "a hole before one of unknown dtype",
            &[("U8", "[1]", "[0,1]"), ("Q9", "[2]", "[2,4]")],
        ),
        of(
            "overlap",
            OVERLAP,
            "a byte that two have",
            &[("U8", "[3]", "[0,3]"), ("U8", "[2]", "[2,4]")],
        ),
        of(
            "overlap_same",
            OVERLAP,
            "two that are one",
            &[("U8", "[4]", "[0,4]"), ("U8", "[4]", "[0,4]")],
        ),
        of(
            "overlap_unknown",
            OVERLAP,
            "one of unknown dtype over another",
            &[("Q9", "[9]", "[0,4]"), ("U8", "[4]", "[0,4]")],
        ),
        of(
            "overlap_unknown_listed_last",
            OVERLAP,
            "the same, listed after it",
            &[("U8", "[4]", "[0,4]"), ("Q9", "[9]", "[2,4]")],
        ),
        of(
            "overlap_empty",
            OVERLAP,
            "an empty one inside another",
            &[("U8", "[4]", "[0,4]"), ("U8", "[0]", "[2,2]")],
        ),
        of(
            "size_beside_unknown",
            "safetensors.tensor.size",
            "a size that is wrong beside an unknown dtype",
            &[("Q9", "[2]", "[0,2]"), ("F32", "[100]", "[2,4]")],
        ),
        of(
            "trailing",
            TRAILING,
            "a byte after the last",
            &[("U8", "[3]", "[0,3]")],
        ),
        of(
            "trailing_unknown",
            TRAILING,
            "a byte after one of unknown dtype",
            &[("Q9", "[3]", "[0,3]")],
        ),
        Case::reject(
            "trailing_none",
            TRAILING,
            "data of no tensor",
            file("{}", FOUR),
        ),
    ]
}

fn limits() -> Vec<Case> {
    let deep = |levels: usize| format!(r#","x":{}1{}"#, "[".repeat(levels), "]".repeat(levels));
    let open = format!(r#","x":{}"#, r#"{"":"#.repeat(60_000));
    vec![
        Case::reject(
            "deep_128",
            "max_value_depth",
            "one level more than readers go",
            file(one(&deep(126)), FOUR),
        ),
        Case::reject(
            "deep_50000",
            "max_value_depth",
            "very many levels",
            file(one(&deep(50_000)), FOUR),
        ),
        Case::reject(
            "deep_open",
            "max_value_depth",
            "very many levels that nobody closes",
            file(one(&open), FOUR),
        ),
    ]
}

fn unsupported() -> Vec<Case> {
    const RULE: &str = "safetensors.dtype";
    let names = [
        "I4",
        "U4",
        "F8_E4M3FN",
        "C128",
        "F128",
        "STRING",
        "Q4_0",
        "f32",
        "",
    ];
    let mut cases: Vec<Case> = (0..)
        .zip(names)
        .map(|(at, name)| {
            let header = fields(&format!("{name:?}"), "[3]", "[0,4]");
            let about = format!("dtype {name:?}, which the format doesn't have");
            Case::unsupported(format!("dtype_{at}"), RULE, about, file(header, FOUR))
        })
        .collect();
    let header = concat!(
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"#,
        r#""w":{"dtype":"I4","shape":[4],"data_offsets":[1,3],"scale":0.5},"#,
        r#""b":{"dtype":"I8","shape":[1],"data_offsets":[3,4]}}"#,
    );
    let about = "one tensor of unknown dtype among others, with a key of its own";
    cases.push(Case::unsupported(
        "dtype_among_others",
        RULE,
        about,
        file(header, FOUR),
    ));
    cases
}
