use std::ops::Range;
use std::sync::{Arc, Mutex};

use primitiv_format::{Archive, Builder, Bytes, Object, ReadOptions, Source, Tensor, TensorSpec};
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
    // A header for each tensor, as long as the one before it.
    assert!(opened.len() <= 105, "{} reads", opened.len());
    let sum: u64 = opened.iter().map(|read| read.end - read.start).sum();
    assert!(sum <= 64 * 100, "{sum} bytes of {opened:?}");

    let entry = archive.entry("layer.50").unwrap();
    archive.read(entry).unwrap();
    let one = reads.lock().unwrap().clone();
    assert_eq!(one, vec![entry.offset()..entry.offset() + 400_000; 1]);
}

/// Short tensors are read with the headers around them, in few requests.
#[test]
fn opening_reads_short_tensors_in_pages() {
    let mut builder = Builder::new();
    for i in 0..1000 {
        let data = Tensor::from_slice(&[i as f32; 16], &[16]).unwrap();
        builder.tensor(format!("layer.{i}"), data).unwrap();
    }
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let (len, reads) = (bytes.len(), Arc::new(Mutex::new(Vec::new())));
    let traced = Traced {
        bytes,
        reads: reads.clone(),
    };
    Archive::from_source(traced, &ReadOptions::default()).unwrap();
    let opened = reads.lock().unwrap().len();
    assert!(opened <= len / 2000 + 3, "{opened} reads of {len} bytes");
}

/// What an open file of ordinary tensors takes: fixed records and the names, nothing for each.
#[test]
fn a_tensor_takes_little_beside_its_name() {
    const COUNT: usize = 10_000;
    let mut builder = Builder::new();
    let mut names = 0;
    for layer in 0..COUNT {
        let name = format!("model.layers.{layer}.mlp.down_proj");
        names += name.len();
        let data = Tensor::from_slice(&[1.0f32; 16], &[16]).unwrap();
        builder.tensor(name, data).unwrap();
    }
    let file = Bytes::from(builder.to_vec().unwrap());
    let before = test_data::alloc::allocated();
    let archive = Archive::from_bytes(file.clone()).unwrap();
    let held = (test_data::alloc::allocated() - before) as usize;
    let each = held.saturating_sub(names) as f64 / COUNT as f64;
    assert!((1.0..=64.0).contains(&each), "{each} bytes a tensor");
    assert_eq!(archive.entries().len(), COUNT);
}

#[test]
fn addresses_that_join_to_one_name_stay_apart() {
    let one = |value: f32| Tensor::from_slice(&[value], &[1]).unwrap();
    let add = |builder: &mut Builder, path: &[&str], value: f32| {
        let tensor = one(value);
        let (shape, data) = (tensor.shape().clone(), tensor.data().clone());
        builder
            .deferred(
                path,
                TensorSpec::new(tensor.dtype(), shape).with_order(tensor.order()),
                data,
            )
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
