//! A report whose items are told as they are found says what one does that holds them all.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use tensorfmt::convert::{Options, Target};
use tensorfmt::{Archive, Item, Outcome, Report, Tensor, VerifyOptions};

use super::matrix::{convert, file_name};

/// Holds both ways against each other; tells whether any check failed.
fn same_told(archive: &Archive, about: &str) -> Option<bool> {
    let mut options = VerifyOptions::default();
    options.strict = true;
    let plain = archive.verify(&options);
    let told = Mutex::new(Vec::new());
    let tell = |item: &Item| told.lock().unwrap().push(item.clone());
    let short = archive.verify(&options.with_items(&tell));
    let (plain, short): (Report, Report) = match (plain, short) {
        (Ok(plain), Ok(short)) => (plain, short),
        (plain, short) => {
            let words = |report: Result<Report, tensorfmt::Error>| report.unwrap_err().to_string();
            assert_eq!(words(plain), words(short), "{about}");
            return None;
        }
    };
    // What else an item is to blame for is known only when it has been told.
    let bare = |item: &Item| {
        let mut item = item.clone();
        item.tensors.clear();
        item
    };
    let wanted: Vec<Item> = plain.items.iter().map(bare).collect();
    let told: Vec<Item> = told.into_inner().unwrap().iter().map(bare).collect();
    assert_eq!(told, wanted, "{about}");
    let to_do = |item: &&Item| !matches!(item.outcome, Outcome::Ok | Outcome::NotCovered);
    let kept: Vec<&Item> = plain.items.iter().filter(to_do).collect();
    assert_eq!(short.items.iter().collect::<Vec<_>>(), kept, "{about}");
    assert_eq!(short.warnings, plain.warnings, "{about}");
    assert_eq!(short.has_failed(), plain.has_failed(), "{about}");
    Some(plain.has_failed())
}

#[test]
fn items_told_are_those_of_the_report() {
    let (mut whole, mut failed) = (0, 0);
    for format in test_data::FORMATS {
        for case in (format.cases)() {
            let Ok(archive) = Archive::from_bytes(case.bytes) else {
                continue;
            };
            match same_told(&archive, &format!("{} {}", format.name, case.name)) {
                Some(true) => failed += 1,
                Some(false) => whole += 1,
                None => {}
            }
        }
    }
    assert!(whole > 100 && failed > 20, "{whole} {failed}");
}

/// A bit of half of the tensors is turned over; what covers its data says so, set and single file alike.
#[test]
fn damage_is_told_as_it_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = tensorfmt::safetensors::Builder::new();
    for at in 0..40u64 {
        let values: Vec<f32> = (0..32).map(|value| (at * 32 + value) as f32).collect();
        let tensor = Tensor::from_slice(&values, &[32]).unwrap();
        builder.tensor(format!("block.{at}"), tensor).unwrap();
    }
    let source = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let mut failed = Vec::new();
    for &target in Target::ALL {
        let folder = folder.path().join(target.name());
        fs::create_dir(&folder).unwrap();
        let path = folder.join(file_name(target));
        let mut options = Options::default();
        if matches!(target, Target::Aero | Target::AeroSet) {
            options.max_shard_bytes = Some(1024);
        }
        convert(&source, target, &options, &path).unwrap_or_else(|| panic!("{target:?}"));
        let archive = Archive::open(&path).unwrap();
        assert_eq!(same_told(&archive, target.name()), Some(false));
        drop(archive);
        for file in fs::read_dir(&folder).unwrap() {
            turn_values_over(&file.unwrap().path());
        }
        let archive = Archive::open(&path).unwrap();
        if same_told(&archive, target.name()) == Some(true) {
            failed.push(target);
        }
    }
    assert_eq!(failed, [Target::Ztensor, Target::Aero, Target::AeroSet]);
}

/// Turns over the bits of what is found of the values from 600 on.
fn turn_values_over(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let values: Vec<[u8; 4]> = (600..1280u16).map(|v| f32::from(v).to_le_bytes()).collect();
    for word in bytes.chunks_exact_mut(4) {
        if values.iter().any(|value| value == word) {
            word[0] ^= 1;
        }
    }
    fs::write(path, bytes).unwrap();
}
