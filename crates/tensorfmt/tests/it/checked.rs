//! What a checked read finds, and what it says of formats that hold nothing to check with.

use tensorfmt::{Archive, Bytes, Kind, Outcome, ReadOptions, Tensor};
use tensorfmt::{aero, burnpack, mag, primitiv, safetensors, ztensor};

/// Values whose bytes are found again in a file that holds them as they are.
const VALUES: [f32; 64] = {
    let mut values = [0.0; 64];
    let mut at = 0;
    while at < 64 {
        values[at] = 0.37 + at as f32;
        at += 1;
    }
    values
};

fn w() -> Tensor {
    Tensor::from_slice(&VALUES, &[64]).unwrap()
}

/// The file with a bit of its last value wrong.
fn damaged(mut file: Vec<u8>) -> Vec<u8> {
    let last = VALUES[63].to_le_bytes();
    let found = file.windows(4).rposition(|bytes| bytes == last);
    file[found.unwrap()] ^= 1;
    file
}

fn open(file: Vec<u8>, check_data: bool) -> Archive {
    let options = ReadOptions::default().with_check_data(check_data);
    Archive::from_source(Bytes::from(file), &options).unwrap()
}

/// Every file that has a checksum or hash of its tensor, by what it is.
fn covered() -> Vec<(&'static str, Vec<u8>)> {
    let zt = |options| {
        let mut builder = ztensor::Builder::new();
        builder.tensor_with("w", w(), options).unwrap();
        builder.to_vec().unwrap()
    };
    let aero = |hashes: bool| {
        let mut builder = aero::Builder::new();
        builder.tensor("w", w()).unwrap();
        builder.tensor_hashes(hashes).to_vec().unwrap()
    };
    let options = ztensor::TensorOptions::new;
    let sha = options().with_checksum(ztensor::Algorithm::Sha256);
    let big = options().with_endianness(ztensor::Endianness::Big);
    vec![
        ("crc32c", zt(options())),
        ("sha256", zt(sha)),
        ("big-endian", zt(big)),
        ("a hash of its own", aero(true)),
        ("its shard's hash", aero(false)),
    ]
}

#[test]
fn damage_is_an_error_of_the_read_that_is_checked() {
    for (what, file) in covered() {
        let broken = match what {
            // The bytes lie the other way round.
            "big-endian" => {
                let mut file = file.clone();
                let last = VALUES[63].to_be_bytes();
                let found = file.windows(4).rposition(|bytes| bytes == last);
                file[found.unwrap()] ^= 1;
                file
            }
            _ => damaged(file.clone()),
        };
        for check in [false, true] {
            let archive = open(broken.clone(), check);
            let mut bytes = [0; 256];
            let mut values = [0f32; 64];
            let errors = [
                archive.read("w").err(),
                archive.read_into("w", &mut bytes).err(),
                archive.read_slice("w", &mut values).err(),
                archive.data("w").err(),
            ];
            for error in errors {
                assert_eq!(error.is_some(), check, "{what}: {error:?}");
                let Some(error) = error else { continue };
                assert_eq!(error.kind(), Kind::Invalid, "{what}: {error}");
                assert!(error.rule_id().is_some(), "{what}: {error}");
            }
            let item = archive.verify_entry("w").unwrap();
            assert_eq!(item.outcome, Outcome::Failed, "{what}");
        }
        let archive = open(file, true);
        assert_eq!(archive.read("w").unwrap(), w(), "{what}");
        assert_eq!(
            archive.verify_entry("w").unwrap().outcome,
            Outcome::Ok,
            "{what}"
        );
    }
}

