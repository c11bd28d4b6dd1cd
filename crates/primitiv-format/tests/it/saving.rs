use primitiv_format::TensorOptions;

test_data::saving_tests!(
    primitiv_format,
    ending: "model",
    format: "primitiv",
    broken: b"\xCE\0\0\0\0\xCE\0\0\0\x01\xCE\0\0\0\0\x91\xCE\0\0\0\x02\xCE\0\0\0\0",
    rule: "primitiv.shape.batch",
    shrunk: 200
);

#[test]
fn an_error_about_a_statistic_names_its_parameter_too() {
    let mut builder = Builder::new();
    let value = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    builder.tensor("layer.w", value.clone()).unwrap();
    builder.stat("m1", value.clone()).unwrap();
    let error = builder.stat("m1", value).unwrap_err().to_string();
    assert!(error.contains("\"layer.w:m1\""), "{error}");
    let shape = Shape::new(&[100]).unwrap();
    let size = AtomicU64::new(400);
    let source = Stepping { size, grows: true };
    builder
        .deferred_stat_with(
            "m2",
            TensorSpec::new(DType::F32, shape),
            source,
            TensorOptions::new().with_batch(1),
        )
        .unwrap();
    assert_eq!(
        builder.to_vec().unwrap_err().to_string(),
        "tensor \"layer.w:m2\" had 400 bytes when it was added, and has 404 now"
    );
}
