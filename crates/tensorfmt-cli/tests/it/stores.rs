//! What is written to an object store: files, sets, what is extracted; and what is left when that fails.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use test_data::http::{Play, Server};

use crate::{Run, Scratch};

/// The command, for the store of this server.
fn command(scratch: &Scratch, server: &Server) -> Command {
    let mut command = scratch.command();
    command
        .env("AWS_ENDPOINT", server.origin())
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "id")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .stdin(Stdio::null());
    command
}

fn run(scratch: &Scratch, server: &Server, arguments: &[&str]) -> Run {
    let output = command(scratch, server).args(arguments).output();
    Run::of(output.unwrap())
}

/// A model of as many tensors of 1 MiB, in a file of this name.
fn model(scratch: &Scratch, name: &str, tensors: usize) {
    let mut builder = tensorfmt::safetensors::Builder::new();
    for number in 0..tensors {
        let values = vec![number as f32; 1 << 18];
        let tensor = tensorfmt::Tensor::from_slice(&values, &[512, 512]).unwrap();
        builder.tensor(format!("t.{number}"), tensor).unwrap();
    }
    builder.write_file(scratch.path(name)).unwrap();
}

const SETS: [&str; 2] = ["m.safetensors.index.json", "m.aeroset.json"];

#[test]
fn a_set_in_a_store_is_that_of_this_disk() {
    let scratch = Scratch::new();
    let server = Server::store();
    model(&scratch, "m.safetensors", 12);
    std::fs::create_dir(scratch.path("here")).unwrap();
    for set in SETS {
        let (here, there) = (format!("here/{set}"), format!("s3://models/a/{set}"));
        for at in [&here, &there] {
            let made = run(
                &scratch,
                &server,
                &["convert", "m.safetensors", at, "--max-shard-size", "5MiB"],
            );
            assert_eq!(made.code, 0, "{at}: {made:?}");
        }
        assert_eq!(server.pending(), 0);
        let compared = run(&scratch, &server, &["diff", &here, &there]);
        assert_eq!(compared.code, 0, "{set}: {compared:?}");

        // From one store to another place of it, without a copy here.
        let copy = format!("s3://models/b/{set}");
        let made = run(
            &scratch,
            &server,
            &["convert", &there, &copy, "--max-shard-size", "5MiB"],
        );
        assert_eq!(made.code, 0, "{set}: {made:?}");
        let checked = run(&scratch, &server, &["verify", &copy]);
        assert_eq!(checked.code, 0, "{set}: {checked:?}");
        let again = run(&scratch, &server, &["convert", "m.safetensors", &there]);
        assert_eq!(again.code, 2, "{again:?}");
        assert!(
            again.err.contains("exists; --force overwrites it"),
            "{}",
            again.err
        );
    }
    let here: Vec<String> = std::fs::read_dir(scratch.path("here"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in here {
        let file = std::fs::read(scratch.path("here").join(&name)).unwrap();
        for folder in ["a", "b"] {
            let there = server.get(&format!("models/{folder}/{name}"));
            assert!(there.is_some_and(|there| *there == file), "{folder}/{name}");
        }
    }
}

#[test]
fn a_set_that_replaces_a_larger_one_deletes_what_it_leaves_behind() {
    let scratch = Scratch::new();
    let server = Server::store();
    model(&scratch, "m.safetensors", 6);
    for set in SETS {
        let at = format!("s3://models/{set}");
        let sized = |size: &str, more: &[&str]| {
            let arguments = ["convert", "m.safetensors", &at, "--max-shard-size", size];
            run(&scratch, &server, &[&arguments, more].concat())
        };
        assert_eq!(sized("1MiB", &["--parts", "4"][..0]).code, 0);
        server.put("models/neighbour", b"stays".to_vec());
        let before = server.names();
        let replaced = sized("8MiB", &["--force"]);
        assert_eq!(replaced.code, 0, "{replaced:?}");
        let after = server.names();
        let gone: Vec<&String> = before.iter().filter(|name| !after.contains(name)).collect();
        assert!(gone.len() + 3 >= before.len() - 1, "{set}: {gone:?}");
        for name in &gone {
            let says = format!("s3://{name}: deleted: a part of the set that was replaced");
            assert!(replaced.err.contains(&says), "{}", replaced.err);
        }
        assert!(after.contains(&"models/neighbour".to_owned()));
        assert_eq!(run(&scratch, &server, &["verify", "--strict", &at]).code, 0);
        // Parts that no set there names are said to be in the way, and stay.
        server.take_log();
        for name in server.names() {
            if name.ends_with(".json") {
                assert!(server.remove(&name), "{name}");
            }
        }
        let before = server.names();
        let refused = sized("8MiB", &[]);
        assert_eq!(refused.code, 2, "{set}: {refused:?}");
        assert!(
            refused.err.contains("exists; --force overwrites it"),
            "{}",
            refused.err
        );
        assert_eq!(server.names(), before);
        for name in before {
            server.remove(&name);
        }
    }
}

#[test]
fn a_set_is_not_written_over_what_it_is_read_from() {
    let scratch = Scratch::new();
    let server = Server::store();
    model(&scratch, "m.safetensors", 6);
    let at = "s3://models/m.safetensors.index.json";
    let made = run(
        &scratch,
        &server,
        &["convert", "m.safetensors", at, "--max-shard-size", "3MiB"],
    );
    assert_eq!(made.code, 0, "{made:?}");
    let before = server.names();
    let part = "s3://models/m-00002-of-00002.safetensors";
    for (from, size) in [(at, "3MiB"), (at, "1MiB"), (part, "2MiB"), (part, "1MiB")] {
        let refused = run(
            &scratch,
            &server,
            &["convert", "--force", from, at, "--max-shard-size", size],
        );
        // Of three tensors in two files one has the name of the input.
        let is_spared = from == part && size == "1MiB";
        assert_eq!(
            refused.code,
            if is_spared { 0 } else { 2 },
            "{from}: {refused:?}"
        );
        if is_spared {
            // All of its set is deleted but itself.
            assert!(server.names().contains(&part[5..].to_owned()));
            assert!(
                !server
                    .names()
                    .contains(&"models/m-00001-of-00002.safetensors".to_owned())
            );
        } else {
            assert!(
                refused.err.contains("is a file of the input"),
                "{}",
                refused.err
            );
            assert_eq!(server.names(), before);
        }
    }
}

#[test]
fn what_fails_or_makes_no_sense_leaves_nothing_in_a_store() {
    let scratch = Scratch::new();
    let server = Server::store();
    model(&scratch, "m.safetensors", 20);
    for target in ["m.safetensors.index.json", "m.aeroset.json", "m.zt"] {
        let at = format!("s3://models/{target}");
        let limited = ["convert", "m.safetensors", &at, "--limit", "max_requests=9"];
        let failed = run(&scratch, &server, &limited);
        let is_one = target == "m.zt";
        assert_eq!(
            failed.code,
            if is_one { 0 } else { 1 },
            "{target}: {failed:?}"
        );
        if is_one {
            continue;
        }
        assert!(failed.err.contains("max_requests"), "{}", failed.err);
        assert!(server.names().is_empty(), "{target}: {:?}", server.names());
        assert_eq!(server.pending(), 0, "{target}");
    }
    server.play(|asked| match asked.target.contains("partNumber=2") {
        true => Play::Status(
            403,
            "<Error><Code>AccessDenied</Code><Message>secret</Message></Error>".into(),
        ),
        false => Play::Well,
    });
    let failed = run(
        &scratch,
        &server,
        &["convert", "m.safetensors", "s3://models/m.aero"],
    );
    assert_eq!(failed.code, 3, "{failed:?}");
    assert!(
        failed
            .err
            .contains("s3://models/m.aero: access denied: the server answered 403 (AccessDenied)")
            && !failed.err.contains("secret"),
        "{}",
        failed.err
    );
    assert_eq!(server.pending(), 0);
    server.play(|_| Play::Well);
    server.take_log();
    let at = "s3://models/x.safetensors.index.json";
    for (arguments, says) in [
        (
            &["--part", "1/2"][..],
            "a part by itself is written to a folder",
        ),
        (&["--in-place"], "never written in place"),
    ] {
        let all = [&["convert", "m.safetensors", at], arguments].concat();
        let refused = run(&scratch, &server, &all);
        assert_eq!(refused.code, 2, "{arguments:?}: {refused:?}");
        assert!(refused.err.contains(says), "{}", refused.err);
    }
    assert!(server.take_log().is_empty());
}

#[cfg(unix)]
#[test]
fn a_stopped_conversion_leaves_nothing_in_a_store() {
    let scratch = Scratch::new();
    model(&scratch, "m.safetensors", 40);
    for (target, stops_at) in [
        ("m.safetensors.index.json", "partNumber="),
        ("m.safetensors.index.json", "uploadId=1"),
        ("m.aeroset.json", "partNumber="),
        ("m.aero", "partNumber=2"),
    ] {
        let server = Server::store();
        server.play(|asked| match asked.target.contains("uploadId=") {
            true => Play::Late(Duration::from_millis(150)),
            false => Play::Well,
        });
        let at = format!("s3://models/{target}");
        let mut child = command(&scratch, &server);
        child
            .args(["convert", "m.safetensors", &at, "--no-verify"])
            .stderr(Stdio::piped());
        if !target.ends_with("aero") {
            child.args(["--max-shard-size", "10MiB"]);
        }
        let child = child.spawn().unwrap();
        let began = Instant::now();
        let is_under_way = |asked: &test_data::http::Asked| {
            let ends = stops_at.starts_with("uploadId") && asked.method == "POST";
            asked.target.contains(stops_at) && (ends || !stops_at.starts_with("uploadId"))
        };
        while !server.take_log().iter().any(is_under_way) {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing begins");
            std::thread::sleep(Duration::from_millis(5));
        }
        let sent = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            output.status.code(),
            Some(130),
            "{target} {stops_at}: {said}"
        );
        assert!(
            server.names().is_empty(),
            "{target} {stops_at}: {:?}",
            server.names()
        );
        assert_eq!(server.pending(), 0, "{target} {stops_at}");
    }
}

#[test]
fn tensors_are_extracted_into_a_store() {
    let scratch = Scratch::new();
    let server = Server::store();
    model(&scratch, "m.safetensors", 12);
    for (name, what) in [
        ("x.npy", &["t.3"][..]),
        ("x.bin", &["t.3[1:3]"]),
        ("x.npz", &["t.*"]),
    ] {
        let at = format!("s3://models/x/{name}");
        for to in [name, &at] {
            let made = run(
                &scratch,
                &server,
                &[&["extract", "m.safetensors", "-o", to], what].concat(),
            );
            assert_eq!(made.code, 0, "{to}: {made:?}");
        }
        let there = server.get(&at[5..]).unwrap();
        assert!(
            *there == std::fs::read(scratch.path(name)).unwrap(),
            "{name}"
        );
        let arguments = [&["extract", "m.safetensors", "-o", &at], what].concat();
        let again = run(&scratch, &server, &arguments);
        assert_eq!(again.code, 2, "{again:?}");
        assert!(
            again.err.contains("exists; --force overwrites it"),
            "{}",
            again.err
        );
        let forced = run(&scratch, &server, &[&arguments[..], &["--force"]].concat());
        assert_eq!(forced.code, 0, "{forced:?}");
    }
    assert_eq!(server.pending(), 0);
    // Not over what it is read from, not on a web server, not into what would be a folder.
    server.put(
        "models/m.bin",
        std::fs::read(scratch.path("m.safetensors")).unwrap(),
    );
    let web = Server::start();
    for (from, to, code, says) in [
        (
            "s3://models/m.bin",
            "s3://models/m.bin".to_owned(),
            2,
            "is a file of the input",
        ),
        (
            "m.safetensors",
            web.url("x.npy"),
            4,
            "nothing is written to web servers",
        ),
        (
            "m.safetensors",
            "s3://models/x/".to_owned(),
            2,
            "no address of an object",
        ),
    ] {
        let refused = run(
            &scratch,
            &server,
            &["extract", "--force", from, "t.1", "-o", &to],
        );
        assert_eq!(refused.code, code, "{to}: {refused:?}");
        assert!(refused.err.contains(says), "{to}: {}", refused.err);
    }
    assert!(web.take_log().is_empty());
    // A failure on the way.
    server.play(|asked| match asked.target.contains("partNumber=2") {
        true => Play::Status(400, String::new()),
        false => Play::Well,
    });
    let failed = run(
        &scratch,
        &server,
        &["extract", "m.safetensors", "t.*", "-o", "s3://models/y.npz"],
    );
    assert_eq!(failed.code, 3, "{failed:?}");
    assert!(server.get("models/y.npz").is_none() && server.pending() == 0);
}
