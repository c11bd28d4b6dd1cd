//! What is read, and what it takes.

use std::time::{Duration, Instant};

use tensor_core::Source;
use tensor_core::codec::{Ticker, TransferError, walk};
use tensor_remote::{Remote, RemoteOptions};
use test_data::http::{Play, Server};

use crate::{address, noise, open, open_with, quick, read};

const MIB: usize = 1 << 20;

#[test]
fn any_range_is_what_is_there() {
    let server = Server::start();
    let bytes = noise(3 * MIB + 17);
    server.put("a", bytes.clone());
    let source = open(&server, "a");
    assert_eq!(source.size(), bytes.len() as u64);
    let mut state = 1u64;
    for round in 0..300 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let start = (state >> 20) as usize % bytes.len();
        let most = [10, 5_000, 300_000, bytes.len()][round % 4];
        let len = ((state >> 8) as usize % most).min(bytes.len() - start);
        assert_eq!(
            read(&source, start, len).unwrap(),
            bytes[start..start + len],
            "{start} {len}"
        );
    }
    assert_eq!(source.read(5..5).unwrap().len(), 0);
    assert!(source.read(0..bytes.len() as u64 + 1).is_err());
}

#[test]
fn a_small_file_is_one_request_and_its_two_ends_are_two() {
    let server = Server::start();
    server.put("small", noise(60_000));
    let source = open(&server, "small");
    assert_eq!(read(&source, 0, 60_000).unwrap(), noise(60_000));
    assert_eq!(server.take_log().len(), 1);

    let bytes = noise(10 * MIB);
    server.put("large", bytes.clone());
    let source = open(&server, "large");
    for len in [8, 16, 100, 60_000] {
        // The beginning, and the end from behind, as an index there is read.
        assert_eq!(read(&source, 0, len).unwrap(), bytes[..len]);
        assert_eq!(
            read(&source, bytes.len() - len, len).unwrap(),
            bytes[bytes.len() - len..]
        );
    }
    assert_eq!(server.take_log().len(), 2);
    // A tensor in between.
    read(&source, 5 * MIB, 100_000).unwrap();
    assert_eq!(server.take_log().len(), 1);
}

#[test]
fn an_empty_object_is_one() {
    let server = Server::start();
    server.put("empty", Vec::new());
    assert_eq!(open(&server, "empty").size(), 0);
    // Some servers answer as if no range had been asked for.
    server.play(|_| Play::Whole);
    assert_eq!(open(&server, "empty").size(), 0);
}

#[test]
fn a_large_read_is_several_requests_at_once_and_asks_for_nothing_else() {
    let server = Server::start();
    let bytes = noise(40 * MIB);
    server.put("a", bytes.clone());
    server.latency(Duration::from_millis(50));
    let source = open(&server, "a");
    server.take_sent();
    server.take_log();
    assert_eq!(read(&source, MIB, 30 * MIB).unwrap(), bytes[MIB..31 * MIB]);
    assert!(server.most_at_once() >= 4, "{}", server.most_at_once());
    assert_eq!(server.take_sent(), 30 * MIB as u64);
    assert_eq!(server.take_log().len(), 8);
}

#[test]
fn no_more_requests_and_bytes_are_under_way_than_allowed() {
    let server = Server::start();
    server.put("a", noise(24 * MIB));
    server.latency(Duration::from_millis(5));
    let options = quick()
        .with_concurrent_requests(2)
        .with_bytes_in_flight(4 * MIB);
    let source = open_with(&server, "a", options).unwrap();
    assert_eq!(source.window(), MIB / 2);
    assert_eq!(read(&source, 0, 24 * MIB).unwrap(), noise(24 * MIB));
    assert!(server.most_at_once() <= 2, "{}", server.most_at_once());
}

#[test]
fn a_walk_is_read_ahead() {
    let server = Server::start();
    let bytes = noise(64 * MIB);
    server.put("a", bytes.clone());
    server.latency(Duration::from_millis(40));
    let source = open(&server, "a");
    let began = Instant::now();
    let mut at = 0;
    let ticker = Ticker::new(None);
    walk::<TransferError>(&source, 0..bytes.len() as u64, &ticker, |piece| {
        assert!(piece == &bytes[at..at + piece.len()], "{at}");
        at += piece.len();
        Ok(())
    })
    .unwrap();
    assert_eq!(at, bytes.len());
    let log = server.take_log();
    // One after the other, 17 answers would take 680 ms in waiting alone.
    assert!(
        began.elapsed() < Duration::from_millis(620),
        "{:?}",
        began.elapsed()
    );
    assert!(server.most_at_once() > 1);
    assert!(log.len() <= 24, "{}", log.len());
    // Nothing is asked for twice.
    assert_eq!(server.take_sent(), bytes.len() as u64);
}

