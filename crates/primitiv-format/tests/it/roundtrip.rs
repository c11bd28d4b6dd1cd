use primitiv_format::{Archive, Builder, DType, Order, Shape, Tensor, TensorOptions, TensorSpec};
use proptest::prelude::*;

fn tensor() -> impl Strategy<Value = Tensor> {
    (prop::collection::vec(1u64..4, 0..8), any::<u8>()).prop_map(|(mut dims, fill)| {
        while dims.last() == Some(&1) {
            dims.pop();
        }
        let shape = Shape::new(&dims).unwrap();
        let len = shape.elements() * 4;
        let data: Vec<u8> = (0..len)
            .map(|i| (i as u8).wrapping_mul(37) ^ fill)
            .collect();
        Tensor::new(DType::F32, shape, data)
            .unwrap()
            .with_order(Order::ColumnMajor)
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        parameters in prop::collection::btree_map(
            "[a-z\u{e9}/ ]{0,12}",
            (tensor(), prop::collection::btree_map(".{0,8}", tensor(), 0..4)),
            0..10,
        ),
        sort in any::<bool>(),
    ) {
        let mut builder = Builder::new();
        builder.sort(sort).split_names(false);
        let mut want = Vec::new();
        let in_order: Vec<_> = match sort {
            true => parameters.into_iter().collect(),
            false => parameters.into_iter().rev().collect(),
        };
        for (name, (value, stats)) in in_order {
            builder.tensor(&name, value.clone()).unwrap();
            want.push((name.clone(), value));
            for (key, stat) in stats {
                builder.stat(&key, stat.clone()).unwrap();
                want.push((format!("{name}:{key}"), stat));
            }
        }
        let file = builder.to_vec().unwrap();
        prop_assert_eq!(file.len() as u64, builder.encoded_len().unwrap());
        let archive = Archive::from_bytes(file.clone()).unwrap();
        let read: Vec<_> = archive
            .entries()
            .iter()
            .map(|entry| (entry.name().to_owned(), archive.read(entry).unwrap()))
            .collect();
        prop_assert_eq!(read, want);
        prop_assert_eq!(copy_of(&archive).to_vec().unwrap(), file);
    }
}

/// A builder of the same object with the same tensors.
fn copy_of(archive: &Archive) -> Builder {
    let mut builder = Builder::like(archive).unwrap();
    for entry in archive {
        builder.copy(archive, entry).unwrap();
    }
    builder
}

#[test]
fn what_the_format_cannot_hold_is_refused_before_the_first_byte() {
    let mut builder = Builder::new();
    let refused = |result: primitiv_format::Result<&mut Builder>| result.unwrap_err().to_string();
    let one = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    assert!(refused(builder.stat("m", one.clone())).contains("before any parameter"));
    let double = Tensor::from_slice(&[1.0f64], &[1]).unwrap();
    assert!(refused(builder.tensor("w", double)).contains("can't hold f64"));
    let square = Tensor::from_slice(&[1.0f32; 4], &[2, 2]).unwrap();
    assert!(refused(builder.tensor("w", square)).contains("row-major"));
    let empty = Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap();
    assert!(refused(builder.tensor("w", empty)).contains("no elements"));
    let deep = Tensor::from_slice(&[1.0f32; 512], &[2; 9])
        .unwrap()
        .with_order(Order::ColumnMajor);
    assert!(refused(builder.tensor("w", deep)).contains("rank 9"));
    let ones = Tensor::from_slice(&[1.0f32; 2], &[2, 1, 1, 1, 1, 1, 1, 1, 1, 1]).unwrap();
    builder.tensor("fine", ones).unwrap();

    builder.tensor("a", one.clone()).unwrap();
    builder.stat("m", one.clone()).unwrap();
    assert_eq!(
        refused(builder.stat("m", one.clone())),
        "\"a:m\" is used already"
    );
    builder.tensor("a.b", one.clone()).unwrap();
    let error = builder.to_vec().unwrap_err().to_string();
    assert!(error.contains("\"a\"") && error.contains("\"a.b\"") && error.contains("whole names"));

    let mut file = Builder::parameter_file();
    assert!(
        file.to_vec()
            .unwrap_err()
            .to_string()
            .contains("exactly one tensor")
    );
    file.tensor("any", one.clone()).unwrap();
    assert!(file.to_vec().is_ok());
    file.tensor("other", one).unwrap();
    assert!(file.to_vec().is_err());
}

#[test]
fn a_batch_is_the_last_dim_and_stays_one() {
    let mut builder = Builder::parameter_file();
    builder
        .tensor("", Tensor::from_slice(&[1.0f32], &[1]).unwrap())
        .unwrap();
    let batched = Tensor::from_slice(&[1.0f32; 6], &[2, 3]).unwrap();
    let (shape, data) = (batched.shape().clone(), batched.data().clone());
    builder
        .deferred_stat_with(
            "b",
            TensorSpec::new(DType::F32, shape).with_order(Order::ColumnMajor),
            data,
            TensorOptions::new().with_batch(3),
        )
        .unwrap();
    let file = builder.to_vec().unwrap();
    let archive = Archive::from_bytes(file.clone()).unwrap();
    let entry = archive.entry(":b").unwrap();
    assert_eq!((entry.dims().dims(), entry.batch()), (&[2][..], 3));
    assert_eq!(entry.shape().dims(), [2, 3]);
    // The tensor of a Tensor file may have one too, the value of a parameter not.
    let data = || archive.data(entry).unwrap();
    let (shape, order) = (entry.shape().clone(), entry.order());
    let mut alone = Builder::tensor_file();
    alone
        .deferred_with(
            "",
            TensorSpec::new(DType::F32, shape.clone()).with_order(order),
            data(),
            TensorOptions::new().with_batch(3),
        )
        .unwrap();
    let tensor = Archive::from_bytes(alone.to_vec().unwrap()).unwrap();
    assert_eq!(tensor.entries().get(0).unwrap().batch(), 3);
    assert_eq!(tensor.entries().get(0).unwrap().shape().dims(), [2, 3]);
    let other = alone.deferred_with(
        "",
        TensorSpec::new(DType::F32, shape.clone()).with_order(order),
        data(),
        TensorOptions::new().with_batch(2),
    );
    assert!(other.is_err(), "the last dim is 3");
    let mut model = Builder::new();
    model
        .deferred_with(
            "w",
            TensorSpec::new(DType::F32, shape).with_order(order),
            data(),
            TensorOptions::new().with_batch(3),
        )
        .unwrap();
    assert!(model.check().is_err());
    assert_eq!(copy_of(&archive).to_vec().unwrap(), file);
}

/// A copy of a builder goes on by itself, and options are said in one expression.
#[test]
fn builders_are_copied_and_options_said_at_once() {
    let one = || Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    let mut builder = Builder::new();
    builder.tensor("a", one()).unwrap();
    let first = builder.clone();
    builder.tensor("b", one()).unwrap();
    let open = |builder: &Builder| Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    assert_eq!(
        (open(&first).entries().len(), open(&builder).entries().len()),
        (1, 2)
    );

    let mut file = first.to_vec().unwrap();
    file.push(0);
    let options = primitiv_format::ReadOptions::default();
    let bytes = primitiv_format::Bytes::from(file);
    assert!(Archive::from_source(bytes.clone(), &options).is_err());
    let options = options.with_allow_trailing(true);
    assert!(Archive::from_source(bytes.clone(), &options).is_ok());
    let mut limits = options.limits;
    limits.max_path_part_count = 0;
    let error = Archive::from_source(bytes, &options.with_limits(limits)).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_path_part_count"));
}
