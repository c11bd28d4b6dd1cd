use proptest::prelude::*;
use ztensor_format::{
    Algorithm, Archive, Builder, DType, Encoding, Endianness, Order, Shape, Tensor, TensorOptions,
    TensorSpec, Value, VerifyOptions,
};

const DTYPES: [DType; 13] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::U32,
    DType::I32,
    DType::U64,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|value| Value::Int(value.into())),
        any::<u64>().prop_map(|value| Value::Int(value.into())),
        any::<u64>().prop_map(|value| Value::Int(!i128::from(value))),
        any::<f64>().prop_map(Value::Float),
        any::<f32>().prop_map(|value| Value::Float(value.into())),
        ".{0,30}".prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(4, 30, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..30).prop_map(Value::List),
            prop::collection::vec((inner.clone(), inner), 0..6).prop_map(Value::Map),
        ]
    })
}

#[derive(Clone, Debug)]
struct Stored {
    tensor: Tensor,
    level: Option<i32>,
    checksum: Algorithm,
    endianness: Endianness,
    custom: Vec<(String, Value)>,
}

fn stored() -> impl Strategy<Value = Stored> {
    let dims = prop::collection::vec(0u64..5, 0..7);
    let tensor = (prop::sample::select(&DTYPES[..]), dims, any::<u8>());
    let tensor = tensor.prop_map(|(dtype, dims, fill)| {
        let shape = Shape::new(&dims).unwrap();
        let len = shape.byte_len(dtype).unwrap().unwrap();
        let data: Vec<u8> = (0..len)
            .map(|i| (i as u8 / 3).wrapping_mul(31) ^ fill)
            .collect();
        Tensor::new(dtype, shape, data).unwrap()
    });
    let checksum = [Algorithm::Crc32c, Algorithm::Sha256, Algorithm::None];
    let custom = prop::collection::btree_map("[a-zA-Z_é]{0,9}_", value(), 0..4);
    (
        tensor,
        prop::option::of(-5i32..6),
        prop::sample::select(checksum.to_vec()),
        any::<bool>(),
        custom,
    )
        .prop_map(|(tensor, level, checksum, big, custom)| Stored {
            tensor,
            level,
            checksum,
            endianness: match big && level.is_none() {
                true => Endianness::Big,
                false => Endianness::Little,
            },
            custom: custom.into_iter().collect(),
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read(tensors in prop::collection::btree_map(".{0,40}", stored(), 0..9)) {
        let tensors: Vec<(String, Stored)> = tensors.into_iter().rev().collect();
        let mut builder = Builder::new();
        for (name, stored) in &tensors {
            let mut options = TensorOptions::new()
                .with_checksum(stored.checksum)
                .with_endianness(stored.endianness);
            if let Some(level) = stored.level {
                options = options.with_zstd(level);
            }
            for (key, value) in &stored.custom {
                options = options.with_custom(key, value.clone()).unwrap();
            }
            builder.tensor_with(name, stored.tensor.clone(), options).unwrap();
        }
        let file = builder.to_vec().unwrap();
        prop_assert_eq!(&file, &builder.to_vec().unwrap());
        if let Ok(len) = builder.encoded_len() {
            prop_assert_eq!(file.len() as u64, len);
        }

        let archive = Archive::from_bytes(file.clone()).unwrap();
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        prop_assert!(!report.has_failed() && !report.has_unsupported());
        prop_assert_eq!(archive.entries().len(), tensors.len());
        let mut copy = Builder::new();
        for (entry, (name, stored)) in archive.entries().iter().zip(&tensors) {
            prop_assert_eq!(entry.name(), name);
            prop_assert_eq!(&archive.read(entry).unwrap(), &stored.tensor);
            prop_assert_eq!(entry.offset() % 64, 0);
            prop_assert_eq!(entry.encoding() == Encoding::Zstd, stored.level.is_some());
            let algorithm = entry.checksum().map(|checksum| checksum.algorithm().to_owned());
            let expected = match stored.checksum {
                Algorithm::Crc32c => Some("crc32c"),
                Algorithm::Sha256 => Some("sha256"),
                _ => None,
            };
            prop_assert_eq!(algorithm.as_deref(), expected);
            // What was put in comes out, sorted by key; NaN is equal to nothing, so by its text.
            let mut custom = stored.custom.clone();
            custom.sort_by(|(left, _), (right, _)| left.cmp(right));
            let read: Vec<_> = entry
                .custom()
                .iter()
                .map(|field| (field.key().to_owned(), field.value()))
                .collect();
            prop_assert_eq!(format!("{read:?}"), format!("{custom:?}"));

            // A copy through sources and raw custom fields has the same bytes.
            let mut options = TensorOptions::new()
                .with_checksum(stored.checksum)
                .with_endianness(entry.endianness().unwrap_or_default());
            if let Some(level) = stored.level {
                options = options.with_zstd(level);
            }
            for field in entry.custom() {
                options = options.with_custom_cbor(field.key(), field.cbor().clone()).unwrap();
            }
            let (dtype, shape) = (entry.dtype().unwrap(), entry.shape().clone());
            let data = archive.data(entry).unwrap();
            copy.deferred_with(name, TensorSpec::new(dtype, shape).with_order(entry.order()), data, options).unwrap();
        }
        prop_assert_eq!(copy.to_vec().unwrap(), file);
    }

    /// Another encoder and decoder of CBOR agrees on every custom field.
    #[test]
    fn ciborium_reads_and_writes_the_same_values(value in value()) {
        fn theirs(value: &Value) -> ciborium::Value {
            match value {
                Value::Null => ciborium::Value::Null,
                Value::Bool(value) => ciborium::Value::Bool(*value),
                Value::Int(value) => ciborium::Value::Integer((*value).try_into().unwrap()),
                Value::Float(value) => ciborium::Value::Float(*value),
                Value::Text(value) => ciborium::Value::Text(value.clone()),
                Value::Bytes(value) => ciborium::Value::Bytes(value.clone()),
                Value::List(items) => ciborium::Value::Array(items.iter().map(theirs).collect()),
                Value::Map(pairs) => ciborium::Value::Map(
                    pairs.iter().map(|(k, v)| (theirs(k), theirs(v))).collect(),
                ),
                other => panic!("{other:?}"),
            }
        }
        let mut builder = Builder::new();
        let options = TensorOptions::new().with_custom("x", value.clone()).unwrap();
        let tensor = Tensor::from_slice(&[1u8], &[1]).unwrap();
        builder.tensor_with("w", tensor.clone(), options).unwrap();
        let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
        let field = archive.entries().get(0).unwrap().custom().remove(0);
        let read: ciborium::Value = ciborium::from_reader(&field.cbor()[..]).unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{:?}", theirs(&value)));

        let mut written = Vec::new();
        ciborium::into_writer(&theirs(&value), &mut written).unwrap();
        let mut builder = Builder::new();
        let options = TensorOptions::new().with_custom_cbor("x", written).unwrap();
        builder.tensor_with("w", tensor, options).unwrap();
        let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
        let read = archive.entries().get(0).unwrap().custom()[0].value();
        prop_assert_eq!(format!("{read:?}"), format!("{value:?}"));
    }
}

#[test]
fn what_the_format_cannot_hold_is_refused_at_the_call() {
    let mut builder = Builder::new();
    let one = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    builder.tensor("w", one.clone()).unwrap();
    let refused = |result: ztensor_format::Result<&mut Builder>| result.unwrap_err().to_string();
    assert_eq!(
        refused(builder.tensor("w", one.clone())),
        "name \"w\" is used already"
    );
    let complex = Tensor::new(DType::C64, Shape::SCALAR, vec![0; 8]).unwrap();
    let error = refused(builder.tensor("x", complex));
    assert_eq!(error, "tensor \"x\": a ztensor file can't hold complex64");
    let square = Tensor::from_slice(&[1.0f32; 4], &[2, 2]).unwrap();
    let square = square.with_order(Order::ColumnMajor);
    assert!(refused(builder.tensor("x", square)).contains("column-major"));
    let shape = Shape::new(&[3]).unwrap();
    let data = one.data().clone();
    let error = refused(builder.deferred("x", TensorSpec::new(DType::F32, shape), data));
    assert_eq!(
        error,
        "tensor \"x\": data of 4 bytes, but dtype and shape ask for 12"
    );

    let options = TensorOptions::new;
    let big = options().with_zstd(0).with_endianness(Endianness::Big);
    assert!(refused(builder.tensor_with("x", one.clone(), big)).contains("big-endian"));
    let level = options().with_zstd(23);
    assert_eq!(
        refused(builder.tensor_with("x", one.clone(), level)),
        "zstd has no level 23"
    );
    let twice = options()
        .with_custom("k", 1u32)
        .unwrap()
        .with_custom("k", 2u32)
        .unwrap();
    assert!(refused(builder.tensor_with("x", one.clone(), twice)).contains("\"k\""));
    for key in [
        "name", "offset", "size", "dtype", "layout", "shape", "encoding", "checksum",
    ] {
        let error = options().with_custom(key, 1u32).unwrap_err().to_string();
        assert_eq!(error, format!("custom field {key:?}: the key is taken"));
    }
    assert!(options().with_custom("k", Value::Int(1 << 64)).is_err());
    for bytes in [&[][..], &[0, 0], &[0x81], &[0xFF], &[0x81; 200]] {
        assert!(options().with_custom_cbor("k", bytes.to_vec()).is_err());
    }

    // Bytes have no order, so either is fine; what was refused left nothing behind.
    let bytes = Tensor::from_slice(&[1u8], &[1]).unwrap();
    let big = options().with_zstd(0).with_endianness(Endianness::Big);
    builder.tensor_with("x", bytes, big).unwrap();
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    assert_eq!(archive.entries().len(), 2);
}

/// The file that the account of the layout takes apart.
#[test]
fn the_worked_example_is_written_byte_for_byte() {
    let mut builder = Builder::new();
    let options = TensorOptions::new()
        .with_endianness(Endianness::Big)
        .with_custom("k", 7u32)
        .unwrap();
    let pair = Tensor::from_slice(&[1i16, 2], &[2]).unwrap();
    builder.tensor_with("w", pair, options).unwrap();
    let scalar = Tensor::new(DType::Bool, Shape::SCALAR, vec![1]).unwrap();
    let options = TensorOptions::new().with_checksum(Algorithm::None);
    builder.tensor_with("m", scalar, options).unwrap();
    let cases = test_data::cases("ztensor").unwrap();
    let example = cases.iter().find(|case| case.name == "example").unwrap();
    assert_eq!(builder.to_vec().unwrap(), example.bytes);
    assert_eq!(example.bytes.len(), 326);
}

#[test]
fn a_copied_builder_is_one_of_its_own() {
    let one = |number: f32| Tensor::from_slice(&[number], &[1]).unwrap();
    let mut builder = Builder::new();
    builder.tensor("a", one(1.0)).unwrap();
    let alone = builder.to_vec().unwrap();
    let mut copy = builder.clone();
    assert_eq!(copy.to_vec().unwrap(), alone);
    copy.tensor("b", one(2.0)).unwrap();
    assert!(copy.tensor("a", one(3.0)).is_err());
    assert_eq!(builder.to_vec().unwrap(), alone);
    let archive = Archive::from_bytes(copy.to_vec().unwrap()).unwrap();
    let names: Vec<&str> = archive.entries().map(|entry| entry.name()).collect();
    assert_eq!(names, ["a", "b"]);
}
