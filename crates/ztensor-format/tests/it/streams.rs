use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};

use tensor_core::{SourceError, TensorSpec};
use ztensor_format::{
    Archive, Builder, Bytes, DType, Encoding, Endianness, Kind, Outcome, ReadOptions, Shape,
    Source, Tensor, TensorOptions, VerifyOptions, WriteOptions,
};

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
        let range = offset..offset + out.len() as u64;
        self.reads.lock().unwrap().push(range);
        self.bytes.read_into(offset, out)
    }
}

/// Numbers that compress to about a half, different for every seed.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 60) as u8
        })
        .collect()
}

fn bytes_tensor(data: Vec<u8>) -> Tensor {
    let shape = Shape::new(&[data.len() as u64]).unwrap();
    Tensor::new(DType::U8, shape, data).unwrap()
}

fn compressed(data: Vec<u8>, level: i32) -> Bytes {
    let mut builder = Builder::new();
    let options = TensorOptions::new().with_zstd(level);
    builder
        .tensor_with("w", bytes_tensor(data), options)
        .unwrap();
    Bytes::from(builder.to_vec().unwrap())
}

#[test]
fn opening_reads_no_data_in_few_calls() {
    let mut builder = Builder::new();
    let data = Tensor::from_slice(&[1.0f32; 100], &[100]).unwrap();
    for i in 0..1000 {
        builder
            .tensor(format!("layer.{i}.weight"), data.clone())
            .unwrap();
    }
    let reads = Arc::new(Mutex::new(Vec::new()));
    let traced = Traced {
        bytes: Bytes::from(builder.to_vec().unwrap()),
        reads: reads.clone(),
    };
    let archive = Archive::from_source(traced, &ReadOptions::default()).unwrap();
    let opened = std::mem::take(&mut *reads.lock().unwrap());
    let data_end = archive.entries().next_back().unwrap().offset() + 400;
    assert!(
        opened
            .iter()
            .all(|read| read.end <= 8 || read.start >= data_end),
        "{opened:?}"
    );
    assert_eq!(opened.len(), 3);

    let entry = archive.entry("layer.500.weight").unwrap();
    assert_eq!(archive.read(entry).unwrap(), data);
    let one = reads.lock().unwrap().clone();
    assert_eq!(one, vec![entry.offset()..entry.offset() + 400; 1]);
}

/// Where each read is a request over a network, an index near the end of a file is two of them.
#[test]
fn an_index_near_the_end_is_opened_in_two_requests() {
    let built = |tensors: usize, len: usize| {
        let mut builder = Builder::new();
        for i in 0..tensors {
            let data = bytes_tensor(vec![1; len]);
            builder.tensor(format!("layer.{i}"), data).unwrap();
        }
        Bytes::from(builder.to_vec().unwrap())
    };
    let small = built(10, 10);
    let large = built(500, 10_000);
    let many = built(10_000, 1);
    #[allow(unused_mut, reason = "a build may have one generation only")]
    let mut files = vec![(small, 1), (large, 2), (many, 6)];
    #[cfg(feature = "generations")]
    for name in ["v12_dense", "v2_dense"] {
        let cases = test_data::cases("ztensor").unwrap();
        let case = cases.into_iter().find(|case| case.name == name).unwrap();
        files.push((Bytes::from(case.bytes), 1));
    }
    for (bytes, most) in files {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let traced = Traced {
            bytes: bytes.clone(),
            reads: reads.clone(),
        };
        let archive = Archive::from_source(traced, &ReadOptions::default()).unwrap();
        let opened = std::mem::take(&mut *reads.lock().unwrap());
        assert!(opened.len() <= most, "{opened:?}");
        let sum: u64 = opened.iter().map(|read| read.end - read.start).sum();
        let data = archive
            .entries()
            .map(|entry| entry.offset() + entry.stored_len().unwrap());
        let index = bytes.len() as u64 - data.max().unwrap();
        assert!(
            sum <= index.max(64 << 10) + 8,
            "{sum} bytes for an index of {index}"
        );
    }
}

#[test]
fn memory_is_shared_not_copied() {
    let mut builder = Builder::new();
    builder
        .tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap())
        .unwrap();
    let bytes = Bytes::from(builder.to_vec().unwrap());
    let archive = Archive::from_bytes(bytes.clone()).unwrap();
    let tensor = archive.read(archive.entry("w").unwrap()).unwrap();
    assert_eq!(tensor.data().as_ptr(), bytes[64..].as_ptr());
}

