//! What goes wrong while files are written and read, for every format alike: the sink, the
//! source, a file that is cut while it is open.

use std::fs;
use std::io;
use std::path::Path;

use tensorfmt::convert::{Model, Options, Target, plan};
use tensorfmt::{
    Archive, DType, Kind, Shape, Source, SourceError, Tensor, TensorSpec, VerifyOptions,
    WriteOptions,
};

#[global_allocator]
static ALLOC: test_data::alloc::CountingAlloc = test_data::alloc::CountingAlloc::new();

/// Takes so many bytes and then has no place for more.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Zeros, and from some offset on nothing but errors.
struct Failing {
    len: u64,
    from: u64,
}

impl Source for Failing {
    fn size(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        out.fill(0);
        if offset + out.len() as u64 > self.from {
            return Err(SourceError::Other("the line is down".into()));
        }
        Ok(())
    }

    fn window(&self) -> usize {
        100
    }
}

fn tensors() -> Vec<(String, Tensor)> {
    let tensor = |count: u64| {
        let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
        Tensor::from_slice(&values, &[count]).unwrap()
    };
    let counts = [3u64, 64, 1].into_iter().enumerate();
    counts
        .map(|(at, count)| (format!("layer{at}.weight"), tensor(count)))
        .collect()
}

/// For every length: a writer that fails there gives an error of the right kind, and so at every
/// boundary of the format, whatever these are.
macro_rules! every_length {
    ($builder:expr) => {{
        let mut builder = $builder;
        for (name, tensor) in tensors() {
            builder.tensor(name, tensor).unwrap();
        }
        let options = WriteOptions::default();
        let whole = builder.to_vec().unwrap();
        for len in 0..whole.len() {
            let error = builder.write_to_with(Full(len), &options).unwrap_err();
            assert_eq!(error.kind(), Kind::Io, "after {len}: {error}");
        }
        builder.write_to_with(Full(whole.len()), &options).unwrap();
    }};
}

#[test]
fn a_sink_may_fail_after_any_byte() {
    every_length!(tensorfmt::mag::Builder::new());
    every_length!(tensorfmt::burnpack::Builder::new());
    every_length!(tensorfmt::primitiv::Builder::new());
    every_length!(tensorfmt::safetensors::Builder::new());
    every_length!(tensorfmt::ztensor::Builder::new());
    let mut compressed = tensorfmt::ztensor::Builder::new();
    compressed.defaults(tensorfmt::ztensor::TensorOptions::new().with_zstd(1));
    every_length!(compressed);
    every_length!(tensorfmt::aero::Builder::new());
    let mut hashed = tensorfmt::aero::Builder::new();
    hashed.tensor_hashes(true).ihsh(true).max_shard_bytes(100);
    hashed.phsh(Some(64)).unwrap();
    every_length!(hashed);
}

/// For windows at the start, in the middle and at the end: the old file stays, nothing is left
/// beside it, and the error is the source's own.
macro_rules! every_window {
    ($builder:expr, $write:ident, $path:expr) => {{
        let path: &Path = $path;
        fs::write(path, b"old").unwrap();
        let before = fs::read_dir(path.parent().unwrap()).unwrap().count();
        for from in [0, 500, 999, 4000] {
            let mut builder = $builder;
            let (name, tensor) = tensors().remove(0);
            builder.tensor(name, tensor).unwrap();
            let (dtype, shape) = (DType::F32, Shape::new(&[1000]).unwrap());
            let source = Failing { len: 4000, from };
            builder
                .deferred("deferred", TensorSpec::new(dtype, shape), source)
                .unwrap();
            let written = builder.$write(path, &WriteOptions::default());
            if from == 4000 {
                written.unwrap();
                continue;
            }
            let error = written.unwrap_err();
            assert_eq!(error.kind(), Kind::Io);
            assert!(error.to_string().contains("the line is down"), "{error}");
            assert_eq!(fs::read(path).unwrap(), b"old");
            let after = fs::read_dir(path.parent().unwrap()).unwrap().count();
            assert_eq!(after, before);
        }
    }};
}

#[test]
fn a_source_may_fail_in_any_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    every_window!(
        tensorfmt::mag::Builder::new(),
        write_file_with,
        &path("w.mag")
    );
    every_window!(
        tensorfmt::burnpack::Builder::new(),
        write_file_with,
        &path("w.bpk")
    );
    every_window!(
        tensorfmt::primitiv::Builder::new(),
        write_file_with,
        &path("w.model")
    );
    every_window!(
        tensorfmt::safetensors::Builder::new(),
        write_file_with,
        &path("w.safetensors")
    );
    every_window!(
        tensorfmt::ztensor::Builder::new(),
        write_file_with,
        &path("w.zt")
    );
    every_window!(
        tensorfmt::aero::Builder::new(),
        write_file_with,
        &path("w.aero")
    );
    every_window!(
        tensorfmt::aero::Builder::new(),
        write_set_with,
        &path("w.aeroset.json")
    );
}

#[test]
fn a_file_that_is_cut_while_it_is_open_gives_errors() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = tensorfmt::safetensors::Builder::new();
    let tensor = Tensor::from_slice(&[1.5f32; 50_000], &[50_000]).unwrap();
    builder.tensor("w", tensor).unwrap();
    let source = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    for &target in Target::ALL {
        let path = folder.path().join(format!("w.{}", target.ending()));
        plan(Model::of(&source), target, &Options::default())
            .unwrap()
            .write_file(&path, &WriteOptions::default())
            .unwrap();
        let archive = Archive::open(&path).unwrap();
        let entry = archive.entry("w").unwrap();
        let data = archive.data(entry).unwrap();
        let cut = match target {
            Target::AeroSet => folder.path().join("part-000.aero"),
            Target::SafetensorsSet => folder.path().join("w-00001-of-00001.safetensors"),
            _ => path.clone(),
        };
        let file = fs::OpenOptions::new().write(true).open(&cut).unwrap();
        file.set_len(entry.offset() + 1000).unwrap();

        let error = archive.read(entry).unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{target:?}: {error}");
        let name = cut.file_name().unwrap().to_str().unwrap();
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("shorter"), "{text}");
        let mut out = vec![0; usize::try_from(data.size()).unwrap()];
        assert!(data.read_into(0, &mut out).is_err(), "{target:?}");
        assert!(data.read(0..100).is_ok(), "{target:?}");
        // Formats without checksums have nothing to read, so nothing to miss.
        match archive.verify(&VerifyOptions::default()) {
            Ok(report) => {
                let covered = !matches!(
                    target,
                    Target::Mag
                        | Target::Burnpack
                        | Target::Primitiv
                        | Target::Safetensors
                        | Target::SafetensorsSet
                );
                assert_eq!(report.has_failed(), covered, "{target:?}: {report:?}");
            }
            Err(error) => assert_eq!(error.kind(), Kind::Io, "{target:?}: {error}"),
        }
    }
}

/// A value may be two bytes of text and takes a hundred of memory, so a file's own record of types
/// is only decoded where that is in proportion to the file; else it is a text like any other.
#[test]
fn a_record_of_too_many_values_stays_a_text() {
    let record_is_kept_as_text = |values: usize| {
        let record = format!(r#"{{"order":[],"x":[{}0]}}"#, r#"{"":0},"#.repeat(values));
        let header = serde_json::json!({"__metadata__": {"tensorfmt": record}}).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        let model = Model::of(&Archive::from_bytes(file).unwrap());
        model.metadata.iter().any(|(key, _)| key == "tensorfmt")
    };
    assert!(!record_is_kept_as_text(1_000));
    assert!(record_is_kept_as_text(200_000));
}
