//! A report whose items are told as they are found says what one does that holds them all.

use std::sync::Mutex;

use tensorfmt::{Archive, Item, Outcome, Report, VerifyOptions};

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
