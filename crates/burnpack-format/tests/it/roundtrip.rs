use std::collections::BTreeMap;

use burnpack_format::{
    Archive, BlockSize, BoolStore, BuildError, Builder, Bytes, Compat, DType, DTypeCode, Error,
    Generation, Kind, Order, QuantBlock, QuantGeneration, QuantMode, QuantParam, QuantScheme,
    QuantStore, QuantValue, Scalar, Shape, Tensor, TensorOptions, WriteLimits,
};
use proptest::prelude::*;

type Planned = (DTypeCode, Shape, Bytes, Option<u64>);

fn schemes() -> impl Strategy<Value = QuantScheme> {
    let store = prop_oneof![
        Just(QuantStore::Native),
        (0u64..3).prop_map(QuantStore::PackedNative),
        (0u64..3).prop_map(QuantStore::PackedU32),
    ];
    let param = || prop::sample::select(QuantParam::ALL);
    let size =
        prop::collection::vec(any::<u8>(), 0..=5).prop_map(|dims| BlockSize::new(&dims).unwrap());
    let block = (size, param()).prop_map(|(size, dtype)| QuantBlock { size, dtype });
    (
        prop::sample::select(QuantValue::ALL),
        store,
        prop::sample::select(QuantMode::ALL),
        prop::option::of(param()),
        prop::option::of(block),
    )
        .prop_map(|(value, store, mode, tensor, block)| {
            let mut scheme = QuantScheme::new(value, store, mode);
            scheme.tensor = tensor;
            scheme.block = block;
            scheme
        })
}

fn tensors() -> impl Strategy<Value = Vec<(String, Planned)>> {
    let codes = vec![
        DTypeCode::F64,
        DTypeCode::F32,
        DTypeCode::Flex32,
        DTypeCode::F16,
        DTypeCode::BF16,
        DTypeCode::I64,
        DTypeCode::I32,
        DTypeCode::I16,
        DTypeCode::I8,
        DTypeCode::U64,
        DTypeCode::U32,
        DTypeCode::U16,
        DTypeCode::U8,
        DTypeCode::Bool(BoolStore::Native),
        DTypeCode::Bool(BoolStore::U8),
        DTypeCode::Bool(BoolStore::U32),
    ];
    let code = prop_oneof![
        6 => prop::sample::select(codes),
        1 => schemes().prop_map(|scheme| DTypeCode::QFloat(Box::new(scheme))),
    ];
    let dims = prop::collection::vec(0u64..5, 0..7);
    let tensor = (code, dims, any::<u8>(), 0u64..40, any::<Option<u64>>());
    let tensor = tensor.prop_map(|(code, dims, fill, free, param_id)| {
        let shape = Shape::new(&dims).unwrap();
        let len = code
            .element_size()
            .map_or(free, |size| shape.elements() * size);
        let data: Vec<u8> = (0..len)
            .map(|i| (i as u8).wrapping_mul(31) ^ fill)
            .collect();
        (code, shape, data.into(), param_id)
    });
    prop::collection::btree_map(".{0,40}", tensor, 0..12).prop_map(shuffled)
}

/// In an order that is not that of the names.
fn shuffled<T>(map: BTreeMap<String, T>) -> Vec<(String, T)> {
    let mut list: Vec<_> = map.into_iter().collect();
    let middle = list.len() / 2;
    list.rotate_left(middle);
    list
}

