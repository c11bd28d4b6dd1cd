//! Servers and lines that fail, lie, or lead elsewhere: each is an error that says so, never other bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tensor_core::{Kind, SourceError};
use tensor_remote::{Problem, Remote, RemoteError, RemoteOptions};
use test_data::http::{Play, Server};

use crate::{address, noise, open, open_with, quick, read};

const MIB: usize = 1 << 20;

/// The error of opening an object of a server that always plays so.
fn refused(play: Play) -> RemoteError {
    let server = Server::start();
    server.put("a", noise(MIB));
    server.play(move |_| play.clone());
    open_with(&server, "a", quick()).unwrap_err()
}

/// The error of reading an object whose server plays so once it is open.
fn failed(play: Play) -> SourceError {
    let server = Server::start();
    server.put("a", noise(MIB));
    let source = open(&server, "a");
    server.play(move |_| play.clone());
    read(&source, 100_000, 500_000).unwrap_err()
}

fn text(error: &SourceError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} not in {text:?}");
    }
    assert!(text.starts_with("http://127.0.0.1:"), "{text}");
}

#[test]
fn failures_that_pass_are_not_noticed() {
    let server = Server::start();
    let bytes = noise(24 * MIB);
    server.put("a", bytes.clone());
    // Of eight requests one is answered well at once.
    server.play(|asked| match asked.number % 8 {
        1 => Play::Status(503, "busy".into()),
        2 => Play::Close,
        3 => Play::Cut(1000),
        4 => Play::Short(70_000),
        5 => Play::Status(429, String::new()),
        6 => Play::Cut(300_000),
        7 => Play::Status(500, String::new()),
        _ => Play::Well,
    });
    let source = open_with(&server, "a", quick().with_retries(12)).unwrap();
    assert!(read(&source, 0, bytes.len()).unwrap() == bytes);
    for at in 0..40 {
        assert!(read(&source, at * 500_000, 1000).unwrap() == bytes[at * 500_000..][..1000]);
    }
    assert!(server.take_log().len() > 20);
}

#[test]
fn an_object_that_is_replaced_is_an_error_from_then_on() {
    for play in [Play::Well, Play::Weak] {
        let server = Server::start();
        server.put("a", noise(MIB));
        let own = play.clone();
        server.play(move |_| own.clone());
        let source = open(&server, "a");
        assert!(source.is_marked());
        read(&source, 300_000, 100).unwrap();
        // As long as before.
        server.put("a", vec![7; MIB]);
        let error = read(&source, 600_000, 1000).unwrap_err();
        text(
            &error,
            &["has changed since it was opened", "bytes 0x92000..0xa2000"],
        );
        assert_eq!(
            (error.kind(), error.rule_id()),
            (Kind::Io, Some("remote.changed"))
        );
        // What was read before is not given out beside it.
        for (start, len) in [(0, 10), (300_000, 100), (0, MIB)] {
            let error = read(&source, start, len).unwrap_err();
            assert_eq!(error.rule_id(), Some("remote.changed"));
        }
    }
}

#[test]
fn a_change_in_the_middle_of_a_large_read_is_an_error() {
    let server = Arc::new(Server::start());
    server.put("a", vec![1; 20 * MIB]);
    let source = open(&server, "a");
    let (own, done) = (Arc::downgrade(&server), AtomicBool::new(false));
    server.play(move |asked| {
        if asked.range.is_some_and(|(first, _)| first >= 12 << 20)
            && !done.swap(true, Ordering::Relaxed)
        {
            own.upgrade().unwrap().put("a", vec![2; 20 * MIB]);
        }
        Play::Well
    });
    let error = read(&source, 0, 20 * MIB).unwrap_err();
    assert_eq!(error.rule_id(), Some("remote.changed"));
}