#[test]
fn who_stops_early_has_not_paid_for_much_more() {
    let server = Server::start();
    server.put("a", noise(100 * MIB));
    let source = open(&server, "a");
    for window in 0..6 {
        read(&source, 10 * MIB + window * 4 * MIB, 4 * MIB).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    let sent = server.take_sent() as usize;
    assert!(sent <= 24 * MIB * 17 / 10, "{sent}");
}

#[test]
fn several_threads_read_one_object() {
    let server = Server::start();
    let bytes = noise(16 * MIB);
    server.put("a", bytes.clone());
    let source = open(&server, "a");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (source, bytes) = (&source, &bytes);
            scope.spawn(move || {
                for at in (thread..64).step_by(8) {
                    let start = at * MIB / 4;
                    assert!(read(source, start, MIB / 4).unwrap() == bytes[start..start + MIB / 4]);
                }
            });
        }
    });
}

#[test]
fn it_is_read_inside_of_a_callers_own_runtime_too() {
    let server = Server::start();
    let bytes = noise(MIB);
    server.put("a", bytes.clone());
    let current = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let several = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    for runtime in [&current, &several] {
        runtime.block_on(async {
            let source = open(&server, "a");
            assert_eq!(read(&source, 100, MIB - 100).unwrap(), bytes[100..]);
            // With it its threads end, here as well.
            drop(source);
        });
    }
    let task = several.spawn(async move { read(&open(&server, "a"), 0, 10).unwrap() });
    assert_eq!(several.block_on(task).unwrap(), bytes[..10]);
}

#[test]
fn a_file_of_this_machine_is_an_object_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a file.bin");
    std::fs::write(&path, noise(MIB)).unwrap();
    let remote = Remote::new(RemoteOptions::default()).unwrap();
    let at = address(&format!("file://{}", path.display()).replace(' ', "%20"));
    let source = remote.open(&at).unwrap();
    assert_eq!(read(&source, 7, MIB - 7).unwrap(), noise(MIB)[7..]);
    // Another file in its place.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, vec![1; MIB]).unwrap();
    let error = open_again(&source).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has changed since it was opened"),
        "{error}"
    );
}

/// Reads what was not read before.
fn open_again(source: &tensor_remote::RemoteSource) -> Result<Vec<u8>, tensor_core::SourceError> {
    // What large reads brought is not kept.
    read(source, 500_000, 400_000)
}

#[test]
fn what_was_done_is_counted() {
    let server = Server::start();
    server.put("a", noise(MIB));
    let remote = Remote::new(quick()).unwrap();
    let source = remote.open(&address(&server.url("a"))).unwrap();
    read(&source, 0, MIB).unwrap();
    let usage = remote.usage();
    assert_eq!((usage.requests, usage.received), (2, MIB as u64));
    assert_eq!(server.take_log().len(), 2);
}

/// A gibibyte, of a server that takes 50 ms for each answer, fails one request in a hundred, and sends so
/// many bytes a second.
#[test]
#[ignore = "a gibibyte at the speed of a line: run by itself, its result is a time"]
fn a_gibibyte_comes_nearly_as_fast_as_the_line_lets_it() {
    const LEN: usize = 1 << 30;
    const RATE: u64 = 100 << 20;
    let server = Server::start();
    let bytes = noise(LEN);
    server.put("a", bytes.clone());
    server.latency(Duration::from_millis(50));
    server.play(|asked| match asked.number % 100 {
        37 => Play::Status(503, String::new()),
        71 => Play::Cut(1_000_000),
        _ => Play::Well,
    });
    let limit = Duration::from_secs_f64(LEN as f64 / RATE as f64);
    for way in ["one read", "a walk"] {
        let source = open_with(&server, "a", RemoteOptions::default()).unwrap();
        server.rate(RATE);
        server.take_log();
        let began = Instant::now();
        if way == "one read" {
            let mut out = vec![0; LEN];
            source.read_into(0, &mut out).unwrap();
            assert!(out == bytes);
        } else {
            let (mut at, ticker) = (0, Ticker::new(None));
            walk::<TransferError>(&source, 0..LEN as u64, &ticker, |piece| {
                assert!(piece == &bytes[at..at + piece.len()], "{at}");
                at += piece.len();
                Ok(())
            })
            .unwrap();
        }
        let took = began.elapsed();
        let times = took.as_secs_f64() / limit.as_secs_f64();
        println!(
            "{way}: {took:.2?}, {times:.3} times the line's, {} requests",
            server.take_log().len()
        );
        assert!(times < 1.3, "{way}: {times}");
    }
}
