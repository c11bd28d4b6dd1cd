use std::fs;

use safetensors_format::{Archive, DTypeCode};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Verdict, judge};

#[test]
fn every_real_file_gets_its_verdict() {
    let mut count = 0;
    for (path, manifest) in test_data::corpus::cases("safetensors") {
        let name = path.display().to_string();
        let (verdict, archive) = judge(fs::read(&path).unwrap());
        count += 1;
        match manifest["verdict"].as_str().unwrap() {
            "accept" => assert_eq!(verdict, Verdict::Accept, "{name}"),
            "reject" => {
                assert!(matches!(verdict, Verdict::Reject(_)), "{name}: {verdict:?}");
                continue;
            }
            _ => assert!(
                matches!(verdict, Verdict::Unsupported(_)),
                "{name}: {verdict:?}"
            ),
        }
        let archive = archive.unwrap();
        check(&archive, &manifest, &name);
        if let Some(listing) = manifest["unsupported_listing"].as_array() {
            for tensor in listing {
                check_tensor(&archive, tensor, &name);
            }
        }
    }
    println!("{count} files");
}

fn check(archive: &Archive, manifest: &Value, name: &str) {
    let none = Vec::new();
    for tensor in manifest["tensors"].as_array().unwrap_or(&none) {
        check_tensor(archive, tensor, name);
    }
    if let Some(metadata) = manifest["metadata"].as_object() {
        assert_eq!(archive.metadata().len(), metadata.len(), "{name}");
        for (key, value) in metadata {
            let got = archive.metadata_entry(key).unwrap().value();
            assert_eq!(Some(got), value.as_str(), "{name} {key}");
        }
    }
}

fn check_tensor(archive: &Archive, tensor: &Value, name: &str) {
    let entry = archive.entry(tensor["name"].as_str().unwrap()).unwrap();
    let name = format!("{name} {:?}", entry.name());
    let dtype = match entry.dtype_code() {
        code @ (DTypeCode::F4 | DTypeCode::F6E2M3 | DTypeCode::F6E3M2) => {
            code.name().to_ascii_lowercase()
        }
        DTypeCode::Unknown(spelled) => spelled.to_string(),
        code => code.dtype().unwrap().name().to_owned(),
    };
    assert_eq!(tensor["dtype"], dtype, "{name}");
    let dims: Vec<_> = tensor["shape"].as_array().unwrap().iter().collect();
    let dims: Vec<u64> = dims.iter().map(|dim| dim.as_u64().unwrap()).collect();
    assert_eq!(entry.shape().dims(), dims, "{name}");
    let data = archive.stored(entry).unwrap();
    let digest = Sha256::digest(data.read(0..data.size()).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let known = tensor.get("sha256").or(tensor.get("stored_sha256"));
    assert_eq!(digest, known.unwrap().as_str().unwrap(), "{name}");
}
