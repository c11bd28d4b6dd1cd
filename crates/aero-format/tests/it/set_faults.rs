//! Sets whose JSON, index and parts do not say the same.

use std::fs;
use std::path::{Path, PathBuf};

use aero_format::{Builder, FourCc, Kind, Outcome, Set, Tensor, VerifyOptions};
use sha2::{Digest, Sha256};

struct Folder {
    folder: tempfile::TempDir,
    set: PathBuf,
}

/// Two parts of two shards of two tensors each, with hashes, nothing compressed.
fn folder(hashes: bool) -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("m.aeroset.json");
    builder(0..8, hashes).write_set(&set).unwrap();
    Folder { folder, set }
}

fn builder(tensors: std::ops::Range<u8>, hashes: bool) -> Builder {
    let mut builder = Builder::new();
    for i in tensors {
        let tensor = Tensor::from_slice(&[i; 64], &[64]).unwrap();
        builder.tensor(format!("t{i}"), tensor).unwrap();
    }
    builder.max_shard_bytes(128).max_part_shards(2);
    builder.tensor_hashes(hashes).zstd_level(None).unwrap();
    builder
}

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Edits the first chunk of a type in a file, gives it a hash that is right, and the file the
    /// size and SHA-256 that the set says.
    fn edit(&self, name: &str, fourcc: FourCc, edit: impl Fn(&mut [u8], &mut [u8])) {
        let path = self.path(name);
        let mut bytes = fs::read(&path).unwrap();
        let count = u32::from_le_bytes(bytes[96..100].try_into().unwrap());
        let entries = (0..count as usize).map(|at| 112 + 80 * at);
        let at = entries
            .clone()
            .find(|&at| bytes[at..at + 4] == fourcc.0)
            .unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let (start, len) = (number(at + 8), number(at + 16));
        let (toc, payload) = bytes.split_at_mut(start);
        edit(&mut toc[at..at + 80], &mut payload[..len]);
        let hash = blake3::hash(&bytes[start..start + len]);
        bytes[at + 48..at + 80].copy_from_slice(hash.as_bytes());
        fs::write(&path, bytes).unwrap();
        self.list(name);
    }

    /// Makes the set list a file as it is.
    fn list(&self, name: &str) {
        let bytes = fs::read(self.path(name)).unwrap();
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.json(|json| {
            let parts = json["parts"].as_array().unwrap().clone();
            let file = match parts.iter().position(|part| part["path"] == name) {
                Some(at) => &mut json["parts"][at],
                None => &mut json["global_tidx"],
            };
            file["sha256"] = digest.clone().into();
            file["size_bytes"] = bytes.len().into();
        });
    }

    fn json(&self, edit: impl Fn(&mut serde_json::Value)) {
        let text = fs::read_to_string(&self.set).unwrap();
        let mut json = serde_json::from_str(&text).unwrap();
        edit(&mut json);
        fs::write(&self.set, json.to_string()).unwrap();
    }

    fn items(&self, outcome: Outcome) -> Vec<String> {
        let set = Set::open(&self.set).unwrap();
        let report = set.verify(&VerifyOptions::default()).unwrap();
        let items = report.items.into_iter();
        let items = items.filter(|item| item.outcome == outcome);
        items
            .map(|item| match item.outcome {
                Outcome::NotCovered => format!("{}: {}", item.item, item.note.unwrap()),
                _ => item.item,
            })
            .collect()
    }

    fn failed(&self) -> Vec<String> {
        self.items(Outcome::Failed)
    }
}

/// Replaces the only place of `from`.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let at: Vec<usize> = (0..=bytes.len() - from.len())
        .filter(|&at| bytes[at..].starts_with(from))
        .collect();
    assert_eq!(at.len(), 1, "{from:?}");
    bytes[at[0]..at[0] + from.len()].copy_from_slice(to);
}

fn hash_of(value: u8) -> String {
    blake3::hash(&[value; 64]).to_hex().to_string()
}

