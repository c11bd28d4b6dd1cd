//! Rows about zstd.

use std::fs::{self, File};
use std::hint::black_box;

use rayon::prelude::*;
use tensor_core::{Bytes, DType, FileSource, Shape, TensorSpec};

use super::{Settings, find, noise};
use crate::raw::{self, Pages};
use crate::report::{Bar, Row};
use crate::time::{Contender, race};

/// Compress and decompress, all cores.
pub fn zstd_rows(settings: &Settings) -> Vec<Row> {
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