fn scalars() -> impl Strategy<Value = Vec<(String, Scalar)>> {
    let value = prop_oneof![
        any::<i64>().prop_map(Scalar::Int),
        any::<u64>().prop_map(Scalar::UInt),
        any::<u64>().prop_map(|bits| Scalar::Float(f64::from_bits(bits))),
        any::<f32>().prop_map(|value| Scalar::Float(value.into())),
        any::<bool>().prop_map(Scalar::Bool),
    ];
    prop::collection::btree_map(".{0,20}", value, 0..12).prop_map(shuffled)
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        tensors in tensors(),
        metadata in prop::collection::btree_map(".{0,20}", ".{0,20}", 0..12),
        scalars in scalars(),
    ) {
        let mut builder = Builder::new();
        for (key, value) in &metadata {
            builder.metadata(key, value).unwrap();
        }
        for (name, scalar) in &scalars {
            builder.scalar(name, scalar.clone()).unwrap();
        }
        for (name, (code, shape, data, param_id)) in &tensors {
            let mut options = TensorOptions::new();
            if let Some(id) = param_id {
                options = options.with_param_id(*id);
            }
            builder.coded_with(name, code.clone(), shape.clone(), data.clone(), options).unwrap();
        }
        let file = builder.to_vec().unwrap();
        prop_assert_eq!(file.len() as u64, builder.encoded_len().unwrap());
        prop_assert_eq!(&file, &builder.to_vec().unwrap());

        let archive = Archive::from_bytes(file).unwrap();
        prop_assert_eq!(archive.entries().len(), tensors.len());
        for (name, (code, shape, data, param_id)) in &tensors {
            let entry = archive.entry(name).unwrap();
            prop_assert_eq!(entry.dtype_code(), code);
            prop_assert_eq!(entry.shape(), shape);
            prop_assert_eq!(entry.param_id(), *param_id);
            prop_assert_eq!(entry.offset() % 256, 0);
            let got = archive.data(entry).unwrap();
            prop_assert_eq!(&got.read(0..got.size()).unwrap(), data);
            let tensor = archive.read(entry).unwrap();
            if entry.bool_store() == Some(BoolStore::U32) {
                let bools: Vec<u8> = data.chunks(4).map(|four| u8::from(four != [0; 4])).collect();
                prop_assert_eq!(tensor.data(), &bools);
            } else {
                prop_assert_eq!(tensor.data(), data);
            }
        }
        // What has bytes comes in the order of the calls.
        let non_empty = |len: u64| len > 0;
        let called = tensors.iter().filter(|(_, t)| non_empty(t.2.len() as u64));
        let read = archive.entries().iter().filter(|e| non_empty(e.nbytes().unwrap()));
        let called: Vec<&str> = called.map(|(name, _)| name.as_str()).collect();
        let read: Vec<&str> = read.map(|entry| entry.name()).collect();
        prop_assert_eq!(called, read);
        let read: BTreeMap<String, String> = archive
            .metadata()
            .iter()
            .map(|meta| (meta.key().to_owned(), meta.value().to_owned()))
            .collect();
        prop_assert_eq!(read, metadata);
        prop_assert_eq!(archive.scalars().len(), scalars.len());
        for (name, scalar) in &scalars {
            prop_assert_eq!(archive.scalar(name).unwrap().value(), scalar);
        }
    }

    /// An independent encoder of CBOR agrees on every byte of the metadata.
    #[test]
    fn metadata_is_what_another_encoder_writes(scalars in scalars()) {
        use ciborium::Value;
        let mut builder = Builder::new();
        for (name, scalar) in &scalars {
            builder.scalar(name, scalar.clone()).unwrap();
        }
        let file = builder.to_vec().unwrap();
        let mut sorted = scalars.clone();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let value = |scalar: &Scalar| match *scalar {
            Scalar::Int(value) => Value::from(value),
            Scalar::UInt(value) => Value::from(value),
            Scalar::Float(value) => Value::from(value),
            Scalar::Bool(value) => Value::from(value),
            _ => Value::Null,
        };
        let map = sorted
            .iter()
            .map(|(name, scalar)| {
                let one = vec![(scalar.kind().into(), value(scalar))];
                (name.as_str().into(), Value::Map(one))
            })
            .collect::<Vec<_>>();
        let mut top = vec![(Value::from("tensors"), Value::Map(vec![]))];
        if !map.is_empty() {
            top.push((Value::from("scalars"), Value::Map(map)));
        }
        let mut expected = Vec::new();
        ciborium::into_writer(&Value::Map(top), &mut expected).unwrap();
        prop_assert_eq!(&file[10..10 + expected.len()], &expected);
    }
}

