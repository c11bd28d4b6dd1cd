use std::fs;

use primitiv_format::{Archive, Builder, Entry, Object, Optimizer, Order};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::{Verdict, judge};

#[test]
fn every_real_file_gets_its_verdict() {
    for (path, manifest) in test_data::corpus::cases("primitiv") {
        let name = path.display();
        let (verdict, archive) = judge(fs::read(&path).unwrap());
        match manifest["verdict"].as_str().unwrap() {
            "accept" => assert_eq!(verdict, Verdict::Accept, "{name}"),
            "reject" => {
                assert!(matches!(verdict, Verdict::Reject(_)), "{name}: {verdict:?}");
                continue;
            }
            _ => {
                assert!(
                    matches!(verdict, Verdict::Unsupported(_)),
                    "{name}: {verdict:?}"
                );
                continue;
            }
        }
        let archive = archive.unwrap();
        assert_eq!(
            archive.data_type().name(),
            manifest["data_type"].as_str().unwrap(),
            "{name}"
        );
        let tensors = manifest["tensors"].as_array().unwrap();
        assert_eq!(archive.entries().len(), tensors.len(), "{name}");
        for tensor in tensors {
            let is_it = |entry: &Entry<'_>| {
                entry.stat() == tensor["stat"].as_str() && texts(&tensor["path"]).eq(entry.path())
            };
            let entry = archive.entries().iter().find(is_it).unwrap();
            assert_eq!(entry.name(), tensor["name"].as_str().unwrap(), "{name}");
            assert_eq!(
                u64::from(entry.batch()),
                tensor["batch"].as_u64().unwrap_or(1),
                "{name}"
            );
            let dims = tensor["shape"]
                .as_array()
                .unwrap()
                .iter()
                .map(|dim| dim.as_u64().unwrap());
            assert!(
                dims.eq(entry.dims().dims().iter().copied()),
                "{name} {}",
                entry.name()
            );
            let tensor_read = archive.read(entry).unwrap();
            assert_eq!(tensor_read.order(), Order::ColumnMajor);
            let digest = Sha256::digest(tensor_read.data());
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(
                digest,
                tensor["sha256"].as_str().unwrap(),
                "{name} {}",
                entry.name()
            );
        }
        match archive.object() {
            Object::Shape { dims, batch } => {
                let value = &manifest["shape_value"];
                let want = value["dims"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|dim| dim.as_u64().unwrap());
                assert!(want.eq(dims.dims().iter().copied()), "{name}");
                assert_eq!(u64::from(batch), value["batch"].as_u64().unwrap(), "{name}");
            }
            Object::Optimizer(optimizer) => optimizer_is(optimizer, &manifest),
            _ => {}
        }
    }
}

/// The texts of a list; none where there is no list, as for a Tensor file's path.
fn texts(list: &Json) -> impl Iterator<Item = &str> {
    list.as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|text| text.as_str().unwrap())
}

fn optimizer_is(optimizer: &Optimizer, manifest: &Json) {
    let uints = manifest["metadata"]["uint_configs"].as_object().unwrap();
    assert_eq!(optimizer.uints().count(), uints.len());
    for (key, value) in uints {
        assert_eq!(
            optimizer.get_uint(key).map(u64::from),
            value.as_u64(),
            "{key}"
        );
    }
    let floats = manifest["metadata"]["float_configs"].as_object().unwrap();
    assert_eq!(optimizer.floats().count(), floats.len());
    for (key, value) in floats {
        let got = optimizer.get_float(key).unwrap();
        match manifest["float_bits"][key.as_str()].as_str() {
            Some(bits) => {
                let bits = u32::from_str_radix(bits.trim_start_matches("0x"), 16).unwrap();
                assert_eq!(got.to_bits(), bits, "{key}");
            }
            None => assert_eq!(f64::from(got), value.as_f64().unwrap(), "{key}"),
        }
    }
}

/// The encoding of a value is unique, so a real file encoded again is the same file.
#[test]
fn encoding_a_real_file_again_gives_its_bytes() {
    let mut same = 0;
    for (path, manifest) in test_data::corpus::cases("primitiv") {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if manifest["verdict"] != "accept" || name.starts_with("noncanon_") {
            continue;
        }
        let original = fs::read(&path).unwrap();
        let archive = Archive::from_bytes(original.clone()).unwrap();
        let again = match (Builder::like(&archive), archive.object()) {
            (Some(mut builder), _) => {
                for entry in &archive {
                    builder.copy(&archive, entry).unwrap();
                }
                let again = builder.to_vec().unwrap();
                assert_eq!(builder.encoded_len().unwrap(), again.len() as u64);
                again
            }
            (None, Object::Optimizer(optimizer)) => optimizer.to_vec().unwrap(),
            _ => continue,
        };
        assert!(again == original, "{name}");
        same += 1;
    }
    println!("{same} files encoded again byte for byte");
}

#[test]
fn numpy_sees_the_rows_of_the_arange_file() {
    for (path, _) in test_data::corpus::cases("primitiv") {
        if path.file_name().unwrap() == "py_arange.param" {
            let archive = Archive::open(&path).unwrap();
            let rows = archive
                .read(archive.entry("").unwrap())
                .unwrap()
                .to_row_major()
                .unwrap();
            assert_eq!(rows.shape().dims(), [2, 3]);
            assert_eq!(
                rows.to_vec::<f32>().unwrap(),
                [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
            );
        }
    }
}
