//! Files on a web server: what opening, reading and verifying takes, and that all of it is what the same
//! files are on this disk. With `UPDATE_DOCS=1` the table of `docs/remote.md` is written.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tensorfmt::convert::{Model, Options, Target, plan};
use tensorfmt::tensor_remote::{Problem, RemoteError};
use tensorfmt::{
    Archive, Elsewhere, Error, Kind, ReadOptions, Remote, RemoteOptions, Source, Tensor,
    VerifyOptions, WriteOptions,
};
use test_data::http::{Play, Server};

use crate::matrix::file_name;

const TENSORS: usize = 24;
const VALUES: usize = 1 << 18;

/// A file of each format, with 24 tensors of 1 MiB.
fn make(folder: &Path) -> Vec<(Target, PathBuf)> {
    let mut builder = tensorfmt::safetensors::Builder::new();
    for number in 0..TENSORS {
        let values: Vec<f32> = (0..VALUES).map(|at| (at * 31 + number) as f32).collect();
        let tensor = Tensor::from_slice(&values, &[512, 512]).unwrap();
        builder.tensor(format!("layer.{number}"), tensor).unwrap();
    }
    let archive = Archive::from_bytes(builder.to_vec().unwrap()).unwrap();
    let mut files = Vec::new();
    for &target in Target::ALL {
        let below = folder.join(target.name());
        std::fs::create_dir(&below).unwrap();
        let path = below.join(file_name(target));
        let mut options = Options::default();
        if target.is_set() {
            options.max_shard_bytes = Some(8 << 20);
        }
        let plan = plan(Model::of(&archive), target, &options).unwrap();
        plan.write_file(&path, &WriteOptions::default()).unwrap();
        files.push((target, path));
    }
    files
}

fn remote() -> Remote {
    Remote::new(RemoteOptions::default()).unwrap()
}

/// What a server was asked for, and how many bytes it sent.
fn counts(server: &Server) -> (usize, u64) {
    (server.take_log().len(), server.take_sent())
}

/// Every tensor's decoded bytes, with its name.
fn contents(archive: &Archive) -> Vec<(String, Vec<u8>)> {
    let read = |entry: tensorfmt::Entry<'_>| {
        let data = archive.data(entry).unwrap();
        (
            entry.name().to_owned(),
            data.read(0..data.size()).unwrap().to_vec(),
        )
    };
    archive.entries().map(read).collect()
}

#[test]
fn what_is_done_with_a_remote_file_takes_few_requests() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut table = String::from(
        "| format | files | bytes | open | one tensor | all tensors | verify |\n|---|---:|---:|---|---|---|---|\n",
    );
    for (target, path) in make(folder.path()) {
        let name = target.name();
        server.put_folder(path.parent().unwrap(), &format!("{name}/"));
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap();
        let lens: Vec<u64> = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .collect();
        let (files, size) = (lens.len(), lens.iter().sum::<u64>());
        let url = server.url(&format!(
            "{name}/{}",
            path.file_name().unwrap().to_str().unwrap()
        ));
        let local = Archive::open(&path).unwrap();

        let again = || Archive::open_address(&url, &remote()).unwrap();
        let archive = again();
        let open = counts(&server);
        let entry = archive
            .entry(local.entries().nth(13).unwrap().name())
            .unwrap();
        let tensor = archive.read(entry).unwrap();
        let one = counts(&server);
        assert!(tensor.data().len() == 4 * VALUES);

        let archive = again();
        counts(&server);
        assert!(contents(&archive) == contents(&local), "{name}");
        let all = counts(&server);

        let archive = again();
        counts(&server);
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        assert!(!report.has_failed() && !report.has_unsupported(), "{name}");
        let verify = counts(&server);

        let cell = |(requests, bytes): (usize, u64)| format!("{requests} · {}", bytes);
        writeln!(
            table,
            "| {name} | {files} | {size} | {} | {} | {} | {} |",
            cell(open),
            cell(one),
            cell(all),
            cell(verify)
        )
        .unwrap();

        // An index in two requests a file; primitiv has none, and tells of each tensor where it is.
        let opened = match target {
            Target::Primitiv => TENSORS + 2,
            _ => 2 * files,
        };
        assert!(open.0 <= opened, "{name}: open {open:?}");
        let into = if files > 1 { 3 } else { 1 };
        assert!(one.0 <= into, "{name}: one {one:?}");
        assert!(
            one.1 <= (1 << 20) + into as u64 * (64 << 10),
            "{name}: one {one:?}"
        );
        assert!(all.0 <= TENSORS + 2 * files, "{name}: all {all:?}");
        assert!(all.1 <= size + size / 4, "{name}: all {all:?}");
        assert!(verify.1 <= 2 * size + size / 4, "{name}: verify {verify:?}");
    }
    println!("{table}");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        let page = test_data::workspace_root().join("docs/remote.md");
        let text = std::fs::read_to_string(&page).unwrap();
        let (before, rest) = text.split_once("<!-- table: requests -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        let text = format!("{before}<!-- table: requests -->\n{table}<!-- end -->{after}");
        std::fs::write(&page, text).unwrap();
    }
}

