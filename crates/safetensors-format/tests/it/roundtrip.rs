use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use safetensors_format::{
    Archive, Builder, Bytes, DType, DTypeCode, Order, Shape, Source, Tensor, TensorOptions,
    TensorSpec,
};

use crate::file;

const CODES: [DTypeCode; 22] = [
    DTypeCode::Bool,
    DTypeCode::U8,
    DTypeCode::I8,
    DTypeCode::F8E5M2,
    DTypeCode::F8E4M3,
    DTypeCode::F8E8M0,
    DTypeCode::F8E4M3Fnuz,
    DTypeCode::F8E5M2Fnuz,
    DTypeCode::I16,
    DTypeCode::U16,
    DTypeCode::F16,
    DTypeCode::BF16,
    DTypeCode::I32,
    DTypeCode::U32,
    DTypeCode::F32,
    DTypeCode::C64,
    DTypeCode::F64,
    DTypeCode::I64,
    DTypeCode::U64,
    DTypeCode::F4,
    DTypeCode::F6E2M3,
    DTypeCode::F6E3M2,
];

fn tensors() -> impl Strategy<Value = Vec<(String, (DTypeCode, Shape, Bytes))>> {
    let code = prop::sample::select(CODES.to_vec());
    let tensor = (code, prop::collection::vec(0u64..5, 0..6), any::<u8>());
    let tensor = tensor.prop_map(|(code, mut dims, fill)| {
        let bits = code.bits().unwrap();
        if bits < 8 {
            dims.push(4);
        }
        let shape = Shape::new(&dims).unwrap();
        let len = shape.elements() * bits / 8;
        let data: Vec<u8> = (0..len)
            .map(|i| (i as u8).wrapping_mul(31) ^ fill)
            .collect();
        (code, shape, data.into())
    });
    prop::collection::btree_map(".{0,40}", tensor, 0..12).prop_map(|map| {
        let mut list: Vec<_> = map
            .into_iter()
            .filter(|(name, _)| name != "__metadata__")
            .collect();
        let middle = list.len() / 2;
        list.rotate_left(middle);
        list
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        tensors in tensors(),
        metadata in prop::collection::btree_map(".{0,20}", ".{0,20}", 0..12),
    ) {
        let mut builder = Builder::new();
        for (key, value) in metadata.iter().rev() {
            builder.metadata(key, value).unwrap();
        }
        for (name, (code, shape, data)) in &tensors {
            builder.coded(name, code.clone(), shape.clone(), data.clone()).unwrap();
        }
        let bytes = builder.to_vec().unwrap();
        prop_assert_eq!(bytes.len() as u64, builder.encoded_len().unwrap());
        prop_assert_eq!(&bytes, &builder.to_vec().unwrap());

        let theirs = SafeTensors::deserialize(&bytes).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let pairs = header.metadata().clone().unwrap_or_default();
        prop_assert_eq!(pairs.len(), metadata.len());
        let archive = Archive::from_bytes(bytes.clone()).unwrap();
        prop_assert_eq!(archive.entries().len(), tensors.len());
        let mut offset = archive.data_start();
        for (entry, (name, (code, shape, data))) in archive.entries().iter().zip(&tensors) {
            prop_assert_eq!(entry.name(), name);
            prop_assert_eq!(entry.dtype_code(), code);
            prop_assert_eq!(entry.shape(), shape);
            prop_assert_eq!(entry.offset() % code.bits().unwrap().div_ceil(8), 0);
            if !builder.data_reordered() {
                prop_assert_eq!(entry.offset(), offset);
            }
            offset += data.len() as u64;
            let got = archive.read(entry).unwrap();
            prop_assert_eq!(got.data(), data);
            prop_assert_eq!(theirs.tensor(name).unwrap().data(), &data[..]);
        }
        for (meta, (key, value)) in archive.metadata().iter().zip(&metadata) {
            // Sorted, whatever the calls.
            prop_assert_eq!((meta.key(), meta.value()), (key.as_str(), value.as_str()));
            prop_assert_eq!(pairs.get(key), Some(value));
        }
    }
}

/// What the format's own library writes, given the same tensors in its order, is what we write.
#[test]
fn the_formats_own_library_writes_the_same_bytes() {
    let tensors = [
        (
            "d",
            safetensors::Dtype::F64,
            DType::F64,
            vec![2u64, 1],
            16usize,
        ),
        ("a", safetensors::Dtype::F32, DType::F32, vec![3], 12),
        (
            "b \"quoted\" \n\u{1}",
            safetensors::Dtype::F32,
            DType::F32,
            vec![],
            4,
        ),
        ("c", safetensors::Dtype::BF16, DType::BF16, vec![5], 10),
        ("e", safetensors::Dtype::BOOL, DType::Bool, vec![3], 3),
    ];
    let data: Vec<u8> = (0..64).collect();
    let mut builder = Builder::new();
    builder.metadata("k", "v\t").unwrap();
    let mut views = Vec::new();
    for (name, theirs, dtype, dims, len) in &tensors {
        let bytes = &data[..*len];
        let shape = dims.iter().map(|&dim| dim as usize).collect();
        views.push((*name, TensorView::new(*theirs, shape, bytes).unwrap()));
        let shape = Shape::new(dims).unwrap();
        let bytes = Bytes::copy_from_slice(bytes);
        builder
            .deferred(*name, TensorSpec::new(*dtype, shape), bytes)
            .unwrap();
    }
    let metadata = [("k".to_owned(), "v\t".to_owned())].into();
    let theirs = safetensors::serialize(views, Some(metadata)).unwrap();
    assert_eq!(builder.to_vec().unwrap(), theirs);
    assert!(!builder.data_reordered());
}

#[test]
fn a_file_is_written_byte_for_byte() {
    let mut builder = Builder::new();
    builder
        .metadata("b", "2")
        .unwrap()
        .metadata("a", "1")
        .unwrap();
    for (name, values) in [("x", &[1u8, 2, 3][..]), ("z", &[9])] {
        let tensor = Tensor::from_slice(values, &[values.len() as u64]).unwrap();
        builder.tensor(name, tensor).unwrap();
    }
    let header = concat!(
        r#"{"__metadata__":{"a":"1","b":"2"},"#,
        r#""x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"#,
        r#""z":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}"#,
    );
    let padded = format!("{header:<0$}", header.len().next_multiple_of(8));
    assert_eq!(builder.to_vec().unwrap(), file(&padded, &[1, 2, 3, 9]));
    assert!(!builder.data_reordered());

    // A wide element behind an odd number of bytes: its data goes first, its name does not.
    let wide = Tensor::from_slice(&[0x0807_0605_0403_0201u64], &[]).unwrap();
    let half = Tensor::from_slice(&[0x0B0Au16], &[1]).unwrap();
    builder
        .tensor("w", wide)
        .unwrap()
        .tensor("h", half)
        .unwrap();
    assert!(builder.data_reordered());
    let header = concat!(
        r#"{"__metadata__":{"a":"1","b":"2"},"#,
        r#""x":{"dtype":"U8","shape":[3],"data_offsets":[10,13]},"#,
        r#""z":{"dtype":"U8","shape":[1],"data_offsets":[13,14]},"#,
        r#""w":{"dtype":"U64","shape":[],"data_offsets":[0,8]},"#,
        r#""h":{"dtype":"U16","shape":[1],"data_offsets":[8,10]}}"#,
    );
    let padded = format!("{header:<0$}", header.len().next_multiple_of(8));
    let data = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 1, 2, 3, 9];
    assert_eq!(builder.to_vec().unwrap(), file(&padded, &data));
}

