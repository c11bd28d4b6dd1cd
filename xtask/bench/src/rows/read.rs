//! Rows about reading, and about verifying.

use std::cell::RefCell;
use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use tensor_core::Bytes;

use super::{PEERS, Settings, find, large_file, large_model, no_sync, noise, peer_files, work};
use crate::formats::{ALL, Format, Item, mag};
use crate::peers;
use crate::raw::{self, Pages};
use crate::report::{Bar, Row};
use crate::time::{Contender, race};

/// Read everything through a map, without a copy.
pub fn mapped(settings: &Settings) -> Vec<Row> {
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
        let theirs = Contender::new("memmap2, the same ranges", || {
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

/// Read into buffers that are there already.
pub fn into(settings: &Settings) -> Vec<Row> {
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

/// All of a file read into new buffers that stay: by an archive, and by positional reads.
fn all_held<'a>(
    format: &'a Format,
    path: &'a Path,
    ranges: &'a [(u64, u64)],
) -> [Contender<'a>; 2] {
    let ours = Contender::new(format.name, move || {
        let archive = format.open_file(path);
        let all: Vec<Bytes> = (0..archive.len()).map(|at| archive.read(at)).collect();
        black_box(all);
    });
    let theirs = Contender::new("positional reads", move || {
        let file = File::open(path).expect("open");
        let read = |&(offset, len): &(u64, u64)| {
            let mut buffer = Pages::new(len as usize);
            raw::read_at(&file, offset, buffer.as_mut());
            buffer
        };
        black_box(ranges.iter().map(read).collect::<Vec<Pages>>());
    });
    [ours, theirs]
}

/// Read into new buffers that all stay, by the size of a tensor.
pub fn sizes(settings: &Settings) -> Vec<Row> {
    let total = settings.large_tensors() << 4;
    let work = format!("open, read into new buffers, all held, {total} MiB in tensors of one size");
    let mut rows = Vec::new();
    for size in [1, 16, 64, 256] {
        let count = total / size;
        let path = settings.file(&format!("sized-{size}.mag"), |path| {
            let item = |at| Item {
                name: format!("model.layers.{at}.weight"),
                data: Arc::new(Bytes::from(noise(size << 20, at as u64 + 1))),
            };
            let items: Vec<Item> = (0..count).map(item).collect();
            (mag::FORMAT.write)(&items, path, &no_sync());
        });
        let ranges = mag::FORMAT.open_file(&path).ranges();
        let times = race(
            settings.rounds(7),
            all_held(&mag::FORMAT, &path, &ranges).into(),
        );
        let name = format!("mag, {size} MiB a tensor");
        rows.push(Row::new(
            &work,
            &name,
            Bar::Speed(0.95),
            &times[0],
            &times[1],
        ));
    }
    rows
}

/// Read into new buffers that all stay.
pub fn held(settings: &Settings) -> Vec<Row> {
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
        let mut contenders = Vec::from(all_held(format, &path, &ranges));
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
pub fn verify(settings: &Settings) -> Vec<Row> {
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
