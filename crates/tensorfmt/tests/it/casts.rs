//! Which tensors a cast is about, what it makes of them, and what the plan tells of it.

use tensor_core::{Bytes, WriteOptions};
use tensorfmt::convert::{Loss, Model, Options, Plan, Target, plan};
use tensorfmt::{Archive, DType, Error, Shape, Tensor, safetensors};

fn bytes(dtype: DType, data: impl Into<Bytes>) -> Tensor {
    let data = data.into();
    let count = data.len() as u64 / dtype.size().unwrap();
    Tensor::new(dtype, Shape::new(&[count]).unwrap(), data).unwrap()
}

fn archive_of(tensors: &[(&str, Tensor)]) -> Archive {
    let mut builder = safetensors::Builder::new();
    for (name, tensor) in tensors {
        builder.tensor(*name, tensor.clone()).unwrap();
    }
    Archive::from_bytes(builder.to_vec().unwrap()).unwrap()
}

fn planned(archive: &Archive, target: Target, to: DType) -> Result<Plan, Error> {
    let mut options = Options::default();
    options.cast = Some(to);
    plan(Model::of(archive), target, &options)
}

fn written(plan: &Plan) -> Archive {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    plan.write_file(&path, &WriteOptions::default()).unwrap();
    Archive::from_bytes(std::fs::read(path).unwrap()).unwrap()
}

fn refusal(planned: Result<Plan, Error>) -> String {
    match planned {
        Err(Error::Refused(list)) if list.len() == 1 => list[0].to_string(),
        other => panic!("{other:?}"),
    }
}

/// One of each kind of dtype.
fn all_kinds() -> Archive {
    archive_of(&[
        ("e4m3", bytes(DType::F8E4M3, vec![0x38, 0x7E, 0xFF])),
        ("e5m2", bytes(DType::F8E5M2, vec![0x3C, 0x7C])),
        ("fnuz", bytes(DType::F8E4M3Fnuz, vec![0x40])),
        ("fnuz5", bytes(DType::F8E5M2Fnuz, vec![0x40])),
        ("scale", bytes(DType::F8E8M0, vec![0x7F])),
        ("half", bytes(DType::F16, vec![0, 0x3C])),
        ("w", Tensor::from_slice(&[1.0f32], &[1]).unwrap()),
        ("ids", Tensor::from_slice(&[-1i64, 7], &[2]).unwrap()),
        ("on", bytes(DType::Bool, vec![1, 0])),
        ("z", bytes(DType::C64, vec![0; 8])),
    ])
}

#[test]
fn a_cast_to_a_float_is_about_all_floats_and_one_to_an_integer_about_integers_and_bools() {
    let source = all_kinds();
    let dtypes = |plan: &Plan| -> Vec<Option<DType>> {
        let archive = written(plan);
        archive
            .entries()
            .iter()
            .map(|entry| entry.dtype())
            .collect()
    };
    use DType::{Bool, C64, F8E4M3, F8E5M2, F32, I16, I64};
    let to_float = planned(&source, Target::Safetensors, F32).unwrap();
    let mut want = vec![Some(F32); 7];
    want.extend([I64, Bool, C64].map(Some));
    assert_eq!(dtypes(&to_float), want);
    assert!(to_float.losses().is_empty(), "{:?}", to_float.losses());
    let report = to_float.cast().unwrap();
    assert_eq!((report.changed, report.already, report.others), (6, 1, 2));
    let named = |report: &tensorfmt::convert::CastReport| -> Vec<(String, String)> {
        let names = report.passed_over.iter();
        names
            .map(|one| (one.tensor.clone(), one.dtype.clone()))
            .collect()
    };
    assert_eq!(named(report), [("z".to_owned(), "complex64".to_owned())]);

    let to_integer = planned(&source, Target::Safetensors, I16).unwrap();
    let entries = source.entries();
    let kept = entries.iter().take(7).map(|entry| entry.dtype());
    let mut want: Vec<Option<DType>> = kept.collect();
    want.extend([I16, I16, C64].map(Some));
    assert_eq!(dtypes(&to_integer), want);
    let report = to_integer.cast().unwrap();
    assert_eq!((report.changed, report.already, report.others), (2, 0, 7));
    let narrowed = written(&to_integer);
    let ids = narrowed.read("ids").unwrap();
    assert_eq!(ids.to_vec::<i16>().unwrap(), [-1, 7]);
    assert_eq!(
        narrowed.read("on").unwrap().to_vec::<i16>().unwrap(),
        [1, 0]
    );

    let to_f8 = planned(&source, Target::Safetensors, F8E5M2).unwrap();
    let mut want = vec![Some(F8E5M2); 7];
    want.extend([I64, Bool, C64].map(Some));
    assert_eq!(dtypes(&to_f8), want);
    // 448 is one, NaN stays one, and so does infinity.
    assert_eq!(
        written(&to_f8).read("e4m3").unwrap().data(),
        &[0x3C, 0x5F, 0xFE][..]
    );
    assert!(planned(&source, Target::Mag, F8E4M3).is_err());
    let plan = plan(Model::of(&source), Target::Safetensors, &Options::default()).unwrap();
    assert!(plan.cast().is_none());
}

