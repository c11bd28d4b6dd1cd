//! A report whose items are told as they are found says what one does that holds them all.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use tensorfmt::convert::{Model, Options, Target, plan};
use tensorfmt::{Archive, Item, Outcome, ReadOptions, Report, VerifyOptions, WriteOptions};

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
    // Or none is kept, and they are counted.
    let mut heard = 0;
    let hear = Mutex::new(&mut heard);
    let tell = |_: &Item| **hear.lock().unwrap() += 1;
    let none = archive.verify(&options.with_items(&tell).with_forget(true));
    let none = none.unwrap();
    assert_eq!((none.items.len(), heard), (0, wanted.len()), "{about}");
    assert_eq!(none.warnings, plain.warnings, "{about}");
    same_warned(archive, &options, &plain, about);
    for spared in [
        |_: &str| false,
        |_: &str| true,
        |name: &str| name.bytes().map(u32::from).sum::<u32>() % 2 == 0,
    ] {
        same_judged(archive, &options, &plain, &spared, about);
    }
    for outcome in [
        Outcome::Ok,
        Outcome::Failed,
        Outcome::NotCovered,
        Outcome::Unsupported,
    ] {
        assert_eq!(none.count(outcome), plain.count(outcome), "{about}");
        assert_eq!(short.count(outcome), plain.count(outcome), "{about}");
    }
    Some(plain.has_failed())
}

/// Warnings that are told are those of a report that keeps them, and come after all items.
fn same_warned(archive: &Archive, options: &VerifyOptions<'_>, plain: &Report, about: &str) {
    let told = Mutex::new((0, Vec::new()));
    let tell = |_: &Item| {
        let mut told = told.lock().unwrap();
        assert!(told.1.is_empty(), "an item after a warning: {about}");
        told.0 += 1;
    };
    let warn = |warning: &str| told.lock().unwrap().1.push(warning.to_owned());
    let options = options.with_items(&tell).with_warnings(&warn);
    let report = archive.verify(&options).unwrap();
    assert_eq!(report.warnings, [""; 0], "{about}");
    assert_eq!(report.warning_count(), plain.warnings.len(), "{about}");
    assert_eq!(plain.warning_count(), plain.warnings.len(), "{about}");
    let (items, warnings) = told.into_inner().unwrap();
    assert_eq!(
        (items, warnings),
        (plain.items.len(), plain.warnings.clone()),
        "{about}"
    );
}

/// Whether all is whole but for what is spared is the same from what is told and kept as from the whole report,
/// and no item that is kept names more than two tensors.
fn same_judged(
    archive: &Archive,
    options: &VerifyOptions<'_>,
    plain: &Report,
    spared: &(dyn Fn(&str) -> bool + Sync),
    about: &str,
) {
    let is_fatal = |item: &Item| {
        let is_spared = !item.tensors.is_empty() && item.tensors.iter().all(|name| spared(name));
        item.outcome == Outcome::Failed && !is_spared
    };
    let told = Mutex::new(false);
    let tell = |item: &Item| {
        if !item.tensors.is_empty() {
            *told.lock().unwrap() |= is_fatal(item);
        }
    };
    let options = options.with_items(&tell).with_spared(spared);
    let report = archive.verify(&options).unwrap();
    let judged = *told.lock().unwrap() || report.items.iter().any(is_fatal);
    assert_eq!(
        judged,
        plain.items.iter().any(is_fatal),
        "{about} {:?}",
        report.items
    );
    for item in &report.items {
        assert!(item.tensors.len() <= 2, "{about} {item:?}");
        assert_eq!(item.outcome, Outcome::Failed, "{about}");
    }
    assert_eq!(
        report.count(Outcome::Failed),
        plain.count(Outcome::Failed),
        "{about}"
    );
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

/// Writes a set of so many files of tensors, two tensors each.
fn write_set(path: &Path, target: Target, files: u8) {
    let mut builder = tensorfmt::safetensors::Builder::new();
    for at in 0..files * 2 {
        let tensor = tensorfmt::Tensor::from_slice(&[at; 64], &[64]).unwrap();
        builder.tensor(format!("t{at}"), tensor).unwrap();
    }
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let mut options = Options::default();
    options.max_shard_bytes = Some(128);
    options.max_part_shards = (target == Target::AeroSet).then_some(1);
    let plan = plan(Model::of(&archive), target, &options).unwrap();
    plan.write_file(path, &WriteOptions::default()).unwrap();
}

/// Damages each file of a set in turn, in many places and by cutting it, and compares what is told.
fn set_told(target: Target, name: &str, files: u8) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    write_set(&path, target, files);
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert!(names.len() > usize::from(files), "{names:?}");
    let mut options = ReadOptions::default();
    options.salvage = true;
    let mut ends = (0, 0);
    let mut judge = |about: &str| {
        // As the command line opens what it verifies.
        let opened = Archive::open(&path).or_else(|_| Archive::open_with(&path, &options));
        match opened.ok().and_then(|archive| same_told(&archive, about)) {
            Some(true) => ends.0 += 1,
            Some(false) => ends.1 += 1,
            None => {}
        }
    };
    judge("whole");
    for file in names {
        let file = file.unwrap().path();
        let whole = fs::read(&file).unwrap();
        let shown = file.display();
        for at in (0..whole.len()).step_by(whole.len() / 60 + 1) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&file, damaged).unwrap();
            judge(&format!("{shown} at {at}"));
        }
        for len in [0, whole.len() / 2, whole.len() - 1] {
            fs::write(&file, &whole[..len]).unwrap();
            judge(&format!("{shown} of {len}"));
        }
        fs::remove_file(&file).unwrap();
        judge(&format!("{shown} gone"));
        fs::write(&file, whole).unwrap();
    }
    ends
}

#[test]
fn items_told_of_damaged_sets_are_those_of_the_report() {
    // Of six parts not all are open at once.
    for files in [2, 6] {
        let (failed, whole) = set_told(Target::AeroSet, "m.aeroset.json", files);
        assert!(failed > 60 && whole > 0, "{failed} {whole}");
        let name = "m.safetensors.index.json";
        let (failed, whole) = set_told(Target::SafetensorsSet, name, files);
        assert!(failed > 10 && whole > 10, "{failed} {whole}");
    }
}