#[test]
fn an_entry_of_another_archive_is_refused() {
    let bytes = compressed(vec![1, 2, 3], 0);
    let one = Archive::from_bytes(bytes.clone()).unwrap();
    let other = Archive::from_bytes(bytes).unwrap();
    let error = one.read(other.entries().get(0).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the entry belongs to another archive");
    assert!(one.data(other.entries().get(0).unwrap()).is_err());
    assert!(one.clone().read(one.entries().get(0).unwrap()).is_ok());
    let error = one
        .read_into(one.entries().get(0).unwrap(), &mut [0; 2])
        .unwrap_err();
    assert_eq!(error.to_string(), "tensor \"w\": a buffer of 2 bytes for 3");
}

#[test]
fn compressed_data_answers_any_range() {
    let data = noise(5 << 20, 1);
    let archive = Archive::from_bytes(compressed(data.clone(), 1)).unwrap();
    let source = archive.data(archive.entries().get(0).unwrap()).unwrap();
    assert_eq!(source.size(), data.len() as u64);
    // Forward, with gaps, back, over the end, and nothing at all.
    let ranges = [
        0..10,
        10..2_000_000,
        3_000_000..3_000_001,
        5..6,
        0..0,
        5_242_000..5_242_880,
    ];
    for range in ranges {
        let got = source.read(range.start as u64..range.end as u64).unwrap();
        assert!(got == data[range]);
    }
    assert_eq!(source.read(0..source.size()).unwrap(), data);
    assert!(source.read(0..source.size() + 1).is_err());
    assert!(source.read_into(source.size(), &mut [0]).is_err());
}

#[test]
fn threads_share_a_compressed_source() {
    let data = noise(1 << 20, 2);
    let archive = Archive::from_bytes(compressed(data.clone(), 1)).unwrap();
    let source = archive.data(archive.entries().get(0).unwrap()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (source, data) = (&source, &data);
            scope.spawn(move || {
                for i in 0..20usize {
                    let start = (i * 131_071 + thread * 77_777) % (data.len() - 1000);
                    let mut out = [0; 1000];
                    source.read_into(start as u64, &mut out).unwrap();
                    assert!(out[..] == data[start..start + 1000]);
                }
            });
        }
    });
}

/// What a damaged tensor does to a walk over it: an error of this crate, told as the file's fault
/// by whoever writes it somewhere else.
#[test]
fn damage_comes_out_of_a_source_as_what_it_is() {
    let mut bytes = compressed(noise(3 << 20, 3), 1).to_vec();
    // Longer than a block, so that a head of one is hit.
    bytes[1_000_000..1_150_000].fill(0xFF);
    let archive = Archive::from_bytes(bytes).unwrap();
    let entry = archive.entries().get(0).unwrap();
    let mut builder = Builder::new();
    let data = archive.data(entry).unwrap();
    builder
        .deferred(
            "copy",
            TensorSpec::new(DType::U8, entry.shape().clone()),
            data,
        )
        .unwrap();
    let error = builder.to_vec().err().unwrap();
    assert_eq!(error.kind(), Kind::Invalid);
    assert_eq!(error.rule_id(), archive.read(entry).unwrap_err().rule_id());
    let source = archive.data(entry).unwrap();
    let pulled = source.read_into(0, &mut vec![0; 3 << 20]).unwrap_err();
    assert!(matches!(pulled, SourceError::Codec(_)), "{pulled}");
    assert_eq!(pulled.kind(), Kind::Invalid);
    assert_eq!(
        (pulled.rule_id(), pulled.at()),
        (error.rule_id(), error.at())
    );
}

#[test]
fn order_and_bytes_are_the_same_on_any_number_of_threads() {
    let mut builder = Builder::new();
    for i in 0..40u64 {
        let len = [10, 700_000, 0, 3 << 20][i as usize % 4];
        let options = match i % 3 {
            0 => TensorOptions::new(),
            _ => TensorOptions::new().with_zstd(1),
        };
        let tensor = bytes_tensor(noise(len, i));
        builder
            .tensor_with(format!("t{i}"), tensor, options)
            .unwrap();
    }
    // One that is compressed as it is written, between others that are not.
    let large = bytes_tensor(noise(20 << 20, 99));
    builder
        .tensor_with("large", large, TensorOptions::new().with_zstd(1))
        .unwrap();
    let last = bytes_tensor(noise(1000, 100));
    builder
        .tensor_with("last", last, TensorOptions::new().with_zstd(1))
        .unwrap();
    let write = |threads| {
        let mut options = WriteOptions::default();
        options.threads = threads;
        let mut out = Vec::new();
        builder.write_to_with(&mut out, &options).unwrap();
        out
    };
    let one = write(1);
    assert!(one == write(2) && one == write(5) && one == write(0));
    let archive = Archive::from_bytes(one).unwrap();
    for threads in [1, 3] {
        let mut options = VerifyOptions::default();
        options.threads = threads;
        let report = archive.verify(&options).unwrap();
        assert_eq!(report.count(Outcome::Ok), 42);
        assert_eq!(report.items[40].item, "large");
        let note = report.items[40].note.as_deref().unwrap();
        assert_eq!(note, "crc32c; zstd decodes to 20971520 bytes");
    }
}