#[test]
fn a_body_that_breaks_off_is_not_completed_from_another_version() {
    let server = Arc::new(Server::start());
    server.put("a", vec![1; MIB]);
    let source = open(&server, "a");
    let (own, done) = (Arc::downgrade(&server), AtomicBool::new(false));
    server.play(move |_| match done.swap(true, Ordering::Relaxed) {
        true => Play::Well,
        false => {
            let server = own.upgrade().unwrap();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(10));
                server.put("a", vec![2; MIB]);
            });
            Play::Cut(100_000)
        }
    });
    // Where it was quicker than the change it is all of the old one.
    match read(&source, 200_000, 500_000) {
        Ok(bytes) => assert!(bytes.iter().all(|byte| *byte == 1)),
        Err(error) => assert_eq!(error.rule_id(), Some("remote.changed"), "{error}"),
    }
}

#[test]
fn without_marks_a_change_of_size_is_noticed_and_the_lack_can_be_asked_for() {
    let server = Server::start();
    server.put("a", noise(MIB));
    server.play(|_| Play::Unmarked);
    let source = open(&server, "a");
    assert!(!source.is_marked());
    server.put("a", noise(MIB + 1));
    let error = read(&source, 300_000, 10).unwrap_err();
    text(&error, &["it had 1048576 bytes, and has 1048577 now"]);
}

#[test]
fn answers_of_a_wrong_length_or_place_are_errors() {
    text(
        &failed(Play::Short(1000)),
        &["ended after", "bytes 0x186a0..0x927c0"],
    );
    text(&failed(Play::Cut(1000)), &["broke off"]);
    text(
        &failed(Play::Moved(1)),
        &["answered with other bytes", "bytes 100001-600000/1048576"],
    );
    text(&failed(Play::Endless), &["goes on after the 500000 bytes"]);
    text(&failed(Play::Whole), &["download it first"]);
    let error = failed(Play::Status(404, String::new()));
    text(&error, &["no such object"]);
}

#[test]
fn a_server_without_ranges_is_refused() {
    let error = refused(Play::Whole);
    assert_eq!(error.problem(), &Problem::NoRanges);
    assert_eq!(error.kind(), Kind::Unsupported);
}

#[test]
fn statuses_are_told_without_what_the_server_says_beside_them() {
    let secret = "<Error><Code>SlowDown</Code><StringToSign>secret</StringToSign></Error>";
    let error = refused(Play::Status(503, secret.into())).to_string();
    assert!(
        error.ends_with("the server answered 503 (SlowDown), asked 3 times"),
        "{error}"
    );
    let error = refused(Play::Status(403, secret.into()));
    assert_eq!(
        error.problem(),
        &Problem::Denied("the server answered 403 (SlowDown)".into())
    );
    let error = refused(Play::Status(404, secret.into()));
    assert!(error.is_not_found());
    let error = refused(Play::Status(418, "x".repeat(10 << 20))).to_string();
    assert!(error.ends_with("the server answered 418"), "{error}");
}

