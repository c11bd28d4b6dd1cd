//! Objects of a store that speaks S3's protocol: one, and the several of a set.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tensor_core::SetOutput;
use tensor_remote::{Problem, Remote, RemoteAddress, RemoteError, RemoteOptions, RemoteSet};
use test_data::http::{Asked, Play, Server};

use crate::{address, noise, quick};

const MIB: usize = 1 << 20;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Access to the store of a server.
fn remote_with(server: &Server, options: RemoteOptions) -> Remote {
    let mut options = options;
    for (key, value) in [
        ("aws_endpoint", &*server.origin()),
        ("aws_allow_http", "true"),
        ("aws_region", "us-east-1"),
        ("aws_access_key_id", "id"),
        ("aws_secret_access_key", "secret"),
    ] {
        options = options.with_store(key, value);
    }
    Remote::new(options).unwrap()
}

fn remote(server: &Server) -> Remote {
    remote_with(
        server,
        quick().with_request_timeout(Duration::from_secs(20)),
    )
}

fn set_address() -> RemoteAddress {
    address("s3://bucket/m/set.json")
}

/// The objects of a set, which differ by `mark`: a large one, a small one, one that has nothing.
fn contents(mark: u8) -> [(&'static str, Vec<u8>); 4] {
    [
        ("a", [noise(20 * MIB), vec![mark]].concat()),
        ("b", vec![mark; 3]),
        ("c", Vec::new()),
        ("set.json", vec![mark; 10]),
    ]
}

fn write(set: &mut RemoteSet, mark: u8) -> std::io::Result<()> {
    for (name, bytes) in contents(mark) {
        set.begin(name, Some(bytes.len() as u64))?;
        for piece in bytes.chunks(1_000_003) {
            set.write_all(piece)?;
        }
    }
    Ok(())
}

/// Writes the set, as the error of `io` has it too.
fn put(remote: &Remote, mark: u8, replace: bool) -> Result<bool, RemoteError> {
    let mut set = remote.create_set(&set_address(), &NAMES, replace)?;
    if let Err(error) = write(&mut set, mark) {
        let error = error.get_ref().unwrap().downcast_ref::<RemoteError>();
        return Err(error.unwrap().clone());
    }
    set.finish(|| true)
}

fn is_whole(server: &Server, mark: u8) -> bool {
    let is_there = |(name, bytes): (&str, Vec<u8>)| {
        let there = server.get(&format!("bucket/m/{name}"));
        there.is_some_and(|there| *there == bytes)
    };
    contents(mark).into_iter().all(is_there)
}

/// A kind of requests, with what tells them.
type Kind = (&'static str, fn(&Asked) -> bool);

/// Whether a request makes an object appear: one in a single piece, or the end of one in several.
fn makes(asked: &Asked) -> bool {
    let in_parts = asked.target.contains("uploadId=");
    match asked.method.as_str() {
        "POST" => in_parts,
        "PUT" => !in_parts,
        _ => false,
    }
}

#[test]
fn a_set_appears_when_it_is_whole_and_its_own_file_last() {
    let server = Server::store();
    let remote = remote(&server);
    let mut set = remote.create_set(&set_address(), &NAMES, false).unwrap();
    write(&mut set, 1).unwrap();
    assert!(server.names().is_empty());
    assert!(set.finish(|| true).unwrap());
    assert!(is_whole(&server, 1));
    assert_eq!((server.names().len(), server.pending()), (4, 0));
    let log = server.take_log();
    let made: Vec<_> = log.iter().filter(|asked| makes(asked)).collect();
    assert_eq!(made.len(), 4);
    assert!(made[3].target.ends_with("/set.json"), "{made:?}");

    // It is there now, and each of its parts would be in the way as well.
    for gone in [&[][..], &["bucket/m/set.json"]] {
        gone.iter()
            .for_each(|name| drop(remote.remove(&address(&format!("s3://{name}")))));
        let error = put(&remote, 2, false).unwrap_err();
        assert_eq!(error.problem(), &Problem::Exists, "{error}");
    }
    assert!(!server.take_log().iter().any(makes));
}

#[test]
fn what_fails_on_the_way_leaves_nothing() {
    // The first request of this kind, and all others of its kind.
    let kinds: [Kind; 7] = [
        ("a part begins", |asked| asked.target.contains("?uploads")),
        ("a part is sent", |asked| {
            asked.method == "PUT" && asked.target.contains("partNumber=2")
        }),
        ("a small part is sent", |asked| {
            asked.method == "PUT" && asked.target.contains("/b?")
        }),
        ("a part appears", |asked| {
            makes(asked) && asked.target.contains("/a?")
        }),
        ("a small part appears", |asked| {
            makes(asked) && asked.target.contains("/b?")
        }),
        ("an empty part appears", |asked| {
            makes(asked) && asked.target.ends_with("/c")
        }),
        ("the set appears", |asked| {
            makes(asked) && asked.target.ends_with("/set.json")
        }),
    ];
    for (kind, fails) in kinds {
        for play in [
            Play::Status(400, "<Error><Code>Bad</Code></Error>".into()),
            Play::Close,
        ] {
            let server = Server::store();
            let shown = format!("{kind}, {play:?}");
            let told = Arc::new(AtomicBool::new(false));
            let own = told.clone();
            server.play(move |asked| match fails(asked) {
                true => {
                    own.store(true, Ordering::Relaxed);
                    play.clone()
                }
                false => Play::Well,
            });
            let error = put(&remote(&server), 1, false).expect_err(&shown);
            assert!(told.load(Ordering::Relaxed), "{shown}");
            assert!(
                error.to_string().starts_with("s3://bucket/m/"),
                "{shown}: {error}"
            );
            let says = ["answered 400 (Bad)", "no answer: "];
            assert!(
                says.iter().any(|says| error.to_string().contains(says)),
                "{shown}: {error}"
            );
            assert!(server.names().is_empty(), "{shown}: {:?}", server.names());
            assert_eq!(server.pending(), 0, "{shown}");
        }
    }
}

/// An answer that is lost is no failure: what was asked for was done.
#[test]
fn what_appears_without_an_answer_has_appeared() {
    for name in ["a?", "b?", "c", "set.json"] {
        for replace in [false, true] {
            for times in [1, 100] {
                let server = Server::store();
                let remote = remote(&server);
                if replace {
                    assert!(put(&remote, 1, false).unwrap());
                }
                let left = AtomicU32::new(times);
                server.play(move |asked| {
                    let is_one = makes(asked) && asked.target.contains(&format!("/{name}"));
                    let one = |left: u32| left.checked_sub(1);
                    match is_one
                        && left
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one)
                            .is_ok()
                    {
                        true => Play::Mute,
                        false => Play::Well,
                    }
                });
                let shown = format!("{name} {replace} {times}");
                assert!(put(&remote, 2, replace).expect(&shown), "{shown}");
                assert!(is_whole(&server, 2) && server.pending() == 0, "{shown}");
            }
        }
    }
}

#[test]
fn what_is_dropped_or_stopped_leaves_nothing() {
    let server = Server::store();
    let remote = remote(&server);
    for stop_at in [0, 1, 3] {
        let mut set = remote.create_set(&set_address(), &NAMES, false).unwrap();
        write(&mut set, 1).unwrap();
        assert!(server.pending() > 0);
        if stop_at == 3 {
            drop(set);
        } else {
            let mut left = stop_at;
            let mut goes_on = || {
                left -= 1;
                left >= 0
            };
            assert!(!set.finish(&mut goes_on).unwrap(), "{stop_at}");
        }
        assert!(server.names().is_empty(), "{stop_at}: {:?}", server.names());
        assert_eq!(server.pending(), 0, "{stop_at}");
    }
    // Also of one that is still on its way.
    server.play(|asked| match asked.target.contains("partNumber=") {
        true => Play::Late(Duration::from_millis(300)),
        false => Play::Well,
    });
    let mut upload = remote.create(&set_address(), false, None).unwrap();
    upload.write_all(&noise(17 * MIB)).unwrap();
    drop(upload);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((server.names().len(), server.pending()), (0, 0));
}

#[test]
fn a_limit_ends_an_upload_and_not_what_clears_it_away() {
    for most in 5..14 {
        let server = Server::store();
        let limited = remote_with(&server, quick().with_max_requests(most));
        let error = put(&limited, 1, false).unwrap_err();
        let is_limit = matches!(
            error.problem(),
            Problem::Limit {
                limit: "max_requests",
                ..
            }
        );
        assert!(is_limit, "{most}: {error}");
        assert!(server.names().is_empty(), "{most}: {:?}", server.names());
        assert_eq!(server.pending(), 0, "{most}");
    }
    let server = Server::store();
    server.play(|asked| match asked.target.contains("partNumber=2") {
        true => Play::Late(Duration::from_secs(1)),
        false => Play::Well,
    });
    let limited = remote_with(&server, quick().with_total_time(Duration::from_millis(700)));
    let error = put(&limited, 1, false).unwrap_err();
    let is_limit = matches!(
        error.problem(),
        Problem::Limit {
            limit: "total_time",
            ..
        }
    );
    assert!(is_limit, "{error}");
    assert_eq!((server.names().len(), server.pending()), (0, 0));
}

#[test]
fn a_set_that_is_replaced_is_never_a_mixture() {
    let server = Server::store();
    let remote = remote(&server);
    assert!(put(&remote, 1, false).unwrap());
    server.take_log();
    assert!(put(&remote, 2, true).unwrap());
    assert!(is_whole(&server, 2));
    let log = server.take_log();
    let position = |is: &dyn Fn(&Asked) -> bool| log.iter().position(is).unwrap();
    let deleted =
        position(&|asked| asked.method == "DELETE" && asked.target.ends_with("/set.json"));
    assert!(deleted < position(&makes));

    // A failure before that leaves it as it was, one after that says so.
    server.play(|asked| match asked.target.contains("partNumber=2") {
        true => Play::Status(400, String::new()),
        false => Play::Well,
    });
    put(&remote, 3, true).unwrap_err();
    assert!(is_whole(&server, 2) && server.pending() == 0);
    server.play(
        |asked| match makes(asked) && asked.target.ends_with("/set.json") {
            true => Play::Status(400, String::new()),
            false => Play::Well,
        },
    );
    let error = put(&remote, 3, true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the set that was to be replaced is gone"),
        "{error}"
    );
    assert_eq!((server.names().len(), server.pending()), (0, 0));

    // Where no part is replaced the old set is there until the new one is.
    server.play(|_| Play::Well);
    server.put("bucket/m/set.json", b"old".to_vec());
    server.take_log();
    assert!(put(&remote, 4, true).unwrap());
    let log = server.take_log();
    assert!(is_whole(&server, 4) && !log.iter().any(|asked| asked.method == "DELETE"));
}

#[test]
fn what_comes_there_meanwhile_is_not_replaced() {
    for name in ["a", "b", "c", "set.json"] {
        let server = Server::store();
        let remote = remote(&server);
        let mut set = remote.create_set(&set_address(), &NAMES, false).unwrap();
        write(&mut set, 1).unwrap();
        let there = format!("bucket/m/{name}");
        server.put(&there, b"another's".to_vec());
        let error = set.finish(|| true).unwrap_err();
        assert_eq!(error.problem(), &Problem::Exists, "{name}: {error}");
        assert_eq!((server.names(), server.pending()), (vec![there], 0));
    }
}

#[test]
fn what_can_not_be_deleted_again_is_named() {
    let server = Server::store();
    server.play(
        |asked| match asked.method == "DELETE" || asked.target.ends_with("/set.json") {
            true if asked.method != "HEAD" => Play::Status(403, String::new()),
            _ => Play::Well,
        },
    );
    let error = put(&remote(&server), 1, false).unwrap_err().to_string();
    let left: Vec<_> = server.names();
    assert_eq!(left.len(), 3);
    for name in left {
        assert!(error.contains(&format!("s3://{name}")), "{error}");
    }
    assert!(error.contains("could not be deleted again"), "{error}");
}

#[test]
fn a_set_goes_to_no_web_server_and_leads_nowhere_else() {
    let server = Server::store();
    let remote = remote(&server);
    let error = remote
        .create_set(&address("https://host/set.json"), &NAMES, true)
        .unwrap_err();
    assert!(
        matches!(error.problem(), Problem::Unsupported(_)),
        "{error}"
    );
    let error = remote
        .create_set(&set_address(), &["../a"], true)
        .unwrap_err();
    assert!(matches!(error.problem(), Problem::Outside(_)), "{error}");
    assert!(server.take_log().is_empty());
}

#[test]
fn objects_that_are_open_are_known() {
    let server = Server::store();
    let remote = remote(&server);
    put(&remote, 1, false).unwrap();
    let at = set_address();
    assert!(!remote.is_open(&at));
    let (first, second) = (remote.open(&at).unwrap(), remote.open(&at).unwrap());
    assert!(remote.is_open(&address("s3a://bucket/m/set.json")));
    drop(first);
    assert!(remote.is_open(&at));
    drop(second);
    assert!(!remote.is_open(&at));
}
