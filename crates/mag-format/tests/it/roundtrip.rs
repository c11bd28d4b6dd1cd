use mag_format::{Archive, Builder, Checksum, DType, MetaValue, Order, Shape, Tensor, TensorSpec};
use proptest::prelude::*;

fn tensors() -> impl Strategy<Value = Vec<(String, Tensor)>> {
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bool, DType::I32]);
    let tensor = (dtype, prop::collection::vec(1u64..5, 1..7), any::<u8>());
    let tensor = tensor.prop_map(|(dtype, dims, fill)| {
        let shape = Shape::new(&dims).unwrap();
        let len = shape.byte_len(dtype).unwrap().unwrap();
        let data: Vec<u8> = (0..len)
            .map(|i| (i as u8).wrapping_mul(31) ^ fill)
            .collect();
        Tensor::new(dtype, shape, data).unwrap()
    });
    prop::collection::btree_map("[^\0]{1,40}", tensor, 0..12)
        .prop_map(|map| map.into_iter().rev().collect())
}

fn metadata() -> impl Strategy<Value = Vec<(String, MetaValue)>> {
    let value = prop_oneof![
        any::<i64>().prop_map(MetaValue::I64),
        any::<u64>().prop_map(|bits| MetaValue::F64(f64::from_bits(bits))),
    ];
    prop::collection::btree_map("[^\0]{1,40}", value, 0..12)
        .prop_map(|map| map.into_iter().rev().collect())
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        tensors in tensors(),
        metadata in metadata(),
        checksum in prop::sample::select(vec![Checksum::Crc32c, Checksum::Ieee]),
    ) {
        let mut builder = Builder::new();
        builder.checksum(checksum);
        for (key, value) in &metadata {
            builder.metadata(key, *value).unwrap();
        }
        for (name, tensor) in &tensors {
            builder.tensor(name, tensor.clone()).unwrap();
        }
        let file = builder.to_vec().unwrap();
        prop_assert_eq!(file.len() as u64, builder.encoded_len().unwrap());
        prop_assert_eq!(&file, &builder.to_vec().unwrap());

        let archive = Archive::from_bytes(file).unwrap();
        prop_assert_eq!(archive.checksum(), Some(checksum));
        let read: Vec<_> = archive
            .entries()
            .iter()
            .map(|entry| (entry.name().to_owned(), archive.read(entry).unwrap()))
            .collect();
        prop_assert_eq!(read, tensors);
        let read: Vec<_> = archive
            .metadata()
            .iter()
            .map(|meta| (meta.key().to_owned(), meta.value()))
            .collect();
        prop_assert_eq!(read, metadata);
        for entry in archive.entries() {
            prop_assert_eq!(entry.offset() % 64, 0);
        }
    }
}

#[test]
fn what_the_format_cannot_hold_is_refused_at_the_call() {
    let mut builder = Builder::new();
    let one = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    builder.tensor("w", one.clone()).unwrap();
    let refused = |result: mag_format::Result<&mut Builder>| result.unwrap_err().to_string();
    assert_eq!(
        refused(builder.tensor("w", one.clone())),
        "key \"w\" is used already"
    );
    assert_eq!(
        refused(builder.tensor("x", Tensor::from_slice(&[1i64], &[1]).unwrap())),
        "tensor \"x\": a mag file can't hold i64 (only f32, f16, bool and i32)"
    );
    let scalar = Tensor::from_slice(&[1.0f32], &[]).unwrap();
    assert!(refused(builder.tensor("x", scalar)).contains("rank 0"));
    let empty = Tensor::from_slice::<f32>(&[], &[3, 0]).unwrap();
    assert!(refused(builder.tensor("x", empty)).contains("dim of 0"));
    let square = Tensor::from_slice(&[1.0f32; 4], &[2, 2]).unwrap();
    let square = square.with_order(Order::ColumnMajor);
    assert!(refused(builder.tensor("x", square)).contains("column-major"));
    assert!(refused(builder.tensor("", one.clone())).contains("1 to 65535 bytes"));
    assert!(refused(builder.tensor("a\0b", one.clone())).contains("without NUL"));
    assert!(refused(builder.tensor("k".repeat(65536), one.clone())).contains("65535"));
    let error = refused(builder.deferred(
        "x",
        TensorSpec::new(DType::F32, Shape::new(&[3]).unwrap()),
        one.data().clone(),
    ));
    assert_eq!(
        error,
        "tensor \"x\": data of 4 bytes, but dtype and shape ask for 12"
    );
    // What was refused left nothing behind.
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    assert_eq!(archive.entries().len(), 1);
}
