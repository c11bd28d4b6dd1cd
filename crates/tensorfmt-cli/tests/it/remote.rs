//! Addresses in place of paths: every verb says of a file on a server what it says of one here.

use std::path::Path;

use test_data::http::{Play, Server};

use crate::{Run, Scratch, write};

/// A server with a file of each format, and what they are called; the same files are in the folder.
fn served(scratch: &Scratch) -> (Server, Vec<&'static str>) {
    let names = vec![
        "a/demo.mag",
        "a/m.zt",
        "a/m.bpk",
        "a/m.aero",
        "a/m.aeroset.json",
        "a/m.model",
        "a/m.safetensors",
        "a/m.safetensors.index.json",
    ];
    std::fs::create_dir(scratch.path("a")).unwrap();
    std::fs::copy(scratch.path("demo.mag"), scratch.path("a/demo.mag")).unwrap();
    for name in &names[1..] {
        let run = scratch.run(&[
            "convert",
            "-q",
            "--skip-unsupported",
            "--cast",
            "f32",
            "demo.mag",
            name,
        ]);
        assert_eq!(run.code, 0, "{name}: {run:?}");
    }
    let server = Server::start();
    server.put_folder(&scratch.path("a"), "a/");
    (server, names)
}

/// What a run says of an address, as it would be of a path.
fn local(text: &str, server: &Server) -> String {
    text.replace(&format!("{}/", server.origin()), "")
}

#[test]
fn every_verb_reads_an_address_as_it_reads_a_path() {
    let scratch = Scratch::new();
    let (server, names) = served(&scratch);
    for name in names {
        let url = server.url(name);
        for verb in [
            &["inspect"][..],
            &["inspect", "--json"],
            &["verify"],
            &["verify", "--json"],
            &["hash"],
            &["hash", "--json"],
            &["stats"],
        ] {
            let of = |at: &str| scratch.run(&[verb, &[at]].concat());
            let (here, there) = (of(name), of(&url));
            assert_eq!(there.code, here.code, "{verb:?} {name}: {there:?}");
            assert_eq!(local(&there.out, &server), here.out, "{verb:?} {name}");
            assert_eq!(local(&there.err, &server), here.err, "{verb:?} {name}");
        }
        let run = scratch.run(&["diff", &url, name]);
        assert_eq!(run.code, 0, "{name}: {run:?}");
        let target = "out.safetensors";
        let (here, there) = (scratch.path("here.safetensors"), scratch.path(target));
        let convert = |from: &str, to: &Path| {
            let run = scratch.run(&["convert", "--force", from, to.to_str().unwrap()]);
            assert_eq!(run.code, 0, "{from}: {run:?}");
        };
        convert(&url, &there);
        convert(name, &here);
        assert!(
            std::fs::read(&here).unwrap() == std::fs::read(&there).unwrap(),
            "{name}"
        );
    }
    // The same file, in two places at once.
    let run = scratch.run(&["hash", &server.url("a/m.aero"), "a/m.zt"]);
    assert_eq!(run.code, 0, "{run:?}");
    let url = server.url("a/m.safetensors");
    let [here, there] = [url.as_str(), "a/m.safetensors"]
        .map(|at| scratch.run(&["hash", "--algorithm", "autov3", at]).out);
    assert_eq!(local(&here, &server), there);
}

