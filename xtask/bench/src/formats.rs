//! The codecs behind one interface.

use std::path::Path;
use std::sync::Arc;

use tensor_core::{
    Bytes, DType, FileSource, MappedFile, Shape, Source, Tensor, TensorSpec, VerifyOptions,
    WriteOptions,
};

/// A tensor to be written: its name and its data, of f32 in one dim.
#[derive(Clone)]
pub struct Item {
    pub name: String,
    pub data: Arc<dyn Source>,
}

/// An archive of any of the formats.
pub trait Opened: Send + Sync {
    fn len(&self) -> usize;
    /// Touches what a listing shows of each tensor.
    fn list(&self) -> u64;
    fn read(&self, at: usize) -> Bytes;
    fn read_into(&self, at: usize, out: &mut [u8]);
    fn verify(&self);
    /// Where the tensors' bytes are in the file.
    fn ranges(&self) -> Vec<(u64, u64)>;
}

pub struct Format {
    pub name: &'static str,
    pub ending: &'static str,
    pub open: fn(Arc<dyn Source>) -> Box<dyn Opened>,
    pub write: fn(&[Item], &Path, &WriteOptions<'_>),
    /// Writes into anything, for files with holes.
    pub write_to: fn(&[Item], &mut dyn std::io::Write),
}

impl Format {
    pub fn open_mapped(&self, path: &Path) -> Box<dyn Opened> {
        // SAFETY: the files of the benchmark are its own; nothing writes to them while they are open.
        let map = unsafe { MappedFile::open(path) }.expect("map");
        (self.open)(Arc::new(map))
    }

    pub fn open_file(&self, path: &Path) -> Box<dyn Opened> {
        (self.open)(Arc::new(FileSource::open(path).expect("open")))
    }
}

/// The shape of an item: as many f32 as it has bytes for.
fn shape(item: &Item) -> Shape {
    Shape::new(&[item.data.size() / 4]).expect("shape")
}

macro_rules! format {
    ($module:ident, $krate:ident, $name:literal, $ending:literal, $options:expr, $builder:expr) => {
        pub mod $module {
            use super::*;

            pub const FORMAT: Format = Format {
                name: $name,
                ending: $ending,
                open: |source| {
                    let archive = Archive::from_source(source, &$options).expect("open");
                    Box::new(archive)
                },
                write: |items, path, options| {
                    builder(items)
                        .write_file_with(path, options)
                        .expect("write");
                },
                write_to: |items, out| builder(items).write_to(out).expect("write"),
            };

            use ::$krate::Archive;

            fn builder(items: &[Item]) -> ::$krate::Builder {
                let mut builder = $builder;
                for item in items {
                    builder
                        .deferred(
                            item.name.as_str(),
                            TensorSpec::new(DType::F32, shape(item)),
                            item.data.clone(),
                        )
                        .expect("tensor");
                }
                builder
            }

            impl Opened for Archive {
                fn len(&self) -> usize {
                    self.entries().len()
                }

                fn list(&self) -> u64 {
                    let line = |entry: usize| {
                        let entry = self.entries().get(entry).expect("entry");
                        entry.name().len() as u64
                            + entry.shape().elements()
                            + entry.offset()
                            + u64::from(entry.dtype().is_some())
                    };
                    (0..self.len()).map(line).fold(0, u64::wrapping_add)
                }

                fn read(&self, at: usize) -> Bytes {
                    let tensor: Tensor =
                        Archive::read(self, self.entries().get(at).expect("entry")).expect("read");
                    tensor.data().clone()
                }

                fn read_into(&self, at: usize, out: &mut [u8]) {
                    let entry = self.entries().get(at).expect("entry");
                    Archive::read_into(self, entry, out).expect("read");
                }

                fn verify(&self) {
                    let report = Archive::verify(self, &VerifyOptions::default()).expect("verify");
                    assert!(!report.has_failed(), "a checksum failed");
                }

                fn ranges(&self) -> Vec<(u64, u64)> {
                    let range = |at: usize| {
                        let entry = self.entries().get(at).expect("entry");
                        (entry.offset(), entry.nbytes().expect("known dtype"))
                    };
                    (0..self.len()).map(range).collect()
                }
            }
        }
    };
}

/// `Default` and then, for the files of a million tensors, more than a careful reader takes on.
fn roomy_burnpack() -> ::burnpack_format::ReadOptions {
    let mut options = ::burnpack_format::ReadOptions::default();
    options.limits.max_tensor_count = u64::MAX;
    options.limits.max_metadata_bytes = u64::MAX;
    options.limits.max_text_bytes = u64::MAX;
    options.limits.max_dim_count = u64::MAX;
    options
}

fn burnpack_builder() -> ::burnpack_format::Builder {
    let mut limits = ::burnpack_format::WriteLimits::default();
    limits.max_tensor_count = u64::MAX;
    limits.max_metadata_bytes = u64::MAX;
    let mut builder = ::burnpack_format::Builder::new();
    builder.limits(limits);
    builder
}

fn ztensor_builder() -> ::ztensor_format::Builder {
    use ::ztensor_format::{Algorithm, TensorOptions};
    let mut builder = ::ztensor_format::Builder::new();
    builder.defaults(TensorOptions::new().with_checksum(Algorithm::Crc32c));
    builder
}

format!(
    aero,
    aero_format,
    "aero",
    "aero",
    ::aero_format::ReadOptions::default(),
    ::aero_format::Builder::new()
);
format!(
    burnpack,
    burnpack_format,
    "burnpack",
    "bpk",
    roomy_burnpack(),
    burnpack_builder()
);
format!(
    mag,
    mag_format,
    "mag",
    "mag",
    ::mag_format::ReadOptions::default(),
    ::mag_format::Builder::new()
);
format!(
    primitiv,
    primitiv_format,
    "primitiv",
    "model",
    ::primitiv_format::ReadOptions::default(),
    ::primitiv_format::Builder::new()
);
format!(
    safetensors,
    safetensors_format,
    "safetensors",
    "safetensors",
    ::safetensors_format::ReadOptions::default(),
    ::safetensors_format::Builder::new()
);
format!(
    ztensor,
    ztensor_format,
    "ztensor",
    "zt",
    ::ztensor_format::ReadOptions::default(),
    ztensor_builder()
);

pub const ALL: [&Format; 6] = [
    &mag::FORMAT,
    &ztensor::FORMAT,
    &burnpack::FORMAT,
    &aero::FORMAT,
    &primitiv::FORMAT,
    &safetensors::FORMAT,
];
