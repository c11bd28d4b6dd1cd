//! What users of such tools have run into, held against every format at once; the page
//! `docs/user-reports.md` says which report each test is about.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tensorfmt::convert::{Loss, LossKind, Model, Options, PrimitivObject, Remedy, Target, plan};
use tensorfmt::{
    Archive, Bytes, DType, Entry, Error, FileSource, Kind, Outcome, Source, SourceError, Tensor,
    Value, VerifyOptions, WriteOptions, safetensors,
};

use crate::matrix::{convert, file_name};

/// The same tensors in a file of every target.
struct Everywhere {
    folder: tempfile::TempDir,
    files: Vec<(Target, PathBuf)>,
}

impl Everywhere {
    fn new(tensors: &[(&str, Tensor)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = archive_of(tensors);
        let files = Target::ALL.iter().map(|&target| {
            let path = folder.path().join(file_name(target));
            convert(&source, target, &Options::default(), &path)
                .unwrap_or_else(|| panic!("{target:?}"));
            (target, path)
        });
        let files = files.collect();
        Self { folder, files }
    }

    /// All but the sets, which are several files.
    fn single(&self) -> impl Iterator<Item = (Target, &Path)> {
        let single = |(target, _): &&(Target, PathBuf)| !target.is_set();
        self.files
            .iter()
            .filter(single)
            .map(|(target, path)| (*target, path.as_path()))
    }
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len() as u64]).unwrap()
}

fn numbers(count: u64) -> Tensor {
    let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
    floats(&values)
}

fn builder_of(tensors: &[(&str, Tensor)]) -> safetensors::Builder {
    let mut builder = safetensors::Builder::new();
    for (name, tensor) in tensors {
        builder.tensor(*name, tensor.clone()).unwrap();
    }
    builder
}

fn archive_of(tensors: &[(&str, Tensor)]) -> Archive {
    Archive::from_bytes(builder_of(tensors).to_vec().unwrap()).unwrap()
}

fn case(format: &str, name: &str) -> Vec<u8> {
    let cases = test_data::cases(format).unwrap();
    let case = cases.into_iter().find(|case| case.name == name);
    case.unwrap_or_else(|| panic!("{format} {name}")).bytes
}

/// Writes without flushing to the disk.
fn quick() -> WriteOptions<'static> {
    let mut options = WriteOptions::default();
    options.durable = false;
    options
}

/// Remembers which bytes were asked for.
struct Traced {
    bytes: Bytes,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Traced {
    fn open(path: &Path, target: Target) -> (Archive, Arc<Mutex<Vec<Range<u64>>>>) {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let traced = Self {
            bytes: fs::read(path).unwrap().into(),
            reads: reads.clone(),
        };
        let archive =
            Archive::from_source_as(traced, target.format(), &tensorfmt::ReadOptions::default())
                .unwrap();
        (archive, reads)
    }
}

impl Source for Traced {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let read = offset..offset + out.len() as u64;
        self.reads.lock().unwrap().push(read);
        self.bytes.read_into(offset, out)
    }
}

#[cfg(feature = "mmap")]
fn map(path: &Path) -> tensorfmt::MappedFile {
    // SAFETY: the tests own their files, and replace them but never write into them.
    #[allow(unsafe_code, reason = "the promise above")]
    unsafe { tensorfmt::MappedFile::open(path) }.unwrap()
}

#[cfg(feature = "mmap")]
#[test]
fn saving_over_a_mapped_file_keeps_its_views_and_gives_a_whole_file() {
    let everywhere = Everywhere::new(&[("w", floats(&[1.0, 2.0, 3.0]))]);
    for (target, path) in everywhere.single() {
        let label = target.name();
        let archive = Archive::from_source_as(
            map(path),
            target.format(),
            &tensorfmt::ReadOptions::default(),
        )
        .unwrap();
        let view = archive.read("w").or_else(|_| archive.read("")).unwrap();
        assert_eq!(view.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0], "{label}");
        // The same tensors from the map itself, then others and one more.
        let same = plan(Model::of(&archive), target, &Options::default()).unwrap();
        same.write_file(path, &quick()).unwrap();
        let reopened = Archive::open(path).unwrap();
        assert_eq!(reopened.read("w").unwrap().data(), view.data(), "{label}");
        let other = archive_of(&[("a", floats(&[7.0; 50])), ("w", floats(&[4.0, 5.0, 6.0]))]);
        convert(&other, target, &Options::default(), path).unwrap();
        let reopened = Archive::open(path).unwrap();
        assert_eq!(
            reopened.read("w").unwrap().to_vec::<f32>().unwrap(),
            [4.0, 5.0, 6.0]
        );
        assert_eq!(view.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0], "{label}");
    }
}

#[test]
fn a_file_that_shrinks_while_open_is_an_error_in_every_format() {
    let everywhere = Everywhere::new(&[("w", numbers(50_000))]);
    for (target, path) in everywhere.single() {
        let archive = Archive::open(path).unwrap();
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(100_000).unwrap();
        let error = archive.read("w").unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::Io, "{target:?}: {text}");
        assert!(text.contains(&file_name(target)), "{text}");
        assert!(text.contains("shorter"), "{text}");
        // Only AERO's data is covered by a hash unless more is asked for.
        if target == Target::Aero {
            let error = archive.verify(&VerifyOptions::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Io, "{error}");
        }
    }
}

