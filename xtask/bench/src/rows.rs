//! The rows of the budget.

use std::cell::RefCell;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use tensor_core::{Bytes, DType, FileSource, Shape, Source, SourceError, TensorSpec, WriteOptions};
use tensorfmt::convert::Target;

use crate::formats::{ALL, Format, Item};
use crate::raw::{self, Pages};
use crate::report::{Bar, Row};
use crate::time::{Contender, Times, race};
use crate::{peers, rss};

pub struct Settings {
    pub quick: bool,
    pub folder: PathBuf,
}

pub type Rows = fn(&Settings) -> Vec<Row>;

pub const ALL_ROWS: &[(&str, Rows)] = &[
    ("open", open),
    ("growth", growth),
    ("large", large),
    ("mapped", mapped),
    ("into", into),
    ("held", held),
    ("verify", verify),
    ("write", write),
    ("durable", durable),
    ("zstd", zstd_rows),
    ("memory", memory),
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

const PEERS: [&str; 4] = [
    "safetensors",
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

/// Open and list many small tensors, and ten times as many.
fn open(settings: &Settings) -> Vec<Row> {
    let mut rows = open_of(settings, 100_000, "small", [1.0, 0.35]);
    if !settings.quick {
        rows.extend(open_of(settings, 1_000_000, "million", [0.35, 0.20]));
    }
    rows
}

/// Open and list so many tensors: against safetensors in these times, that of primitiv first.
fn open_of(settings: &Settings, count: usize, kind: &str, bars: [f64; 2]) -> Vec<Row> {
    let ours = ALL.map(|format| small_file(settings, format, count));
    let model = || {
        small_names(count)
            .into_iter()
            .map(|name| (name, vec![0x3F; 64]))
            .collect()
    };
    let theirs = peer_files(settings, kind, &model);
    let mut contenders = Vec::new();
    for (format, path) in ALL.iter().zip(&ours) {
        contenders.push(Contender::new(format.name, move || {
            let archive = format.open_mapped(path);
            assert_eq!(archive.len(), count);
            black_box(archive.list());
        }));
    }
    let open: [fn(&Path) -> usize; 4] = [
        peers::safe::open,
        peers::burn::open,
        peers::zt01::open,
        peers::zt21::open,
    ];
    // Burn's own reader takes no more than 100,000 tensors.
    let takes_all = |name: &str| count <= 100_000 || name == "safetensors" || name == "ztensor 0.1.0";
    for ((name, path), open) in PEERS.iter().zip(&theirs).zip(open) {
        if !takes_all(name) {
            continue;
        }
        contenders.push(Contender::new(*name, move || {
            black_box(open(path));
        }));
    }
    let times = race(settings.rounds(15), contenders);
    let work = format!("open + list, {count} tensors of 16 f32, mapped");
    let mut rows = Vec::new();
    for format in ALL {
        let ours = find(&times, format.name);
        for peer in PEERS.into_iter().filter(|peer| takes_all(peer)) {
            let bar = match (format.name, peer) {
                ("primitiv", "safetensors") => Bar::Time(bars[0]),
                ("safetensors", "safetensors") => Bar::Time(1.0),
                (_, "safetensors") => Bar::Time(bars[1]),
                ("ztensor", "ztensor 0.1.0") => Bar::Time(0.9),
                ("ztensor", "ztensor 2.1.1") | ("burnpack", "burn-pack 0.23.0-pre.1") => {
                    Bar::Time(1.0)
                }
                _ => continue,
            };
            rows.push(Row::new(&work, format.name, bar, ours, find(&times, peer)));
        }
    }
    rows
}

/// Time per tensor from thousands to a million.
fn growth(settings: &Settings) -> Vec<Row> {
    let most = if settings.quick { 100_000 } else { 1_000_000 };
    let counts = [1_000, 10_000, 100_000, 1_000_000];
    let counts: Vec<usize> = counts.into_iter().filter(|count| *count <= most).collect();
    let mut rows = Vec::new();
    for format in ALL {
        let files: Vec<PathBuf> = counts
            .iter()
            .map(|count| small_file(settings, format, *count))
            .collect();
        let mut contenders = Vec::new();
        for (count, path) in counts.iter().zip(&files) {
            // As many opens as make the same number of tensors in all.
            let repeat = most / count;
            contenders.push(Contender::new(format!("{count} tensors"), move || {
                for _ in 0..repeat {
                    black_box(format.open_mapped(path).list());
                }
            }));
        }
        let times = race(settings.rounds(9), contenders);
        let base = find(&times, "10000 tensors").clone();
        for times in &times {
            let bar = match times.name.as_str() {
                "1000000 tensors" => Bar::Time(1.5),
                _ => Bar::None,
            };
            if times.name != base.name {
                let mut row = Row::new(
                    &format!("open + list {most} tensors in all, in files of fewer"),
                    &format!("{}, {}", format.name, times.name),
                    bar,
                    times,
                    &base,
                );
                row.against.clone_from(&base.name);
                rows.push(row);
            }
        }
    }
    rows.push(new_memory(settings, &counts, most));
    rows.extend(once(settings, most));
    rows
}

/// What the machine itself takes for the memory of an index, which grows as well.
fn new_memory(settings: &Settings, counts: &[usize], most: usize) -> Row {
    /// About what the index of mag takes for each tensor.
    const EACH: usize = 192;
    let touch = |count: usize| {
        for _ in 0..most / count {
            let mut memory = vec![0u8; count * EACH];
            for page in memory.chunks_mut(4096) {
                page[0] = 1;
            }
            black_box(memory);
        }
    };
    let contenders = counts
        .iter()
        .map(|&count| Contender::new(format!("{count} tensors"), move || touch(count)));
    let times = race(settings.rounds(9), contenders.collect());
    let (base, last) = (find(&times, "10000 tensors"), times.last().expect("counts"));
    let work = format!("new memory touched, {EACH} bytes for each of {most} tensors in all");
    Row::new(&work, &last.name, Bar::None, last, base)
}

/// The same in processes that open one file once, as most do: nothing is warm in any of them.
fn once(settings: &Settings, most: usize) -> Vec<Row> {
    let work = format!("open + list once in a process of its own, time for {most} tensors");
    let mut rows = Vec::new();
    for format in ALL {
        let counts = [10_000, most];
        let mut times = counts.map(|count| Times {
            name: format!("{count} tensors"),
            seconds: Vec::new(),
        });
        for _ in 0..settings.rounds(15) {
            for (&count, times) in counts.iter().zip(&mut times) {
                let path = small_file(settings, format, count);
                let output = Command::new(std::env::current_exe().expect("name"))
                    .arg("--open")
                    .arg(format.name)
                    .arg(&path)
                    .output()
                    .expect("run");
                assert!(output.status.success(), "{output:?}");
                let seconds: f64 = String::from_utf8_lossy(&output.stdout)
                    .trim()
                    .parse()
                    .expect("seconds");
                times.seconds.push(seconds * (most / count) as f64);
            }
        }
        let [base, last] = times;
        let bar = match most {
            1_000_000 => Bar::Time(1.5),
            _ => Bar::None,
        };
        let what = format!("{}, {}", format.name, last.name);
        rows.push(Row::new(&work, &what, bar, &last, &base));
    }
    rows
}

/// What a child does: opens, lists, closes, and prints the seconds that took.
pub fn open_child(format: &str, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let format = ALL.iter().find(|known| known.name == format);
    let format = format.ok_or("no such format")?;
    let start = std::time::Instant::now();
    black_box(format.open_mapped(path).list());
    println!("{}", start.elapsed().as_secs_f64());
    Ok(())
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

/// Counts what is read of a source.
struct Counting {
    inner: FileSource,
    bytes: Arc<AtomicU64>,
}

impl Source for Counting {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read(&self, range: std::ops::Range<u64>) -> Result<Bytes, SourceError> {
        self.bytes
            .fetch_add(range.end - range.start, Ordering::Relaxed);
        self.inner.read(range)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.bytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.inner.read_into(offset, out)
    }
}

/// Open files that differ in nothing but the size of their tensors.
fn large(settings: &Settings) -> Vec<Row> {
    let sizes: &[u64] = &[1 << 20, 64 << 20, 512 << 20, 4 << 30];
    let mut rows = Vec::new();
    for format in ALL {
        let files: Vec<PathBuf> = sizes
            .iter()
            .map(|size| zeros_file(settings, format, 64, *size))
            .collect();
        let label = |size: &u64| format!("{} MiB", size >> 20);
        let mut contenders = Vec::new();
        for (size, path) in sizes.iter().zip(&files) {
            contenders.push(Contender::new(label(size), move || {
                black_box(format.open_file(path).list());
            }));
        }
        let times = race(settings.rounds(31), contenders);
        let read = |path: &PathBuf| {
            let bytes = Arc::new(AtomicU64::new(0));
            let inner = FileSource::open(path).expect("open");
            let source = Counting {
                inner,
                bytes: bytes.clone(),
            };
            black_box((format.open)(Arc::new(source)).list());
            bytes.load(Ordering::Relaxed)
        };
        for (size, path) in sizes.iter().zip(&files).skip(1) {
            let bar = if *size == 4 << 30 {
                Bar::Extra(1e-3)
            } else {
                Bar::Extra(f64::INFINITY)
            };
            let name = format!(
                "{}, {}: reads {} bytes",
                format.name,
                label(size),
                read(path)
            );
            let mut row = Row::new(
                "open + list a file of 64 tensors, through a file",
                &name,
                bar,
                find(&times, &label(size)),
                &times[0],
            );
            row.against = format!("1 MiB: reads {} bytes", read(&files[0]));
            rows.push(row);
        }
    }
    rows
}

/// Read everything through a map, without a copy.
fn mapped(settings: &Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    for format in ALL {
        let path = large_file(settings, format);
        let archive = format.open_mapped(&path);
        let ranges = archive.ranges();
        let file = File::open(&path).expect("open");
        // SAFETY: nothing writes to the file while it is mapped.
        let map = unsafe { memmap2::Mmap::map(&file) }.expect("map");
        let ours = Contender::new(format.name, || {
            let tensors = 0..archive.len();
            black_box(tensors.fold(0, |sum: u64, at| {
                sum.wrapping_add(raw::sum(&archive.read(at)))
            }));
        });
        let theirs = Contender::new("memmap2", || {
            let sum = ranges.iter().fold(0, |sum: u64, &(offset, len)| {
                let start = offset as usize;
                sum.wrapping_add(raw::sum(&map[start..start + len as usize]))
            });
            black_box(sum);
        });
        let times = race(settings.rounds(9), vec![ours, theirs]);
        let work = work(settings, "read all, mapped, sum of 64-bit words");
        rows.push(Row::new(
            &work,
            format.name,
            Bar::Speed(0.97),
            &times[0],
            &times[1],
        ));
    }
    rows
}

fn work(settings: &Settings, what: &str) -> String {
    let count = settings.large_tensors();
    format!("{what}, {} MiB over {count} tensors", count * 16)
}

/// Read into buffers that are there already.
fn into(settings: &Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    let buffers: RefCell<Vec<Pages>> = RefCell::new(
        (0..settings.large_tensors())
            .map(|_| Pages::new(16 << 20))
            .collect(),
    );
    for format in ALL {
        let path = large_file(settings, format);
        let archive = format.open_file(&path);
        let ranges = archive.ranges();
        let file = File::open(&path).expect("open");
        let ours = Contender::new(format.name, || {
            for (at, buffer) in buffers.borrow_mut().iter_mut().enumerate() {
                archive.read_into(at, buffer.as_mut());
            }
        });
        let theirs = Contender::new("positional reads", || {
            for (&(offset, _), buffer) in ranges.iter().zip(buffers.borrow_mut().iter_mut()) {
                raw::read_at(&file, offset, buffer.as_mut());
            }
        });
        let times = race(settings.rounds(9), vec![ours, theirs]);
        let work = work(settings, "read_into warm buffers that start on a page");
        rows.push(Row::new(
            &work,
            format.name,
            Bar::Speed(0.95),
            &times[0],
            &times[1],
        ));
    }
    rows
}

/// Read into new buffers that all stay.
fn held(settings: &Settings) -> Vec<Row> {
    let count = settings.large_tensors();
    let theirs = peer_files(settings, &format!("large-{count}"), &|| large_model(count));
    let read: [fn(&Path) -> usize; 4] = [
        peers::safe::read,
        peers::burn::read,
        peers::zt01::read,
        peers::zt21::read,
    ];
    let mut rows = Vec::new();
    let work = work(settings, "open, read into new buffers, all held");
    for format in ALL {
        let path = large_file(settings, format);
        let ranges = format.open_file(&path).ranges();
        let mut contenders = vec![
            Contender::new(format.name, || {
                let archive = format.open_file(&path);
                let all: Vec<Bytes> = (0..archive.len()).map(|at| archive.read(at)).collect();
                black_box(all);
            }),
            Contender::new("positional reads", || {
                let file = File::open(&path).expect("open");
                let read = |&(offset, len): &(u64, u64)| {
                    let mut buffer = Pages::new(len as usize);
                    raw::read_at(&file, offset, buffer.as_mut());
                    buffer
                };
                black_box(ranges.iter().map(read).collect::<Vec<Pages>>());
            }),
        ];
        for ((name, path), read) in PEERS.iter().zip(&theirs).zip(read) {
            contenders.push(Contender::new(*name, move || {
                assert_eq!(read(path), count);
            }));
        }
        let times = race(settings.rounds(7), contenders);
        rows.push(Row::new(
            &work,
            format.name,
            Bar::Speed(0.95),
            &times[0],
            &times[1],
        ));
        for times_of_peer in &times[2..] {
            rows.push(Row::new(
                &work,
                format.name,
                Bar::Speed(1.0),
                &times[0],
                times_of_peer,
            ));
        }
    }
    rows
}

/// Check every checksum.
fn verify(settings: &Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    let count = settings.large_tensors();
    for format in ALL
        .iter()
        .filter(|format| matches!(format.name, "ztensor" | "aero"))
    {
        let path = large_file(settings, format);
        let archive = format.open_mapped(&path);
        let through_file = format.open_file(&path);
        let ranges = archive.ranges();
        let file = File::open(&path).expect("open");
        // SAFETY: nothing writes to the file while it is mapped.
        let map = unsafe { memmap2::Mmap::map(&file) }.expect("map");
        let start = ranges.first().expect("tensors").0;
        let end = ranges
            .last()
            .map(|(offset, len)| offset + len)
            .expect("tensors");
        let crc = format.name == "ztensor";
        let (raw_map, raw_file) = match crc {
            true => ("crc32c, all cores, mapped", "crc32c, all cores, in windows"),
            false => ("blake3, all cores, mapped", "blake3, all cores, in windows"),
        };
        let mut contenders = vec![
            Contender::new("mapped", || archive.verify()),
            Contender::new(raw_map, || {
                if crc {
                    black_box(raw::crc32c_parts(&map, &ranges));
                } else {
                    black_box(raw::blake3_map(&map[start as usize..end as usize]));
                }
            }),
            Contender::new("file", || through_file.verify()),
            Contender::new(raw_file, || {
                if crc {
                    black_box(raw::crc32c_file(&file, &ranges));
                } else {
                    black_box(raw::blake3_file(&file, start, end - start));
                }
            }),
        ];
        let peers =
            (crc).then(|| peer_files(settings, &format!("large-{count}"), &|| large_model(count)));
        if let Some([_, _, old, new]) = peers.clone() {
            contenders.push(Contender::new(
                "ztensor 0.1.0, which checks while it reads",
                move || {
                    black_box(peers::zt01::read(&old));
                },
            ));
            contenders.push(Contender::new("ztensor 2.1.1, xxh3", move || {
                peers::zt21::verify(&new);
            }));
        }
        let times = race(settings.rounds(9), contenders);
        let work_of = |how| work(settings, &format!("verify, all cores, {how}"));
        let mapped = find(&times, "mapped");
        rows.push(Row::new(
            &work_of("mapped"),
            format.name,
            Bar::Speed(0.9),
            mapped,
            find(&times, raw_map),
        ));
        for peer in times.iter().skip(4) {
            rows.push(Row::new(
                &work_of("mapped"),
                format.name,
                Bar::Speed(1.0),
                mapped,
                peer,
            ));
        }
        let file = find(&times, "file");
        rows.push(Row::new(
            &work_of("through a file"),
            format.name,
            Bar::Speed(0.9),
            file,
            find(&times, raw_file),
        ));
    }
    // The tables of a work stay together.
    rows.sort_by(|a, b| a.work.cmp(&b.work));
    rows
}

/// Write a new file, without waiting for the disk.
fn write(settings: &Settings) -> Vec<Row> {
    saving(settings, false)
}

/// Write a file so that it is on the disk.
fn durable(settings: &Settings) -> Vec<Row> {
    saving(settings, true)
}

fn saving(settings: &Settings, durable: bool) -> Vec<Row> {
    let count = settings.large_tensors();
    let model = large_model(count);
    let items = items(&model);
    let parts: Vec<&[u8]> = model.iter().map(|(_, data)| data.as_slice()).collect();
    let work = work(
        settings,
        match durable {
            true => "write, durable: temporary file, fsync, rename, fsync of the folder",
            false => "write, new file, no sync",
        },
    );
    let mut rows = Vec::new();
    let target = settings.folder.join("written");
    let gone = || {
        let _ = fs::remove_file(&target);
        let _ = fs::remove_file(target.with_extension("bpk"));
        // What others left to write would be written meanwhile.
        let _ = Command::new("sync").status();
    };
    for format in ALL {
        let options = if durable {
            WriteOptions::default()
        } else {
            no_sync()
        };
        let crc = format.name == "ztensor";
        let raw_name = match (durable, crc) {
            (false, false) => "write_all",
            (false, true) => "write_all, crc32c beside it",
            (true, false) => "the same calls around write_all",
            (true, true) => "the same calls around write_all, crc32c beside it",
        };
        let mut contenders = vec![
            Contender::new(format.name, || (format.write)(&items, &target, &options)).before(gone),
            Contender::new(raw_name, || match durable {
                true => raw::write_durable(&target, &parts, crc),
                false => drop(raw::write_new(&target, &parts, crc)),
            })
            .before(gone),
        ];
        let hashes = format.name == "aero";
        if hashes {
            contenders.push(Contender::new("blake3, all cores", || {
                black_box(raw::blake3_parts(&parts));
            }));
        }
        let peers: Vec<Peer<'_>> = match (format.name, durable) {
            (_, true) => Vec::new(),
            ("burnpack", _) => vec![(
                PEERS[1],
                Box::new(|| peers::burn::write(&target.with_extension("bpk"), &model)),
            )],
            ("ztensor", _) => vec![
                (
                    PEERS[2],
                    Box::new(|| peers::zt01::write(&target, &model, true)),
                ),
                (PEERS[3], Box::new(|| peers::zt21::write(&target, &model))),
            ],
            ("mag", _) => vec![(PEERS[0], Box::new(|| peers::safe::write(&target, &model)))],
            _ => Vec::new(),
        };
        let first_peer = contenders.len();
        for (name, run) in peers {
            contenders.push(Contender::new(name, run).before(gone));
        }
        let times = race(settings.rounds(7), contenders);
        if hashes {
            let name = format!("the slower of {raw_name} and blake3 on all cores");
            let limit = Times::slower(&name, &times[1], &times[2]);
            rows.push(Row::new(
                &work,
                format.name,
                Bar::Speed(0.9),
                &times[0],
                &limit,
            ));
        } else {
            rows.push(Row::new(
                &work,
                format.name,
                Bar::Speed(0.9),
                &times[0],
                &times[1],
            ));
        }
        for peer in &times[first_peer..] {
            rows.push(Row::new(
                &work,
                format.name,
                Bar::Speed(1.0),
                &times[0],
                peer,
            ));
        }
    }
    gone();
    rows
}

/// Compress and decompress, all cores.
fn zstd_rows(settings: &Settings) -> Vec<Row> {
    use ztensor_format::{Archive, Builder, ReadOptions, TensorOptions};
    let count = if settings.quick { 16 } else { 64 };
    // Weights as they are: the exponents are much alike, the rest is noise.
    let tensor = |i: usize| -> Vec<u8> {
        let noise = noise(8 << 20, i as u64 + 1);
        let words = noise.as_chunks::<4>().0.iter();
        words
            .flat_map(|word| {
                let bits = u32::from_le_bytes(*word);
                (bits & 0x80FF_FF00 | 0x3C00_0000).to_le_bytes()
            })
            .collect()
    };
    let data: Vec<Bytes> = (0..count)
        .into_par_iter()
        .map(|i| Bytes::from(tensor(i)))
        .collect();
    let frames: Vec<Vec<u8>> = data
        .par_iter()
        .map(|data| zstd::stream::encode_all(&**data, 3).expect("encode"))
        .collect();
    let builder = || {
        let mut builder = Builder::new();
        builder.defaults(TensorOptions::new().with_zstd(3));
        for (i, data) in data.iter().enumerate() {
            let shape = Shape::new(&[data.len() as u64 / 4]).expect("shape");
            let source = data.clone();
            builder
                .deferred(format!("{i}"), TensorSpec::new(DType::F32, shape), source)
                .expect("tensor");
        }
        builder
    };
    let file = builder().to_vec().expect("encode");
    let path = settings.folder.join("zstd.zt");
    fs::write(&path, &file).expect("write");
    let archive = Archive::from_bytes(file).expect("open");
    let source = FileSource::open(&path).expect("open");
    let through_file = Archive::from_source(source, &ReadOptions::default()).expect("open");
    let raw_file = File::open(&path).expect("open");
    let stored: Vec<(u64, usize)> = archive
        .entries()
        .iter()
        .map(|entry| {
            let len = entry.stored_len().expect("known");
            (entry.offset(), usize::try_from(len).expect("memory"))
        })
        .collect();
    let raw_decode = |frame: &[u8], len: usize| -> Pages {
        let mut buffer = Pages::new(len);
        let got = zstd::bulk::decompress_to_buffer(frame, buffer.as_mut()).expect("decode");
        assert_eq!(got, len);
        buffer
    };
    let decode = |archive: &Archive| {
        let all: Vec<Bytes> = (0..archive.entries().len())
            .into_par_iter()
            .map(|at| {
                let entry = archive.entries().get(at).expect("entry");
                archive.read(entry).expect("decode").data().clone()
            })
            .collect();
        black_box(all);
    };
    let contenders = vec![
        Contender::new("decode", || decode(&archive)),
        Contender::new("decode from a file", || decode(&through_file)),
        Contender::new("zstd decode", || {
            let frames = frames.par_iter().zip(&data);
            let all: Vec<Pages> = frames
                .map(|(frame, data)| raw_decode(frame, data.len()))
                .collect();
            black_box(all);
        }),
        Contender::new("reading the frames, zstd decode", || {
            let stored = stored.par_iter().zip(&data);
            let all: Vec<Pages> = stored
                .map(|(&(offset, len), data)| {
                    let mut frame = Pages::new(len);
                    raw::read_at(&raw_file, offset, frame.as_mut());
                    raw_decode(frame.as_mut(), data.len())
                })
                .collect();
            black_box(all);
        }),
        Contender::new("encode", || {
            black_box(builder().to_vec().expect("encode"));
        }),
        Contender::new("zstd encode", || {
            let all: Vec<Vec<u8>> = data
                .par_iter()
                .map(|data| zstd::stream::encode_all(&**data, 3).expect("encode"))
                .collect();
            black_box(all);
        }),
    ];
    let times = race(settings.rounds(7), contenders);
    let row = |ours: &str, theirs: &str, bar| {
        let work = format!("zstd, all cores, {} MiB over {count} tensors", count * 8);
        Row::new(
            &work,
            &format!("ztensor, {ours}"),
            bar,
            find(&times, ours),
            find(&times, theirs),
        )
    };
    vec![
        row("decode", "zstd decode", Bar::Speed(0.85)),
        row(
            "decode from a file",
            "reading the frames, zstd decode",
            Bar::Speed(0.85),
        ),
        row("encode", "zstd encode", Bar::Speed(0.85)),
    ]
}

/// Peak anonymous memory of converting 2 GiB.
fn memory(settings: &Settings) -> Vec<Row> {
    let bytes: u64 = if settings.quick { 256 << 20 } else { 2 << 30 };
    let mut rows = Vec::new();
    for count in [1usize, 64] {
        let mut sources: Vec<(&str, PathBuf)> = ALL
            .iter()
            .map(|format| (format.name, zeros_file(settings, format, count, bytes)))
            .collect();
        // The two that no codec of the five writes into a stream.
        for (name, target, ending) in [
            ("safetensors", Target::Safetensors, "safetensors"),
            ("aeroset", Target::AeroSet, "aeroset.json"),
        ] {
            let from = sources[0].1.clone();
            let folder = settings.folder.join(format!("{name}-{count}-{bytes}"));
            let path = folder.join(format!("zeros.{ending}"));
            if !path.exists() {
                fs::create_dir_all(&folder).expect("folder");
                crate::convert(&from, &path, target).expect("convert");
            }
            sources.push((name, path));
        }
        for (source, from) in &sources {
            let mut most = 0.0f64;
            let mut worst = "";
            let mut all = String::new();
            for target in Target::ALL {
                let folder = settings.folder.join("converted");
                fs::create_dir_all(&folder).expect("folder");
                let to = folder.join(format!("out.{}", target.ending()));
                let output = Command::new(std::env::current_exe().expect("name"))
                    .arg("--convert")
                    .args([from, &to])
                    .arg(target.name())
                    .output()
                    .expect("run");
                assert!(output.status.success(), "{output:?}");
                let peak: f64 = String::from_utf8_lossy(&output.stdout)
                    .trim()
                    .parse()
                    .expect("KiB");
                let peak = peak / 1024.0;
                all += &format!("{} {peak:.0}, ", target.name());
                if peak > most {
                    (most, worst) = (peak, target.name());
                }
                fs::remove_dir_all(&folder).expect("remove");
            }
            rows.push(Row {
                work: format!("peak anonymous memory of converting {} MiB", bytes >> 20),
                format: format!("from {source}, {count} tensors"),
                against: format!("most: to {worst}"),
                bar: Bar::Memory(64.0),
                figure: most,
                ours: format!("MiB to {}", all.trim_end_matches(", ")),
                theirs: String::new(),
            });
        }
    }
    rows
}

/// What a child does: converts, and prints its peak in KiB.
pub fn convert_child(
    from: &Path,
    to: &Path,
    target: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let target = Target::from_name(target).ok_or("no such target")?;
    let peak = rss::Peak::watch();
    crate::convert(from, to, target)?;
    println!("{}", peak.stop());
    Ok(())
}
