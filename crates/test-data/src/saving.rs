//! Tests of how a codec saves and opens files, which are the same for all of them.

/// The tests of a codec that are about files: what a failed write leaves, what an open archive sees, and that
/// errors name the file. They stand where this is written, and use the crate that is named.
///
/// `ending` is that of the format's files, `format` its name, `broken` bytes that break the rule `rule`, and
/// `shrunk` a length that is within the tensor of a file with 4096 elements of f32.
#[macro_export]
macro_rules! saving_tests {
    ($codec:ident, ending: $ending:literal, format: $format:literal, broken: $broken:expr, rule: $rule:literal, shrunk: $shrunk:literal) => {
        use std::fs;
        use std::ops::ControlFlow;
        use std::sync::atomic::{AtomicU64, Ordering};

        use tensor_core::{SourceError, TensorSpec};
        use $codec::{Archive, Builder, DType, Kind, Shape, Source, Tensor, WriteOptions};

        fn builder_of(values: &[f32]) -> Builder {
            let mut builder = Builder::new();
            let tensor = Tensor::from_slice(values, &[values.len() as u64]).unwrap();
            builder.tensor("w", tensor).unwrap();
            builder
        }

        /// A source that fails after its first bytes.
        struct Failing(u64);

        impl Source for Failing {
            fn size(&self) -> u64 {
                self.0
            }

            fn read_into(&self, offset: u64, _: &mut [u8]) -> Result<(), SourceError> {
                Err(SourceError::Other(format!("no bytes at {offset}").into()))
            }
        }

        /// A source that has another length each time that it is asked.
        struct Stepping {
            size: AtomicU64,
            grows: bool,
        }

        impl Source for Stepping {
            fn size(&self) -> u64 {
                match self.grows {
                    true => self.size.fetch_add(4, Ordering::Relaxed),
                    false => self.size.fetch_sub(4, Ordering::Relaxed),
                }
            }

            fn read_into(&self, _: u64, out: &mut [u8]) -> Result<(), SourceError> {
                out.fill(0);
                Ok(())
            }
        }

        #[test]
        fn a_failing_source_leaves_the_old_file_and_nothing_else() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(concat!("w.", $ending));
            builder_of(&[1.0, 2.0, 3.0]).write_file(&path).unwrap();
            let before = fs::read(&path).unwrap();

            let mut builder = builder_of(&[4.0]);
            let shape = Shape::new(&[1000]).unwrap();
            builder
                .deferred("x", TensorSpec::new(DType::F32, shape), Failing(4000))
                .unwrap();
            let error = builder.write_file(&path).unwrap_err();
            assert_eq!(error.kind(), Kind::Io);
            assert_eq!(error.tensor(), Some("x"));
            assert_eq!(error.to_string(), "tensor \"x\": no bytes at 0");
            assert_eq!(fs::read(&path).unwrap(), before);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }

        #[test]
        fn stopping_on_request_leaves_the_old_file() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(concat!("w.", $ending));
            let stop = |_| ControlFlow::Break(());
            let mut options = WriteOptions::default();
            options.progress = Some(&stop);
            let error = builder_of(&[1.0])
                .write_file_with(&path, &options)
                .unwrap_err();
            assert_eq!(error.kind(), Kind::Cancelled);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }

        #[test]
        fn an_archive_can_be_written_over_itself() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(concat!("w.", $ending));
            builder_of(&[1.0, 2.0, 3.0]).write_file(&path).unwrap();
            let archive = Archive::open(&path).unwrap();
            let mut builder = Builder::new();
            for entry in archive.entries() {
                let (dtype, shape) = (entry.dtype().unwrap(), entry.shape().clone());
                let spec = TensorSpec::new(dtype, shape).with_order(entry.order());
                let data = archive.data(entry).unwrap();
                builder.deferred("renamed", spec, data).unwrap();
            }
            builder.write_file(&path).unwrap();
            // The open archive still reads the file it opened.
            let old = archive.read(archive.entries().get(0).unwrap()).unwrap();
            assert_eq!(old.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
            let new = Archive::open(&path).unwrap();
            let tensor = new.read(new.entry("renamed").unwrap()).unwrap();
            assert_eq!(tensor.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        }

        #[test]
        fn a_file_that_shrinks_while_open_is_an_error() {
            let folder = tempfile::tempdir().unwrap();
            let name = concat!("w.", $ending);
            let path = folder.path().join(name);
            builder_of(&[1.0; 4096]).write_file(&path).unwrap();
            let archive = Archive::open(&path).unwrap();
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len($shrunk).unwrap();
            let entry = archive.entries().get(0).unwrap();
            let into = archive.read_into(entry, &mut [0; 4 * 4096]).unwrap_err();
            for error in [archive.read(entry).unwrap_err(), into] {
                assert_eq!(error.kind(), Kind::Io);
                let text = error.to_string();
                assert!(text.contains(name) && text.contains("shorter"), "{text}");
                assert_eq!(error.tensor(), Some("w"), "{text}");
                assert!(
                    error.at().is_some_and(|at| at.offset < 4 * 4096 + 8192),
                    "{text}"
                );
                assert!(text.contains("tensor \"w\": the file"), "{text}");
                assert!(text.contains(" (byte 0x"), "{text}");
                assert_eq!(text.matches(name).count(), 1, "{text}");
            }
            // So does a copy, which reads it piece by piece and gives it another name.
            let (dtype, shape) = (entry.dtype().unwrap(), entry.shape().clone());
            let spec = TensorSpec::new(dtype, shape).with_order(entry.order());
            let mut builder = Builder::new();
            let data = archive.data(entry).unwrap();
            builder.deferred("copy", spec, data).unwrap();
            let copied = folder.path().join(concat!("copy.", $ending));
            for error in [
                builder.to_vec().unwrap_err(),
                builder.write_file(&copied).unwrap_err(),
            ] {
                let text = error.to_string();
                assert_eq!(error.tensor(), Some("copy"), "{text}");
                assert!(text.contains(name) && text.contains(" (byte 0x"), "{text}");
            }
            assert!(!copied.exists());
        }

        #[test]
        fn errors_of_open_name_the_file() {
            let folder = tempfile::tempdir().unwrap();
            let missing = folder.path().join(concat!("missing.", $ending));
            let text = Archive::open(&missing).unwrap_err().to_string();
            assert!(text.contains(concat!("missing.", $ending)), "{text}");
            let name = concat!("broken.", $ending);
            let broken = folder.path().join(name);
            fs::write(&broken, $broken).unwrap();
            let error = Archive::open(&broken).unwrap_err();
            assert_eq!(error.rule_id(), Some($rule));
            let head = format!("{name}: invalid {} file: ", $format);
            assert!(error.to_string().contains(&head), "{error}");
        }

        #[test]
        fn a_source_that_changes_its_length_is_an_error_and_leaves_nothing() {
            for (grows, now) in [(true, "404"), (false, "396")] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("w");
                let mut builder = Builder::new();
                let shape = Shape::new(&[100]).unwrap();
                let size = AtomicU64::new(400);
                let source = Stepping { size, grows };
                builder
                    .deferred("layer.w", TensorSpec::new(DType::F32, shape), source)
                    .unwrap();
                let error = builder.write_file(&path).unwrap_err();
                assert_eq!(error.kind(), Kind::Build);
                let text = format!(
                    "tensor \"layer.w\" had 400 bytes when it was added, and has {now} now"
                );
                assert_eq!(error.to_string(), text);
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            }
        }

        #[test]
        fn a_builder_writes_one_file_by_every_way() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(concat!("w.", $ending));
            let builder = builder_of(&[1.0, 2.0, 3.0]);
            let bytes = builder.to_vec().unwrap();
            assert_eq!(builder.encoded_len().unwrap(), bytes.len() as u64);
            let mut out = Vec::new();
            builder.write_to(&mut out).unwrap();
            assert_eq!(out, bytes);
            builder.write_file(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            let in_place = WriteOptions::default().with_in_place(true);
            builder.write_file_with(&path, &in_place).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            let once = WriteOptions::default().with_create_new(true);
            assert!(builder.write_file_with(&path, &once).is_err());
        }
    };
}
