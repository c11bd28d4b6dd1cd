use std::path::Path;

use tensorfmt::convert::{LossKind, Model, Options, Plan, Target, plan};
use tensorfmt::{Archive, DType, Error, Format, Kind, Source, Tensor, Value, safetensors};

/// A file of this header, filled up as a writer does, and this data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header:<0$}", header.len().next_multiple_of(8));
    let len = (header.len() as u64).to_le_bytes();
    [&len, header.as_bytes(), data].concat()
}

/// Tensors of a known dtype, of one narrower than a byte and of an unknown one, all with keys of
/// their own, as our writer lays them out.
fn odd() -> Vec<u8> {
    let header = concat!(
        r#"{"__metadata__":{"a":"1","z":"2"},"#,
        r#""known":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"scale":0.5,"note":{"b":[1]}},"#,
        r#""packed":{"dtype":"F4","shape":[2,2],"data_offsets":[8,10]},"#,
        r#""unknown":{"dtype":"I4","shape":[4],"data_offsets":[10,12],"zero":8}}"#,
    );
    file(
        header,
        &[0, 0, 0, 0x3F, 0, 0, 0x80, 0x3F, 0x21, 0x43, 0x65, 0x87],
    )
}

fn planned(model: Model, target: Target, options: &Options) -> Plan {
    plan(model, target, options).unwrap()
}

fn write(plan: &Plan, path: &Path) -> Vec<u8> {
    plan.write_file(path, &Default::default()).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_copy_is_the_same_to_the_last_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let archive = Archive::from_bytes(odd()).unwrap();
    let plan = planned(
        Model::of(&archive),
        Target::Safetensors,
        &Options::default(),
    );
    assert!(plan.losses().is_empty(), "{:?}", plan.losses());
    assert_eq!(write(&plan, &path), odd());

    let mut model = Model::of(&archive);
    model.rename(|name| format!("x.{name}")).unwrap();
    let plan = planned(model, Target::Safetensors, &Options::default());
    write(&plan, &path);
    let renamed = Archive::open(&path).unwrap();
    let entry = renamed.entry("x.unknown").unwrap();
    assert_eq!((entry.dtype(), &*entry.dtype_name()), (None, "I4"));
    let zero = Value::Map(vec![("zero".into(), Value::Int(8))]);
    assert_eq!(entry.extras(), [("extra", zero)]);
    let data = renamed.stored(entry).unwrap();
    assert_eq!(data.read(0..2).unwrap(), [0x65, 0x87][..]);
}

#[test]
fn a_cast_keeps_the_keys_of_its_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let archive = Archive::from_bytes(odd()).unwrap();
    let mut options = Options::default();
    options.cast = Some(DType::F16);
    write(
        &planned(Model::of(&archive), Target::Safetensors, &options),
        &path,
    );
    let cast = Archive::open(&path).unwrap();
    let (old, new) = (
        archive.entry("known").unwrap(),
        cast.entry("known").unwrap(),
    );
    assert_eq!(new.dtype(), Some(DType::F16));
    assert_eq!(new.extras(), old.extras());
    assert_eq!(new.extras().len(), 1);
    assert_eq!(cast.entry("packed").unwrap().dtype_name(), "F4");
}

#[test]
fn other_formats_lose_the_keys_and_refuse_the_unknown() {
    for &target in Target::ALL
        .iter()
        .filter(|target| target.format() != Format::Safetensors)
    {
        let archive = Archive::from_bytes(odd()).unwrap();
        let refused = plan(Model::of(&archive), target, &Options::default()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Unsupported, "{target:?}");
        let Error::Refused(refusals) = refused else {
            panic!("{target:?}: {refused}");
        };
        let named: Vec<_> = refusals
            .iter()
            .map(|refusal| (&*refusal.tensor, &*refusal.dtype))
            .collect();
        assert_eq!(named, [("packed", "F4"), ("unknown", "I4")], "{target:?}");

        let mut options = Options::default();
        options.skip_unsupported = true;
        let plan = planned(Model::of(&archive), target, &options);
        let lost = |kind| {
            let losses = plan.losses().iter().filter(move |loss| loss.kind == kind);
            losses.map(|loss| &*loss.item).collect::<Vec<_>>()
        };
        assert_eq!(lost(LossKind::Tensor), ["packed", "unknown"], "{target:?}");
        assert_eq!(
            lost(LossKind::Attribute),
            ["known: scale", "known: note"],
            "{target:?}"
        );
    }
}

/// The order of keys alone makes no key; it travels with what makes one.
#[test]
fn an_order_of_text_is_no_reason_for_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let header = r#"{"__metadata__":{"z":"1","a":"2","m":"3"}}"#;
    for target in [Target::Safetensors, Target::Burnpack] {
        let path = folder.path().join(target.name());
        let archive = Archive::from_bytes(file(header, &[])).unwrap();
        assert_eq!(archive.metadata()[0].0, "z");
        let plan = planned(Model::of(&archive), target, &Options::default());
        assert!(plan.losses().is_empty(), "{:?}", plan.losses());
        write(&plan, &path);
        let text = |key: &str, value: &str| (key.to_owned(), Value::from(value));
        let expected = [text("a", "2"), text("m", "3"), text("z", "1")];
        assert_eq!(
            Archive::open(&path).unwrap().metadata(),
            expected,
            "{target:?}"
        );
    }
    // Records of a mag file have an order, and are no text.
    let mut builder = tensorfmt::mag::Builder::new();
    builder
        .metadata("z", 1i64)
        .unwrap()
        .metadata("a", 0.5)
        .unwrap();
    let mag = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let path = folder.path().join("there.safetensors");
    write(
        &planned(Model::of(&mag), Target::Safetensors, &Options::default()),
        &path,
    );
    let there = Archive::open(&path).unwrap();
    let path = folder.path().join("back.mag");
    write(
        &planned(Model::of(&there), Target::Mag, &Options::default()),
        &path,
    );
    assert_eq!(Archive::open(&path).unwrap().metadata(), mag.metadata());
}

#[test]
fn data_from_any_format_is_aligned() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = tensorfmt::mag::Builder::new();
    for (name, tensor) in [
        (
            "mask",
            Tensor::new(
                DType::Bool,
                tensorfmt::Shape::new(&[3]).unwrap(),
                vec![1, 0, 1],
            ),
        ),
        ("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])),
    ] {
        builder.tensor(name, tensor.unwrap()).unwrap();
    }
    let mag = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let path = folder.path().join("x.safetensors");
    let plan = planned(Model::of(&mag), Target::Safetensors, &Options::default());
    assert!(plan.data_reordered());
    write(&plan, &path);
    let archive = safetensors::Archive::open(&path).unwrap();
    let names: Vec<&str> = archive.entries().iter().map(|entry| entry.name()).collect();
    assert_eq!(names, ["mask", "w"]);
    assert_eq!(
        archive.entries().get(1).unwrap().offset(),
        archive.data_start()
    );
    assert_eq!(archive.data_start() % 8, 0);
    let read = archive.read(archive.entries().get(1).unwrap()).unwrap();
    assert_eq!(read.to_vec::<f32>().unwrap(), [0.5, 1.5]);
}