/// What fails of a hundred requests: one, of each kind in turn.
fn one_in_a_hundred(number: u64) -> Play {
    match (number % 100, number / 100 % 3) {
        (17, 0) => Play::Status(503, "busy".into()),
        (17, 1) => Play::Close,
        (17, _) => Play::Cut(100),
        _ => Play::Well,
    }
}

/// All that an archive says and holds, or the error in its place. Errors are of one kind and of one rule; their
/// words name the file.
fn described(opened: Result<Archive, Error>) -> Vec<String> {
    let said = |error: Error| format!("{:?} {:?}", error.kind(), error.rule_id());
    let archive = match opened {
        Ok(archive) => archive,
        Err(error) => return vec![said(error)],
    };
    let digest = |source: tensorfmt::Result<Arc<dyn Source>>| {
        let read = source.and_then(|source| Ok(source.read(0..source.size())?));
        read.map_or_else(said, |bytes| {
            let mut hash = 0xCBF2_9CE4_8422_2325_u64;
            for byte in bytes.iter() {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
            format!("{} {hash:016x}", bytes.len())
        })
    };
    // As text, since a NaN is not itself.
    let mut lines = vec![
        format!(
            "{} {} {}",
            archive.format(),
            archive.version(),
            archive.len()
        ),
        format!("{:?}", archive.metadata()),
        format!("{:?} {:?}", archive.unlisted(), archive.facts()),
    ];
    for entry in archive.entries() {
        let (name, dtype) = (entry.name(), entry.dtype_name());
        lines.push(format!(
            "{name} {dtype} {} {:?}",
            entry.shape(),
            entry.order()
        ));
        lines.push(digest(archive.data(entry)));
        lines.push(digest(archive.stored(entry)));
    }
    match archive.verify(&VerifyOptions::default()) {
        Ok(report) => {
            let items = report.items.iter();
            lines.extend(items.map(|item| format!("{} {:?}", item.item, item.outcome)));
        }
        Err(error) => lines.push(said(error)),
    }
    lines
}

#[test]
fn all_real_files_are_the_same_from_a_server_that_is_slow_and_fails() {
    let server = Server::start();
    server.latency(Duration::from_millis(50));
    server.play(|asked| one_in_a_hundred(asked.number));
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    for format in [
        "aero",
        "burnpack",
        "mag",
        "mag-snapshots",
        "primitiv",
        "safetensors",
        "safetensors-sets",
        "ztensor",
        "ztensor-1-2",
    ] {
        let Some(folder) = test_data::corpus::folder(format) else {
            continue;
        };
        server.put_folder(&folder, &format!("{format}/"));
        for (path, _) in test_data::corpus::cases(format) {
            let below = path.strip_prefix(&folder).unwrap().to_str().unwrap();
            let name: Vec<String> = below.split('/').map(escaped).collect();
            files.push((path.clone(), format!("{format}/{}", name.join("/"))));
        }
    }
    let options = RemoteOptions::default().with_concurrent_requests(64);
    let remote = Remote::new(options).unwrap();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((path, name)) = files.get(at) else {
                        return;
                    };
                    let here = described(Archive::open(path));
                    let there = described(Archive::open_address(&server.url(name), &remote));
                    assert_eq!(there, here, "{name}");
                }
            });
        }
    });
    let log = server.take_log();
    let failed = log.iter().filter(|asked| asked.number % 100 == 17).count();
    println!(
        "{} files and sets of the corpus are the same: {} requests, {failed} of them failed, {:?}",
        files.len(),
        log.len(),
        began.elapsed()
    );
    assert!(files.is_empty() || failed * 101 >= log.len());
}

