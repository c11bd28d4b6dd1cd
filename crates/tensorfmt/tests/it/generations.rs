//! What becomes of the spellings that releases of Burn have for one tensor.

use tensorfmt::burnpack::{
    self, BoolStore, Builder, Compat, DTypeCode, QuantGeneration, QuantMode, QuantParam,
    QuantScheme, QuantStore, QuantValue,
};
use tensorfmt::convert::{BurnpackGeneration, LossKind, Model, Options, Plan, Target, plan};
use tensorfmt::{Archive, Bytes, Error, Shape, WriteOptions};

/// A model as a release of Burn writes it: a bool, and a tensor with a quantization scheme.
fn written_by(compat: Compat, version: &str) -> Vec<u8> {
    let mut scheme = QuantScheme::new(QuantValue::Q8S, QuantStore::Native, QuantMode::Symmetric);
    scheme.tensor = Some(QuantParam::F32);
    let shape = |dims: &[u64]| Shape::new(dims).unwrap();
    let mut builder = Builder::new();
    builder.compat(compat);
    let mask = Bytes::from_static(&[1, 0]);
    let code = DTypeCode::Bool(BoolStore::Native);
    builder.coded("mask", code, shape(&[2]), mask).unwrap();
    let code = DTypeCode::QFloat(Box::new(scheme));
    let data = Bytes::from_static(&[1, 2, 3, 4, 0, 0, 0x80, 0x3F]);
    builder.coded("w", code, shape(&[4]), data).unwrap();
    for (key, value) in [
        ("format", "burnpack"),
        ("producer", "burn"),
        ("version", version),
    ] {
        builder.metadata(key, value).unwrap();
    }
    builder.to_vec().unwrap()
}

fn planned(file: Vec<u8>, to: Option<BurnpackGeneration>) -> Result<Plan, Error> {
    let mut options = Options::default();
    options.burnpack = to;
    let model = Model::of(&Archive::from_bytes(file).unwrap());
    plan(model, Target::Burnpack, &options)
}

fn bytes(plan: &Plan) -> Vec<u8> {
    let mut out = Vec::new();
    plan.write_to(&mut out, &WriteOptions::default()).unwrap();
    out
}

const RELEASES: [(Compat, &str, BurnpackGeneration, &str); 3] = [
    (Compat::V0_20, "0.20.1", BurnpackGeneration::V0_20, "0.20"),
    (Compat::V0_21, "0.21.0", BurnpackGeneration::V0_21, "0.21"),
    (
        Compat::Current,
        "0.22.1",
        BurnpackGeneration::V0_22,
        "0.22+",
    ),
];

#[test]
fn a_copy_is_read_by_the_release_that_wrote_the_file() {
    for (compat, version, _, name) in RELEASES {
        let file = written_by(compat, version);
        let plan = planned(file.clone(), None).unwrap();
        assert_eq!(plan.losses(), [], "{version}");
        assert_eq!(bytes(&plan), file, "{version}");
        let archive = burnpack::Archive::from_bytes(file).unwrap();
        assert_eq!(archive.generation().name(), name, "{version}");
    }
}

#[test]
fn a_filtered_and_renamed_copy_keeps_its_spelling() {
    let file = written_by(Compat::V0_20, "0.20.1");
    let mut model = Model::of(&Archive::from_bytes(file).unwrap());
    model.retain(|name| name == "mask");
    model.rename(|_| "layer.mask".into()).unwrap();
    let plan = plan(model, Target::Burnpack, &Options::default()).unwrap();
    let copy = burnpack::Archive::from_bytes(bytes(&plan)).unwrap();
    let code = copy.entries().first().unwrap().dtype_code().clone();
    assert_eq!(code, DTypeCode::Bool(BoolStore::Legacy));
    assert_eq!(copy.generation().name(), "0.20");
}

#[test]
fn another_generation_is_spelled_as_asked_and_said() {
    for (from, version, own, _) in RELEASES {
        for (to, _, wanted, _) in RELEASES {
            let plan = planned(written_by(from, version), Some(wanted)).unwrap();
            assert_eq!(
                bytes(&plan),
                written_by(to, version),
                "{version} to {wanted:?}"
            );
            let of_20 = |generation| generation == BurnpackGeneration::V0_20;
            let of_22 = |generation| generation == BurnpackGeneration::V0_22;
            let mut changed = Vec::new();
            if of_20(own) != of_20(wanted) {
                changed.push("mask: dtype");
            }
            if of_22(own) != of_22(wanted) {
                changed.push("w: dtype");
            }
            let losses = plan.losses();
            let items: Vec<&str> = losses.iter().map(|loss| loss.item.as_str()).collect();
            assert_eq!(items, changed, "{version} to {wanted:?}");
            let attribute = |loss: &tensorfmt::convert::Loss| loss.kind == LossKind::Attribute;
            assert!(losses.iter().all(attribute));
        }
    }
}

#[test]
fn what_the_spelling_says_counts_for_more_than_the_version() {
    // As other software left it: written for 0.21, and still called 0.20.1.
    let file = written_by(Compat::V0_21, "0.20.1");
    let archive = burnpack::Archive::from_bytes(file.clone()).unwrap();
    assert_eq!(archive.generation().name(), "0.21");
    let scheme = archive.entry("w").unwrap().scheme().unwrap();
    assert_eq!(scheme.generation, QuantGeneration::Old);
    assert_eq!(
        bytes(&planned(file, None).unwrap()),
        written_by(Compat::V0_21, "0.20.1")
    );
}

#[test]
fn what_a_generation_cannot_hold_is_refused_by_the_plan() {
    let mut builder = Builder::new();
    let code = DTypeCode::Bool(BoolStore::U8);
    let shape = Shape::new(&[2]).unwrap();
    let data = Bytes::from_static(&[1, 0]);
    builder.coded("mask", code, shape, data).unwrap();
    let refused = planned(builder.to_vec().unwrap(), Some(BurnpackGeneration::V0_20));
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("\"mask\": Burn 0.20 has no bools held as integers"),
        "{text}"
    );
}

#[test]
fn only_burnpack_is_written_for_releases_of_burn() {
    let model = Model::of(&Archive::from_bytes(written_by(Compat::Current, "0.22.1")).unwrap());
    let mut options = Options::default();
    options.burnpack = Some(BurnpackGeneration::V0_20);
    let error = plan(model, Target::Safetensors, &options).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
}