/// Every pair of dtypes in both orders, with an odd number of elements: all data is aligned.
#[test]
fn data_lies_at_multiples_of_its_element() {
    let known = DType::ALL.to_vec();
    let known = known
        .into_iter()
        .filter(|&dtype| DTypeCode::from_dtype(dtype).is_some());
    let known: Vec<DType> = known.collect();
    let one = |dtype: DType, count: u64| {
        let len = usize::try_from(dtype.size().unwrap() * count).unwrap();
        Tensor::new(dtype, Shape::new(&[count]).unwrap(), vec![7; len]).unwrap()
    };
    for &first in &known {
        for &second in &known {
            let mut builder = Builder::new();
            builder
                .tensor("a", one(first, 3))
                .unwrap()
                .tensor("b", one(second, 1))
                .unwrap();
            builder.tensor("c", one(first, 0)).unwrap();
            let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
            for entry in archive.entries() {
                let size = entry.dtype().unwrap().size().unwrap();
                assert_eq!(entry.offset() % size, 0, "{first} {second}: {entry:?}");
            }
        }
    }
}

#[test]
fn what_cannot_be_held_is_refused_by_name() {
    let mut builder = Builder::new();
    let tensor = || Tensor::from_slice(&[1u8, 2], &[1, 2]).unwrap();
    let four = |len| Bytes::from(vec![0u8; len]);
    let shape = |dims: &[u64]| Shape::new(dims).unwrap();
    builder
        .tensor("w", tensor())
        .unwrap()
        .metadata("k", "v")
        .unwrap();
    let columns = Tensor::from_slice(&[1u8, 2, 3, 4], &[2, 2]).unwrap();
    let columns = columns.with_order(Order::ColumnMajor);
    let c128 = Tensor::new(DType::C128, shape(&[1]), vec![0; 16]).unwrap();
    let opaque = Tensor::new(DType::Opaque, shape(&[1]), vec![0; 16]).unwrap();
    let errors = [
        (builder.tensor("w", tensor()).err(), "\"w\" is used already"),
        (builder.metadata("k", "w").err(), "\"k\" is used already"),
        (
            builder.tensor("__metadata__", tensor()).err(),
            "a tensor can't be named `__metadata__`: the name is the header's own",
        ),
        (
            builder.tensor("x", c128).err(),
            "tensor \"x\": a safetensors file can't hold complex128",
        ),
        (
            builder.tensor("x", opaque).err(),
            "tensor \"x\": a safetensors file can't hold opaque",
        ),
        (
            builder.tensor("x", columns).err(),
            "tensor \"x\" is column-major; transpose it first (`Tensor::to_row_major`)",
        ),
        (
            builder
                .coded("x", DTypeCode::from_name("I4"), shape(&[2]), four(1))
                .err(),
            "tensor \"x\": no dtype \"I4\" is known",
        ),
        (
            builder
                .coded("x", DTypeCode::F4, shape(&[3]), four(2))
                .err(),
            "tensor \"x\": 12 bits are no whole bytes",
        ),
        (
            builder
                .coded("x", DTypeCode::F6E2M3, shape(&[4]), four(4))
                .err(),
            "tensor \"x\": data of 4 bytes, but dtype and shape ask for 3",
        ),
        (
            builder
                .coded("x", DTypeCode::U8, shape(&[1 << 40, 1 << 40, 0]), four(0))
                .err(),
            "tensor \"x\": the product of the first dims of [1099511627776, 1099511627776, 0] does not fit 64 bits",
        ),
    ];
    for (error, text) in errors {
        assert_eq!(error.unwrap().to_string(), text);
    }
    builder.max_header_bytes(72);
    let error = builder.encoded_len().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the header would take 80 bytes; readers accept 72"
    );
    builder.max_header_bytes(80);
    assert_eq!(builder.encoded_len().unwrap(), 8 + 80 + 2);
}

