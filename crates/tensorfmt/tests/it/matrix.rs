//! From every format to every format and back, on real files.

use std::collections::HashMap;
use std::path::Path;

use tensorfmt::convert::{Layout, LossKind, Model, Options, PrimitivObject, Target, plan};
use tensorfmt::{Archive, Bytes, DType, Entry, Error, Format, Tensor, Value, WriteOptions};

const FORMATS: [&str; 7] = [
    "mag",
    "mag-snapshots",
    "ztensor",
    "ztensor-1-2",
    "burnpack",
    "aero",
    "primitiv",
];

pub(crate) fn file_name(target: Target) -> String {
    format!("x.{}", target.ending())
}

/// Converts without flushing to the disk; `None` where the target refuses the file as a whole.
pub(crate) fn convert(
    archive: &Archive,
    target: Target,
    options: &Options,
    path: &Path,
) -> Option<Vec<(LossKind, String)>> {
    let plan = match plan(Model::of(archive), target, options) {
        Ok(plan) => plan,
        Err(Error::Refused(_)) => return None,
        Err(error) => panic!("{target:?}: {error}"),
    };
    let mut write = WriteOptions::default();
    write.durable = false;
    plan.write_file(path, &write).unwrap();
    Some(
        plan.losses()
            .iter()
            .map(|loss| (loss.kind, loss.item.clone()))
            .collect(),
    )
}

/// A tensor as NumPy would see it.
fn rows(archive: &Archive, entry: &Entry<'_>) -> Option<Tensor> {
    let tensor = archive.read(*entry).ok()?;
    if tensor.dtype() == DType::Opaque {
        Some(tensor)
    } else {
        tensor.to_row_major().ok()
    }
}

fn options(source: &Archive) -> Options {
    let mut options = Options::default();
    options.allow_empty = true;
    options.skip_unsupported = true;
    options.with_stats = source.format() == Format::Primitiv;
    options
}

/// Dims without trailing ones, which primitiv drops.
fn core_dims(tensor: &Tensor) -> &[u64] {
    let dims = tensor.shape().dims();
    let kept = dims
        .iter()
        .rposition(|&dim| dim != 1)
        .map_or(0, |at| at + 1);
    &dims[..kept]
}

#[test]
fn every_real_file_goes_everywhere_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut pairs: HashMap<(&str, &str), usize> = HashMap::new();
    for format in FORMATS {
        for (path, manifest) in test_data::corpus::cases(format) {
            let gguf = path.to_string_lossy().contains("gguf");
            if manifest["verdict"] != "accept" || gguf {
                continue;
            }
            let source = Archive::open(&path).unwrap();
            let same_named = {
                let mut names: Vec<_> = source.entries().iter().map(Entry::name).collect();
                names.sort_unstable();
                names.windows(2).any(|pair| pair[0] == pair[1])
            };
            if same_named {
                continue;
            }
            let label = path.display().to_string();
            go_everywhere(&label, format, &source, folder.path(), &mut pairs);
            // What became safetensors, or a set, is a source of its own.
            let bridges = tempfile::tempdir().unwrap();
            for target in [Target::Safetensors, Target::AeroSet] {
                let bridge = bridges.path().join(file_name(target));
                if convert(&source, target, &options(&source), &bridge).is_some() {
                    let source = Archive::open(&bridge).unwrap();
                    go_everywhere(&label, target.name(), &source, folder.path(), &mut pairs);
                }
            }
        }
    }
    let bridges = ["safetensors", "aeroset"];
    for format in FORMATS.into_iter().chain(bridges) {
        for &target in Target::ALL {
            let count = pairs.get(&(format, target.name())).copied().unwrap_or(0);
            println!("{format} -> {}: {count} files", target.name());
            let is_there = !test_data::corpus::cases(FORMATS[0]).is_empty();
            assert!(count > 0 || !is_there, "{format} -> {}", target.name());
        }
    }
}