#[test]
fn a_tensor_is_extracted_without_the_rest() {
    let scratch = Scratch::new();
    let (server, _) = served(&scratch);
    let list = scratch.run(&["inspect", "--json", "a/m.zt"]).json();
    let name = list["tensors"][0]["name"].as_str().unwrap().to_owned();
    let url = server.url("a/m.zt");
    server.take_log();
    let run = scratch.run(&["extract", &url, &name, "-o", "x.npy"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(server.take_log().len() <= 3);
    let run = scratch.run(&["extract", "a/m.zt", &name, "-o", "y.npy"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        std::fs::read(scratch.path("x.npy")).unwrap()
            == std::fs::read(scratch.path("y.npy")).unwrap()
    );
}

#[test]
fn faults_of_servers_are_sentences_with_their_exit_codes() {
    let scratch = Scratch::new();
    let (server, _) = served(&scratch);
    let url = server.url("a/m.zt");
    let gone = scratch.run(&["inspect", &server.url("a/gone.zt?key=secret")]);
    assert_eq!(gone.code, 3, "{gone:?}");
    assert!(!gone.err.contains("secret"), "{}", gone.err);
    let quick = ["--limit", "retries=1", "--limit", "request_timeout=1"];
    for (play, code, says) in [
        (Play::Whole, 4, "download it first"),
        (Play::Status(403, "secret".into()), 3, "access denied"),
        (
            Play::Status(500, "secret".into()),
            3,
            "the server answered 500, asked 2 times",
        ),
        (Play::Close, 3, "no answer"),
        (Play::Endless, 3, "goes on after"),
        (Play::Short(10), 3, "ended after 20 of"),
        (
            Play::Redirect("http://127.0.0.2:1/?secret".into()),
            4,
            "leads to http://127.0.0.2:1",
        ),
    ] {
        let name = format!("{play:?}");
        server.play(move |_| play.clone());
        let run = scratch.run(&[&["verify", &url], &quick[..]].concat());
        assert_eq!(run.code, code, "{name}: {run:?}");
        assert!(run.err.contains(says), "{name}: {}", run.err);
        assert!(!run.err.contains("secret"), "{name}: {}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{name}: {}", run.err);
    }
    server.play(|_| Play::Unmarked);
    let run = scratch.run(&["inspect", &url]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.err.contains("sends neither ETag nor time of change"),
        "{}",
        run.err
    );
    server.play(|_| Play::Well);
    let run = scratch.run(&["verify", &url, "--limit", "max_requests=0"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("max_requests"), "{}", run.err);
    for bad in ["s3://bucket", "https://", "s3://key:secret@bucket/a.zt"] {
        let run = scratch.run(&["inspect", bad]);
        assert_eq!(run.code, 2, "{bad}: {run:?}");
        assert!(!run.err.contains("secret"), "{}", run.err);
    }
    let run = scratch.run(&["inspect", "--remote=nowhere", &url]);
    assert_eq!(run.code, 2, "{run:?}");
}

/// Verifies an AERO set with these options.
fn verify(scratch: &Scratch, at: &str, options: &[&str]) -> Run {
    scratch.run(&[&["verify", at], options].concat())
}

#[test]
fn addresses_inside_a_set_are_gone_to_when_asked_and_no_further() {
    let scratch = Scratch::new();
    let (near, _) = served(&scratch);
    let far = Server::start();
    far.put_folder(&scratch.path("a"), "a/");
    let json = std::fs::read_to_string(scratch.path("a/m.aeroset.json")).unwrap();
    let based = |server: &Server| {
        json.replacen('{', &format!("{{\"base_url\": \"{}\",", server.url("a")), 1)
    };
    near.put("near.aeroset.json", based(&near));
    near.put("far.aeroset.json", based(&far));
    write(&scratch.path("own.aeroset.json"), based(&far));
    far.take_log();
    let (at_near, at_far) = (near.url("near.aeroset.json"), near.url("far.aeroset.json"));
    let origin = format!("--remote={}", far.origin());
    for (at, options, code, says) in [
        (&*at_near, &[][..], 4, "nothing is fetched unless asked for"),
        (&at_far, &[], 4, "nothing is fetched unless asked for"),
        (
            "own.aeroset.json",
            &[],
            4,
            "nothing is fetched unless asked for",
        ),
        (&at_near, &["--remote"], 0, ""),
        (&at_far, &["--remote"], 4, "was not asked for"),
        ("own.aeroset.json", &["--remote"], 4, "was not asked for"),
    ] {
        let run = verify(&scratch, at, options);
        assert_eq!(run.code, code, "{at} {options:?}: {run:?}");
        assert!(run.err.contains(says), "{at} {options:?}: {}", run.err);
    }
    assert!(far.take_log().is_empty());
    for at in [&*at_far, "own.aeroset.json"] {
        let run = verify(&scratch, at, &[&origin]);
        assert_eq!(run.code, 0, "{at}: {run:?}");
    }
}

#[test]
fn an_address_of_this_machine_is_its_path() {
    let scratch = Scratch::new();
    let at = format!("file://{}", scratch.path("demo.mag").display());
    let (by_path, by_address) = (
        scratch.run(&["hash", "demo.mag"]),
        scratch.run(&["hash", &at]),
    );
    assert_eq!(by_address.out, by_path.out);
    let to = format!("file://{}", scratch.path("out.zt").display());
    let run = scratch.run(&["convert", "--skip-unsupported", &at, &to]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(scratch.path("out.zt").exists());
    let run = scratch.run(&["convert", "--skip-unsupported", &at, &to]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn what_cannot_be_written_elsewhere_is_refused_first() {
    let scratch = Scratch::new();
    let server = Server::start();
    for name in ["a.aeroset.json", "a.mag"] {
        let run = scratch.run(&["convert", "--force", "demo.mag", &server.url(name)]);
        assert_eq!(run.code, 4, "{name}: {run:?}");
        assert!(
            run.err.contains("nothing is written to web servers"),
            "{name}: {}",
            run.err
        );
    }
    assert!(server.take_log().is_empty());
}