#[test]
fn what_the_format_cannot_hold_is_refused_at_the_call() {
    let mut builder = Builder::new();
    let one = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    builder.tensor("w", one.clone()).unwrap();
    builder.metadata("k", "v").unwrap();
    builder.scalar("s", 1i64).unwrap();
    let refused = |result: burnpack_format::Result<&mut Builder>| result.unwrap_err().to_string();
    assert_eq!(
        refused(builder.tensor("w", one.clone())),
        "key \"w\" is used already"
    );
    assert_eq!(
        refused(builder.metadata("k", "w")),
        "key \"k\" is used already"
    );
    assert_eq!(
        refused(builder.scalar("s", 2u64)),
        "key \"s\" is used already"
    );
    assert_eq!(
        refused(builder.scalar("t", Scalar::Unknown("Complex".into()))),
        "scalar \"t\" of unknown kind \"Complex\" can't be written"
    );
    let complex = Tensor::new(DType::C64, Shape::new(&[1]).unwrap(), vec![0; 8]).unwrap();
    assert_eq!(
        refused(builder.tensor("x", complex)),
        "tensor \"x\": a burnpack file can't hold complex64"
    );
    let opaque = Tensor::new(DType::Opaque, Shape::new(&[1]).unwrap(), vec![0; 8]).unwrap();
    assert!(refused(builder.tensor("x", opaque)).contains("can't hold opaque"));
    let square = Tensor::from_slice(&[1.0f32; 4], &[2, 2]).unwrap();
    let square = square.with_order(Order::ColumnMajor);
    assert!(refused(builder.tensor("x", square)).contains("column-major"));
    let shape = Shape::new(&[3]).unwrap();
    let error = refused(builder.coded("x", DTypeCode::Flex32, shape, one.data().clone()));
    assert_eq!(
        error,
        "tensor \"x\": data of 4 bytes, but dtype and shape ask for 12"
    );
    let unknown = DTypeCode::Unknown("F128".into());
    let error = refused(builder.coded("x", unknown, Shape::SCALAR, Bytes::new()));
    assert!(error.contains("F128"), "{error}");
    // What was refused left nothing behind.
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    assert_eq!(archive.entries().len(), 1);
    assert_eq!(archive.scalars().len(), 1);
}

fn one(code: DTypeCode, data: &'static [u8]) -> Builder {
    let mut builder = Builder::new();
    builder
        .coded("w", code, Shape::new(&[1]).unwrap(), Bytes::from(data))
        .unwrap();
    builder
}

#[test]
fn older_generations_are_written_in_their_spelling() {
    let native = DTypeCode::Bool(BoolStore::Native);
    let cases = [
        (Compat::V0_20, &b"\x65dtype\x64Bool"[..], Generation::V0_20),
        (
            Compat::V0_21,
            b"\x65dtype\xA1\x64Bool\x66Native",
            Generation::Unknown,
        ),
    ];
    for (compat, spelling, generation) in cases {
        let file = one(native.clone(), &[1]).compat(compat).to_vec().unwrap();
        assert!(file.windows(spelling.len()).any(|part| part == spelling));
        assert_eq!(Archive::from_bytes(file).unwrap().generation(), generation);
    }
    let scheme = QuantScheme::new(QuantValue::Q8S, QuantStore::Native, QuantMode::Symmetric);
    let code = DTypeCode::QFloat(Box::new(scheme));
    for (compat, generation) in [
        (Compat::V0_20, QuantGeneration::Old),
        (Compat::V0_21, QuantGeneration::Old),
        (Compat::Current, QuantGeneration::New),
    ] {
        let file = one(code.clone(), &[1; 5]).compat(compat).to_vec().unwrap();
        let archive = Archive::from_bytes(file).unwrap();
        let scheme = archive.entries().get(0).unwrap().scheme().unwrap();
        assert_eq!(scheme.generation, generation);
        let explicit = (generation == QuantGeneration::Old).then_some(QuantParam::F32);
        assert_eq!((scheme.tensor, scheme.block), (explicit, None));
    }
}

