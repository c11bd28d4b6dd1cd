//! How much work opening and reading take, counted in allocations and bytes, which no busy
//! machine can change: what the benchmark's rows rest on.

#![cfg(all(
    feature = "aero",
    feature = "burnpack",
    feature = "mag",
    feature = "primitiv",
    feature = "safetensors",
    feature = "ztensor"
))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

mod watched;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tensor_core::TensorSpec;
use tensorfmt::{Archive, Bytes, DType, Format, Shape, Tensor};
use test_data::alloc::CountingAlloc;

use self::watched::Watched;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// Tensors of the file that is opened.
const COUNT: usize = 10_000;

/// Bytes of each.
const LEN: usize = 64;

fn file(format: Format) -> Vec<u8> {
    macro_rules! build {
        ($codec:ident) => {{
            let mut builder = tensorfmt::$codec::Builder::new();
            for i in 0..COUNT {
                let name = format!("model.layers.{i}.weight");
                let tensor = Tensor::from_slice(&[1.0f32; LEN / 4], &[LEN as u64 / 4]);
                builder.tensor(name, tensor.unwrap()).unwrap();
            }
            builder.to_vec().unwrap()
        }};
    }
    match format {
        Format::Mag => build!(mag),
        Format::Ztensor => build!(ztensor),
        Format::Burnpack => build!(burnpack),
        Format::Aero => build!(aero),
        Format::Primitiv => build!(primitiv),
        _ => build!(safetensors),
    }
}

/// The number of allocations, and the bytes of them, that `work` asks for.
fn cost<T>(work: impl FnOnce() -> T) -> (usize, usize, T) {
    ALLOC.reset();
    let result = work();
    (ALLOC.count(), ALLOC.total(), result)
}

/// One test, since the work of others would count too.
#[test]
fn opening_and_reading_take_no_more_than_they_did() {
    // Allocations for each tensor of an index, which is in a few blocks, and bytes of them: the record,
    // the name of some 22 bytes, its place in the table of names; what grows asks for more than it has.
    let budget = [
        (Format::Mag, 0.02, 90),
        (Format::Ztensor, 0.02, 90),
        (Format::Burnpack, 0.02, 120),
        (Format::Aero, 0.02, 280),
        (Format::Primitiv, 0.02, 100),
        (Format::Safetensors, 0.02, 80),
    ];
    for (format, most_calls, most_bytes) in budget {
        let bytes = Bytes::from(file(format));
        let opened = bytes.clone();
        let (calls, total, archive) = cost(|| {
            Archive::from_source_as(opened, format, &tensorfmt::ReadOptions::default()).unwrap()
        });
        let calls = calls as f64 / COUNT as f64;
        let each = total / COUNT;
        println!("{format}: {calls:.2} allocations, {each} bytes for each tensor");
        assert!(calls <= most_calls, "{format}: {calls} allocations");
        assert!(each <= most_bytes, "{format}: {each} bytes");

        // One tensor, from memory: nothing is copied.
        let entry = archive.entries().get(COUNT / 2).unwrap();
        let (calls, total, tensor) = cost(|| archive.read(entry).unwrap());
        println!("{format}: a read takes {calls} allocations, {total} bytes");
        assert!(calls <= 1 && total <= 128, "{format}: {calls}, {total}");
        assert_eq!(tensor.data().len(), LEN);

        // From elsewhere: its bytes are read, and nothing else.
        let asked = Arc::new(Mutex::new(Vec::new()));
        let source = Watched {
            bytes,
            asked: asked.clone(),
        };
        let archive =
            Archive::from_source_as(source, format, &tensorfmt::ReadOptions::default()).unwrap();
        let data: Vec<Range<u64>> = archive
            .entries()
            .iter()
            .map(|entry| entry.offset()..entry.offset() + entry.nbytes().unwrap())
            .collect();
        // A primitiv file has its index among the data.
        if format != Format::Primitiv {
            let touched = asked.lock().unwrap().iter().any(|asked| {
                data.iter()
                    .any(|data| asked.start < data.end && data.start < asked.end)
            });
            assert!(!touched, "{format}: opening reads data");
        }
        asked.lock().unwrap().clear();
        let entry = archive.entries().get(COUNT / 2).unwrap();
        let (calls, total, _) = cost(|| archive.read(entry).unwrap());
        assert!(calls <= 4 && total <= 1024, "{format}: {calls}, {total}");
        let read = asked.lock().unwrap();
        assert_eq!(*read, [data[COUNT / 2].clone()], "{format}");
    }

    // A large tensor is read once, into one buffer that starts on a page.
    let len = 4 << 20;
    let shape = Shape::new(&[len as u64]).unwrap();
    let mut builder = tensorfmt::mag::Builder::new();
    let data = Bytes::from(vec![1u8; len * 4]);
    builder
        .deferred("w", TensorSpec::new(DType::F32, shape), data)
        .unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let archive = Archive::from_source_as(
        Watched { bytes, asked },
        Format::Mag,
        &tensorfmt::ReadOptions::default(),
    )
    .unwrap();
    let entry = archive.entries().get(0).unwrap();
    let (tensor, peak) = test_data::alloc::peak_of(|| archive.read(entry).unwrap());
    assert!(peak < len * 4 + 8192, "{peak} bytes at once");
    assert_eq!(tensor.data().as_ptr().align_offset(4096), 0);
}
