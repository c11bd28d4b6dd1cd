use std::ops::Range;
use std::sync::{Arc, Mutex};

use primitiv_format::{Archive, Builder, Bytes, Object, ReadOptions, Source, Tensor};
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
fn opening_skips_the_data() {
    let mut builder = Builder::new();
    for i in 0..100 {
        let data = Tensor::from_slice(&vec![i as f32; 100_000], &[100_000]).unwrap();
        builder.tensor(format!("layer.{i}"), data).unwrap();
    }
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let reads = Arc::new(Mutex::new(Vec::new()));
    let traced = Traced {
        bytes,
        reads: reads.clone(),
    };
    let archive = Archive::from_source(traced, &ReadOptions::default()).unwrap();
    let opened = std::mem::take(&mut *reads.lock().unwrap());
    // The header, and no more than a page for each tensor.
    assert!(opened.len() <= 102, "{} reads", opened.len());
    assert!(
        opened.iter().all(|read| read.end - read.start <= 4096),
        "{opened:?}"
    );

    let entry = archive.entry("layer.50").unwrap();
    archive.read(entry).unwrap();
    let one = reads.lock().unwrap().clone();
    assert_eq!(one, vec![entry.offset()..entry.offset() + 400_000; 1]);
}

#[test]
fn addresses_that_join_to_one_name_stay_apart() {
    let one = |value: f32| Tensor::from_slice(&[value], &[1]).unwrap();
    let add = |builder: &mut Builder, path: &[&str], value: f32| {
        let tensor = one(value);
        let (shape, data) = (tensor.shape().clone(), tensor.data().clone());
        builder
            .parameter(path, tensor.dtype(), shape, tensor.order(), data)
            .map(|_| ())
            .unwrap();
    };
    let mut builder = Builder::new();
    add(&mut builder, &["a", "b"], 1.0);
    add(&mut builder, &["a.b"], 2.0);
    add(&mut builder, &["", ""], 3.0);
    add(&mut builder, &["."], 4.0);
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    assert_eq!(archive.same_named().count(), 2);
    let Object::Model(model) = archive.object() else {
        panic!()
    };
    let value = |path: &[&str]| {
        let parameter = model.get(path)?;
        Some(
            archive
                .read(parameter.value())
                .unwrap()
                .to_vec::<f32>()
                .unwrap()[0],
        )
    };
    assert_eq!(value(&["a", "b"]), Some(1.0));
    assert_eq!(value(&["a.b"]), Some(2.0));
    assert_eq!(value(&["", ""]), Some(3.0));
    assert_eq!(value(&["."]), Some(4.0));
    assert_eq!(value(&["a"]), None);
    assert_eq!(model.parameters().count(), 4);
}

#[test]
fn an_entry_of_another_archive_is_refused() {
    let mut builder = Builder::new();
    builder
        .tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap())
        .unwrap();
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let one = Archive::from_bytes(bytes.clone()).unwrap();
    let other = Archive::from_bytes(bytes).unwrap();
    let error = one.read(other.entries().get(0).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the entry belongs to another archive");
}