fn go_everywhere(
    path: &str,
    format: &'static str,
    source: &Archive,
    folder: &Path,
    pairs: &mut HashMap<(&'static str, &'static str), usize>,
) {
    for &target in Target::ALL {
        let there = folder.join(file_name(target));
        let Some(losses) = convert(source, target, &options(source), &there) else {
            continue;
        };
        let label = format!("{} -> {}", path, target.name());
        let converted = Archive::open(&there).unwrap_or_else(|e| panic!("{label}: {e}"));
        let report = converted.verify(&Default::default()).unwrap();
        assert!(
            !report.has_failed() && !report.has_unsupported(),
            "{label}: {report:?}"
        );

        // Nothing is dropped without a word.
        let dropped: Vec<_> = losses
            .iter()
            .filter(|(kind, _)| *kind == LossKind::Tensor)
            .map(|(_, item)| item.as_str())
            .collect();
        let kept: Vec<Entry<'_>> = source
            .entries()
            .filter(|entry| !dropped.contains(&entry.name()))
            .collect();
        let found = converted.entries();
        assert_eq!(found.len(), kept.len(), "{label}");
        let in_order = losses.iter().all(|(kind, _)| *kind != LossKind::Order);
        for (want, got) in kept.iter().zip(&found) {
            let named = converted.entry(want.name()).expect(&label);
            let got = if in_order { got } else { named };
            assert_eq!(got.name(), want.name(), "{label}");
            if want.dtype().is_none() {
                continue;
            }
            let want = rows(source, want).unwrap();
            let got = rows(&converted, &got).unwrap();
            assert_eq!(got.dtype(), want.dtype(), "{label}");
            assert_eq!(got.data(), want.data(), "{label}");
            assert_eq!(core_dims(&got), core_dims(&want), "{label}");
            if target != Target::Primitiv {
                assert_eq!(got.shape(), want.shape(), "{label}");
            }
        }
        *pairs.entry((format, target.name())).or_default() += 1;
        let lossless = losses.is_empty();
        if lossless && source.metadata() != Vec::new() {
            let (mut want, mut got) = (Model::of(source).metadata, Model::of(&converted).metadata);
            if matches!(target, Target::Aero | Target::AeroSet) {
                // The format adds these two to every file.
                for model in [&mut want, &mut got] {
                    model.retain(|(key, _)| {
                        !key.starts_with("model.") && key != "model_name" && key != "architecture"
                    });
                }
            }
            assert!(same(&got, &want), "{label}: {got:?} for {want:?}");
        }
    }
}

/// Whether metadata is equal, NaN being itself, in any order.
fn same(a: &[(String, Value)], b: &[(String, Value)]) -> bool {
    let sorted = |pairs: &[(String, Value)]| {
        let mut texts: Vec<_> = pairs.iter().map(|pair| format!("{pair:?}")).collect();
        texts.sort();
        texts
    };
    sorted(a) == sorted(b)
}

#[test]
fn column_major_elements_keep_their_place_or_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.param");
    let tensor = Tensor::from_slice(&[0.0f32, 3.0, 1.0, 4.0, 2.0, 5.0], &[2, 3]).unwrap();
    let tensor = tensor.with_order(tensorfmt::Order::ColumnMajor);
    let mut builder = tensorfmt::primitiv::Builder::parameter_file();
    builder
        .tensor("w", tensor)
        .unwrap()
        .write_file(&path)
        .unwrap();
    let archive = Archive::open(&path).unwrap();
    for (layout, dims, values) in [
        (Layout::KeepDims, [2, 3], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        (Layout::KeepBytes, [3, 2], [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]),
    ] {
        let mut options = Options::default();
        options.allow_empty = true;
        options.layout = layout;
        let there = folder.path().join("x.safetensors");
        assert_eq!(
            convert(&archive, Target::Safetensors, &options, &there),
            Some(Vec::new())
        );
        let rows = Archive::open(&there).unwrap().read("").unwrap();
        assert_eq!(rows.shape().dims(), dims);
        assert_eq!(rows.to_vec::<f32>().unwrap(), values);
        // And back to the same bytes.
        options.primitiv = Some(PrimitivObject::Parameter);
        let back = folder.path().join("back.param");
        convert(
            &Archive::open(&there).unwrap(),
            Target::Primitiv,
            &options,
            &back,
        )
        .unwrap();
        assert_eq!(std::fs::read(&back).unwrap(), std::fs::read(&path).unwrap());
    }
}