#[test]
fn compressed_data_is_held_against_its_checksum_too() {
    let mut builder = ztensor::Builder::new();
    let how = ztensor::TensorOptions::new().with_zstd(3);
    builder.tensor_with("w", w(), how).unwrap();
    let mut file = builder.to_vec().unwrap();
    // The checksum itself, in its text at the end.
    let text = b"crc32c:0x";
    let found = file.windows(text.len()).rposition(|bytes| bytes == text);
    let digit = &mut file[found.unwrap() + text.len()];
    *digit = if *digit == b'0' { b'1' } else { b'0' };
    assert_eq!(open(file.clone(), false).read("w").unwrap(), w());
    let error = open(file, true).read("w").unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

#[test]
fn what_nothing_covers_is_read_and_said_to_be_uncovered() {
    let mut mag = mag::Builder::new();
    mag.tensor("w", w()).unwrap();
    let mut bpk = burnpack::Builder::new();
    bpk.tensor("w", w()).unwrap();
    let mut primitiv = primitiv::Builder::new();
    primitiv.tensor("w", w()).unwrap();
    let mut safetensors = safetensors::Builder::new();
    safetensors.tensor("w", w()).unwrap();
    let mut zt = ztensor::Builder::new();
    let how = ztensor::TensorOptions::new().with_checksum(ztensor::Algorithm::None);
    zt.tensor_with("w", w(), how).unwrap();
    for file in [
        mag.to_vec().unwrap(),
        bpk.to_vec().unwrap(),
        primitiv.to_vec().unwrap(),
        safetensors.to_vec().unwrap(),
        zt.to_vec().unwrap(),
    ] {
        let archive = open(damaged(file), true);
        assert_ne!(archive.read("w").unwrap(), w(), "{archive}");
        let item = archive.verify_entry("w").unwrap();
        assert_eq!(item.outcome, Outcome::NotCovered, "{archive}");
    }
}

/// A name that is not there, and an entry of another archive, are errors of every call.
#[test]
fn a_name_or_an_entry_picks_a_tensor() {
    let (_, file) = covered().remove(0);
    let (one, other) = (open(file.clone(), false), open(file, false));
    let foreign = other.entry("w").unwrap();
    assert!(one.read(foreign).is_err());
    assert!(one.verify_entry(foreign).is_err());
    let error = one.read("v").unwrap_err().to_string();
    assert!(error.contains("did you mean \"w\"?"), "{error}");
    let name = String::from("w");
    assert_eq!(one.read(&name).unwrap(), w());
    let mut integers = [0u32; 64];
    let error = one.read_slice("w", &mut integers).unwrap_err();
    assert!(error.to_string().contains("u32"), "{error}");
}

/// Bytes that can be had until they can't.
#[derive(Clone)]
struct Flaky {
    bytes: Bytes,
    is_down: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl tensorfmt::Source for Flaky {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), tensorfmt::SourceError> {
        match self.is_down.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(tensorfmt::SourceError::Other("HTTP 503".into())),
            false => tensorfmt::Source::read_into(&self.bytes, offset, out),
        }
    }
}

/// What a source fails with is said with the tensor and its place, in a read as in a copy.
#[test]
fn what_a_source_fails_with_names_the_tensor() {
    for &target in tensorfmt::convert::Target::ALL {
        if target.is_set() {
            continue;
        }
        let mut model = tensorfmt::convert::Model::new();
        model.tensor("w", w());
        let options = tensorfmt::convert::Options::default();
        let Ok(plan) = tensorfmt::convert::plan(model, target, &options) else {
            // An object without tensors.
            continue;
        };
        let source = Flaky {
            bytes: plan.to_vec().unwrap().into(),
            is_down: Default::default(),
        };
        let archive = Archive::from_source(source.clone(), &ReadOptions::default()).unwrap();
        let name = archive.entries().first().unwrap().name().to_owned();
        let copied = tensorfmt::convert::plan(
            tensorfmt::convert::Model::of(&archive),
            tensorfmt::convert::Target::Safetensors,
            &options,
        );
        source
            .is_down
            .store(true, std::sync::atomic::Ordering::Relaxed);
        let mut bytes = [0; 256];
        for error in [
            archive.read(&name).unwrap_err(),
            archive.read_into(&name, &mut bytes).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Io, "{target:?}");
            assert_eq!(error.tensor(), Some(&*name), "{target:?}: {error}");
            let text = error.to_string();
            assert!(
                text.contains("HTTP 503") && text.contains("byte 0x"),
                "{text}"
            );
        }
        let error = copied.unwrap().to_vec().unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("HTTP 503") && text.contains(&format!("{name:?}")),
            "{text}"
        );
    }
}