#[test]
fn eight_bit_floats_reach_targets_that_have_none() {
    let source = archive_of(&[
        ("a", bytes(DType::F8E4M3, vec![0x38, 0x7E, 0x01, 0x80])),
        ("b", bytes(DType::F8E8M0, vec![0x00, 0x7F, 0x80])),
    ]);
    for target in [Target::Mag, Target::Ztensor, Target::Aero] {
        assert!(plan(Model::of(&source), target, &Options::default()).is_err());
        let plan = planned(&source, target, DType::F32).unwrap();
        assert!(plan.losses().iter().all(|loss| loss.kind.name() != "value"));
        let archive = written(&plan);
        let a = archive.read("a").unwrap().to_vec::<f32>().unwrap();
        assert_eq!(a, [1.0, 448.0, 0.001953125, 0.0]);
        assert!(a[3].is_sign_negative());
        let b = archive.read("b").unwrap().to_vec::<f32>().unwrap();
        assert_eq!(b, [2f32.powi(-127), 1.0, 2.0]);
    }
}

#[test]
fn what_a_cast_to_eight_bits_loses_is_counted() {
    let values = [
        1.0f32,
        1.0625,
        464.0,
        465.0,
        -1e-9,
        0.001,
        f32::INFINITY,
        f32::NAN,
        -0.0,
    ];
    let source = archive_of(&[("w", Tensor::from_slice(&values, &[9]).unwrap())]);
    let said = |to: DType| {
        let plan = planned(&source, Target::Safetensors, to).unwrap();
        let losses: Vec<String> = plan.losses().iter().map(Loss::to_string).collect();
        (
            losses.join("\n"),
            written(&plan).read("w").unwrap().data().to_vec(),
        )
    };
    let (loss, codes) = said(DType::F8E4M3);
    assert_eq!(
        loss,
        "value \"w\": f32 cast to f8_e4m3fn: 2 out of range, 2 too small, 2 rounded values"
    );
    assert_eq!(
        codes,
        [0x38, 0x38, 0x7E, 0x7F, 0x80, 0x01, 0x7F, 0x7F, 0x80]
    );
    let (loss, codes) = said(DType::F8E8M0);
    assert_eq!(
        loss,
        "value \"w\": f32 cast to f8_e8m0: 3 out of range, 4 rounded values"
    );
    assert_eq!(
        codes,
        [0x7F, 0x7F, 0x88, 0x88, 0xFF, 0x75, 0xFF, 0xFF, 0xFF]
    );
}

#[test]
fn integers_narrow_where_every_value_fits_and_the_first_that_does_not_is_named() {
    let wide = |values: &[i64]| {
        let dims = [2, values.len() as u64 / 2];
        archive_of(&[("ids", Tensor::from_slice(values, &dims).unwrap())])
    };
    let fits = wide(&[i64::from(i32::MIN), 0, 5, i64::from(i32::MAX)]);
    for (target, to) in [(Target::Safetensors, DType::I32), (Target::Mag, DType::I32)] {
        let archive = written(&planned(&fits, target, to).unwrap());
        let ids = archive.read("ids").unwrap();
        assert_eq!(ids.to_vec::<i32>().unwrap(), [i32::MIN, 0, 5, i32::MAX]);
    }
    let beyond = wide(&[1, 2, 3, 4, 1 << 31, -(1 << 40)]);
    for target in [Target::Safetensors, Target::Ztensor, Target::Mag] {
        assert_eq!(
            refusal(planned(&beyond, target, DType::I32)),
            "tensor \"ids\" (i64): 2 values don't fit i32; the first: 2147483648 at index 4, [1, 1]"
        );
    }
    assert_eq!(
        refusal(planned(
            &wide(&[0, 1, 2, -1]),
            Target::Safetensors,
            DType::U64
        )),
        "tensor \"ids\" (i64): a value doesn't fit u64: -1 at index 3, [1, 1]"
    );
    let unsigned = Tensor::from_slice(&[1, u64::MAX], &[2]).unwrap();
    assert_eq!(
        refusal(planned(
            &archive_of(&[("n", unsigned)]),
            Target::Safetensors,
            DType::I64
        )),
        "tensor \"n\" (u64): a value doesn't fit i64: 18446744073709551615 at index 1, [1]"
    );
    // A scalar has no indices.
    let scalar = Tensor::from_slice(&[300u16], &[]).unwrap();
    assert_eq!(
        refusal(planned(
            &archive_of(&[("n", scalar)]),
            Target::Safetensors,
            DType::I8
        )),
        "tensor \"n\" (u16): a value doesn't fit i8: 300 at index 0, []"
    );
}
