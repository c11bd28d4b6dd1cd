use std::fs;

use burnpack_format::{
    Archive, Builder, Compat, Entry, Layout, QuantGeneration, QuantScheme, QuantStore, Scalar,
    Source,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Verdict, judge};

#[test]
fn every_real_file_gets_its_verdict() {
    for (path, manifest) in test_data::corpus::cases("burnpack") {
        let name = path.display().to_string();
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
        check(&archive.unwrap(), &manifest, &name);
    }
}

fn check(archive: &Archive, manifest: &Value, name: &str) {
    match manifest["layout"].as_str().unwrap() {
        "aligned" => assert_eq!(archive.layout(), Layout::Aligned, "{name}"),
        "legacy" => assert_eq!(archive.layout(), Layout::Packed, "{name}"),
        _ => {}
    }
    let start = manifest["data_section_start"].as_u64().unwrap();
    assert_eq!(archive.data_start(), start, "{name}");
    let trailing = manifest["trailing_bytes"].as_u64().unwrap_or(0);
    assert_eq!(archive.trailing_bytes(), trailing, "{name}");
    let tensors = manifest["tensors"].as_array().unwrap();
    assert_eq!(archive.entries().len(), tensors.len(), "{name}");
    for tensor in tensors {
        let entry = archive.entry(tensor["name"].as_str().unwrap()).unwrap();
        check_tensor(archive, entry, tensor, &format!("{name} {}", entry.name()));
    }
    let metadata = manifest["metadata"].as_object().unwrap();
    assert_eq!(archive.metadata().len(), metadata.len(), "{name}");
    for (key, value) in metadata {
        let got = archive.metadata_entry(key).unwrap().value();
        assert_eq!(Some(got), value.as_str(), "{name} {key}");
    }
    let none = serde_json::Map::new();
    let scalars = manifest["scalars"].as_object().unwrap_or(&none);
    assert_eq!(archive.scalars().len(), scalars.len(), "{name}");
    for (key, value) in scalars {
        let value = &value[archive.scalar(key).unwrap().value().kind()];
        let right = match archive.scalar(key).unwrap().value() {
            Scalar::Int(got) => value.as_i64() == Some(*got),
            Scalar::UInt(got) => value.as_u64() == Some(*got),
            Scalar::Bool(got) => value.as_bool() == Some(*got),
            Scalar::Float(got) => match value.as_str() {
                Some("nan") => got.is_nan(),
                Some("inf") => *got == f64::INFINITY,
                Some(_) => *got == f64::NEG_INFINITY,
                None => value.as_f64().map(f64::to_bits) == Some(got.to_bits()),
            },
            other => panic!("{name} {key}: {other:?}"),
        };
        assert!(right, "{name} {key}");
    }
}

fn check_tensor(archive: &Archive, entry: Entry<'_>, tensor: &Value, name: &str) {
    let dtype = match entry.dtype_code().name() {
        "Flex32" => "flex32",
        "QFloat" => "qfloat",
        _ => entry.dtype().unwrap().name(),
    };
    assert_eq!(dtype, tensor["dtype"], "{name}");
    assert_eq!(entry.order().letter(), "C");
    let dims: Vec<_> = tensor["shape"].as_array().unwrap().iter().collect();
    let dims: Vec<u64> = dims.iter().map(|dim| dim.as_u64().unwrap()).collect();
    assert_eq!(entry.shape().dims(), dims, "{name}");
    assert_eq!(entry.param_id(), tensor["param_id"].as_u64(), "{name}");
    let store = tensor
        .get("bool_store")
        .map(|store| store.as_str().unwrap());
    assert_eq!(
        entry.bool_store().map(|store| store.name()),
        store,
        "{name}"
    );
    let offsets = &tensor["data_offsets"];
    let start = entry.offset() - archive.data_start();
    let end = start + entry.stored_len().unwrap();
    assert_eq!(&json!([start, end]), offsets, "{name}");
    if let Some(scheme) = entry.scheme() {
        check_scheme(scheme, &tensor["scheme"], name);
        assert_eq!(
            scheme.expected_len(entry.shape()),
            entry.stored_len(),
            "{name}"
        );
    }
    let data = archive.data(entry).unwrap();
    let digest = Sha256::digest(data.read(0..data.size()).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, tensor["sha256"].as_str().unwrap(), "{name}");
}

fn check_scheme(scheme: &QuantScheme, expected: &Value, name: &str) {
    let param = |param: Option<burnpack_format::QuantParam>| match param {
        Some(param) => json!(param.name()),
        None => Value::Null,
    };
    let size = scheme.block.map(|block| {
        let mut storage = block.size.dims().to_vec();
        let len = storage.len();
        storage.resize(5, 1);
        json!({"storage": storage, "len": len})
    });
    let store = match scheme.store {
        QuantStore::Native => json!("Native"),
        QuantStore::PackedNative(dim) => json!({"PackedNative": dim}),
        QuantStore::PackedU32(dim) => json!({"PackedU32": dim}),
        other => panic!("{name}: {other:?}"),
    };
    let mut got = json!({
        "value": scheme.value.name(),
        "store": store,
        "mode": scheme.mode.name(),
    });
    let dtype = scheme.block.map(|block| block.dtype);
    match scheme.generation {
        QuantGeneration::New => {
            got["tensor"] = param(scheme.tensor);
            got["block"] = size.map_or(
                Value::Null,
                |size| json!({"size": size, "dtype": param(dtype)}),
            );
        }
        QuantGeneration::Old => {
            got["param"] = param(scheme.tensor.or(dtype));
            got["level"] = size.map_or(json!("Tensor"), |size| json!({"Block": size}));
        }
    }
    assert_eq!(&got, expected, "{name}");
}

/// The writer lays out what it is given as Burn does: same order in, same bytes out.
#[test]
fn rewriting_a_real_file_gives_its_bytes() {
    let mut exact = 0;
    let mut repacked = 0;
    for (path, manifest) in test_data::corpus::cases("burnpack") {
        let name = path.file_name().unwrap().to_str().unwrap();
        if manifest["verdict"] != "accept" {
            continue;
        }
        let original = fs::read(&path).unwrap();
        let archive = Archive::from_bytes(original.clone()).unwrap();
        let mut builder = Builder::new();
        builder.compat(match manifest["writer"].as_str().unwrap() {
            writer if writer.contains("0.19") || writer.contains("0.20.") => Compat::V0_20,
            writer if writer.contains("0.21.") => Compat::V0_21,
            _ => Compat::Current,
        });
        for entry in archive.entries() {
            builder.copy(&archive, entry).unwrap();
        }
        for meta in archive.metadata() {
            builder.metadata(meta.key(), meta.value()).unwrap();
        }
        for scalar in archive.scalars() {
            builder
                .scalar(scalar.name(), scalar.value().clone())
                .unwrap();
        }
        let rewritten = builder.to_vec().unwrap();
        if rewritten == original {
            exact += 1;
            continue;
        }
        // What is packed, or was changed after it was written, comes out as a current file.
        let packed = archive.layout() == Layout::Packed;
        let changed = name.starts_with("mut_");
        assert!(packed || changed, "{name} differs");
        let again = Archive::from_bytes(rewritten).unwrap();
        assert_eq!(again.layout(), Layout::Aligned, "{name}");
        for (old, new) in archive.entries().iter().zip(again.entries()) {
            assert_eq!(old.name(), new.name(), "{name}");
            let (old, new) = (archive.read(old).unwrap(), again.read(new).unwrap());
            assert_eq!(old, new, "{name}");
        }
        repacked += 1;
    }
    println!("{exact} files rewritten byte for byte, {repacked} repacked");
}
