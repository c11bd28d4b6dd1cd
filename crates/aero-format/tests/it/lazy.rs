use std::ops::Range;
use std::sync::{Arc, Mutex};

use aero_format::{
    Archive, Builder, Bytes, FourCc, ReadOptions, Rule, Source, Tensor, TensorOptions, Value,
};
use tensor_core::SourceError;

/// Remembers which bytes were asked for.
struct Traced {
    bytes: Bytes,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Source for Traced {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.reads
            .lock()
            .unwrap()
            .push(offset..offset + out.len() as u64);
        self.bytes.read_into(offset, out)
    }
}

#[test]
fn opening_reads_no_weights() {
    let mut builder = Builder::new();
    let data = Tensor::from_slice(&[1.0f32; 1000], &[1000]).unwrap();
    for i in 0..100 {
        builder.tensor(format!("layer.{i}"), data.clone()).unwrap();
    }
    builder.ihsh(true).max_shard_bytes(50_000);
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let reads = Arc::new(Mutex::new(Vec::new()));
    let traced = Traced {
        bytes,
        reads: reads.clone(),
    };
    let archive = Archive::from_source(traced, &ReadOptions::default()).unwrap();
    let weights = archive
        .chunks()
        .iter()
        .find(|chunk| chunk.fourcc() == FourCc::WTSH)
        .unwrap();
    let opened = std::mem::take(&mut *reads.lock().unwrap());
    assert!(
        opened.iter().all(|read| read.end <= weights.offset()),
        "{opened:?}"
    );
    let entry = archive.entry("layer.70").unwrap();
    assert_eq!(archive.read(entry).unwrap(), data);
    assert_eq!(
        *reads.lock().unwrap(),
        vec![entry.offset()..entry.offset() + 4000; 1]
    );
}

#[test]
fn pages_are_checked_one_by_one() {
    let mut builder = Builder::new();
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    builder
        .tensor("w", Tensor::from_slice(&bytes, &[100_000]).unwrap())
        .unwrap();
    builder.phsh(Some(4096)).unwrap();
    let mut file = builder.to_vec().unwrap();
    let archive = Archive::from_bytes(file.clone()).unwrap();
    let entry = archive.entry("w").unwrap();
    let read = archive.read_verified(entry, 5000..20_000).unwrap();
    assert_eq!(read, &bytes[5000..20_000]);
    file[entry.offset() as usize + 30_000] ^= 1;
    let archive = Archive::from_bytes(file).unwrap();
    let entry = archive.entry("w").unwrap();
    assert!(archive.read_verified(entry, 5000..20_000).is_ok());
    let error = archive.read_verified(entry, 25_000..31_000).unwrap_err();
    let rule = error.rule();
    assert!(matches!(rule, Some(Rule::PhshDigest { .. })), "{rule:?}");
    assert!(archive.read_verified(entry, 99_999..100_001).is_err());
}

#[test]
fn everything_said_about_a_packed_tensor_is_kept() {
    let mut builder = Builder::new();
    let shape = aero_format::Shape::new(&[32, 4]).unwrap();
    let packed = Tensor::new(aero_format::DType::Opaque, shape, vec![7; 37]).unwrap();
    let params = Value::Map(vec![("ggml_type".into(), Value::Int(8))]);
    let mut options = TensorOptions::new()
        .with_quant_id(0)
        .with_flags(3)
        .with_extra("quant_params", params.clone())
        .unwrap();
    options.set_extra("note", "mine").unwrap();
    assert!(options.set_extra("shape", 1i64).is_err());
    assert!(options.set_extra("note", 1i64).is_err());
    builder.tensor_with("q", packed.clone(), options).unwrap();
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let entry = archive.entry("q").unwrap();
    assert_eq!((entry.quant_id(), entry.flags()), (Some(0), 3));
    assert_eq!(entry.dtype_code().to_string(), "packed");
    let want = [
        ("quant_params".to_owned(), params),
        ("note".to_owned(), "mine".into()),
    ];
    assert_eq!(archive.extra(entry), want);
    assert_eq!(archive.read(entry).unwrap(), packed);
}

#[test]
fn a_value_nests_as_deep_as_a_reader_goes_and_no_deeper() {
    let nested = |depth: usize| {
        let around = |value: Value, _: usize| Value::List(vec![value]);
        (0..depth).fold(Value::Null, around)
    };
    let deepest = aero_format::Limits::default().max_value_depth;
    let value = nested(usize::try_from(deepest).unwrap());
    let options = TensorOptions::new().with_extra("deep", value.clone());
    let mut builder = Builder::new();
    let tensor = Tensor::from_slice(&[1u8], &[1]).unwrap();
    builder.tensor_with("w", tensor, options.unwrap()).unwrap();
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let entry = archive.entry("w").unwrap();
    assert_eq!(archive.extra(entry), [("deep".to_owned(), value)]);

    // A file that nests deeper than is asked for isn't called malformed.
    let mut options = ReadOptions::default();
    options.limits.max_value_depth = deepest - 1;
    let bytes = builder.to_vec().unwrap();
    let error = Archive::from_source(Bytes::from(bytes), &options).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_value_depth"), "{error}");

    let deeper = nested(usize::try_from(deepest).unwrap() + 1);
    let error = TensorOptions::new().with_extra("deep", deeper).unwrap_err();
    let said = "the value of \"deep\" nests 65 levels deep; readers of AERO go 64 levels";
    assert_eq!(error.to_string(), said);
}
