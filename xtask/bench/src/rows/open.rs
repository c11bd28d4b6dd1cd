//! Rows about opening and listing.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tensor_core::{Bytes, FileSource, Source, SourceError};

use super::{PEERS, SAFETENSORS, Settings, find, peer_files, small_file, small_names, zeros_file};
use crate::formats::ALL;
use crate::peers;
use crate::report::{Bar, Row};
use crate::time::{Contender, Times, race};

/// Open and list many small tensors, and ten times as many.
pub fn open(settings: &Settings) -> Vec<Row> {
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
    let takes_all = |name: &str| count <= 100_000 || name == SAFETENSORS || name == "ztensor 0.1.0";
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
                ("primitiv", SAFETENSORS) => Bar::Time(bars[0]),
                (_, SAFETENSORS) => Bar::Time(bars[1]),
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
pub fn growth(settings: &Settings) -> Vec<Row> {
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
    const EACH: usize = 80;
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
pub fn large(settings: &Settings) -> Vec<Row> {
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