#[test]
fn no_answer_at_all_takes_no_longer_than_allowed() {
    let began = Instant::now();
    let error = refused(Play::Late(Duration::from_secs(5))).to_string();
    assert!(
        error.contains("no answer within 0.7 seconds, asked 3 times"),
        "{error}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    let error = failed(Play::Drip(Duration::from_millis(20)));
    text(&error, &["slower than 1024 bytes a second"]);
    // Nobody listens.
    let server = Server::start();
    let at = address(&server.url("a"));
    drop(server);
    std::thread::sleep(Duration::from_millis(50));
    let error = Remote::new(quick())
        .unwrap()
        .open(&at)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no answer"), "{error}");
}

#[test]
fn limits_of_requests_and_time_are_kept() {
    let server = Server::start();
    server.put("a", noise(MIB));
    let source = open_with(&server, "a", quick().with_max_requests(3)).unwrap();
    read(&source, 200_000, 10).unwrap();
    read(&source, 400_000, 10).unwrap();
    let error = read(&source, 600_000, 10).unwrap_err();
    text(&error, &["3 requests reached", "max_requests"]);
    assert_eq!(error.kind(), Kind::Limit);
    // What is at hand still is.
    read(&source, 400_000, 10).unwrap();

    let source = open_with(
        &server,
        "a",
        quick().with_total_time(Duration::from_millis(400)),
    )
    .unwrap();
    server.play(|_| Play::Late(Duration::from_millis(600)));
    let began = Instant::now();
    let error = read(&source, 600_000, 10).unwrap_err();
    text(&error, &["0.4 seconds reached", "total_time"]);
    assert!(
        began.elapsed() < Duration::from_millis(600),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn redirects_lead_to_no_server_that_was_not_named() {
    let (front, back) = (Server::start(), Server::start());
    let bytes = noise(MIB);
    back.put("real", bytes.clone());
    front.put("real", bytes.clone());
    let to = format!("{}?signature=secret", back.url("real"));
    let own = to.clone();
    front.play(move |asked| match asked.target.starts_with("/far") {
        true => Play::Redirect(own.clone()),
        false if asked.target == "/near" => Play::Redirect("/real".into()),
        false if asked.target == "/round" => Play::Redirect("/round".into()),
        false if asked.target == "/file" => Play::Redirect("file:///etc/passwd".into()),
        false => Play::Well,
    });
    let error = open_with(&front, "far", quick()).unwrap_err();
    let origin = back.origin();
    assert_eq!(
        error.problem(),
        &Problem::Origin {
            origin: origin.clone()
        }
    );
    assert!(!error.to_string().contains("secret"), "{error}");
    assert_eq!(back.take_log().len(), 0);
    // The same server, and one that was named.
    assert!(read(&open(&front, "near"), 0, MIB).unwrap() == bytes);
    let named = open_with(&front, "far", quick().with_origin(format!("{origin}/"))).unwrap();
    assert!(read(&named, 0, MIB).unwrap() == bytes);
    for (name, says) in [
        ("round", "more than 5 times"),
        ("file", "to a file address"),
    ] {
        let error = open_with(&front, name, quick()).unwrap_err();
        assert_eq!(error.problem(), &Problem::Redirect(says.into()), "{name}");
    }
}

#[test]
fn a_password_is_not_told_to_another_server() {
    let (front, back) = (Server::start(), Server::start());
    back.put("a", noise(10));
    let to = back.url("a");
    front.play(move |_| Play::Redirect(to.clone()));
    let remote = Remote::new(quick().with_origin(back.origin())).unwrap();
    let with_user = front.url("a").replace("http://", "http://me:secret@");
    remote.open(&address(&with_user)).unwrap();
    let (first, second) = (front.take_log(), back.take_log());
    assert!(first[0].headers.contains_key("authorization"));
    assert!(!second[0].headers.contains_key("authorization"));
}

#[test]
fn what_a_file_names_is_opened_only_where_a_user_led() {
    let (front, back) = (Server::start(), Server::start());
    for server in [&front, &back] {
        server.put("a", noise(10));
    }
    let remote = Remote::new(quick()).unwrap();
    let [near, far] = [&front, &back].map(|server| address(&server.url("a")));
    assert!(matches!(
        remote.open_linked(&near).unwrap_err().problem(),
        Problem::Origin { .. }
    ));
    remote.open(&near).unwrap();
    remote.open_linked(&near).unwrap();
    assert!(matches!(
        remote.open_linked(&far).unwrap_err().problem(),
        Problem::Origin { .. }
    ));
    assert!(back.take_log().is_empty());
}

#[test]
fn origins_are_servers_and_nothing_else() {
    for bad in [
        "host",
        "https://",
        "https://host/a",
        "https://me@host",
        "ftp://host",
        "https://host?a",
    ] {
        assert!(
            Remote::new(RemoteOptions::default().with_origin(bad)).is_err(),
            "{bad}"
        );
    }
}