#[test]
fn a_truncated_file_is_told_with_its_path_its_tensor_and_both_lengths() {
    let everywhere = Everywhere::new(&[("first", numbers(10)), ("last", numbers(100))]);
    for (target, path) in everywhere.single() {
        let bytes = fs::read(path).unwrap();
        let whole = Archive::open(path).unwrap();
        let last = whole.entry("last").unwrap();
        let cut = usize::try_from(last.offset()).unwrap() + 150;
        fs::write(path, &bytes[..cut]).unwrap();
        let error = Archive::open(path).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::Invalid, "{text}");
        let path = path.display().to_string();
        assert!(text.starts_with(&path), "{text}");
        let rest = &text[path.len()..];
        match target {
            // The index is at the end, so what is gone is the index.
            Target::Ztensor => assert!(rest.contains("cut short"), "{rest}"),
            // A shard is one chunk, whatever tensors are in it.
            Target::Aero => assert!(rest.contains("bytes needed, "), "{rest}"),
            Target::Burnpack => assert!(
                rest.contains(&format!(
                    "tensor \"last\": truncated: {} bytes needed, {cut} there",
                    cut + 250
                )),
                "{rest}"
            ),
            _ => assert!(
                rest.contains("tensor \"last\": truncated: 400 bytes needed, 150 there"),
                "{rest}"
            ),
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn fifty_open_files_are_not_mapped() {
    let everywhere = Everywhere::new(&[("w", numbers(50_000))]);
    let folder = everywhere.folder.path().display().to_string();
    let mut archives = Vec::new();
    for i in 0..50 {
        let (target, path) = &everywhere.files[i % everywhere.files.len()];
        let archive = Archive::open(path).unwrap();
        archive.verify(&VerifyOptions::default()).unwrap();
        assert!(archive.read("w").is_ok(), "{target:?}");
        archives.push(archive);
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains(&folder), "{maps}");
    // Nor is one still there once its map is gone.
    #[cfg(feature = "mmap")]
    {
        let (target, path) = &everywhere.files[0];
        let mapped = Archive::from_source_as(
            map(path),
            target.format(),
            &tensorfmt::ReadOptions::default(),
        )
        .unwrap();
        let view = mapped.read("w").unwrap();
        drop(mapped);
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains(&folder), "the view holds the map");
        drop(view);
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.contains(&folder), "{maps}");
    }
}