#[test]
fn param_ids_scalars_and_custom_fields_survive_a_detour() {
    use tensorfmt::burnpack::{Archive as Bpk, Builder, Scalar, TensorOptions};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bpk");
    let mut builder = Builder::new();
    let one = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    let id = TensorOptions::new().with_param_id(u64::MAX);
    builder.tensor_with("w", one, id).unwrap();
    builder
        .metadata("producer", "me")
        .unwrap()
        .scalar("epoch", 3u64)
        .unwrap();
    builder
        .scalar("lr", f64::INFINITY)
        .unwrap()
        .scalar("done", true)
        .unwrap();
    builder.write_file(&path).unwrap();
    for target in [Target::Safetensors, Target::Aero] {
        let there = folder.path().join(file_name(target));
        let losses = convert(
            &Archive::open(&path).unwrap(),
            target,
            &Options::default(),
            &there,
        );
        assert_eq!(losses, Some(Vec::new()), "{target:?}");
        let back = folder.path().join("b.bpk");
        convert(
            &Archive::open(&there).unwrap(),
            Target::Burnpack,
            &Options::default(),
            &back,
        );
        let back = Bpk::open(&back).unwrap();
        assert_eq!(
            back.entries().first().unwrap().param_id(),
            Some(u64::MAX),
            "{target:?}"
        );
        assert_eq!(back.scalar("epoch").unwrap().value(), &Scalar::UInt(3));
        assert_eq!(
            back.scalar("lr").unwrap().value(),
            &Scalar::Float(f64::INFINITY)
        );
        assert_eq!(back.scalar("done").unwrap().value(), &Scalar::Bool(true));
        assert_eq!(back.metadata_entry("producer").unwrap().value(), "me");
    }
    // zTensor has no metadata of a file, but fields of a tensor.
    let there = folder.path().join("x.zt");
    let losses = convert(
        &Archive::open(&path).unwrap(),
        Target::Ztensor,
        &Options::default(),
        &there,
    );
    assert!(
        losses
            .unwrap()
            .iter()
            .all(|(kind, _)| *kind == LossKind::Metadata)
    );
    let back = folder.path().join("c.bpk");
    convert(
        &Archive::open(&there).unwrap(),
        Target::Burnpack,
        &Options::default(),
        &back,
    );
    assert_eq!(
        Bpk::open(&back)
            .unwrap()
            .entries()
            .first()
            .unwrap()
            .param_id(),
        Some(u64::MAX)
    );
}

#[test]
fn truth_held_as_another_number_is_a_loss() {
    use tensorfmt::burnpack::{BoolStore, Builder, DTypeCode};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bpk");
    let shape = tensorfmt::Shape::new(&[2]).unwrap();
    for (second, losses) in [(1u8, 0), (7, 1)] {
        let bytes = vec![1u8, 0, 0, 0, second, 0, 0, 0];
        let mut builder = Builder::new();
        let data = tensorfmt::Bytes::from(bytes);
        builder
            .coded("m", DTypeCode::Bool(BoolStore::U32), shape.clone(), data)
            .unwrap();
        builder.write_file(&path).unwrap();
        let archive = Archive::open(&path).unwrap();
        let there = folder.path().join("x.mag");
        let found = convert(&archive, Target::Mag, &Options::default(), &there).unwrap();
        let values = found
            .iter()
            .filter(|(kind, _)| *kind == LossKind::Value)
            .count();
        assert_eq!(values, losses, "{second}: {found:?}");
        let home = folder.path().join("b.bpk");
        let found = convert(&archive, Target::Burnpack, &Options::default(), &home).unwrap();
        assert_eq!(found, Vec::new());
        assert_eq!(std::fs::read(&home).unwrap(), std::fs::read(&path).unwrap());
    }
}