#[test]
fn what_a_generation_cannot_hold_is_refused() {
    let refused = |builder: &mut Builder, compat| {
        let error = builder.compat(compat).to_vec().unwrap_err();
        assert_eq!(error.kind(), Kind::Build);
        error.to_string()
    };
    let mut bools = one(DTypeCode::Bool(BoolStore::U8), &[1]);
    assert_eq!(
        refused(&mut bools, Compat::V0_20),
        "\"w\": Burn 0.20 has no bools held as integers"
    );
    assert!(bools.compat(Compat::V0_21).to_vec().is_ok());
    let mut scalars = Builder::new();
    scalars.scalar("step", 1u64).unwrap();
    for compat in [Compat::V0_20, Compat::V0_21] {
        assert!(refused(&mut scalars, compat).contains("has no scalars"));
    }
    let mut scheme = QuantScheme::new(QuantValue::Q8S, QuantStore::Native, QuantMode::Lookup);
    let mut lookup = one(DTypeCode::QFloat(Box::new(scheme.clone())), &[1; 5]);
    assert!(refused(&mut lookup, Compat::V0_21).contains("by a table"));
    scheme.mode = QuantMode::Symmetric;
    scheme.tensor = Some(QuantParam::F32);
    scheme.block = Some(QuantBlock {
        size: BlockSize::new(&[4]).unwrap(),
        dtype: QuantParam::UE4M3,
    });
    let mut levels = one(DTypeCode::QFloat(Box::new(scheme)), &[1; 5]);
    assert!(refused(&mut levels, Compat::V0_21).contains("two levels"));
}

#[test]
fn what_burn_would_not_read_is_refused() {
    let refused = |change: fn(&mut WriteLimits)| {
        let mut limits = WriteLimits::default();
        change(&mut limits);
        let mut builder = one(DTypeCode::U8, &[1]);
        match builder.limits(limits).encoded_len().unwrap_err() {
            Error::Build(BuildError::Limit { limit, .. }) => limit,
            error => panic!("{error}"),
        }
    };
    assert_eq!(
        refused(|limits| limits.max_tensor_count = 0),
        "max_tensor_count"
    );
    assert_eq!(
        refused(|limits| limits.max_tensor_bytes = 0),
        "max_tensor_bytes"
    );
    assert_eq!(
        refused(|limits| limits.max_metadata_bytes = 9),
        "max_metadata_bytes"
    );
    assert_eq!(
        refused(|limits| limits.max_file_bytes = 256),
        "max_file_bytes"
    );
}

/// A dtype that this crate doesn't know is an item of any kind, and stays that item.
#[test]
fn a_copy_spells_an_unknown_dtype_as_the_file_does() {
    let folder = test_data::workspace_root().join("fixtures/burnpack/unsupported");
    for name in [
        "bool_store_unknown.bpk",
        "dtype_lower_case.bpk",
        "dtype_qfloat_text.bpk",
        "dtype_unknown.bpk",
        "dtype_unknown_map.bpk",
        "scheme_mode.bpk",
        "scheme_value.bpk",
    ] {
        let file = std::fs::read(folder.join(name)).unwrap();
        for compat in [Compat::AsSpelled, Compat::Current, Compat::V0_21] {
            let archive = Archive::from_bytes(file.clone()).unwrap();
            let mut builder = Builder::new();
            builder.compat(compat);
            for entry in archive.entries() {
                builder.copy(&archive, entry).unwrap();
            }
            for meta in archive.metadata() {
                builder.metadata(meta.key(), meta.value()).unwrap();
            }
            assert_eq!(builder.to_vec().unwrap(), file, "{name}");
        }
        // Under another name, which moves everything behind it.
        let archive = Archive::from_bytes(file).unwrap();
        let mut builder = Builder::new();
        let code = archive.entries().get(0).unwrap().dtype_code().clone();
        for entry in archive.entries() {
            let name = format!("copied.{}", entry.name());
            builder.copy_as(name, &archive, entry).unwrap();
        }
        let copy = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
        assert_eq!(*copy.entries().get(0).unwrap().dtype_code(), code, "{name}");
    }
}