#[test]
fn an_empty_file_is_called_empty_on_every_backend() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.mag");
    fs::write(&path, b"").unwrap();
    let mut errors = vec![
        Archive::from_bytes(Bytes::new()).unwrap_err(),
        Archive::from_source(FileSource::open(&path).unwrap(), &Default::default()).unwrap_err(),
    ];
    #[cfg(feature = "mmap")]
    errors.push(Archive::from_source(map(&path), &Default::default()).unwrap_err());
    for error in errors {
        assert!(error.to_string().contains("it is empty"), "{error}");
        assert_eq!(error.kind(), Kind::Invalid);
    }
    // By name it is a mag file, one that ends too early.
    let error = Archive::open(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

#[test]
fn a_large_tensor_is_read_and_converted_in_few_large_rising_reads() {
    let large = numbers(4 << 20);
    let everywhere = Everywhere::new(&[("small", numbers(3)), ("w", large.clone())]);
    for (target, path) in everywhere.single() {
        let (archive, reads) = Traced::open(path, target);
        let (start, len) = {
            let entry = archive.entry("w").unwrap();
            (entry.offset(), entry.nbytes().unwrap())
        };
        reads.lock().unwrap().clear();
        assert_eq!(archive.read("w").unwrap().data(), large.data());
        let whole = std::mem::take(&mut *reads.lock().unwrap());
        assert_eq!(whole, vec![start..start + len; 1], "{target:?}");

        let to = everywhere.folder.path().join("out");
        let plan = plan(Model::of(&archive), target, &Options::default()).unwrap();
        reads.lock().unwrap().clear();
        let mut options = quick();
        options.threads = 1;
        plan.write_file(&to, &options).unwrap();
        let reads = std::mem::take(&mut *reads.lock().unwrap());
        let large: Vec<_> = reads.iter().filter(|read| read.end > start).collect();
        let total: u64 = large.iter().map(|read| read.end - read.start).sum();
        assert_eq!(total, len, "{target:?}");
        assert!(large.len() <= 17, "{target:?}: {}", large.len());
        let turns = large.windows(2).filter(|pair| pair[1].start < pair[0].end);
        assert_eq!(turns.count(), 0, "{target:?}: {large:?}");
    }
}

/// What one backend makes of a file: its tensors, or what is wrong.
fn account(archive: Result<Archive, Error>) -> Vec<String> {
    let line = |error: &Error| {
        format!(
            "{:?} {:?} {:?} {error}",
            error.kind(),
            error.rule_id(),
            error.at()
        )
    };
    let archive = match archive {
        Ok(archive) => archive,
        Err(error) => return vec![line(&error)],
    };
    let mut lines = vec![format!("{:?}", archive.metadata())];
    for entry in archive.entries() {
        let (name, dtype, shape) = (entry.name(), entry.dtype_name(), entry.shape());
        lines.push(format!("{name} {dtype} {shape} {}", entry.offset()));
        lines.push(match archive.read(entry) {
            Ok(tensor) => format!("{:?}", tensor.data()),
            Err(error) => line(&error),
        });
    }
    lines.push(match archive.verify(&VerifyOptions::default()) {
        Ok(report) => format!("{report:?}"),
        Err(error) => line(&error),
    });
    lines
}

#[test]
fn file_map_and_memory_agree_on_every_hand_assembled_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for format in test_data::FORMATS {
        let known = tensorfmt::Format::ALL
            .iter()
            .find(|known| known.name() == format.name)
            .copied()
            .unwrap();
        for case in (format.cases)() {
            let path = folder.path().join("case");
            fs::write(&path, &case.bytes).unwrap();
            let file = FileSource::open(&path).unwrap();
            let file = account(Archive::from_source_as(
                file,
                known,
                &tensorfmt::ReadOptions::default(),
            ));
            let bytes = Bytes::from(case.bytes);
            let memory = account(Archive::from_source_as(
                bytes,
                known,
                &tensorfmt::ReadOptions::default(),
            ));
            assert_eq!(file, memory, "{} {}", format.name, case.name);
            #[cfg(feature = "mmap")]
            {
                let mapped = account(Archive::from_source_as(
                    map(&path),
                    known,
                    &tensorfmt::ReadOptions::default(),
                ));
                assert_eq!(mapped, memory, "{} {}", format.name, case.name);
            }
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_parts_looked_for_beside_the_link() {
    use std::os::unix::fs::symlink;
    let everywhere = Everywhere::new(&[("w", numbers(1000))]);
    // A hub's cache: a folder of links to blobs under names of their own. The parts of a set
    // must not lie outside of its folder.
    let hub = tempfile::tempdir().unwrap();
    let links = hub.path().to_owned();
    let blobs = links.join("blobs");
    fs::create_dir(&blobs).unwrap();
    for (i, file) in fs::read_dir(everywhere.folder.path()).unwrap().enumerate() {
        let file = file.unwrap();
        let blob = blobs.join(i.to_string());
        fs::copy(file.path(), &blob).unwrap();
        symlink(&blob, links.join(file.file_name())).unwrap();
    }
    for &target in Target::ALL {
        let archive = Archive::open(links.join(file_name(target))).unwrap();
        assert_eq!(archive.read("w").unwrap().data(), numbers(1000).data());
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        assert!(!report.has_failed(), "{target:?}: {report:?}");
    }
}

#[test]
fn a_source_that_fails_midway_leaves_the_old_file_in_every_format() {
    struct Broken(Bytes, u64);
    impl Source for Broken {
        fn size(&self) -> u64 {
            self.0.size()
        }
        fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            if offset + out.len() as u64 > self.1 {
                return Err(SourceError::Other("the cable is out".into()));
            }
            self.0.read_into(offset, out)
        }
    }
    let everywhere = Everywhere::new(&[("old", numbers(10))]);
    let names = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names(everywhere.folder.path());
    let bytes = builder_of(&[
        ("a", numbers(100)),
        ("b", numbers(100)),
        ("c", numbers(100)),
    ]);
    let bytes = Bytes::from(bytes.to_vec().unwrap());
    for (target, path) in &everywhere.files {
        let old = fs::read(path).unwrap();
        // The second tensor's end can't be read.
        let source = Broken(bytes.clone(), bytes.size() - 410);
        let source = Archive::from_source(source, &Default::default()).unwrap();
        let plan = plan(Model::of(&source), *target, &Options::default()).unwrap();
        let error = plan.write_file(path, &WriteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{target:?}: {error}");
        assert!(error.to_string().contains("the cable is out"), "{error}");
        assert_eq!(fs::read(path).unwrap(), old, "{target:?}");
        assert_eq!(names(everywhere.folder.path()), before, "{target:?}");
    }
}

#[test]
fn unknown_dtypes_stop_only_their_own_tensor() {
    let folder = tempfile::tempdir().unwrap();
    for (format, name) in [("ztensor", "dtype_complex"), ("mag", "dtype_11")] {
        let archive = Archive::from_bytes(case(format, name)).unwrap();
        let entries = archive.entries();
        let (unknown, known): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
            entries.iter().partition(|entry| entry.dtype().is_none());
        assert!(!unknown.is_empty(), "{format} {name}");
        for entry in &unknown {
            assert!(archive.read(*entry).unwrap_err().is_unsupported());
        }
        for entry in &known {
            assert!(archive.read(*entry).is_ok());
        }
        let Err(Error::Refused(refusals)) = plan(
            Model::of(&archive),
            Target::Safetensors,
            &Options::default(),
        ) else {
            panic!("{format} {name}: not refused");
        };
        let refused: Vec<&str> = refusals.iter().map(|refusal| &*refusal.tensor).collect();
        let unknown: Vec<&str> = unknown.iter().map(|entry| entry.name()).collect();
        assert_eq!(refused, unknown);
        let mut options = Options::default();
        options.skip_unsupported = true;
        let there = folder.path().join("x.safetensors");
        convert(&archive, Target::Safetensors, &options, &there).unwrap();
        assert_eq!(Archive::open(&there).unwrap().entries().len(), known.len());
    }
}

/// One element of any dtype that safetensors names.
fn one_of(dtype: DType) -> Option<Archive> {
    if !Target::Safetensors.holds(dtype) {
        return None;
    }
    let size = usize::try_from(dtype.size()?).unwrap();
    let shape = tensorfmt::Shape::new(&[1]).unwrap();
    let tensor = Tensor::new(dtype, shape, vec![1; size]).unwrap();
    Some(archive_of(&[("x", tensor)]))
}

#[test]
fn every_dtype_is_held_as_it_is_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut held = 0;
    for &dtype in DType::ALL {
        let Some(source) = one_of(dtype) else {
            // Nothing but burnpack and AERO, which packed it, holds opaque data.
            let holders = Target::ALL.iter().filter(|target| target.holds(dtype));
            assert_eq!(holders.count(), 0, "{dtype}");
            continue;
        };
        let bytes = source.read("x").unwrap().data().clone();
        for &target in Target::ALL {
            let there = folder.path().join(file_name(target));
            match plan(Model::of(&source), target, &Options::default()) {
                Ok(plan) => {
                    assert!(target.holds(dtype), "{target:?} {dtype}");
                    plan.write_file(&there, &quick()).unwrap();
                    let archive = Archive::open(&there).unwrap();
                    let entry = archive.entry("x").unwrap();
                    assert_eq!(entry.dtype(), Some(dtype), "{target:?}");
                    assert_eq!(entry.dtype_name(), dtype.name(), "{target:?}");
                    assert_eq!(archive.read("x").unwrap().data(), &bytes);
                    held += 1;
                }
                Err(error) => {
                    assert!(!target.holds(dtype), "{target:?} {dtype}");
                    let named = error.to_string().contains(&format!("({dtype})"));
                    assert!(named && error.is_unsupported(), "{target:?}: {error}");
                }
            }
        }
    }
    assert!(held > 60, "{held}");
}

#[test]
fn a_plan_names_every_tensor_that_the_target_cannot_hold() {
    let source = archive_of(&[
        ("ok", floats(&[1.0])),
        ("wide", Tensor::from_slice(&[1.0f64], &[1]).unwrap()),
        ("ids", Tensor::from_slice(&[1i64], &[1]).unwrap()),
        ("none", Tensor::from_slice::<f32>(&[], &[0]).unwrap()),
        ("scalar", Tensor::from_slice(&[1u8], &[]).unwrap()),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let Err(Error::Refused(refusals)) = plan(Model::of(&source), Target::Mag, &Options::default())
    else {
        panic!("not refused");
    };
    let named: Vec<(&str, &str)> = refusals
        .iter()
        .map(|refusal| (&*refusal.tensor, &*refusal.dtype))
        .collect();
    let all = [
        ("wide", "f64"),
        ("ids", "i64"),
        ("none", "f32"),
        // Two reasons, each with what helps.
        ("scalar", "u8"),
        ("scalar", "u8"),
    ];
    assert_eq!(named, all);
    let remedies: Vec<Option<Remedy>> = refusals.iter().map(|refusal| refusal.remedy).collect();
    let cast = |dtype| Some(Remedy::Cast(dtype));
    let (out, promote) = (Some(Remedy::LeaveOut), Some(Remedy::PromoteScalars));
    let (float, int) = (cast(DType::F32), cast(DType::I32));
    assert_eq!(remedies, [float, int, out, int, promote]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn casts_happen_only_when_asked_for_and_say_what_they_change() {
    let tensors = [
        ("exact", Tensor::from_slice(&[0.5f64, -2.0], &[2]).unwrap()),
        (
            "lossy",
            Tensor::from_slice(&[0.1f64, 1e300, 1e-320], &[3]).unwrap(),
        ),
        (
            "ids",
            Tensor::from_slice(&[1i64, (1 << 24) + 1], &[2]).unwrap(),
        ),
    ];
    let source = archive_of(&tensors);
    for target in [Target::Primitiv, Target::Mag] {
        let refused = plan(Model::of(&source), target, &Options::default());
        assert!(matches!(refused, Err(Error::Refused(list)) if list.len() == 3));
        let mut options = Options::default();
        options.cast = Some(DType::F32);
        let plan = plan(Model::of(&source), target, &options).unwrap();
        let losses: Vec<String> = plan.losses().iter().map(Loss::to_string).collect();
        let said = [
            "value \"lossy\": f64 cast to f32: 1 out of range, 1 too small, 1 rounded values",
            "value \"ids\": i64 cast to f32: 1 rounded values",
        ];
        assert_eq!(losses, said, "{target:?}");
    }
    let mut options = Options::default();
    options.cast = Some(DType::F16);
    let source = archive_of(&[("w", floats(&[70_000.0, 1e-7, 2e-8, 0.1, 1.0]))]);
    let plan = plan(Model::of(&source), Target::Mag, &options).unwrap();
    let said = "value \"w\": f32 cast to f16: 1 out of range, 2 too small, 1 rounded values";
    assert_eq!(plan.losses()[0].to_string(), said);
}

#[test]
fn eight_bit_floats_are_never_called_bytes() {
    for dtype in [
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F8E4M3Fnuz,
        DType::F8E5M2Fnuz,
        DType::F8E8M0,
    ] {
        let Some(source) = one_of(dtype) else {
            continue;
        };
        for target in [
            Target::Mag,
            Target::Ztensor,
            Target::Burnpack,
            Target::Aero,
            Target::AeroSet,
            Target::Primitiv,
        ] {
            let refused = plan(Model::of(&source), target, &Options::default());
            let error = refused.expect_err(dtype.name());
            assert!(error.to_string().contains(dtype.name()), "{error}");
            // As numbers they go anywhere.
            let mut options = Options::default();
            options.cast = Some(DType::F32);
            let plan = plan(Model::of(&source), target, &options).unwrap();
            assert_eq!(plan.cast().unwrap().changed, 1);
        }
        assert!(plan(Model::of(&source), Target::Safetensors, &Options::default()).is_ok());
    }
}

#[test]
fn packed_data_is_copied_as_it_is_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (format, name, home) in [
        ("aero", "packed", Target::Aero),
        ("burnpack", "quant_new_packed", Target::Burnpack),
        ("burnpack", "quant_old_u32", Target::Burnpack),
    ] {
        let source = Archive::from_bytes(case(format, name)).unwrap();
        let opaque: Vec<Entry<'_>> = source
            .entries()
            .filter(|entry| entry.dtype() == Some(DType::Opaque))
            .collect();
        assert!(!opaque.is_empty(), "{name}");
        for &target in Target::ALL {
            if target.format() != home.format() {
                let refused = plan(Model::of(&source), target, &Options::default());
                assert!(
                    matches!(refused, Err(Error::Refused(_))),
                    "{name} {target:?}"
                );
                continue;
            }
            let there = folder.path().join(file_name(target));
            convert(&source, target, &Options::default(), &there).unwrap();
            let copy = Archive::open(&there).unwrap();
            for entry in &opaque {
                let tensor = source.read(*entry).unwrap();
                assert_eq!(copy.read(entry.name()).unwrap().data(), tensor.data());
            }
        }
    }
}

#[test]
fn an_empty_tensor_is_the_same_on_every_backend() {
    let empty = Tensor::from_slice::<f32>(&[], &[3, 0, 2]).unwrap();
    let source = archive_of(&[("before", floats(&[1.0])), ("none", empty.clone())]);
    let folder = tempfile::tempdir().unwrap();
    for target in [
        Target::Ztensor,
        Target::Burnpack,
        Target::Aero,
        Target::Safetensors,
    ] {
        let path = folder.path().join(file_name(target));
        convert(&source, target, &Options::default(), &path).unwrap();
        let mut archives = vec![
            Archive::open(&path).unwrap(),
            Archive::from_bytes(fs::read(&path).unwrap()).unwrap(),
            Traced::open(&path, target).0,
        ];
        #[cfg(feature = "mmap")]
        archives.push(Archive::from_source(map(&path), &Default::default()).unwrap());
        for archive in archives {
            let tensor = archive.read("none").unwrap();
            assert_eq!(tensor, empty, "{target:?}");
            assert_eq!(tensor.as_slice::<f32>().unwrap(), &[0.0; 0]);
            let entry = archive.entry("none").unwrap();
            assert_eq!(archive.data(entry).unwrap().size(), 0);
        }
    }
}

#[test]
fn three_dims_in_the_other_order_come_back_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    // Element (i, j, k) of dims [2, 3, 4] is 100 i + 10 j + k, the first dim fastest.
    let mut column = vec![0f32; 24];
    for (i, j, k) in (0..24).map(|at| (at / 12, at / 4 % 3, at % 4)) {
        column[i + 2 * j + 6 * k] = (100 * i + 10 * j + k) as f32;
    }
    let tensor = Tensor::from_slice(&column, &[2, 3, 4]).unwrap();
    let tensor = tensor.with_order(tensorfmt::Order::ColumnMajor);
    let mut builder = tensorfmt::primitiv::Builder::new();
    builder.tensor("w", tensor).unwrap();
    let path = folder.path().join("a.model");
    builder.write_file(&path).unwrap();
    let source = Archive::open(&path).unwrap();
    for &target in Target::ALL {
        let there = folder.path().join(file_name(target));
        let losses = convert(&source, target, &Options::default(), &there);
        assert_eq!(losses, Some(Vec::new()), "{target:?}");
        let converted = Archive::open(&there).unwrap();
        let rows = converted.read("w").unwrap().to_row_major().unwrap();
        assert_eq!(rows.shape().dims(), [2, 3, 4]);
        let rows = rows.to_vec::<f32>().unwrap();
        for (at, value) in rows.into_iter().enumerate() {
            let (i, j, k) = (at / 12, at / 4 % 3, at % 4);
            assert_eq!(value, (100 * i + 10 * j + k) as f32, "{target:?}");
        }
        let back = folder.path().join("back.model");
        convert(&converted, Target::Primitiv, &Options::default(), &back).unwrap();
        assert_eq!(
            fs::read(&back).unwrap(),
            fs::read(&path).unwrap(),
            "{target:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_failed_verification_leaves_nothing_open() {
    let everywhere = Everywhere::new(&[("w", numbers(5000))]);
    let folder = everywhere.folder.path().to_owned();
    let open = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        descriptors
            .filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
            .filter(|path| path.starts_with(&folder))
            .count()
    };
    for (target, path) in everywhere.single() {
        let archive = Archive::open(path).unwrap();
        let offset = usize::try_from(archive.entry("w").unwrap().offset()).unwrap();
        let mut bytes = fs::read(path).unwrap();
        bytes[offset + 100] ^= 4;
        fs::write(path, bytes).unwrap();
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        // The formats whose files have checksums of data, unless they are turned off.
        let covered = matches!(target, Target::Aero | Target::Ztensor);
        assert_eq!(report.has_failed(), covered, "{target:?}");
        // Once more, and by several threads, after a failure.
        let again = archive.verify(&VerifyOptions::default()).unwrap();
        assert_eq!(report, again, "{target:?}");
        assert_eq!(open(), 1, "{target:?}");
        drop(archive);
        assert_eq!(open(), 0, "{target:?}");
    }
}

#[test]
fn one_thread_verifies_in_rising_order() {
    let tensors: Vec<(String, Tensor)> = (0..40)
        .map(|i| (format!("t{}", (i * 7) % 40), numbers(20_000)))
        .collect();
    let tensors: Vec<(&str, Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.clone()))
        .collect();
    let source = archive_of(&tensors);
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    for target in [Target::Ztensor, Target::Aero] {
        options.checksum = None;
        options.tensor_hash = false;
        if target == Target::Ztensor {
            options.checksum = Some(tensorfmt::convert::Checksum::Crc32c);
        } else {
            options.max_shard_bytes = Some(100_000);
        }
        let path = folder.path().join(file_name(target));
        convert(&source, target, &options, &path).unwrap();
        let (archive, reads) = Traced::open(&path, target);
        let first = archive.entries().iter().map(Entry::offset).min().unwrap();
        reads.lock().unwrap().clear();
        let mut verify = VerifyOptions::default();
        verify.threads = 1;
        let report = archive.verify(&verify).unwrap();
        assert!(!report.has_failed());
        let reads = reads.lock().unwrap().clone();
        let data: Vec<_> = reads.iter().filter(|read| read.start >= first).collect();
        assert!(data.len() >= 40, "{target:?}: {}", data.len());
        for pair in data.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{target:?}: {pair:?}");
        }
        options = Options::default();
    }
}

#[test]
fn verification_follows_the_data_whatever_the_order_of_the_index() {
    // An index whose last tensor lies first.
    let mut names: Vec<String> = (0..30).map(|i| format!("t{i}")).collect();
    names.reverse();
    let tensors: Vec<(&str, Tensor)> = names
        .iter()
        .map(|name| (name.as_str(), numbers(2000)))
        .collect();
    let source = archive_of(&tensors);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.bpk");
    convert(&source, Target::Burnpack, &Options::default(), &path).unwrap();
    let archive = Archive::open(&path).unwrap();
    let offsets: Vec<u64> = archive.entries().iter().map(Entry::offset).collect();
    assert!(offsets.is_sorted(), "{offsets:?}");
    assert_eq!(archive.entries().get(0).unwrap().name(), "t29");
    // And what a conversion reads is then in rising order too.
    let (archive, reads) = Traced::open(&path, Target::Burnpack);
    let plan = plan(Model::of(&archive), Target::Mag, &Options::default()).unwrap();
    reads.lock().unwrap().clear();
    plan.write_file(folder.path().join("x.mag"), &quick())
        .unwrap();
    let reads = reads.lock().unwrap().clone();
    assert!(reads.len() >= 30);
    assert!(reads.windows(2).all(|pair| pair[0].end <= pair[1].start));
}

#[test]
fn opening_touches_no_data_in_any_format() {
    let tensors: Vec<(String, Tensor)> = (0..20)
        .map(|i| (format!("t{i}"), numbers(50_000)))
        .collect();
    let tensors: Vec<(&str, Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.clone()))
        .collect();
    let everywhere = Everywhere::new(&tensors);
    for (target, path) in everywhere.single() {
        let (archive, reads) = Traced::open(path, target);
        let opened = std::mem::take(&mut *reads.lock().unwrap());
        let mut touched = 0;
        for entry in archive.entries() {
            let (start, end) = (entry.offset(), entry.offset() + entry.nbytes().unwrap());
            for read in &opened {
                let inside = read.end.min(end).saturating_sub(read.start.max(start));
                touched += inside;
            }
        }
        // The end of a zTensor file is read at once, of which the index is some. Between primitiv's tensors
        // there is no index but their heads, which are read with little around them.
        let allowed = match target {
            Target::Ztensor => 64 << 10,
            Target::Primitiv => 20 * 64,
            _ => 0,
        };
        assert!(touched <= allowed, "{target:?}: {touched} bytes of data");
    }
}

#[test]
fn the_order_of_tensors_is_kept_unless_sorted() {
    let names = ["zeta", "alpha", "mid.b", "mid.a", "beta"];
    let tensors: Vec<(&str, Tensor)> = names.iter().map(|name| (*name, numbers(5))).collect();
    let everywhere = Everywhere::new(&tensors);
    for (target, path) in &everywhere.files {
        let archive = Archive::open(path).unwrap();
        let found: Vec<&str> = archive.entries().iter().map(Entry::name).collect();
        assert_eq!(found, names, "{target:?}");
        let mut model = Model::of(&archive);
        model.sort();
        // The parts of a set have the names that the tool chooses.
        let folder = tempfile::tempdir().unwrap();
        let sorted = folder.path().join(file_name(*target));
        plan(model, *target, &Options::default())
            .unwrap()
            .write_file(&sorted, &quick())
            .unwrap();
        let archive = Archive::open(&sorted).unwrap();
        let found: Vec<&str> = archive.entries().iter().map(Entry::name).collect();
        assert_eq!(
            found,
            ["alpha", "beta", "mid.a", "mid.b", "zeta"],
            "{target:?}"
        );
    }
}

#[test]
fn sorted_tensors_of_a_hash_map_give_the_same_bytes_every_time() {
    let folder = tempfile::tempdir().unwrap();
    for &target in Target::ALL {
        let path = folder.path().join(file_name(target));
        let mut seen: Option<Vec<u8>> = None;
        for _ in 0..2 {
            // A map made anew has another order.
            let map: std::collections::HashMap<String, f32> = (0..1000u16)
                .map(|i| (format!("t{i}"), f32::from(i)))
                .collect();
            let mut builder = safetensors::Builder::new();
            for (name, value) in &map {
                builder.tensor(name, floats(&[*value])).unwrap();
            }
            for (key, value) in map.iter().take(20) {
                builder.metadata(key, value.to_string()).unwrap();
            }
            let mut model = Model::of(&Archive::from_bytes(builder.to_vec().unwrap()).unwrap());
            model.metadata.clear();
            for i in 0..20 {
                model.set_metadata(format!("key {i}"), i64::from(i));
            }
            model.sort();
            plan(model, target, &Options::default())
                .unwrap()
                .write_file(&path, &quick())
                .unwrap();
            let bytes = fs::read(&path).unwrap();
            assert!(
                seen.as_ref().is_none_or(|seen| *seen == bytes),
                "{target:?}"
            );
            seen = Some(bytes);
        }
    }
}

#[test]
fn everything_in_a_primitiv_file_arrives_or_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let cases = test_data::cases("primitiv").unwrap();
    let (mut stats, mut settings) = (0, 0);
    for case in cases
        .iter()
        .filter(|case| case.expect == test_data::Expect::Valid)
    {
        let source = Archive::from_bytes(case.bytes.clone()).unwrap();
        for &target in Target::ALL {
            for with_stats in [false, true] {
                let mut options = Options::default();
                options.skip_unsupported = true;
                options.allow_empty = true;
                options.with_stats = with_stats;
                options.whole_names = target == Target::Primitiv;
                let there = folder.path().join(file_name(target));
                let plan = match plan(Model::of(&source), target, &options) {
                    Ok(plan) => plan,
                    // Said as a whole: shapes, and objects that hold another number of tensors.
                    Err(Error::Refused(list)) if !list.is_empty() => continue,
                    Err(error) => panic!("{}: {error}", case.name),
                };
                plan.write_file(&there, &quick()).unwrap();
                let lost = |kind| {
                    plan.losses()
                        .iter()
                        .filter(|loss| loss.kind == kind)
                        .count()
                };
                let converted = Archive::open(&there).unwrap();
                assert_eq!(
                    converted.entries().len() + lost(LossKind::Tensor),
                    source.entries().len(),
                    "{} to {target:?}",
                    case.name
                );
                stats += lost(LossKind::Tensor);
                let kept = Model::of(&converted).metadata;
                for (key, _) in source.metadata() {
                    let said = plan.losses().iter().any(|loss| loss.item == key);
                    let there = kept.iter().any(|(known, _)| *known == key);
                    assert!(said || there, "{} to {target:?}: {key}", case.name);
                    settings += 1;
                }
            }
        }
    }
    assert!(stats > 0 && settings > 0, "{stats} {settings}");
}

#[test]
fn names_that_would_become_one_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    // The addresses ["a.b"] and ["a", "b"] of a primitiv model.
    let source = Archive::from_bytes(case("primitiv", "model_dots")).unwrap();
    let mut names: Vec<&str> = source.entries().iter().map(Entry::name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() < count, "{names:?}");
    for &target in Target::ALL {
        let planned = plan(Model::of(&source), target, &Options::default());
        if target == Target::Primitiv {
            let there = folder.path().join("x.model");
            planned.unwrap().write_file(&there, &quick()).unwrap();
            let back = Archive::open(&there).unwrap();
            assert_eq!(back.entries().len(), count);
        } else {
            let error = planned.unwrap_err().to_string();
            assert!(error.contains("two tensors have this name"), "{error}");
        }
    }
    let mut model = Model::of(&archive_of(&[("a1", numbers(1)), ("a2", numbers(1))]));
    let error = model.rename(|_| "a".into()).unwrap_err();
    assert_eq!(error.to_string(), "two tensors would be named \"a\"");
    assert_eq!(model.tensors[1].name(), "a2");
}

