use std::fs;
use std::path::Path;

use aero_format::{Archive, Error, ReadOptions, Rule, Set, Tensor, VerifyOptions};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::{Verdict, judge, verdict_of, verdict_of_error};

#[test]
fn every_real_file_gets_its_verdict() {
    for (path, manifest) in test_data::corpus::cases("aero") {
        let name = path.display().to_string();
        if name.ends_with(".aeroset.json") {
            set_gets_its_verdict(&path, &manifest);
            continue;
        }
        let (verdict, archive) = judge(fs::read(&path).unwrap());
        if !is(&verdict, &manifest, &name) {
            continue;
        }
        let archive = archive.unwrap();
        check_tensors(&manifest, &name, |tensor| {
            let entry = archive.entry(tensor)?;
            Some((
                entry.dtype_code().to_string(),
                entry.shape().dims().to_vec(),
                archive.read(entry).ok(),
            ))
        });
        assert_eq!(
            archive.entries().len(),
            manifest["tensors"].as_array().map_or(0, Vec::len)
        );
    }
}

fn set_gets_its_verdict(path: &Path, manifest: &Json) {
    let name = path.display().to_string();
    let opened = Set::open(path).and_then(|set| {
        let report = set.verify(&VerifyOptions::default())?;
        Ok((set, verdict_of(&report)))
    });
    let (set, verdict) = match opened {
        Ok((set, verdict)) => (Some(set), verdict),
        Err(error) => (None, verdict_of_error(&error)),
    };
    if is(&verdict, manifest, &name) {
        let set = set.unwrap();
        check_tensors(manifest, &name, |tensor| {
            let entry = set.entry(tensor)?;
            Some((
                entry.dtype_code().to_string(),
                entry.shape().dims().to_vec(),
                set.read(entry).ok(),
            ))
        });
    }
}

/// Whether the manifest says accept, after holding the verdict against what it says.
fn is(verdict: &Verdict, manifest: &Json, name: &str) -> bool {
    match manifest["verdict"].as_str().unwrap() {
        "accept" => {
            assert_eq!(*verdict, Verdict::Accept, "{name}");
            true
        }
        "reject" => {
            assert!(matches!(verdict, Verdict::Reject(_)), "{name}: {verdict:?}");
            false
        }
        _ => {
            assert!(
                matches!(verdict, Verdict::Unsupported(_)),
                "{name}: {verdict:?}"
            );
            false
        }
    }
}

type Found = (String, Vec<u64>, Option<Tensor>);

fn check_tensors(manifest: &Json, name: &str, find: impl Fn(&str) -> Option<Found>) {
    for tensor in manifest["tensors"].as_array().into_iter().flatten() {
        let key = tensor["name"].as_str().unwrap();
        let (dtype, dims, read) = find(key).unwrap_or_else(|| panic!("{name}: no {key:?}"));
        assert_eq!(dtype, tensor["dtype"].as_str().unwrap(), "{name} {key:?}");
        let want: Vec<u64> = tensor["shape"]
            .as_array()
            .unwrap()
            .iter()
            .map(|dim| dim.as_u64().unwrap())
            .collect();
        assert_eq!(dims, want, "{name} {key:?}");
        if let Some(sha256) = tensor["sha256"].as_str() {
            let digest = Sha256::digest(read.unwrap().data());
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, sha256, "{name} {key:?}");
        }
    }
}

/// The file that the reference breaks when it adds tensor hashes gives up what is whole.
#[test]
fn an_overrun_index_is_named_and_salvaged() {
    for (path, _) in test_data::corpus::cases("aero") {
        if path.file_name().unwrap() != "real_tensor_hash_overlap.aero" {
            continue;
        }
        let error = Archive::open(&path).unwrap_err();
        assert_eq!(error.rule(), Some(&Rule::TidxOverrun));
        let mut options = ReadOptions::default();
        options.salvage = true;
        let source = aero_format::FileSource::open(&path).unwrap();
        let archive = Archive::from_source(source, &options).unwrap();
        let (mut whole, mut damaged) = (0, 0);
        for entry in archive.entries() {
            match archive.read(entry) {
                Ok(_) => whole += 1,
                Err(Error::Invalid {
                    rule: Rule::TensorHash { .. },
                    ..
                }) => damaged += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(damaged > 0, "{whole} whole");
        println!("{whole} tensors whole, {damaged} damaged");
    }
}
