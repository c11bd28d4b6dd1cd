//! How much work casts, transpositions and plain copies take, counted in reads, bytes and allocations, which
//! no busy machine can change: what the benchmark's rows of conversions rest on.

#![cfg(all(feature = "mag", feature = "primitiv", feature = "safetensors"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

mod watched;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tensorfmt::convert::{Model, Options, Target, plan};
use tensorfmt::{Archive, Bytes, DType, Format, ReadOptions, Tensor, WriteOptions};
use test_data::alloc::CountingAlloc;

use self::watched::Watched;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

const MIB: u64 = 1 << 20;

/// Tensors of the file, each of 2 MiB.
const COUNT: u64 = 32;

/// Counts what is written.
#[derive(Default)]
struct Counted {
    bytes: u64,
    calls: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.calls += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a conversion may take.
struct Case {
    name: &'static str,
    target: Target,
    cast: Option<DType>,
    /// How often each byte of the input is read.
    times: u64,
    /// MiB of the output.
    written: u64,
    /// Allocations for each tensor: of the model, its builder, its windows and the threads that fill them.
    allocations: u64,
}

/// One test, since the allocations of others would count too.
#[test]
fn conversions_read_long_runs_once_and_allocate_for_windows_only() {
    let mut builder = tensorfmt::safetensors::Builder::new();
    for layer in 0..COUNT {
        let values: Vec<f32> = (0..1024 * 512u32)
            .map(|at| at as f32 + layer as f32)
            .collect();
        let tensor = Tensor::from_slice(&values, &[1024, 512]).unwrap();
        builder.tensor(format!("layer.{layer}"), tensor).unwrap();
    }
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let data = COUNT * 2 * MIB;
    let cases = [
        Case {
            name: "a copy",
            target: Target::Mag,
            cast: None,
            times: 1,
            written: 64,
            allocations: 8,
        },
        Case {
            name: "a transposition",
            target: Target::Primitiv,
            cast: None,
            times: 1,
            written: 64,
            // Up to four threads are started for each.
            allocations: 250,
        },
        Case {
            name: "a cast to bf16",
            target: Target::Safetensors,
            cast: Some(DType::BF16),
            times: 2,
            written: 32,
            allocations: 50,
        },
        Case {
            name: "a cast to f16",
            target: Target::Safetensors,
            cast: Some(DType::F16),
            times: 2,
            written: 32,
            allocations: 50,
        },
    ];
    for case in cases {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let source = Watched {
            bytes: bytes.clone(),
            asked: asked.clone(),
        };
        let archive =
            Archive::from_source_as(source, Format::Safetensors, &ReadOptions::default()).unwrap();
        asked.lock().unwrap().clear();
        let mut options = Options::default();
        options.cast = case.cast;
        let name = case.name;
        ALLOC.reset();
        let mut out = Counted::default();
        let (_, peak) = test_data::alloc::peak_of(|| {
            let plan = plan(Model::of_for(&archive, case.target), case.target, &options).unwrap();
            plan.write_to(&mut out, &WriteOptions::default()).unwrap();
        });
        let calls = ALLOC.count() as u64;
        let reads = asked.lock().unwrap();
        let read: u64 = reads.iter().map(|read| read.end - read.start).sum();
        println!(
            "{name}: {} reads of {read} bytes, {} writes of {} bytes, {calls} allocations, {peak} bytes at once",
            reads.len(),
            out.calls,
            out.bytes,
        );
        assert!(
            read <= case.times * data,
            "{name}: {read} bytes are read, of {data}"
        );
        assert!(
            reads.len() as u64 * 5 <= case.times * data / MIB * 6,
            "{name}: {} reads",
            reads.len()
        );
        assert!(
            out.bytes >= case.written * MIB && out.bytes < case.written * MIB + (64 << 10),
            "{name}: {} bytes are written",
            out.bytes
        );
        // What stands before a tensor is a write or two of its own.
        let most = case.written * 6 / 5 + 3 * COUNT;
        assert!(out.calls <= most, "{name}: {} writes", out.calls);
        let most = case.allocations * COUNT;
        assert!(calls <= most, "{name}: {calls} allocations");
        assert!(peak as u64 <= 40 * MIB, "{name}: {peak} bytes at once");
    }
}
