//! magnetron's snapshots through the facade: how they are listed, and what becomes of them.

use std::path::Path;

use tensorfmt::convert::{Loss, LossKind, Model, Options, Target, plan};
use tensorfmt::{Archive, DType, Error, Format, Value, WriteOptions, to_json};

fn open(name: &str) -> Archive {
    let cases = test_data::mag_snapshots::cases();
    let case = cases.into_iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("no case {name}"));
    Archive::from_bytes(case.bytes).unwrap()
}

fn convert(archive: &Archive, target: Target, path: &Path) -> Result<Vec<Loss>, Error> {
    let mut options = Options::default();
    // `mask` is what most targets have no dtype for.
    options.skip_unsupported = target == Target::Primitiv;
    let plan = plan(Model::of(archive), target, &options)?;
    let mut write = WriteOptions::default();
    write.durable = false;
    plan.write_file(path, &write)?;
    Ok(plan.losses().to_vec())
}

#[test]
fn listings_say_which_snapshot_it_is() {
    let archive = open("snapshot_0_1_base");
    assert_eq!(archive.to_string(), "mag 0.1.0");
    let facts = archive.facts();
    let seconds = Value::Int(1_764_547_200);
    assert_eq!(
        facts,
        [("checksum", "crc32c".into()), ("timestamp", seconds)]
    );

    let archive = open("snapshot_0_3_base");
    assert_eq!(archive.to_string(), "mag 0.3.0");
    let facts = archive.facts();
    let expected = [
        ("checksum", Value::Null),
        ("timestamp", "2026-01-01T00:00:00.000000+00:00".into()),
        ("magnetron_ver", "0.2.0".into()),
        ("manifest_ver", Value::Int(1)),
        ("snapshot_ver", "0.3.0".into()),
    ];
    assert_eq!(facts, expected);
}

#[test]
fn metadata_is_json_of_its_own_types() {
    let json = |name| {
        let pairs = open(name).metadata().into_iter();
        let pairs = pairs.map(|(key, value)| (Value::from(key), value));
        to_json(&Value::Map(pairs.collect()))
    };
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let expected = concat!(
        r#"{"epoch":3,"lr":0.5,"note":"äö"#,
        "\u{2028}\u{1F600}",
        r#"\"/\b\f\n\r\t","tags":["a",1,null,true,[2.5]],"nested":{"k":{"x":-7}},"#,
        r#""none":null,"no":false,"empty":{},"":[]}"#,
    );
    assert_eq!(json("snapshot_0_3_metadata"), parsed(expected));
    let expected = concat!(
        r#"{"nan":"nan","inf":["inf","-inf"],"u64":18446744073709551615,"#,
        r#""i64":-9223372036854775808,"i128":"1180591620717411303424","#,
        r#""big":"-1000000000000000000000000000000000000000000000001","#,
        r#""e":"inf","zero":0,"tiny":-0.0}"#,
    );
    assert_eq!(json("snapshot_0_3_metadata_numbers"), parsed(expected));
}

#[test]
fn snapshots_go_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "snapshot_0_1_base",
        "snapshot_0_2_base",
        "snapshot_0_3_base",
    ] {
        let source = open(name);
        for &target in Target::ALL {
            let path = folder.path().join(format!("x.{}", target.ending()));
            let held = |entry: tensorfmt::Entry<'_>| target.holds(entry.dtype().unwrap());
            let all = source.entries().iter().all(held);
            let losses = match convert(&source, target, &path) {
                Ok(losses) => losses,
                Err(error) => {
                    assert!(!all, "{name} to {}: {error}", target.name());
                    assert!(error.to_string().contains("mask"), "{error}");
                    continue;
                }
            };
            let there = Archive::open(&path).unwrap();
            for entry in source.entries().iter().filter(|entry| held(*entry)) {
                let before = source.read(entry).unwrap();
                let after = there.read(entry.name()).unwrap().to_row_major().unwrap();
                let label = format!("{name} to {}: {}", target.name(), entry.name());
                assert_eq!(before.data(), after.data(), "{label}");
                assert_eq!(before.dtype(), after.dtype(), "{label}");
            }
            // A snapshot becomes a file of today's version.
            let is_generation = |loss: &&Loss| loss.kind == LossKind::Generation;
            let generations = losses.iter().filter(is_generation).count();
            assert_eq!(
                generations,
                usize::from(target == Target::Mag),
                "{losses:?}"
            );
            let skipped = source
                .entries()
                .iter()
                .filter(|entry| !held(*entry))
                .count();
            assert_eq!(
                losses.len() - generations,
                skipped,
                "{name} to {}: {losses:?}",
                target.name()
            );
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn f8_goes_to_safetensors_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["snapshot_0_2_dtypes", "snapshot_0_3_dtypes"] {
        let source = open(name);
        let f8 = source.entries().get(3).unwrap();
        assert_eq!(f8.dtype(), Some(DType::F8E4M3));
        for &target in Target::ALL {
            let path = folder.path().join(format!("x.{}", target.ending()));
            match convert(&source, target, &path) {
                Ok(_) if target == Target::Primitiv => {}
                Ok(_) => {
                    assert_eq!(target.format(), Format::Safetensors);
                    let there = Archive::open(&path).unwrap();
                    let entry = there.entry(f8.name()).unwrap();
                    assert_eq!(entry.dtype(), Some(DType::F8E4M3));
                    let after = there.read(f8.name()).unwrap();
                    assert_eq!(after.data(), source.read(f8).unwrap().data());
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.contains("f8_e4m3fn") && text.contains(f8.name()),
                        "{text}"
                    );
                }
            }
        }
    }
}

/// Values that JSON has come back as they were; of the others a loss is said.
#[test]
fn metadata_comes_back_or_is_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    for target in [Target::Safetensors, Target::Burnpack, Target::Aero] {
        for (name, lost) in [
            ("snapshot_0_3_metadata", vec![]),
            ("snapshot_0_3_metadata_numbers", vec!["inf"]),
            ("snapshot_0_3_metadata_duplicates", vec![]),
            ("snapshot_0_3_depth_1000", vec!["deep"]),
        ] {
            let source = open(name);
            let label = format!("{name} to {}", target.name());
            let losses = convert(&source, target, &path).unwrap();
            let items: Vec<&str> = losses.iter().map(|loss| loss.item.as_str()).collect();
            assert_eq!(items, lost, "{label}");
            let back = Model::of(&Archive::open(&path).unwrap()).metadata;
            for (key, value) in source.metadata() {
                let got = back.iter().find(|(known, _)| *known == key);
                // NaN is equal to nothing, but reads the same.
                let same = got.is_some_and(|(_, got)| format!("{got:?}") == format!("{value:?}"));
                assert_eq!(same, !lost.contains(&key.as_str()), "{label}: {key}");
            }
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// A thousand levels on a stack that is smaller than any program's.
#[test]
fn deep_metadata_fits_a_small_stack() {
    let run = || {
        let source = open("snapshot_0_3_depth_1000");
        let json = to_json(&source.metadata()[0].1).to_string();
        assert_eq!(json.len(), 998 * 2 + 1);
        let folder = tempfile::tempdir().unwrap();
        for &target in Target::ALL {
            let path = folder.path().join(target.name());
            let losses = convert(&source, target, &path);
            assert!(
                !losses.is_ok_and(|losses| losses.is_empty()),
                "{}",
                target.name()
            );
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    thread.spawn(run).unwrap().join().unwrap();
}