#[test]
fn files_without_metadata_are_files() {
    for (format, names) in [
        ("mag", &["dtype_f32", "empty"][..]),
        ("ztensor", &["empty", "no_layout"]),
        ("burnpack", &["empty"]),
        ("aero", &["empty", "one_tensor"]),
        ("primitiv", &["model_empty"]),
    ] {
        for name in names {
            let archive = Archive::from_bytes(case(format, name)).unwrap();
            let report = archive.verify(&VerifyOptions::default()).unwrap();
            assert!(!report.has_failed(), "{format} {name}: {report:?}");
            for &target in Target::ALL {
                let planned = plan(Model::of(&archive), target, &Options::default());
                assert!(!matches!(planned, Err(Error::Usage(_))), "{format} {name}");
            }
        }
    }
    for header in [&b"{}"[..], br#"{"__metadata__":{}}"#] {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header);
        let archive = Archive::from_bytes(bytes).unwrap();
        assert!(archive.entries().is_empty() && archive.metadata().is_empty());
    }
}

#[test]
fn offsets_are_where_the_bytes_are_in_every_format() {
    let everywhere = Everywhere::new(&[("a", numbers(7)), ("b", numbers(100))]);
    for (target, path) in everywhere.single() {
        let bytes = fs::read(path).unwrap();
        let archive = Archive::open(path).unwrap();
        for entry in archive.entries() {
            let start = usize::try_from(entry.offset()).unwrap();
            let len = usize::try_from(entry.stored_len().unwrap()).unwrap();
            let tensor = archive.read(entry).unwrap();
            assert_eq!(&bytes[start..start + len], &tensor.data()[..], "{target:?}");
        }
    }
}

