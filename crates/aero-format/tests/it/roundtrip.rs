use aero_format::{Archive, Builder, Bytes, DType, ReadOptions, Shape, Tensor, VerifyOptions};
use proptest::prelude::*;

fn tensors() -> impl Strategy<Value = Vec<(String, Tensor)>> {
    let dtypes = vec![
        DType::F32,
        DType::F16,
        DType::Bool,
        DType::I64,
        DType::U8,
        DType::BF16,
    ];
    let dtype = prop::sample::select(dtypes);
    let tensor = (dtype, prop::collection::vec(0u64..5, 0..5), any::<u8>());
    let tensor = tensor.prop_map(|(dtype, dims, fill)| {
        let shape = Shape::new(&dims).unwrap();
        let len = shape.byte_len(dtype).unwrap().unwrap();
        let data: Vec<u8> = (0..len)
            .map(|i| (i as u8).wrapping_mul(31) ^ fill)
            .collect();
        Tensor::new(dtype, shape, data).unwrap()
    });
    prop::collection::btree_map(".{0,40}", tensor, 0..12)
        .prop_map(|map| map.into_iter().rev().collect())
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        tensors in tensors(),
        hashes in any::<bool>(),
        ihsh in any::<bool>(),
        phsh in prop::option::of(1u64..300),
        page_align in any::<bool>(),
        align in prop::sample::select(vec![1u64, 16, 64]),
        shard in 1u64..2000,
        level in prop::option::of(1..6),
    ) {
        let mut builder = Builder::new();
        builder.tensor_hashes(hashes).ihsh(ihsh).page_align(page_align).max_shard_bytes(shard);
        builder.align(align).unwrap().phsh(phsh).unwrap();
        builder.zstd_level(level.filter(|_| cfg!(feature = "zstd"))).unwrap();
        for (name, tensor) in &tensors {
            builder.tensor(name, tensor.clone()).unwrap();
        }
        let file = builder.to_vec().unwrap();
        prop_assert_eq!(file.len() as u64, builder.encoded_len().unwrap());
        prop_assert_eq!(&file, &builder.to_vec().unwrap());
        // A file is written in another way than a vector: once through the data, then the index.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.aero");
        builder.write_file(&path).unwrap();
        prop_assert_eq!(&file, &std::fs::read(&path).unwrap());
        let archive = Archive::from_bytes(file).unwrap();
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        prop_assert!(!report.has_failed() && !report.has_unsupported(), "{:?}", report);
        prop_assert!(report.warnings.is_empty());
        let read: Vec<_> = archive
            .entries()
            .iter()
            .map(|entry| (entry.name().to_owned(), archive.read(entry).unwrap()))
            .collect();
        prop_assert_eq!(read, tensors);
        for entry in archive.entries() {
            prop_assert!(entry.data_off() % align == 0 && entry.hash_b3().is_some() == hashes);
        }
    }
}

#[test]
fn what_the_format_cannot_hold_is_refused_at_the_call() {
    let mut builder = Builder::new();
    let refused = |result: aero_format::Result<&mut Builder>| result.unwrap_err().to_string();
    let one = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    builder.tensor("w", one.clone()).unwrap();
    assert_eq!(
        refused(builder.tensor("w", one.clone())),
        "\"w\" is used already"
    );
    assert!(refused(builder.tensor("n".repeat(4097), one.clone())).contains("4096"));
    let deep = Tensor::from_slice(&[1.0f32], &[1; 33]).unwrap();
    assert!(refused(builder.tensor("d", deep)).contains("rank 33"));
    let f8 = Tensor::new(DType::F8E4M3, Shape::new(&[1]).unwrap(), vec![1]).unwrap();
    assert!(refused(builder.tensor("f", f8)).contains("f8_e4m3fn"));
    assert!(refused(builder.metadata("x", f64::NAN)).contains("can't be held"));
    assert!(refused(builder.align(3)).contains("align"));
    assert!(refused(builder.phsh(Some(0))).contains("phsh"));
    assert_eq!(
        Archive::from_bytes(builder.to_vec().unwrap())
            .unwrap()
            .entries()
            .len(),
        1
    );
}

/// JSON as the reference writes it: sorted, without spaces, ASCII.
#[test]
fn metadata_is_ascii_json() {
    let mut builder = Builder::new();
    builder
        .model("nämé \u{1F980}", "x")
        .metadata("z", 1i64)
        .unwrap();
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let chunk = &archive.chunks()[0];
    let text = archive.chunk_data(chunk).unwrap();
    let want = br#"{"architecture":"x","model_name":"n\u00e4m\u00e9 \ud83e\udd80","z":1}"#;
    assert_eq!(text, &want[..]);
    let name = &archive.metadata().unwrap()[1];
    assert_eq!(
        (name.key(), name.value()),
        ("model_name", &"nämé \u{1F980}".into())
    );
}

#[test]
fn refusals_say_what_was_asked_for() {
    let mut builder = Builder::new();
    let error = builder.zstd_level(Some(-30)).unwrap_err();
    assert_eq!(error.to_string(), "zstd_level of -30 makes no sense");
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

#[test]
fn the_control_part_is_checked_unless_asked_not_to() {
    let mut builder = Builder::new();
    builder
        .tensor("a", Tensor::from_slice(&[1.0f32], &[1]).unwrap())
        .unwrap();
    let file = builder.ihsh(true).to_vec().unwrap();
    let options = ReadOptions::default();
    // Some byte of the header is held against nothing but its hash.
    let found = (0..96).any(|at| {
        let mut bytes = file.clone();
        bytes[at] ^= 1;
        let open = |options| Archive::from_source(Bytes::from(bytes.clone()), &options).is_ok();
        !open(options)
            && !open(options.with_check_control(true))
            && open(options.with_check_control(false))
    });
    assert!(found);
}

/// Whatever a writer chose for a file, a builder like it chooses again.
#[test]
fn a_copy_has_the_style_of_its_file() {
    let tensor = |fill: u8, len: usize| Tensor::from_vec(vec![fill; len], &[len as u64]).unwrap();
    for choice in 0u32..64 {
        let on = |bit: u32| choice >> bit & 1 == 1;
        let mut builder = Builder::new();
        builder.metadata("epoch", 3i64).unwrap();
        for (name, len) in [("a", 100), ("b", 5000), ("c", 60), ("d", 5000)] {
            builder.tensor(name, tensor(7, len)).unwrap();
        }
        builder.ihsh(on(0)).tensor_hashes(on(1)).page_align(on(2));
        builder.phsh(on(3).then_some(512)).unwrap();
        if on(4) {
            builder.max_shard_bytes(5200);
        }
        if !on(5) {
            builder.zstd_level(None).unwrap();
        }
        let file = builder.to_vec().unwrap();
        let archive = Archive::from_bytes(file.clone()).unwrap();
        let mut copy = Builder::like(&archive).unwrap();
        for entry in &archive {
            copy.copy(&archive, entry).unwrap();
        }
        assert_eq!(copy.to_vec().unwrap(), file, "{choice:06b}");
    }
}
