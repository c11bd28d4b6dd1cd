use std::collections::BTreeSet;

use safetensors::SafeTensors;
use safetensors_format::{Archive, Rule, TRUNCATED, Unsupported, Value, VerifyOptions};
use test_data::Expect;

use crate::{Verdict, file, judge};

#[test]
fn every_hand_assembled_file_gets_its_verdict() {
    let cases = test_data::cases("safetensors").unwrap();
    assert!(cases.len() > 150);
    for case in cases {
        let (verdict, _) = judge(case.bytes);
        let expected = match case.expect {
            Expect::Valid => Verdict::Accept,
            Expect::Reject(rule) => Verdict::Reject(Some(rule)),
            Expect::Unsupported(what) => Verdict::Unsupported(Some(what)),
        };
        assert_eq!(verdict, expected, "{}: {}", case.name, case.about);
    }
}

/// A rule without a case would not be tested, and a case of an unknown rule would be a slip; the rules of
/// sets have tests of their own.
#[test]
fn every_rule_has_a_case() {
    let rules: BTreeSet<&str> = Rule::IDS.iter().copied().collect();
    assert_eq!(rules.len(), Rule::IDS.len(), "an id is used twice");
    let known = Rule::IDS.iter().chain(Unsupported::IDS).copied();
    let known = known.filter(|rule| !crate::sets::is_about_sets(rule));
    let known: BTreeSet<&str> = known.chain([TRUNCATED, "max_value_depth"]).collect();
    let cases = test_data::cases("safetensors").unwrap();
    let tested: BTreeSet<&str> = cases
        .iter()
        .filter_map(|case| match case.expect {
            Expect::Reject(id) | Expect::Unsupported(id) => Some(id),
            Expect::Valid => None,
        })
        .collect();
    assert_eq!(tested, known);
}

/// The format's own library opens what we do, and nothing that we refuse but where it is known to
/// be laxer than the format's text.
#[test]
fn the_formats_own_library_agrees() {
    let laxer = [
        "start_space",
        "tensor_list",
        "dtype_object",
        "name_twice",
        "name_twice_escaped",
        "metadata_key_twice",
    ];
    let mut opened = 0;
    for case in test_data::cases("safetensors").unwrap() {
        let theirs = SafeTensors::deserialize(&case.bytes);
        let ours = Archive::from_bytes(case.bytes.clone());
        match (case.expect, &theirs) {
            (Expect::Valid, Ok(theirs)) => {
                opened += 1;
                let ours = ours.unwrap();
                assert_eq!(theirs.len(), ours.entries().len(), "{}", case.name);
                for entry in ours.entries() {
                    let view = theirs.tensor(entry.name()).unwrap();
                    assert_eq!(
                        view.dtype().to_string(),
                        entry.dtype_code().name(),
                        "{}",
                        case.name
                    );
                    let dims = view.shape().iter().map(|&dim| dim as u64);
                    assert!(
                        dims.eq(entry.shape().dims().iter().copied()),
                        "{}",
                        case.name
                    );
                    let data = ours.stored(entry).unwrap();
                    assert_eq!(
                        view.data(),
                        &data.read(0..data.size()).unwrap(),
                        "{}",
                        case.name
                    );
                }
            }
            (Expect::Reject(_), Ok(_)) => assert!(laxer.contains(&&*case.name), "{}", case.name),
            (Expect::Valid, Err(error)) => panic!("{}: {error}", case.name),
            _ => {}
        }
    }
    assert!(opened > 40);
}

fn error(name: &str) -> safetensors_format::Error {
    let cases = test_data::cases("safetensors").unwrap();
    let case = cases.into_iter().find(|case| case.name == name);
    Archive::from_bytes(case.expect(name).bytes).unwrap_err()
}

#[test]
fn errors_say_what_is_wrong_where_and_in_which_tensors() {
    let expected = [
        (
            "overlap",
            "tensor \"b\": its data begins before 3, the end of that of tensor \"a\" (byte 0x73, entry 1, field data_offsets)",
        ),
        (
            "hole_inside",
            "tensor \"b\": the data from 1 to 2 before it is no tensor's (byte 0x73, entry 1, field data_offsets)",
        ),
        (
            "size_beside_unknown",
            "tensor \"b\": dtype and shape ask for 400 bytes, data_offsets give 2 (byte 0x6d, entry 1, field data_offsets)",
        ),
        (
            "padding_nul",
            "the header is filled up with NUL bytes; the format has spaces there, and readers refuse anything else (byte 0x3d, field header)",
        ),
        (
            "start_space",
            "white space before the header's `{`; the format has it begin with that (byte 0x8, field header)",
        ),
        (
            "data_cut",
            "tensor \"a\": truncated: 4 bytes needed, 3 there (byte 0x36, entry 0, field data_offsets)",
        ),
        (
            "name_twice",
            "tensor \"a\": the name is that of entry 0 already (byte 0x8, entry 1, field name)",
        ),
    ];
    for (name, text) in expected {
        let error = error(name).to_string();
        assert_eq!(error, format!("invalid safetensors file: {text}"), "{name}");
    }
}

#[test]
fn extra_keys_come_in_order_with_their_values() {
    let header = r#"{"a":{"x":{"k":[1,null]},"dtype":"U8","\u0079":"\n","shape":[0],"x":true,"data_offsets":[0,0]},
        "b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},
        "c":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"z":0.5}}"#;
    let archive = Archive::from_bytes(file(header, &[])).unwrap();
    let extras: Vec<_> = archive.entries().get(0).unwrap().extras().collect();
    let pairs: Vec<_> = extras
        .iter()
        .map(|extra| (extra.key(), extra.json()))
        .collect();
    assert_eq!(
        pairs,
        [("x", r#"{"k":[1,null]}"#), ("y", r#""\n""#), ("x", "true")]
    );
    let list = Value::List(vec![Value::Int(1), Value::Null]);
    assert_eq!(extras[0].value(), Value::Map(vec![("k".into(), list)]));
    assert_eq!(extras[1].value(), Value::from("\n"));
    assert_eq!(archive.entries().get(1).unwrap().extras().count(), 0);
    let last: Vec<_> = archive.entries().get(2).unwrap().extras().collect();
    assert_eq!((last.len(), last[0].value()), (1, Value::Float(0.5)));
}

#[test]
fn strict_verification_names_what_only_readers_allow() {
    let warnings = |header: &str, strict| {
        let archive = Archive::from_bytes(file(header, &[])).unwrap();
        let mut options = VerifyOptions::default();
        options.strict = strict;
        archive.verify(&options).unwrap().warnings
    };
    assert!(warnings("{}\t", false).is_empty());
    assert!(warnings("{}  ", true).is_empty());
    let found = warnings("{}\t", true);
    assert_eq!(
        found,
        ["the header is filled up with other white space than spaces"]
    );
    assert_eq!(
        warnings(r#"{"__metadata__":null}"#, true),
        ["__metadata__ is null"]
    );
}