/// A name as addresses have it.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                text.push(char::from(byte));
            }
            byte => write!(text, "%{byte:02X}").unwrap(),
        }
    }
    text
}

/// The error of a set, as it is when opened or when all of it is read.
fn fault(url: &str, remote: &Remote, links: bool) -> Error {
    let address = url.parse().unwrap();
    let mut parts = Elsewhere::beside(remote, &address);
    if links {
        parts = parts.following();
    }
    let opened = Archive::open_parts(
        &address.file_name(),
        Arc::new(parts),
        &ReadOptions::default(),
    );
    match opened {
        Ok(archive) => {
            let read = archive.entries().map(|entry| archive.read(entry));
            read.filter_map(Result::err).next().unwrap()
        }
        Err(error) => error,
    }
}

/// An AERO set on a server, and the text of its JSON.
fn aero_set(server: &Server, folder: &str) -> (tempfile::TempDir, String) {
    let kept = tempfile::tempdir().unwrap();
    let mut files = make(kept.path()).into_iter();
    let (_, path) = files
        .find(|(target, _)| *target == Target::AeroSet)
        .unwrap();
    server.put_folder(path.parent().unwrap(), &format!("{folder}/"));
    let json = std::fs::read_to_string(&path).unwrap();
    (kept, json)
}

#[test]
fn a_set_goes_to_no_address_by_itself_and_to_no_server_that_was_not_named() {
    let (near, far) = (Server::start(), Server::start());
    let (_kept, json) = aero_set(&near, "set");
    aero_set(&far, "set");
    let with_base =
        |origin: &str| json.replacen('{', &format!("{{\"base_url\": \"{origin}/set\","), 1);
    near.put("near.aeroset.json", with_base(&near.origin()));
    near.put("far.aeroset.json", with_base(&far.origin()));
    let part = json
        .split('"')
        .find(|text| text.ends_with("000.aero"))
        .unwrap()
        .to_owned();
    let in_part = json.replace(
        &format!("\"{part}\""),
        &format!("\"{}\"", far.url(&format!("set/{part}"))),
    );
    near.put("set/part.aeroset.json", in_part);
    near.put(
        "set/missing.aeroset.json",
        json.replace(&format!("\"{part}\""), "\"gone.aero\""),
    );
    near.put(
        "set/outside.aeroset.json",
        json.replace(&format!("\"{part}\""), "\"../part.aero\""),
    );
    far.take_log();

    let of = |name: &str, options: RemoteOptions, links| {
        fault(&near.url(name), &Remote::new(options).unwrap(), links)
    };
    for name in [
        "near.aeroset.json",
        "far.aeroset.json",
        "set/part.aeroset.json",
    ] {
        let error = of(name, RemoteOptions::default(), false);
        assert_eq!(
            (error.kind(), error.rule_id()),
            (Kind::Unsupported, Some("aero.set.remote")),
            "{name}: {error}"
        );
    }
    for name in ["far.aeroset.json", "set/part.aeroset.json"] {
        let error = of(name, RemoteOptions::default(), true);
        assert_eq!(error.rule_id(), Some("remote.origin"), "{name}: {error}");
        assert!(error.to_string().contains(&far.origin()), "{error}");
        assert_eq!(error.kind(), Kind::Unsupported);
    }
    assert!(far.take_log().is_empty());
    let error = of("set/missing.aeroset.json", RemoteOptions::default(), false);
    assert_eq!(
        (error.kind(), error.rule_id()),
        (Kind::Invalid, Some("aero.set.missing")),
        "{error}"
    );
    assert!(error.to_string().contains("/set/gone.aero"), "{error}");
    let error = of("set/outside.aeroset.json", RemoteOptions::default(), false);
    assert_eq!(
        (error.kind(), error.rule_id()),
        (Kind::Invalid, Some("aero.set.path")),
        "{error}"
    );

    for (name, options) in [
        ("near.aeroset.json", RemoteOptions::default()),
        (
            "far.aeroset.json",
            RemoteOptions::default().with_origin(far.origin()),
        ),
        (
            "set/part.aeroset.json",
            RemoteOptions::default().with_origin(far.origin()),
        ),
    ] {
        let address = near.url(name).parse().unwrap();
        let parts = Elsewhere::beside(&Remote::new(options).unwrap(), &address).following();
        let archive = Archive::open_parts(
            &address.file_name(),
            Arc::new(parts),
            &ReadOptions::default(),
        );
        let archive = archive.unwrap();
        assert_eq!(contents(&archive).len(), TENSORS, "{name}");
        let report = archive.verify(&VerifyOptions::default()).unwrap();
        assert!(!report.has_failed() && !report.has_unsupported(), "{name}");
    }
    // A set of this disk whose parts are on a server.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.aeroset.json");
    std::fs::write(&path, with_base(&far.origin())).unwrap();
    let linked = |options: RemoteOptions| {
        let links = Elsewhere::linked(&Remote::new(options).unwrap());
        Archive::open_linked(&path, Arc::new(links), &ReadOptions::default())
    };
    let error = linked(RemoteOptions::default()).unwrap_err();
    assert_eq!(error.rule_id(), Some("remote.origin"), "{error}");
    let archive = linked(RemoteOptions::default().with_origin(far.origin())).unwrap();
    assert_eq!(contents(&archive).len(), TENSORS);
    assert_eq!(
        Archive::open(&path).unwrap_err().rule_id(),
        Some("aero.set.remote")
    );
}

