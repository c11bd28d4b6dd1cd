use std::fs;

use mag_format::{Builder, MetaValue};
use sha2::{Digest, Sha256};

use crate::{Verdict, judge};

#[test]
fn every_real_file_gets_its_verdict() {
    for (path, manifest) in test_data::corpus::cases("mag") {
        let name = path.display();
        let (verdict, archive) = judge(fs::read(&path).unwrap());
        match manifest["verdict"].as_str().unwrap() {
            "accept" => assert_eq!(verdict, Verdict::Accept, "{name}"),
            "reject" => {
                assert!(matches!(verdict, Verdict::Reject(_)), "{name}: {verdict:?}");
                continue;
            }
            _ => {
                // A file of another generation may be read instead.
                let is_read = cfg!(feature = "snapshots")
                    && manifest["generation"].is_string()
                    && verdict == Verdict::Accept;
                assert!(
                    is_read || matches!(verdict, Verdict::Unsupported(_)),
                    "{name}: {verdict:?}"
                );
                continue;
            }
        }
        let archive = archive.unwrap();
        let tensors = manifest["tensors"].as_array().unwrap();
        assert_eq!(archive.entries().len(), tensors.len(), "{name}");
        for tensor in tensors {
            let entry = archive.entry(tensor["name"].as_str().unwrap()).unwrap();
            assert_eq!(
                entry.dtype_code().to_string(),
                tensor["dtype"].as_str().unwrap()
            );
            assert_eq!(entry.offset(), tensor["offset"].as_u64().unwrap(), "{name}");
            let dims: Vec<_> = tensor["shape"].as_array().unwrap().iter().collect();
            let dims: Vec<u64> = dims.iter().map(|dim| dim.as_u64().unwrap()).collect();
            assert_eq!(entry.shape().dims(), dims, "{name}");
            let digest = Sha256::digest(archive.read(entry).unwrap().data());
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, tensor["sha256"].as_str().unwrap(), "{name}");
        }
        let metadata = manifest["metadata"].as_object().unwrap();
        assert_eq!(archive.metadata().len(), metadata.len(), "{name}");
        for (key, value) in metadata {
            match archive.metadata_entry(key).unwrap().value() {
                MetaValue::I64(got) => assert_eq!(Some(got), value.as_i64(), "{name} {key}"),
                MetaValue::F64(got) => match value.as_f64() {
                    Some(value) => assert_eq!(got.to_bits(), value.to_bits(), "{name} {key}"),
                    None => assert!(!got.is_finite(), "{name} {key}"),
                },
            }
        }
    }
}

/// The writer lays out what it is given as the reference does: same order in, same bytes out, up
/// to the slack that the reference leaves at the end and the junk it copies after views.
#[test]
fn rewriting_a_real_file_gives_its_bytes() {
    let mut exact = 0;
    for (path, manifest) in test_data::corpus::cases("mag") {
        if manifest["verdict"] != "accept" {
            continue;
        }
        let original = fs::read(&path).unwrap();
        let (_, archive) = judge(original.clone());
        let archive = archive.unwrap();
        let mut builder = Builder::new();
        for meta in archive.metadata() {
            builder.metadata(meta.key(), meta.value()).unwrap();
        }
        for entry in archive.entries() {
            builder
                .tensor(entry.name(), archive.read(entry).unwrap())
                .unwrap();
        }
        let rewritten = builder.to_vec().unwrap();
        assert!(rewritten.len() <= original.len(), "{}", path.display());
        let (slack_free, slack) = original.split_at(rewritten.len());
        if slack.iter().all(|&byte| byte == 0) && slack_free == rewritten {
            exact += 1;
        } else {
            let view = path.file_name().unwrap() == "contiguous_view.mag";
            assert!(view, "{} differs", path.display());
        }
    }
    println!("{exact} files rewritten byte for byte");
}
