//! The rows of the budget.

mod compressed;
mod memory;
mod open;
mod read;
mod verbs;
mod write;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use tensor_core::{Bytes, Source, SourceError, WriteOptions};

pub use self::memory::convert_child;
pub use self::open::open_child;
use crate::formats::{Format, Item};
use crate::peers;
use crate::report::Row;
use crate::time::Times;

pub struct Settings {
    pub quick: bool,
    pub folder: PathBuf,
}

pub type Rows = fn(&Settings) -> Vec<Row>;

pub const ALL_ROWS: &[(&str, Rows)] = &[
    ("open", open::open),
    ("growth", open::growth),
    ("large", open::large),
    ("mapped", read::mapped),
    ("into", read::into),
    ("held", read::held),
    ("sizes", read::sizes),
    ("verify", read::verify),
    ("write", write::write),
    ("durable", write::durable),
    ("zstd", compressed::zstd_rows),
    ("memory", memory::memory),
    ("verbs", verbs::verbs),
];

impl Settings {
    fn rounds(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(3) } else { full }
    }

    /// Tensors of the large model, which together have the size of the budget's rows.
    fn large_tensors(&self) -> usize {
        if self.quick { 16 } else { 64 }
    }

    /// The file of this name, made if it is not there yet.
    fn file(&self, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
        let path = self.folder.join(name);
        if !path.exists() {
            let unfinished = self.folder.join(format!("new-{name}"));
            make(&unfinished);
            fs::rename(&unfinished, &path).expect("rename");
            // What is left to write would be written while others are measured.
            let _ = std::process::Command::new("sync").status();
        }
        path
    }
}

fn no_sync() -> WriteOptions<'static> {
    let mut options = WriteOptions::default();
    options.durable = false;
    options.in_place = true;
    options
}

fn small_names(count: usize) -> Vec<String> {
    (0..count)
        .map(|i| format!("model.layers.{i}.weight"))
        .collect()
}

/// Values that no compressor and no page of zeros makes cheap.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The model of the rows about speed: tensors of 16 MiB.
fn large_model(count: usize) -> Vec<(String, Vec<u8>)> {
    (0..count)
        .into_par_iter()
        .map(|i| {
            (
                format!("model.layers.{i}.weight"),
                noise(16 << 20, i as u64 + 1),
            )
        })
        .collect()
}

fn items(model: &[(String, Vec<u8>)]) -> Vec<Item> {
    let item = |(name, data): &(String, Vec<u8>)| Item {
        name: name.clone(),
        data: Arc::new(Bytes::from(data.clone())),
    };
    model.iter().map(item).collect()
}

fn small_file(settings: &Settings, format: &Format, count: usize) -> PathBuf {
    settings.file(&format!("small-{count}.{}", format.ending), |path| {
        let data: Arc<dyn Source> = Arc::new(Bytes::from(vec![0x3F; 64]));
        let item = |name| Item {
            name,
            data: data.clone(),
        };
        let items: Vec<Item> = small_names(count).into_iter().map(item).collect();
        (format.write)(&items, path, &no_sync());
    })
}

fn large_file(settings: &Settings, format: &Format) -> PathBuf {
    let count = settings.large_tensors();
    settings.file(&format!("large-{count}.{}", format.ending), |path| {
        (format.write)(&items(&large_model(count)), path, &no_sync());
    })
}

fn peer_files(
    settings: &Settings,
    kind: &str,
    model: &dyn Fn() -> Vec<(String, Vec<u8>)>,
) -> [PathBuf; 4] {
    [
        settings.file(&format!("{kind}-peer.safetensors"), |path| {
            peers::safe::write(path, &model())
        }),
        settings.file(&format!("{kind}-peer.bpk"), |path| {
            let path_with_ending = path.with_extension("bpk");
            peers::burn::write(&path_with_ending, &model());
        }),
        settings.file(&format!("{kind}-peer-0.1.zt"), |path| {
            peers::zt01::write(path, &model(), true)
        }),
        settings.file(&format!("{kind}-peer-2.1.zt"), |path| {
            peers::zt21::write(path, &model())
        }),
    ]
}

/// The name of a peer, and what it does.
type Peer<'a> = (&'static str, Box<dyn FnMut() + 'a>);

/// The crate of that name.
const SAFETENSORS: &str = "safetensors 0.8";

const PEERS: [&str; 4] = [
    SAFETENSORS,
    "burn-pack 0.23.0-pre.1",
    "ztensor 0.1.0",
    "ztensor 2.1.1",
];

fn find<'a>(times: &'a [Times], name: &str) -> &'a Times {
    times
        .iter()
        .find(|times| times.name == name)
        .expect("a contender")
}

/// A source of zeros that takes no memory.
struct Zeros(u64);

impl Source for Zeros {
    fn size(&self) -> u64 {
        self.0
    }

    fn read_into(&self, _: u64, out: &mut [u8]) -> Result<(), SourceError> {
        out.fill(0);
        Ok(())
    }
}

/// Leaves a hole where zeros are written.
struct Holes {
    file: File,
    len: u64,
}

impl Write for Holes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        if bytes.iter().any(|byte| *byte != 0) {
            self.file.write_all_at(bytes, self.len)?;
        }
        self.len += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.set_len(self.len)
    }
}

/// Tensors of zeros that together have `bytes`, in a file with holes.
fn zeros_file(settings: &Settings, format: &Format, count: usize, bytes: u64) -> PathBuf {
    settings.file(
        &format!("zeros-{count}-{bytes}.{}", format.ending),
        |path| {
            let each = bytes / count as u64;
            let item = |i| Item {
                name: format!("model.layers.{i}.weight"),
                data: Arc::new(Zeros(each)),
            };
            let items: Vec<Item> = (0..count).map(item).collect();
            let file = File::create(path).expect("create");
            let mut holes = Holes { file, len: 0 };
            (format.write_to)(&items, &mut holes);
            holes.flush().expect("size");
        },
    )
}

fn work(settings: &Settings, what: &str) -> String {
    let count = settings.large_tensors();
    format!("{what}, {} MiB over {count} tensors", count * 16)
}
