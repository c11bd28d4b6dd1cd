//! Edits of an index in place, cut off after every write and within each one.

use tensorfmt::convert::{Model, Options, edit_in_place};
use tensorfmt::{Archive, Misfit, Outcome, Tensor, VerifyOptions};

/// A file, the writes that edit it, and what it says before and after.
struct Edited {
    format: &'static str,
    old: Vec<u8>,
    writes: Vec<(u64, Vec<u8>)>,
    /// Which of the writes is the step from the old index to the new one.
    step: usize,
}

const BEFORE: [&str; 2] = ["model.layer.weight", "model.layer.bias"];
const AFTER: [&str; 2] = ["weight", "bias"];

fn tensors() -> [Tensor; 2] {
    [
        Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap(),
        Tensor::from_slice(&[4.0f32; 40], &[40]).unwrap(),
    ]
}

/// The file with the old names and the patch for the new ones, by one codec.
macro_rules! edited {
    ($codec:ident, $step:expr, |$builder:ident| $metadata:expr) => {
        edited!($codec, $step, |old| (), |$builder| $metadata)
    };
    ($codec:ident, $step:expr, |$old:ident| $before:expr, |$builder:ident| $metadata:expr) => {{
        use tensorfmt::$codec::{Archive, Builder};
        let mut $old = Builder::new();
        for (name, tensor) in BEFORE.iter().zip(tensors()) {
            $old.tensor(*name, tensor).unwrap();
        }
        let _ = $before;
        let old = $old.to_vec().unwrap();
        let archive = Archive::from_bytes(old.clone()).unwrap();
        let mut $builder = Builder::new();
        for (old, new) in BEFORE.iter().zip(AFTER) {
            let entry = archive.entry(old).unwrap();
            let _ = $builder.copy_as(new, &archive, entry).unwrap();
        }
        let _ = $metadata;
        let patch = $builder.edit(&archive).unwrap().unwrap();
        let writes = patch.writes().map(|(at, bytes)| (at, bytes.to_vec()));
        Edited {
            format: stringify!($codec),
            old,
            writes: writes.collect(),
            step: $step,
        }
    }};
}

fn all() -> Vec<Edited> {
    use tensorfmt::aero::{Archive, Builder};
    // An entry of this codec is a view, and copied as one.
    let aero = {
        let mut builder = Builder::new();
        for (name, tensor) in BEFORE.iter().zip(tensors()) {
            builder.tensor(*name, tensor).unwrap();
        }
        builder.tensor_hashes(true).phsh(Some(64)).unwrap();
        builder.metadata("epoch", 2i64).unwrap();
        let old = builder.to_vec().unwrap();
        let archive = Archive::from_bytes(old.clone()).unwrap();
        let mut builder = Builder::new();
        for (old, new) in BEFORE.iter().zip(AFTER) {
            builder
                .copy_as(new, &archive, archive.entry(old).unwrap())
                .unwrap();
        }
        builder.model("net", "mlp").metadata("epoch", 3i64).unwrap();
        let patch = builder.edit(&archive).unwrap().unwrap();
        let writes = patch.writes().map(|(at, bytes)| (at, bytes.to_vec()));
        let (format, writes, step) = ("aero", writes.collect(), 1);
        Edited {
            format,
            old,
            writes,
            step,
        }
    };
    vec![
        edited!(mag, 0, |b| b.metadata("epoch", 3i64).unwrap()),
        edited!(ztensor, 0, |_b| {}),
        edited!(burnpack, 0, |b| b.metadata("epoch", "3").unwrap()),
        edited!(
            safetensors,
            0,
            |old| old
                .metadata("note", "what is said at length leaves room")
                .unwrap(),
            |b| b.metadata("format", "pt").unwrap()
        ),
        aero,
    ]
}

fn put(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap();
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Which file it is: every tensor is read, and every check of the format made.
fn verdict(file: &[u8]) -> Result<&'static str, String> {
    let archive = Archive::from_bytes(file.to_vec()).map_err(|error| error.to_string())?;
    let names: Vec<&str> = archive.entries().iter().map(|entry| entry.name()).collect();
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    assert!(
        report
            .items
            .iter()
            .all(|item| item.outcome != Outcome::Failed)
    );
    for names in [BEFORE, AFTER] {
        for (name, tensor) in names.iter().zip(tensors()) {
            if let Some(entry) = archive.entry(name) {
                assert_eq!(archive.read(entry).unwrap().data(), tensor.data());
            }
        }
    }
    match () {
        () if BEFORE.iter().all(|name| names.contains(name)) => Ok("old"),
        () if AFTER.iter().all(|name| names.contains(name)) => Ok("new"),
        () => Ok("neither"),
    }
}