/// A source whose bytes are another one's, to see that copies are pulled.
struct Elsewhere(Bytes);

impl Source for Elsewhere {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), tensor_core::SourceError> {
        self.0.read_into(offset, out)
    }
}

#[test]
fn a_copy_carries_the_unknown() {
    let cases = test_data::cases("safetensors").unwrap();
    let case = cases
        .into_iter()
        .find(|case| case.name == "dtype_among_others");
    let source = Elsewhere(Bytes::from(case.unwrap().bytes));
    let archive = Archive::from_source(source, &Default::default()).unwrap();
    let mut builder = Builder::new();
    let entry = archive.entry("w").unwrap();
    builder.copy(&archive, entry).unwrap();
    builder.copy_as("renamed", &archive, entry).unwrap();
    let other = Tensor::from_slice(&[0.5f32], &[1]).unwrap();
    let options = TensorOptions::new().with_extras_of(entry);
    builder.tensor_with("other", other, options).unwrap();
    let header = concat!(
        r#"{"w":{"dtype":"I4","shape":[4],"data_offsets":[0,2],"scale":0.5},"#,
        r#""renamed":{"dtype":"I4","shape":[4],"data_offsets":[2,4],"scale":0.5},"#,
        r#""other":{"dtype":"F32","shape":[1],"data_offsets":[4,8],"scale":0.5}}"#,
    );
    let padded = format!("{header:<0$}", header.len().next_multiple_of(8));
    let data = [2, 3, 2, 3, 0, 0, 0, 0x3F];
    assert_eq!(builder.to_vec().unwrap(), file(&padded, &data));
}