#[test]
fn keys_that_nobody_knows_survive_their_own_format() {
    let folder = tempfile::tempdir().unwrap();
    for (format, target, names) in [
        ("ztensor", Target::Ztensor, &["custom"][..]),
        ("aero", Target::Aero, &["unknown_keys"]),
    ] {
        for name in names {
            let source = Archive::from_bytes(case(format, name)).unwrap();
            let there = folder.path().join(file_name(target));
            let losses = convert(&source, target, &Options::default(), &there);
            assert_eq!(losses, Some(Vec::new()), "{name}");
            let copy = Archive::open(&there).unwrap();
            let all = |archive: &Archive| {
                let extras = |entry: Entry<'_>| {
                    if let (Archive::Aero(archive), Entry::Aero(entry)) = (archive, entry) {
                        return archive.extra(entry);
                    }
                    let extras = entry.extras().into_iter();
                    let mut extras: Vec<_> =
                        extras.map(|(key, value)| (key.to_owned(), value)).collect();
                    // Their order is not kept: the index is written as its format asks for it.
                    for (_, value) in &mut extras {
                        if let Value::Map(pairs) = value {
                            pairs.sort_by_key(|pair| format!("{pair:?}"));
                        }
                    }
                    extras
                };
                let entries = archive.entries();
                entries.iter().map(extras).collect::<Vec<_>>()
            };
            let (want, got) = (all(&source), all(&copy));
            assert_eq!(format!("{got:?}"), format!("{want:?}"), "{name}");
            let some = want
                .iter()
                .flatten()
                .any(|(_, value)| *value != Value::Null);
            assert!(some, "{name} has no key of its own");
        }
    }
}

