//! What other crates do with the same tensors.

use std::fs::File;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

fn map(path: &Path) -> memmap2::Mmap {
    let file = File::open(path).expect("open");
    // SAFETY: the files of the benchmark are its own; nothing writes to them while they are open.
    unsafe { memmap2::Mmap::map(&file) }.expect("map")
}

pub mod safe {
    use super::*;

    pub fn write(path: &Path, tensors: &[(String, Vec<u8>)]) {
        let views = tensors.iter().map(|(name, data)| {
            let view = TensorView::new(Dtype::F32, vec![data.len() / 4], data);
            (name.as_str(), view.expect("view"))
        });
        safetensors::serialize_to_file(views, None, path).expect("write");
    }

    pub fn open(path: &Path) -> usize {
        let map = map(path);
        let file = SafeTensors::deserialize(&map).expect("open");
        file.iter()
            .map(|(name, view)| name.len() + view.shape()[0])
            .sum()
    }

    /// Every tensor as a vector of its own, all held.
    pub fn read(path: &Path) -> usize {
        let map = map(path);
        let file = SafeTensors::deserialize(&map).expect("open");
        let all: Vec<Vec<u8>> = file.iter().map(|(_, view)| view.data().to_vec()).collect();
        all.len()
    }
}

pub mod burn {
    use burn_pack::{Bytes, DType, Reader, ReaderLimits, Tensor, Writer};

    use super::*;

    pub fn write(path: &Path, tensors: &[(String, Vec<u8>)]) {
        let tensors = tensors.iter().map(|(name, data)| {
            let dims = vec![data.len() / 4];
            let bytes = Bytes::from_bytes_vec(data.clone());
            Tensor::new(name.clone(), DType::F32, dims, None, bytes)
        });
        let writer = Writer::new(tensors.collect()).overwrite(true);
        writer.write_to_file(path).expect("write");
    }

    fn reader(path: &Path) -> Reader {
        let limits = ReaderLimits::default().with_max_file_size(u64::MAX);
        Reader::from_file(path).expect("open").with_limits(limits)
    }

    pub fn open(path: &Path) -> usize {
        let reader = reader(path);
        reader.tensor_names().iter().map(|name| name.len()).sum()
    }

    /// As vectors: the bytes of its tensors are otherwise those of a map.
    pub fn read(path: &Path) -> usize {
        let reader = reader(path);
        let read = |name: &&str| reader.tensor_data(name).expect("read");
        let all: Vec<Vec<u8>> = reader.tensor_names().iter().map(read).collect();
        all.len()
    }
}

/// zTensor 0.1.0, which writes the generation that tensorfmt writes.
pub mod zt01 {
    use ztensor_0_1::models::{ChecksumAlgorithm, DType, Encoding, Layout};
    use ztensor_0_1::{ZTensorReader, ZTensorWriter};

    use super::*;

    pub fn write(path: &Path, tensors: &[(String, Vec<u8>)], crc: bool) {
        let mut writer = ZTensorWriter::create(path).expect("create");
        for (name, data) in tensors {
            writer
                .add_tensor(
                    name,
                    vec![data.len() as u64 / 4],
                    DType::Float32,
                    Layout::Dense,
                    Encoding::Raw,
                    data.clone(),
                    None,
                    match crc {
                        true => ChecksumAlgorithm::Crc32c,
                        false => ChecksumAlgorithm::None,
                    },
                    None,
                )
                .expect("tensor");
        }
        writer.finalize().expect("write");
    }

    pub fn open(path: &Path) -> usize {
        let reader = ZTensorReader::open(path).expect("open");
        let tensors = reader.list_tensors().iter();
        tensors
            .map(|tensor| tensor.name.len() + tensor.shape.len())
            .sum()
    }

    /// Reading checks the checksums of this crate, there is no way round it.
    pub fn read(path: &Path) -> usize {
        let mut reader = ZTensorReader::open(path).expect("open");
        let names: Vec<String> = reader
            .list_tensors()
            .iter()
            .map(|t| t.name.clone())
            .collect();
        let all: Vec<Vec<u8>> = names
            .iter()
            .map(|name| reader.read_raw_tensor_data_by_name(name).expect("read"))
            .collect();
        all.len()
    }
}

/// zTensor 2.1.1, whose files are of another generation.
pub mod zt21 {
    use std::borrow::Cow;

    use ztensor_2_1::format::DType;
    use ztensor_2_1::read::Source;
    use ztensor_2_1::write::Writer;

    use super::*;

    pub fn write(path: &Path, tensors: &[(String, Vec<u8>)]) {
        // 4096 is the least that the generation allows; the default is 16 times that.
        let options = Writer::options().canonical(false).align(4096);
        let mut writer = options.create(path).expect("create");
        for (name, data) in tensors {
            let dims = vec![data.len() as u64 / 4];
            writer
                .add(name.as_str(), dims, DType::F32, data)
                .expect("tensor");
        }
        writer.finish().expect("write");
    }

    pub fn open(path: &Path) -> usize {
        let source = Source::open(path).expect("open");
        source
            .tensors()
            .map(|t| t.name().len() + t.shape().len())
            .sum()
    }

    pub fn read(path: &Path) -> usize {
        let source = Source::options().map(false).open(path).expect("open");
        let all: Vec<Vec<u8>> = source
            .tensors()
            .map(|tensor| {
                let bytes: Cow<'_, [u8]> = tensor.data().expect("data").bytes().expect("bytes");
                bytes.into_owned()
            })
            .collect();
        all.len()
    }

    pub fn verify(path: &Path) {
        let source = Source::open(path).expect("open");
        for tensor in source.tensors() {
            tensor.verify().expect("verify");
        }
    }
}