/// The tensor's name as the index spells it, up to the value of the field after `between`.
fn field(name: &str, before: &[u8], value: u8) -> Vec<u8> {
    let mut bytes = vec![0xa0 | name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(before);
    bytes.push(value);
    bytes
}

#[test]
fn what_a_writer_made_holds() {
    for hashes in [false, true] {
        let folder = folder(hashes);
        assert_eq!(folder.failed(), Vec::<String>::new());
        // Rewritten with no change.
        folder.edit("index.aero", FourCc::TIDX, |_, _| {});
        assert_eq!(folder.failed(), Vec::<String>::new());
    }
}

#[test]
fn a_hash_of_the_index_is_held_against_part_and_data() {
    for wrong in ["0".repeat(64), hash_of(99), hash_of(4)] {
        let it = folder(true);
        it.edit("index.aero", FourCc::TIDX, |_, tidx| {
            replace(tidx, hash_of(5).as_bytes(), wrong.as_bytes());
        });
        assert_eq!(it.failed(), ["t5"], "{wrong}");
        // Nor does it help that the part says the same: it is not the data's.
        it.edit("part-001.aero", FourCc::TIDX, |_, tidx| {
            replace(tidx, hash_of(5).as_bytes(), wrong.as_bytes());
        });
        assert_eq!(it.failed(), ["part-001.aero: t5"], "{wrong}");
    }
    // A part without hashes: the index's is held against the data.
    let it = folder(false);
    let other = tempfile::tempdir().unwrap();
    let set = other.path().join("m.aeroset.json");
    builder(0..8, true).write_set(set).unwrap();
    fs::copy(other.path().join("index.aero"), it.path("index.aero")).unwrap();
    it.list("index.aero");
    assert_eq!(it.failed(), Vec::<String>::new());
    it.edit("index.aero", FourCc::TIDX, |_, tidx| {
        replace(tidx, hash_of(2).as_bytes(), hash_of(3).as_bytes());
    });
    assert_eq!(it.failed(), ["t2"]);
}

#[test]
fn index_and_part_agree_about_every_field() {
    let dtype = b"\xa5dtype";
    let shape = b"\xa5dtype\x05\xa5shape\x91";
    let shard = b"\xa5dtype\x05\xa5shape\x91\x40\xa8shard_id";
    let offset = b"\xa5dtype\x05\xa5shape\x91\x40\xa8shard_id\x02\xa8data_off";
    let len = b"\xa5dtype\x05\xa5shape\x91\x40\xa8shard_id\x02\xa8data_off\x40\xa8data_len";
    for (before, from, to) in [
        (&dtype[..], 5, 4),
        (shape, 0x40, 0x3f),
        (shard, 2, 3),
        (offset, 0x40, 0x41),
        (len, 0x40, 0x41),
    ] {
        let it = folder(false);
        it.edit("index.aero", FourCc::TIDX, |_, tidx| {
            let (from, to) = (field("t5", before, from), field("t5", before, to));
            replace(tidx, &from, &to);
        });
        assert_eq!(it.failed(), ["t5"], "{before:?}");
    }
}

#[test]
fn a_part_without_its_data_is_no_part() {
    let it = folder(false);
    // A part of one shard, and that chunk of another type.
    builder(0..2, false).write_set(&it.set).unwrap();
    it.edit("part-000.aero", FourCc::WTSH, |entry, _| entry[0] = b'X');
    assert_eq!(it.failed(), ["t0", "t1"]);
    let set = Set::open(&it.set).unwrap();
    let error = set.read(set.entry("t0").unwrap()).unwrap_err();
    let found = (error.kind(), error.rule_id());
    assert_eq!(found, (Kind::Invalid, Some("aero.set.data")));
    // The index alone has no data, and that is as it should be.
    let index = aero_format::Archive::open(it.path("index.aero")).unwrap();
    assert!(
        !index
            .verify(&VerifyOptions::default())
            .unwrap()
            .has_failed()
    );
}

#[test]
fn a_tensor_that_the_index_does_not_have_is_said() {
    let it = folder(false);
    let other = tempfile::tempdir().unwrap();
    let set = other.path().join("m.aeroset.json");
    builder(0..7, false).write_set(set).unwrap();
    fs::copy(other.path().join("index.aero"), it.path("index.aero")).unwrap();
    it.list("index.aero");
    assert_eq!(it.failed(), ["part-001.aero: t7"]);
    let set = Set::open(&it.set).unwrap();
    assert_eq!(set.unlisted(), [("part-001.aero".into(), "t7".into())]);
    assert_eq!(set.entries().len(), 7);
}

#[test]
fn sizes_and_digests_are_what_they_have_to_be() {
    let values = |text: &str| -> Vec<serde_json::Value> { serde_json::from_str(text).unwrap() };
    let sizes = values(r#"[5.5, -1, "16", null, true, [], {}, 18446744073709551616]"#);
    let digests = values(r#"[null, 5, "", [], false, "00", {}]"#);
    let cases = sizes.into_iter().map(|size| ("size_bytes", size));
    let cases = cases.chain(digests.into_iter().map(|digest| ("sha256", digest)));
    for (key, value) in cases {
        for place in ["/global_tidx", "/parts/0", "/parts/1"] {
            let it = folder(false);
            it.json(|json| json.pointer_mut(place).unwrap()[key] = value.clone());
            let error = Set::open(&it.set).unwrap_err();
            let found = (error.kind(), error.rule_id());
            let want = (Kind::Invalid, Some("aero.set.field"));
            assert_eq!(found, want, "{place} {key} {value}");
            assert_eq!(error.at().unwrap().field, key);
        }
    }
}

#[test]
fn what_the_set_does_not_say_is_not_covered() {
    let it = folder(false);
    let remove = |json: &mut serde_json::Value, place: &str, key: &str| {
        let file = json.pointer_mut(place).unwrap();
        file.as_object_mut().unwrap().remove(key);
    };
    it.json(|json| {
        remove(json, "/global_tidx", "size_bytes");
        remove(json, "/parts/1", "sha256");
    });
    assert_eq!(it.failed(), Vec::<String>::new());
    let not_covered = it.items(Outcome::NotCovered);
    let about_files: Vec<_> = not_covered
        .iter()
        .filter(|item| !item.contains("control"))
        .collect();
    let want = ["index: no size_bytes", "part-001.aero: no sha256"];
    assert_eq!(about_files, want);
}

#[test]
fn no_key_is_there_twice() {
    for (from, to) in [
        ("\"parts\":", "\"parts\": [], \"parts\":"),
        ("\"sha256\":", "\"sha256\": \"\", \"sha256\":"),
        ("\"name\":", "\"n\\u0061me\": 1, \"name\":"),
        (
            "\"global_tidx\":",
            "\"x\": [{\"y\": 1, \"y\": 1}], \"global_tidx\":",
        ),
    ] {
        let it = folder(false);
        let text = fs::read_to_string(&it.set).unwrap();
        assert!(text.contains(from));
        fs::write(&it.set, text.replacen(from, to, 1)).unwrap();
        let error = Set::open(&it.set).unwrap_err();
        assert_eq!(error.rule_id(), Some("aero.set.duplicate_key"), "{to}");
    }
}

#[test]
fn a_damaged_part_names_the_tensors_that_are_damaged() {
    let it = folder(true);
    damage(&it.path("part-001.aero"));
    let set = Set::open(&it.set).unwrap();
    let report = set.verify(&VerifyOptions::default()).unwrap();
    let failed = report
        .items
        .into_iter()
        .filter(|item| item.outcome == Outcome::Failed);
    let failed: Vec<_> = failed.map(|item| (item.item, item.tensors)).collect();
    let of = |item: &str| (format!("part-001.aero{item}"), vec!["t7".to_owned()]);
    assert_eq!(failed, [of(""), of(": WTSH weights.shard1"), of(": t7")]);
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_data_of_a_set_names_its_file() {
    let it = folder(false);
    let set = Set::open(&it.set).unwrap();
    for (tensor, part) in [("t1", "part-000.aero"), ("t6", "part-001.aero")] {
        let entry = set.entry(tensor).unwrap();
        let id = tensor_core::FileId::of(it.path(part)).unwrap();
        for data in [set.data(entry).unwrap(), set.stored(entry).unwrap()] {
            assert_eq!(data.file(), Some(&id));
        }
    }
}
