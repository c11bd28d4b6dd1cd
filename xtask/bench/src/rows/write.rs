//! Rows about writing.

use std::fs;
use std::hint::black_box;
use std::process::Command;

use tensor_core::WriteOptions;

use super::{PEERS, Peer, Settings, items, large_model, no_sync, work};
use crate::formats::ALL;
use crate::peers;
use crate::raw;
use crate::report::{Bar, Row};
use crate::time::{Contender, Times, race};

/// Write a new file, without waiting for the disk.
pub fn write(settings: &Settings) -> Vec<Row> {
    saving(settings, false)
}

/// Write a file so that it is on the disk.
pub fn durable(settings: &Settings) -> Vec<Row> {
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
        // Without a sync single rounds vary fourfold, so there are more of them.
        let times = race(settings.rounds(if durable { 7 } else { 15 }), contenders);
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
