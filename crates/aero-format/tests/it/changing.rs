//! Data that changes between hashing and writing is noticed, whichever of the hashes it is that would lie.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aero_format::{
    Archive, BuildError, Builder, Bytes, DType, Error, Order, Set, Shape, Source, TensorSpec,
};
use tensor_core::SourceError;

const LEN: usize = 4000;

/// Bytes that are read whole, and are others from one read on.
#[derive(Clone)]
struct Drifting {
    reads: Arc<AtomicU64>,
    changes_at: u64,
}

impl Drifting {
    fn at(changes_at: u64) -> Self {
        Self {
            reads: Arc::default(),
            changes_at,
        }
    }

    fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }
}

impl Source for Drifting {
    fn size(&self) -> u64 {
        LEN as u64
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        // A read of a page of the shard is no new look at the data unless it is the first one.
        let read = match offset {
            0 => self.reads.fetch_add(1, Ordering::SeqCst),
            _ => self.reads().saturating_sub(1),
        };
        out.fill(u8::from(read >= self.changes_at));
        Ok(())
    }
}

/// Three tensors, of which the second one drifts.
fn builder(source: &Drifting, options: impl Fn(&mut Builder)) -> Builder {
    let mut builder = Builder::new();
    let shape = || Shape::new(&[(LEN / 4) as u64]).unwrap();
    for name in ["a", "b", "c"] {
        let (dtype, order) = (DType::F32, Order::RowMajor);
        let added = match name {
            "b" => builder.deferred(
                name,
                TensorSpec::new(dtype, shape()).with_order(order),
                source.clone(),
            ),
            _ => builder.deferred(
                name,
                TensorSpec::new(dtype, shape()).with_order(order),
                Bytes::from(vec![7; LEN]),
            ),
        };
        added.unwrap();
    }
    options(&mut builder);
    builder
}

fn changed(error: &Error) -> (usize, &str, &str) {
    match error {
        Error::Build(BuildError::Changed { shard, first, last }) => (*shard, first, last),
        other => panic!("{other:?}"),
    }
}

type Choice = (&'static str, fn(&mut Builder), (&'static str, &'static str));

/// What is hashed, and which tensors the error can name.
const CHOICES: [Choice; 4] = [
    ("plain", |_| (), ("a", "c")),
    (
        "hashes",
        |builder| {
            builder.tensor_hashes(true);
        },
        ("b", "b"),
    ),
    (
        "pages",
        |builder| {
            builder.phsh(Some(512)).unwrap();
        },
        ("a", "c"),
    ),
    (
        "a shard of its own",
        |builder| {
            builder.max_shard_bytes(1);
        },
        ("b", "b"),
    ),
];

#[test]
fn a_stream_and_a_vector_are_right_or_an_error_that_names_the_tensor() {
    for (what, choose, named) in CHOICES {
        let steady = Drifting::at(u64::MAX);
        builder(&steady, choose).to_vec().unwrap();
        let reads = steady.reads();
        assert!(reads >= 2, "{what}: {reads}");
        for changes_at in 1..reads {
            for stream in [false, true] {
                let builder = builder(&Drifting::at(changes_at), choose);
                let error = match stream {
                    true => builder.write_to(Vec::new()).unwrap_err(),
                    false => builder.to_vec().unwrap_err(),
                };
                let shard = usize::from(what == "a shard of its own");
                assert_eq!(
                    changed(&error),
                    (shard, named.0, named.1),
                    "{what} {changes_at}"
                );
                assert!(error.to_string().contains(&format!("{:?}", named.0)));
            }
        }
    }
}

/// An index with hashes that is compressed can't be put in place afterwards, so its file is read twice.
#[cfg(feature = "zstd")]
#[test]
fn a_file_whose_compressed_index_has_hashes_is_right_or_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let choose = |builder: &mut Builder| {
        builder.tensor_hashes(true).zstd_level(Some(3)).unwrap();
    };
    let path = folder.path().join("x.aero");
    let steady = Drifting::at(u64::MAX);
    builder(&steady, choose).write_file(&path).unwrap();
    fs::remove_file(&path).unwrap();
    for changes_at in 1..steady.reads() {
        let error = builder(&Drifting::at(changes_at), choose)
            .write_file(&path)
            .unwrap_err();
        assert_eq!(changed(&error), (0, "b", "b"), "{changes_at}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// A file that is written in one pass has the hashes of what is in it, whatever that is.
#[test]
fn a_file_that_is_written_in_one_pass_reads_its_data_once() {
    let folder = tempfile::tempdir().unwrap();
    for (what, choose, _) in CHOICES {
        let path = folder.path().join("x.aero");
        let source = Drifting::at(1);
        let raw = |builder: &mut Builder| {
            choose(builder);
            builder.zstd_level(None).unwrap();
        };
        builder(&source, raw).write_file(&path).unwrap();
        assert_eq!(source.reads(), 1, "{what}");
        let report = Archive::open(&path)
            .unwrap()
            .verify(&Default::default())
            .unwrap();
        assert!(!report.has_failed(), "{what}: {report:?}");
    }
}

#[test]
fn a_set_whose_index_has_hashes_is_right_or_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.aeroset.json");
    for (what, choose, named) in CHOICES {
        for hashes in [false, true] {
            let choose = |builder: &mut Builder| {
                choose(builder);
                builder.max_part_shards(1);
                if hashes {
                    builder.tensor_hashes(true);
                }
            };
            let steady = Drifting::at(u64::MAX);
            builder(&steady, choose).write_set(&path).unwrap();
            let set = Set::open(&path).unwrap();
            let report = set.verify(&Default::default()).unwrap();
            assert!(!report.has_failed(), "{what}: {report:?}");
            let hashed = hashes || what == "hashes";
            assert_eq!(set.entry("b").unwrap().hash_b3().is_some(), hashed);
            for file in fs::read_dir(folder.path()).unwrap() {
                fs::remove_file(file.unwrap().path()).unwrap();
            }
            for changes_at in 1..steady.reads() {
                let error = builder(&Drifting::at(changes_at), choose)
                    .write_set(&path)
                    .unwrap_err();
                let (_, first, last) = changed(&error);
                let named = if hashed { ("b", "b") } else { named };
                assert_eq!((first, last), named, "{what} {changes_at}");
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            }
        }
    }
}
