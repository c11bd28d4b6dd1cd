//! What the targets share: each does something a user would do with any input, and asserts what
//! must hold whatever the input was.

pub mod aero;
mod any;
pub mod burnpack;
mod input;
pub mod mag;
pub mod primitiv;
pub mod safetensors;
pub mod ztensor;

pub use any::any;
pub use input::{Input, TensorInput};
use tensor_core::{Bytes, Kind, Source, SourceError};

/// Tensors that decode to more than this are left alone: a small compressed file may rightly ask
/// for memory without end, if a caller reads it whole.
pub const MOST_DECODED: u64 = 1 << 20;

/// How many decoded bytes one input may cost in all.
pub const MOST_WORK: u64 = 4 << 20;

/// The same bytes, but not as memory: what a file is to a reader.
pub struct Remote(pub Bytes);

impl Source for Remote {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.0.read_into(offset, out)
    }

    fn window(&self) -> usize {
        // Small and odd, so that little files have many windows too.
        333
    }
}

/// All of a source, pulled in windows that fit nothing.
pub fn in_windows(source: &dyn Source) -> Result<Vec<u8>, SourceError> {
    let mut whole = vec![0; usize::try_from(source.size()).unwrap()];
    let mut offset = 0;
    for window in whole.chunks_mut(1021) {
        source.read_into(offset, window)?;
        offset += window.len() as u64;
    }
    assert!(
        source.read_into(offset, &mut [0]).is_err(),
        "reads past the end"
    );
    Ok(whole)
}

/// Bytes in memory never fail to be read, and nobody calls anything wrongly here: the file is at
/// fault, or it is beyond what we read.
pub fn is_the_files_fault(kind: Kind) -> bool {
    matches!(kind, Kind::Invalid | Kind::Limit | Kind::Unsupported)
}

/// `read_every_tensor(archive)`: by every way that a codec has, which must agree, after a check
/// that verification comes to an end.
macro_rules! read_every_tensor {
    ($archive:expr, $length_of_read:expr) => {{
        let archive = $archive;
        let mut options = tensor_core::VerifyOptions::default();
        options.threads = 1;
        let report = archive.verify(&options).expect("memory can be read");
        options.strict = true;
        let strict = archive.verify(&options).expect("memory can be read");
        assert_eq!(report.items, strict.items);
        let mut work = 0;
        for entry in archive.entries() {
            assert!(archive.entry(entry.name()).is_some(), "{entry:?}");
            let Some(len) = entry.nbytes() else {
                let error = archive.read(entry).expect_err("has no length");
                assert!($crate::is_the_files_fault(error.kind()), "{error}");
                continue;
            };
            work += len;
            if len > $crate::MOST_DECODED || work > $crate::MOST_WORK {
                break;
            }
            let mut out = vec![1; usize::try_from(len).unwrap()];
            match (archive.read(entry), archive.read_into(entry, &mut out)) {
                (Ok(tensor), Ok(())) => {
                    assert_eq!(tensor.shape(), entry.shape());
                    assert_eq!(tensor.order(), entry.order());
                    assert_eq!(Some(tensor.dtype()), entry.dtype());
                    let data = archive.data(entry).expect("was read");
                    assert_eq!(data.size(), len);
                    assert!($crate::in_windows(&*data).unwrap() == out);
                    #[allow(clippy::redundant_closure_call, reason = "one codec differs")]
                    if ($length_of_read)(entry) {
                        assert!(tensor.data() == &out);
                    }
                }
                (Err(whole), Err(into)) => {
                    assert!($crate::is_the_files_fault(whole.kind()), "{whole}");
                    assert_eq!(whole.to_string(), into.to_string());
                    // A walk over nothing meets no fault.
                    if let Ok(data) = archive.data(entry)
                        && data.size() > 0
                    {
                        assert!($crate::in_windows(&*data).is_err(), "{whole}");
                    }
                }
                (whole, into) => panic!("{whole:?}, {into:?}"),
            }
        }
        report
    }};
}
pub(crate) use read_every_tensor;

/// `parse_with(codec, bytes, options)`: from memory and from elsewhere, which must agree.
macro_rules! parse_with {
    ($codec:ident, $bytes:expr, $options:expr, $length_of_read:expr) => {{
        let bytes = tensor_core::Bytes::copy_from_slice($bytes);
        let memory = $codec::Archive::from_source(bytes.clone(), $options);
        let remote = $codec::Archive::from_source($crate::Remote(bytes), $options);
        match (memory, remote) {
            (Ok(memory), Ok(remote)) => {
                let near = $crate::read_every_tensor!(&memory, $length_of_read);
                let far = $crate::read_every_tensor!(&remote, $length_of_read);
                assert_eq!(near, far);
                Some(memory)
            }
            (Err(memory), Err(remote)) => {
                assert!($crate::is_the_files_fault(memory.kind()), "{memory}");
                assert_eq!(memory.to_string(), remote.to_string());
                None
            }
            (memory, remote) => panic!("{memory:?} from memory, {remote:?} from elsewhere"),
        }
    }};
}
pub(crate) use parse_with;

/// `written(codec, builder)`: what the builder writes, after a check that it says its length and
/// writes the same twice. `None` where the calls contradict each other.
macro_rules! written {
    ($builder:expr) => {{
        let builder = $builder;
        match builder.to_vec() {
            Ok(file) => {
                if let Ok(len) = builder.encoded_len() {
                    assert_eq!(len, file.len() as u64);
                }
                assert!(builder.to_vec().expect("was written before") == file);
                Some(file)
            }
            Err(error) => {
                assert_eq!(error.kind(), tensor_core::Kind::Build, "{error}");
                assert!(builder.encoded_len().is_err());
                None
            }
        }
    }};
}
pub(crate) use written;

/// `read_back(archive, tensors)`: every tensor that the builder took is there, the same, and the
/// report finds nothing wrong.
macro_rules! read_back {
    ($archive:expr, $tensors:expr) => {{
        let (archive, tensors) = ($archive, $tensors);
        let mut options = tensor_core::VerifyOptions::default();
        options.strict = true;
        let report = archive.verify(&options).expect("memory can be read");
        assert!(!report.has_failed(), "{report:?}");
        assert_eq!(archive.entries().len(), tensors.len());
        for (name, tensor) in tensors {
            let entry = archive.entry(name).expect(name);
            let read = archive.read(entry).expect(name);
            assert!(read.data() == tensor.data(), "{name:?}");
            assert_eq!(read.dtype(), tensor.dtype(), "{name:?}");
        }
    }};
}
pub(crate) use read_back;