#[test]
fn large_raw_tensors_are_checked_in_pieces() {
    let mut builder = Builder::new();
    builder
        .tensor("w", bytes_tensor(noise(40 << 20, 5)))
        .unwrap();
    let mut bytes = builder.to_vec().unwrap();
    let done = Mutex::new(0);
    let count = |bytes| {
        *done.lock().unwrap() += bytes;
        ControlFlow::Continue(())
    };
    let mut options = VerifyOptions::default();
    options.progress = Some(&count);
    let archive = Archive::from_bytes(bytes.clone()).unwrap();
    assert!(!archive.verify(&options).unwrap().has_failed());
    assert_eq!(*done.lock().unwrap(), 40 << 20);
    bytes[30 << 20] ^= 1;
    let archive = Archive::from_bytes(bytes).unwrap();
    let report = archive.verify(&options).unwrap();
    assert!(report.has_failed());
    assert!(
        report.items[0]
            .note
            .as_deref()
            .unwrap()
            .contains("ztensor.checksum.mismatch")
    );

    let stop = |_| ControlFlow::Break(());
    options.progress = Some(&stop);
    assert_eq!(
        archive.verify(&options).unwrap_err().kind(),
        Kind::Cancelled
    );
}

#[test]
fn big_endian_data_is_read_little() {
    let tensor = Tensor::from_slice(&[1u32, 0x0102_0304], &[2]).unwrap();
    let mut builder = Builder::new();
    builder.defaults(TensorOptions::new().with_endianness(Endianness::Big));
    builder.tensor("w", tensor.clone()).unwrap();
    let file = builder.to_vec().unwrap();
    assert_eq!(file[64..72], [0, 0, 0, 1, 1, 2, 3, 4]);
    let archive = Archive::from_bytes(file).unwrap();
    let entry = archive.entries().get(0).unwrap();
    assert_eq!(
        (entry.encoding(), entry.endianness()),
        (Encoding::Raw, Some(Endianness::Big))
    );
    assert_eq!(archive.read(entry).unwrap(), tensor);
}