#[test]
fn errors_cross_threads_and_keep_their_source() {
    fn check<E: std::error::Error + Send + Sync + 'static>() {}
    check::<Error>();
    check::<tensorfmt::mag::Error>();
    check::<tensorfmt::ztensor::Error>();
    check::<tensorfmt::burnpack::Error>();
    check::<tensorfmt::aero::Error>();
    check::<tensorfmt::primitiv::Error>();
    check::<safetensors::Error>();
    check::<SourceError>();

    let folder = tempfile::tempdir().unwrap();
    let error = Archive::open(folder.path().join("absent.mag")).unwrap_err();
    assert_eq!((error.kind(), error.kind().name()), (Kind::Io, "io"));
    let mut causes = vec![&error as &(dyn std::error::Error + 'static)];
    while let Some(cause) = causes.last().and_then(|error| error.source()) {
        causes.push(cause);
    }
    let last = causes.last().unwrap().downcast_ref::<std::io::Error>();
    assert_eq!(last.unwrap().kind(), std::io::ErrorKind::NotFound);
    // No layer repeats what the one below it says, but the path that it adds.
    let moved = std::thread::spawn(move || error.to_string())
        .join()
        .unwrap();
    assert_eq!(moved.matches("absent.mag").count(), 1, "{moved}");
}

#[test]
fn what_nothing_covers_is_never_called_ok() {
    let everywhere = Everywhere::new(&[("w", numbers(50))]);
    for (target, path) in &everywhere.files {
        let archive = Archive::open(path).unwrap();
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        let covered = report
            .items
            .iter()
            .any(|item| item.item == "w" && item.outcome == Outcome::NotCovered);
        let hashed = matches!(target, Target::Aero | Target::AeroSet | Target::Ztensor);
        assert_eq!(covered, !hashed, "{target:?}: {report:?}");
        if *target == Target::Ztensor {
            let mut options = Options::default();
            options.checksum = Some(tensorfmt::convert::Checksum::None);
            convert(&archive, *target, &options, path).unwrap();
            let archive = Archive::open(path).unwrap();
            let report = archive.verify(&VerifyOptions::default()).unwrap();
            assert_eq!(report.count(Outcome::NotCovered), 2, "{report:?}");
            assert_eq!(report.count(Outcome::Ok), 0, "{report:?}");
        }
    }
}

#[test]
fn one_tensor_files_hold_one_tensor() {
    let source = archive_of(&[("a", numbers(2)), ("b", numbers(2))]);
    let mut options = Options::default();
    options.primitiv = Some(PrimitivObject::Parameter);
    let error = plan(Model::of(&source), Target::Primitiv, &options).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}

#[test]
fn metadata_goes_through_a_set_and_is_reported_where_it_has_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.aeroset.json");
    for (tensors, kept) in [(vec![("w", numbers(3))], true), (Vec::new(), false)] {
        let mut model = Model::of(&archive_of(&tensors));
        model.set_metadata("step", 7u64);
        let plan = plan(model, Target::AeroSet, &Options::default()).unwrap();
        plan.write_file(&path, &quick()).unwrap();
        assert_eq!(plan.losses().is_empty(), kept, "{:?}", plan.losses());
        let metadata = Archive::open(&path).unwrap().metadata();
        let there = metadata
            .iter()
            .any(|(key, value)| key == "step" && *value == Value::Int(7));
        assert_eq!(there, kept, "{metadata:?}");
    }
}

#[test]
fn a_missing_shard_is_told_with_its_tensor() {
    let error = Archive::from_bytes(case("aero", "shard_none")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("tensor \"w\": there is no shard 1 "),
        "{text}"
    );
    assert_eq!(error.rule_id(), Some("aero.tidx.shard"));
    let twice = Archive::from_bytes(case("aero", "tensor_twice")).unwrap_err();
    assert_eq!(twice.rule_id(), Some("aero.tidx.duplicate"));
}

/// A source that is walked in windows of any length.
struct Cut(Bytes, usize);

impl Source for Cut {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.0.read_into(offset, out)
    }

    fn window(&self) -> usize {
        self.1
    }
}

