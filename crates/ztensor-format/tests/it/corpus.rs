use std::fs;

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use ztensor_format::{
    Algorithm, Archive, Builder, Checksum, Encoding, Endianness, TensorOptions, Value,
};

use crate::{Verdict, judge};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value as the manifests write it.
fn json_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => match (u64::try_from(*value), i64::try_from(*value)) {
            (Ok(value), _) => json!(value),
            (_, Ok(value)) => json!(value),
            _ => json!(value.to_string()),
        },
        Value::Float(value) if value.is_nan() => json!({"$float": "nan"}),
        Value::Float(value) if value.is_infinite() => json!({"$float": value.to_string()}),
        Value::Float(value) => json!(value),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!({"$bytes": hex(bytes)}),
        Value::List(items) => items.iter().map(json_of).collect(),
        Value::Map(pairs) => match pairs.iter().all(|(key, _)| key.as_str().is_some()) {
            true => pairs
                .iter()
                .map(|(key, value)| (key.as_str().unwrap().to_owned(), json_of(value)))
                .collect(),
            false => {
                let pairs = pairs.iter();
                let pairs: Vec<_> = pairs
                    .map(|(k, v)| json!([json_of(k), json_of(v)]))
                    .collect();
                json!({"$map": pairs})
            }
        },
        other => panic!("{other:?}"),
    }
}

fn check_tensors(archive: &Archive, manifest: &Json, name: &str) {
    let tensors = manifest["tensors"].as_array().unwrap();
    let unsupported = manifest["unsupported_tensors"].as_array();
    let unsupported: Vec<_> = unsupported.into_iter().flatten().collect();
    assert_eq!(
        archive.entries().len(),
        tensors.len() + unsupported.len(),
        "{name}"
    );
    for tensor in unsupported {
        let entry = archive.entry(tensor.as_str().unwrap()).unwrap();
        // A logical type that has a dtype here can be read, though the format's own readers don't.
        let has_dtype = cfg!(feature = "generations")
            && entry
                .dtype()
                .is_some_and(|dtype| dtype.is_float8() || !dtype.is_number());
        assert_eq!(entry.nbytes().is_some(), has_dtype, "{name}");
        assert_eq!(archive.read(entry).is_ok(), has_dtype, "{name}");
        assert_eq!(archive.data(entry).is_ok(), has_dtype, "{name}");
    }
    for tensor in tensors {
        let entry = archive.entry(tensor["name"].as_str().unwrap()).unwrap();
        let what = format!("{name}, tensor {:?}", entry.name());
        assert_eq!(
            entry.dtype().unwrap().name(),
            tensor["dtype"].as_str().unwrap(),
            "{what}"
        );
        let dims: Vec<_> = tensor["shape"].as_array().unwrap().iter().collect();
        let dims: Vec<u64> = dims.iter().map(|dim| dim.as_u64().unwrap()).collect();
        assert_eq!(entry.shape().dims(), dims, "{what}");
        if let Some(offset) = tensor.get("offset") {
            assert_eq!(entry.offset(), offset.as_u64().unwrap(), "{what}");
            assert_eq!(entry.stored_len(), tensor["stored_size"].as_u64(), "{what}");
            assert_eq!(
                entry.encoding_name(),
                tensor["encoding"].as_str().unwrap(),
                "{what}"
            );
            let endian = entry.endianness().map(Endianness::name);
            assert_eq!(
                endian,
                tensor.get("endian").and_then(Json::as_str),
                "{what}"
            );
            let checksum = entry.checksum().map(|c| c.to_string().to_lowercase());
            let stored = tensor.get("checksum").and_then(Json::as_str);
            assert_eq!(checksum, stored.map(str::to_lowercase), "{what}");
            #[cfg(feature = "generations")]
            if tensor.get("object").is_some() {
                check_component(entry, tensor, &what);
            }
            let custom: Json = entry
                .custom()
                .iter()
                .map(|field| (field.key().to_owned(), json_of(&field.value())))
                .collect::<serde_json::Map<_, _>>()
                .into();
            // Attributes of an object are with the object.
            let objects = manifest["objects"].as_array().into_iter().flatten();
            let own = tensor.get("object").unwrap_or(&tensor["name"]);
            let object = objects.clone().find(|object| object["name"] == *own);
            let expected = tensor.get("custom");
            let expected = expected.or_else(|| object.and_then(|object| object.get("attributes")));
            assert_eq!(custom, *expected.unwrap_or(&json!({})), "{what}");
        }
        let read = archive.read(entry).unwrap();
        assert_eq!(
            hex(&Sha256::digest(read.data())),
            tensor["sha256"].as_str().unwrap(),
            "{what}"
        );
    }
}

#[cfg(feature = "generations")]
fn check_component(entry: ztensor_format::Entry<'_>, tensor: &Json, what: &str) {
    assert_eq!(entry.object(), tensor["object"].as_str(), "{what}");
    assert_eq!(entry.component(), tensor["component"].as_str(), "{what}");
    assert_eq!(
        Some(entry.layout_name()),
        tensor["layout"].as_str(),
        "{what}"
    );
    let dims: Json = entry.object_shape().unwrap().dims().to_vec().into();
    assert_eq!(dims, tensor["object_shape"], "{what}");
}