#[test]
fn limits_refuse_and_say_how_to_raise_them() {
    let bytes = compressed(vec![0; 1000], 0);
    let mut options = ReadOptions::default();
    options.limits.max_decoded_bytes = 999;
    let archive = Archive::from_source(bytes.clone(), &options).unwrap();
    let error = archive.read(archive.entries().get(0).unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
    assert!(error.to_string().contains("`max_decoded_bytes`"), "{error}");
    assert!(
        archive
            .verify(&VerifyOptions::default())
            .unwrap()
            .has_failed()
    );
    options.limits.max_tensor_count = 0;
    let error = Archive::from_source(bytes, &options).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}

#[test]
fn strict_verification_warns_of_what_is_tolerated() {
    let cases = test_data::cases("ztensor").unwrap();
    let mut options = VerifyOptions::default();
    options.strict = true;
    let warnings = |name: &str| {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let archive = Archive::from_bytes(case.bytes.clone()).unwrap();
        archive.verify(&options).unwrap().warnings.join("\n")
    };
    assert_eq!(warnings("base"), "");
    assert_eq!(warnings("empty"), "");
    assert_eq!(warnings("aliased"), "");
    assert_eq!(
        warnings("overlapping"),
        "tensors \"a\" and \"b\" share some of their data"
    );
    assert!(warnings("no_layout").contains("no layout"));
    assert!(warnings("byte_endianness").contains("means nothing"));
    assert!(warnings("gap").contains("unused bytes"));
}

/// More tensors than are checked before what was found is told: each is told once, in its place.
#[test]
fn very_many_tensors_are_verified_in_their_order() {
    let mut builder = Builder::new();
    for at in 0..40_000u32 {
        let tensor = Tensor::from_slice(&[at], &[1]).unwrap();
        builder.tensor(format!("{at}"), tensor).unwrap();
    }
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    assert_eq!(report.items.len(), 40_001);
    for (at, item) in report.items.iter().take(40_000).enumerate() {
        assert_eq!(item.item, format!("{at}"));
        assert_eq!(item.outcome, Outcome::Ok);
    }
    let told = std::sync::Mutex::new(Vec::new());
    let tell = |item: &ztensor_format::Item| told.lock().unwrap().push(item.clone());
    let rest = archive
        .verify(&VerifyOptions::default().with_items(&tell))
        .unwrap();
    assert!(rest.items.is_empty());
    assert_eq!(told.into_inner().unwrap(), report.items);
}

/// Bytes that very many tensors share are checked once, and each tensor is told of what became of them.
#[test]
fn bytes_that_all_tensors_share_are_checked_once() {
    const COUNT: usize = 40_000;
    /// Counts the bytes that it is asked for.
    struct Counting(Bytes, std::sync::atomic::AtomicU64);
    impl Source for Counting {
        fn size(&self) -> u64 {
            self.0.size()
        }
        fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            let len = out.len() as u64;
            self.1.fetch_add(len, std::sync::atomic::Ordering::Relaxed);
            self.0.read_into(offset, out)
        }
    }
    let crowds = test_data::crowds::CROWDS.iter();
    for name in ["ztensor-0.1-blob", "ztensor-1.2-blob", "ztensor-2-seekable"] {
        let crowd = crowds.clone().find(|crowd| crowd.name == name).unwrap();
        let whole = crowd.make(COUNT).files.swap_remove(0).1;
        let mut damaged = whole.clone();
        let archive = Archive::from_bytes(whole.clone()).unwrap();
        // The magic at its start can't be another.
        let first = archive.entries().next().unwrap().offset();
        damaged[usize::try_from(first).unwrap()] ^= 0x10;
        for (file, outcome) in [(whole, None), (damaged, Some(Outcome::Failed))] {
            let len = file.len() as u64;
            let source = std::sync::Arc::new(Counting(file.into(), 0.into()));
            let archive = Archive::from_source(source.clone(), &ReadOptions::default()).unwrap();
            source.1.store(0, std::sync::atomic::Ordering::Relaxed);
            let report = archive.verify(&VerifyOptions::default()).unwrap();
            let asked = source.1.load(std::sync::atomic::Ordering::Relaxed);
            assert!(asked < len, "{name}: {asked} of {len}");
            let tensors = &report.items[..report.items.len() - 1];
            assert_eq!(tensors.len(), COUNT, "{name}");
            for (item, entry) in tensors.iter().zip(archive.entries()) {
                assert_eq!(item.item, entry.name(), "{name}");
                match outcome {
                    Some(outcome) => assert_eq!(item.outcome, outcome, "{name} {item}"),
                    None => assert_ne!(item.outcome, Outcome::Failed, "{name} {item}"),
                }
            }
        }
    }
}

/// What is said of shared bytes is not said of others: not as another dtype, nor against another checksum.
#[test]
fn the_same_bytes_are_held_against_each_checksum() {
    let tensor = Tensor::from_slice(&[7u8; 4096], &[4096]).unwrap();
    let mut builder = Builder::new();
    // The first one is there so that the places of the others are numbers of one width.
    for name in ["_", "a", "b", "c"] {
        builder.tensor(name, tensor.clone()).unwrap();
    }
    let mut file = builder.to_vec().unwrap();
    let archive = Archive::from_bytes(file.clone()).unwrap();
    let text = archive.entry("a").unwrap().checksum().unwrap().to_string();
    let places: Vec<u16> = archive
        .entries()
        .map(|entry| u16::try_from(entry.offset()).unwrap())
        .collect();
    let index = usize::from(places[3]) + 4096;
    let find = |file: &[u8], wanted: &[u8]| -> Vec<usize> {
        let all = index..file.len() - wanted.len();
        all.filter(|&at| &file[at..at + wanted.len()] == wanted)
            .collect()
    };
    for place in &places[2..] {
        let [high, low] = place.to_be_bytes();
        let found = find(&file, &[0x19, high, low]);
        assert_eq!(found.len(), 1);
        file[found[0] + 1..found[0] + 3].copy_from_slice(&places[1].to_be_bytes());
    }
    let found = find(&file, text.as_bytes());
    assert_eq!(found.len(), 4);
    let last = found[2] + text.len() - 1;
    file[last] = if file[last] == b'0' { b'1' } else { b'0' };
    let archive = Archive::from_bytes(file).unwrap();
    let shared = archive.entries().skip(1);
    assert!(
        shared
            .clone()
            .all(|entry| entry.offset() == u64::from(places[1]))
    );
    let report = archive.verify(&VerifyOptions::default()).unwrap();
    let outcomes: Vec<_> = report.items[1..4].iter().map(|item| item.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Failed, Outcome::Ok]);
}