#[test]
fn checksums_do_not_depend_on_how_the_data_is_cut() {
    use tensorfmt::convert::Checksum;
    let everywhere = Everywhere::new(&[("a", numbers(300_001)), ("b", numbers(77))]);
    let folder = everywhere.folder.path();
    let whole = Bytes::from(fs::read(everywhere.single().last().unwrap().1).unwrap());
    // CRC-32C, SHA-256 and BLAKE3, of tensors, shards, pages, and the whole index.
    for (target, checksum, threads) in [
        (Target::Ztensor, Some(Checksum::Crc32c), 1),
        (Target::Ztensor, Some(Checksum::Crc32c), 2),
        (Target::Ztensor, Some(Checksum::Sha256), 1),
        (Target::Aero, None, 1),
        (Target::Aero, None, 2),
    ] {
        let mut options = Options::default();
        options.checksum = checksum;
        options.tensor_hash = target == Target::Aero;
        options.phsh = (target == Target::Aero).then_some(4096);
        options.ihsh = target == Target::Aero;
        let mut want: Option<Vec<u8>> = None;
        for window in [usize::MAX, 1 << 20, 99_991, 4096, 1000, 37] {
            let window = window.min(whole.len());
            let source =
                Archive::from_source(Cut(whole.clone(), window), &Default::default()).unwrap();
            let there = folder.join("cut");
            let mut write = quick();
            write.threads = threads;
            plan(Model::of(&source), target, &options)
                .unwrap()
                .write_file(&there, &write)
                .unwrap();
            let bytes = fs::read(&there).unwrap();
            assert!(
                want.as_ref().is_none_or(|want| *want == bytes),
                "{target:?} {checksum:?} in windows of {window}"
            );
            // What one cut has written another one verifies.
            let cut = Cut(bytes.clone().into(), (window * 7 / 5).max(1));
            let archive =
                Archive::from_source_as(cut, target.format(), &tensorfmt::ReadOptions::default())
                    .unwrap();
            let mut verify = VerifyOptions::default();
            verify.threads = threads;
            let report = archive.verify(&verify).unwrap();
            assert!(
                !report.has_failed() && report.count(Outcome::Ok) >= 2,
                "{report:?}"
            );
            want = Some(bytes);
        }
    }
    // mag's two checksums, of an index that is read in any windows.
    for name in ["demo", "checksum_ieee"] {
        for window in [1, 7, 64, 4096] {
            let source = Cut(case("mag", name).into(), window);
            let archive = Archive::from_source(source, &Default::default()).unwrap();
            let report = archive.verify(&VerifyOptions::default()).unwrap();
            assert_eq!(report.count(Outcome::Ok), 1, "{name}: {report:?}");
        }
    }
}