/// A hand-assembled zTensor file.
fn ztensor(name: &str) -> Archive {
    let cases = test_data::cases("ztensor").unwrap();
    let case = cases.into_iter().find(|case| case.name == name).unwrap();
    Archive::from_bytes(case.bytes).unwrap()
}

/// What was an object of several components says so where the target has a place for it, and is a
/// loss where it has none.
#[test]
fn components_of_later_ztensor_files_are_tensors_of_their_own() {
    let source = ztensor("v2_csr");
    assert_eq!(source.version(), "2");
    let folder = tempfile::tempdir().unwrap();
    for target in [
        Target::Ztensor,
        Target::Burnpack,
        Target::Aero,
        Target::Safetensors,
    ] {
        let path = folder.path().join(file_name(target));
        convert(&source, target, &Options::default(), &path).unwrap();
        let copy = Archive::open(&path).unwrap();
        assert_eq!(copy.entries().len(), 3, "{target:?}");
        for entry in source.entries() {
            let copied = copy.entry(entry.name()).unwrap();
            let (before, after) = (source.read(entry), copy.read(copied));
            assert_eq!(before.unwrap(), after.unwrap(), "{target:?}");
        }
    }
    // 0.1 keeps what the object was as fields of each tensor.
    let copy = Archive::open(folder.path().join(file_name(Target::Ztensor))).unwrap();
    let extras = copy.entry("m/values").unwrap().extras();
    let (_, custom) = extras.iter().find(|(key, _)| *key == "custom").unwrap();
    assert_eq!(custom.get("object"), Some(&Value::from("m")));
    assert_eq!(custom.get("format"), Some(&Value::from("zt.sparse_csr/1")));
    let shape = Value::List(vec![Value::Int(2), Value::Int(3)]);
    assert_eq!(custom.get("object_shape"), Some(&shape));
}

#[test]
fn logical_types_go_where_there_is_a_dtype() {
    let source = ztensor("v12_f8");
    let folder = tempfile::tempdir().unwrap();
    for target in [
        Target::Mag,
        Target::Ztensor,
        Target::Burnpack,
        Target::Aero,
        Target::Primitiv,
    ] {
        let Err(Error::Refused(refused)) = plan(Model::of(&source), target, &Options::default())
        else {
            panic!("{target:?}");
        };
        assert!(
            format!("{refused:?}").contains("f8_e4m3fn"),
            "{target:?}: {refused:?}"
        );
    }
    let path = folder.path().join("x.safetensors");
    let losses = convert(&source, Target::Safetensors, &Options::default(), &path).unwrap();
    assert!(losses.is_empty(), "{losses:?}");
    let copy = Archive::open(&path).unwrap();
    assert_eq!(copy.entry("w").unwrap().dtype(), Some(DType::F8E4M3));
    assert_eq!(copy.read("w").unwrap(), source.read("w").unwrap());
}

/// A dim of 0 makes a tensor of nothing out of any others, but not for who multiplies on the way.
#[test]
fn a_safetensors_file_that_readers_refuse_is_not_written() {
    let huge = 1u64 << 40;
    let file = |dims: &[u64]| {
        let shape = tensorfmt::Shape::new(dims).unwrap();
        let tensor = tensorfmt::Tensor::new(DType::U8, shape, Bytes::new()).unwrap();
        let mut builder = tensorfmt::safetensors::Builder::new();
        builder.tensor("w", tensor).map(drop)?;
        builder.to_vec()
    };
    let error = file(&[huge, huge, 0]).unwrap_err();
    assert_eq!(error.kind(), tensorfmt::Kind::Build);
    assert!(error.to_string().contains("\"w\""), "{error}");
    for dims in [&[0, huge, huge][..], &[huge, 0, huge]] {
        let archive = Archive::from_bytes(file(dims).unwrap()).unwrap();
        assert_eq!(archive.entries().get(0).unwrap().shape().dims(), dims);
    }
}