#[test]
fn a_crash_after_any_write_leaves_the_old_file_or_the_new_one() {
    for Edited {
        format,
        old,
        writes,
        step,
    } in all()
    {
        let mut file = old;
        assert_eq!(verdict(&file).as_deref(), Ok("old"), "{format}");
        assert!(writes.len() > step, "{format}");
        for (nth, (at, bytes)) in writes.iter().enumerate() {
            // One of those that may be of any length is cut at each of its bytes.
            let expected = if nth <= step { "old" } else { "new" };
            for cut in 0..bytes.len() {
                let mut torn = file.clone();
                put(&mut torn, *at, &bytes[..cut]);
                match verdict(&torn) {
                    Ok(found) if nth != step => assert_eq!(found, expected, "{format} {nth} {cut}"),
                    // No disk does this within a block; what has a checksum would tell all the same.
                    Ok(found) if ["mag", "aero"].contains(&format) => {
                        assert_ne!(found, "neither", "{format} {nth} {cut}");
                    }
                    Err(error) => assert_eq!(nth, step, "{format} {cut}: {error}"),
                    Ok(_) => {}
                }
            }
            put(&mut file, *at, bytes);
            let expected = if nth < step { "old" } else { "new" };
            assert_eq!(
                verdict(&file).as_deref(),
                Ok(expected),
                "{format} after {nth}"
            );
            if nth == step {
                let first = at / 4096;
                let last = (at + bytes.len() as u64 - 1) / 4096;
                assert_eq!(first, last, "{format}: the step is within a block");
            }
        }
        // What the old index said is gone.
        let left = |name: &str| {
            file.windows(name.len())
                .any(|piece| piece == name.as_bytes())
        };
        assert!(
            !left(BEFORE[0]) && left(AFTER[0]) || format == "aero",
            "{format}"
        );
    }
}

/// The bytes of the data are where they were, whatever is written.
#[test]
fn no_write_of_an_edit_is_within_the_data() {
    for Edited {
        format,
        old,
        writes,
        ..
    } in all()
    {
        let archive = Archive::from_bytes(old).unwrap();
        for entry in archive.entries() {
            let data = entry.offset()..entry.offset() + entry.stored_len().unwrap();
            for (at, bytes) in &writes {
                let end = at + bytes.len() as u64;
                assert!(
                    end <= data.start || *at >= data.end,
                    "{format} {}",
                    entry.name()
                );
            }
        }
    }
}

/// What would need more than a block at once is not begun.
#[test]
fn an_index_of_many_blocks_is_left_alone() {
    use tensorfmt::{aero, burnpack, mag, safetensors, ztensor};
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..500)
        .map(|at| format!("model.layers.{at}.weight"))
        .collect();
    let tensor = || Tensor::from_slice(&[1u8], &[1]).unwrap();
    let truth = || Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    for format in ["mag", "zt", "bpk", "safetensors", "aero"] {
        let path = folder.path().join(format!("m.{format}"));
        macro_rules! write {
            ($codec:ident, $tensor:expr) => {{
                let mut builder = $codec::Builder::new();
                for name in &names {
                    builder.tensor(name, $tensor).unwrap();
                }
                builder.write_file(&path).unwrap();
            }};
        }
        match format {
            "mag" => write!(mag, truth()),
            "zt" => write!(ztensor, tensor()),
            "bpk" => write!(burnpack, tensor()),
            "aero" => write!(aero, tensor()),
            _ => write!(safetensors, tensor()),
        }
        let before = std::fs::read(&path).unwrap();
        let archive = Archive::open(&path).unwrap();
        let mut model = Model::of(&archive);
        model
            .rename(|name| name.replace("model.", "m0del."))
            .unwrap();
        let edited = edit_in_place(&path, &archive, &model, &Options::default()).unwrap();
        if format == "aero" {
            // All but its header is where nothing refers to.
            assert!(edited.unwrap() > 0);
            let names = Archive::open(&path).unwrap();
            assert!(names.entry("m0del.layers.499.weight").is_some());
            continue;
        }
        assert!(
            matches!(edited, Err(Misfit::Blocks { .. })),
            "{format}: {edited:?}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), before, "{format}");
        // One of them alone is within a block, but for the checksum, which is far from it.
        let archive = Archive::open(&path).unwrap();
        let mut model = Model::of(&archive);
        model
            .rename(|name| name.replace("layers.499.", "layers.49z."))
            .unwrap();
        let edited = edit_in_place(&path, &archive, &model, &Options::default()).unwrap();
        match format {
            "mag" => assert!(matches!(edited, Err(Misfit::Blocks { .. })), "{edited:?}"),
            _ => assert_eq!(edited, Ok(1), "{format}"),
        }
    }
}

#[test]
fn what_changes_more_than_the_index_is_not_an_edit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let mut builder = tensorfmt::safetensors::Builder::new();
    for (name, tensor) in BEFORE.iter().zip(tensors()) {
        builder.tensor(*name, tensor).unwrap();
    }
    builder.write_file(&path).unwrap();
    let archive = Archive::open(&path).unwrap();
    let of =
        |model: &Model, options: &Options| edit_in_place(&path, &archive, model, options).unwrap();
    let mut fewer = Model::of(&archive);
    fewer.retain(|name| name.ends_with("bias"));
    let mut sorted = Model::of(&archive);
    sorted.sort();
    let mut cast = Options::default();
    cast.cast = Some(tensorfmt::DType::F16);
    for (model, options) in [
        (&fewer, Options::default()),
        (&sorted, Options::default()),
        (&Model::of(&archive), cast),
    ] {
        assert_eq!(of(model, &options), Err(Misfit::Tensors));
    }
    assert_eq!(of(&Model::of(&archive), &Options::default()), Ok(0));
}