#[test]
fn a_shard_that_is_missing_is_the_sets_fault_and_one_that_changes_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut files = make(folder.path()).into_iter();
    let (_, path) = files
        .find(|(target, _)| *target == Target::SafetensorsSet)
        .unwrap();
    server.put_folder(path.parent().unwrap(), "s/");
    let name = path.file_name().unwrap().to_str().unwrap();
    let url = server.url(&format!("s/{name}"));
    let archive = Archive::open_address(&url, &remote()).unwrap();
    let entry = archive.entries().next_back().unwrap();
    let part = archive.part_of(entry).unwrap().to_owned();
    let file = std::fs::read(path.parent().unwrap().join(&part)).unwrap();
    server.put(&format!("s/{part}"), vec![0; file.len()]);
    let error = archive.read(entry).unwrap_err();
    assert_eq!(error.rule_id(), Some("remote.changed"), "{error}");
    assert!(error.to_string().contains(&part), "{error}");
    // All other shards are as they were.
    archive.read(archive.entries().next().unwrap()).unwrap();

    server.play(move |asked| match asked.target.ends_with(&part) {
        true => Play::Status(404, String::new()),
        false => Play::Well,
    });
    let error = Archive::open_address(&url, &remote()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(
        error.rule_id(),
        Some("safetensors.set.shard_missing"),
        "{error}"
    );
}

#[test]
fn what_is_not_there_and_what_is_no_address() {
    let server = Server::start();
    let error = Archive::open_address(&server.url("gone.mag"), &remote()).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert!(
        error.to_string().contains(&server.url("gone.mag")),
        "{error}"
    );
    server.put("a.mag", b"<!DOCTYPE html><html>".to_vec());
    let error = Archive::open_address(&server.url("a.mag?token=secret"), &remote()).unwrap_err();
    assert!(
        error.to_string().contains("an HTML page") && !error.to_string().contains("secret"),
        "{error}"
    );
    let error = Archive::open_address("model.mag", &remote()).unwrap_err();
    assert_eq!(error.rule_id(), Some("remote.address"), "{error}");
    let problem = |error: RemoteError| error.problem().clone();
    let parsed: Result<tensorfmt::RemoteAddress, _> = "s3://bucket".parse();
    assert!(matches!(problem(parsed.unwrap_err()), Problem::Address(_)));
}