#[test]
fn every_real_file_gets_its_verdict() {
    let cases = test_data::corpus::cases("ztensor");
    let mut right = 0;
    for (path, manifest) in &cases {
        let name = path.display().to_string();
        let (verdict, archive) = judge(fs::read(path).unwrap());
        match manifest["verdict"].as_str().unwrap() {
            "accept" => {
                assert_eq!(verdict, Verdict::Accept, "{name}");
                check_tensors(&archive.unwrap(), manifest, &name);
            }
            "reject" => assert!(
                matches!(verdict, Verdict::Reject(_)),
                "{name}: {verdict:?}, but {}",
                manifest["fault"]
            ),
            // What an earlier release could only name is read now.
            _ if cfg!(feature = "generations")
                && manifest["generation"].is_string()
                && verdict == Verdict::Accept => {}
            _ => {
                assert!(
                    matches!(verdict, Verdict::Unsupported(Some(_))),
                    "{name}: {verdict:?}"
                );
                if let Some(archive) = archive {
                    check_tensors(&archive, manifest, &name);
                }
                let later = manifest["generation"].as_str();
                if let Some(generation) = later.filter(|_| !cfg!(feature = "generations")) {
                    let error = Archive::open(path).unwrap_err().to_string();
                    let major = generation.split('.').next().unwrap();
                    assert!(error.contains(&format!("zTensor {major}.")), "{error}");
                }
            }
        }
        right += 1;
    }
    println!("{right} of {} files", cases.len());
}

/// The writer lays out what it is given as the reference does: same order in, same bytes out.
/// Compressed data is put in as it was, since its bytes depend on the version of the library.
#[test]
fn rewriting_a_real_file_gives_its_bytes() {
    let (mut exact, mut files) = (0, 0);
    for (path, manifest) in test_data::corpus::cases("ztensor") {
        let writer = manifest["writer"].as_str().unwrap_or_default();
        let released = writer.starts_with("crate ztensor 0.1") || writer.starts_with("PyPI");
        if manifest["verdict"] != "accept" || !released {
            continue;
        }
        files += 1;
        let original = fs::read(&path).unwrap();
        let (_, archive) = judge(original.clone());
        let archive = archive.unwrap();
        let mut builder = Builder::new();
        let mut zstd = false;
        for entry in archive.entries() {
            let mut options = TensorOptions::new()
                .with_endianness(entry.endianness().unwrap_or_default())
                .with_checksum(match entry.checksum() {
                    None => Algorithm::None,
                    Some(Checksum::Crc32c(_)) => Algorithm::Crc32c,
                    other => panic!("{other:?}"),
                });
            if entry.encoding() == Encoding::Zstd {
                options = options.with_zstd(0);
                zstd = true;
            }
            for field in entry.custom() {
                // Both ways in: as the value, and as the bytes.
                let value = TensorOptions::new().with_custom(field.key(), field.value());
                let bytes =
                    TensorOptions::new().with_custom_cbor(field.key(), field.cbor().clone());
                assert_eq!(
                    format!("{:?}", value.unwrap()),
                    format!("{:?}", bytes.unwrap())
                );
                options = options.with_custom(field.key(), field.value()).unwrap();
            }
            let tensor = archive.read(entry).unwrap();
            builder.tensor_with(entry.name(), tensor, options).unwrap();
        }
        let rewritten = builder.to_vec().unwrap();
        if rewritten == original {
            exact += 1;
        } else {
            println!("{} differs, zstd: {zstd}", path.display());
            assert!(zstd, "{} differs", path.display());
        }
    }
    println!("{exact} of {files} files rewritten byte for byte");
}

/// Files that releases 1.0.0 to 2.1.2 wrote, and damage to them.
#[cfg(feature = "generations")]
#[test]
fn every_file_of_a_later_generation_gets_its_verdict() {
    let cases = test_data::corpus::cases("ztensor-1-2");
    for (path, manifest) in &cases {
        let name = path.display().to_string();
        let (verdict, archive) = judge(fs::read(path).unwrap());
        let expected = manifest["verdict"].as_str().unwrap();
        match (expected, &verdict) {
            ("accept", Verdict::Accept) => {}
            ("reject", Verdict::Reject(Some(_)))
            | ("unsupported", Verdict::Unsupported(Some(_))) => {}
            _ => panic!("{name}: {verdict:?}, but {expected}: {}", manifest["fault"]),
        }
        let Some(archive) = archive.filter(|_| expected != "reject") else {
            continue;
        };
        assert_eq!(
            Some(&*archive.version().to_string()),
            manifest["generation"].as_str(),
            "{name}"
        );
        if manifest.get("tensors").is_some() {
            check_tensors(&archive, manifest, &name);
        }
        let metadata: Json = archive
            .metadata()
            .iter()
            .map(|field| (field.key().to_owned(), json_of(&field.value())))
            .collect::<serde_json::Map<_, _>>()
            .into();
        if let Some(expected) = manifest.get("metadata") {
            assert_eq!(metadata, *expected, "{name}");
        }
    }
    println!("{} files", cases.len());
}
