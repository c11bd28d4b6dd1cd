//! What may happen to a machine while a file is written: the old file stays as it was, nothing is
//! left beside it, exit code and message tell what happened.
//!
//! Tests that need a tool or a right which is not there say so and pass.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Scratch, write};

const TARGETS: [&str; 7] = [
    "x.mag",
    "x.zt",
    "x.bpk",
    "x.aero",
    "x.aeroset.json",
    "x.model",
    "x.safetensors",
];

const OLD: &[u8] = b"the old file";

/// A safetensors file of one tensor with so many bytes, which take no place on the disk.
fn sparse(path: &Path, len: u64) {
    let count = len / 4;
    let header =
        format!("{{\"w\":{{\"dtype\":\"F32\",\"shape\":[{count}],\"data_offsets\":[0,{len}]}}}}");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    write(path, &bytes);
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes.len() as u64 + len).unwrap();
}

/// Runs a shell script in the folder, with the command as `$TENSORFMT`.
fn shell(scratch: &Scratch, script: &str) -> Output {
    Command::new("sh")
        .args(["-c", script])
        .env("TENSORFMT", crate::program())
        .current_dir(scratch.0.path())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The same as the superuser of a namespace of its own, who may mount; `None`, with a line on
/// standard error, where there is no such thing.
fn namespace(scratch: &Scratch, script: &str) -> Option<Output> {
    let have = Command::new("unshare").args(["-rm", "true"]).output();
    if !have.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no namespace of one's own here (unshare -rm)");
        return None;
    }
    let script = format!("exec unshare -rm sh -c '{script}'");
    Some(shell(scratch, &script))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn temporary_files(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".tensorfmt-"))
        .collect()
}

#[test]
fn a_disk_may_be_full_after_any_block() {
    let scratch = Scratch::new();
    sparse(&scratch.path("in.safetensors"), 6000);
    let old = [scratch.path("old"), scratch.path("part-000.aero")];
    for target in TARGETS {
        for blocks in 0..12 {
            for path in old.iter().chain([&scratch.path(target)]) {
                write(path, OLD);
            }
            let before = scratch.files();
            let output = shell(
                &scratch,
                &format!(
                    "ulimit -f {blocks}; \"$TENSORFMT\" convert in.safetensors {target} --force"
                ),
            );
            let err = text(&output.stderr);
            // Blocks of 512 bytes: twelve of them are more than what is written.
            assert_eq!(output.status.code(), Some(3), "{target}, {blocks}: {err}");
            let named = err.contains(target) || target.ends_with("json") && err.contains(".aero");
            assert!(named && !err.contains(".tensorfmt-"), "{target}: {err}");
            assert_eq!(scratch.files(), before, "{target}, {blocks}");
            for path in old.iter().chain([&scratch.path(target)]) {
                assert_eq!(fs::read(path).unwrap(), OLD, "{target}, {blocks}");
            }
        }
        fs::remove_file(scratch.path(target)).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_is_an_error_that_leaves_nothing() {
    let scratch = Scratch::new();
    sparse(&scratch.path("in.safetensors"), 1 << 20);
    fs::create_dir(scratch.path("small")).unwrap();
    for target in TARGETS {
        let script = format!(
            "mount -t tmpfs -o size=64k tmpfs small && echo old > small/{target} && \
             \"$TENSORFMT\" convert in.safetensors small/{target} --force; \
             echo code $?; cat small/{target}; ls -A small | wc -l"
        );
        let Some(output) = namespace(&scratch, &script) else {
            return;
        };
        let err = text(&output.stderr);
        assert_eq!(text(&output.stdout), "code 3\nold\n1\n", "{target}: {err}");
        assert!(err.contains("no room: 1.0 MiB ("), "{err}");
        assert!(
            err.contains("small/") && !err.contains(".tensorfmt-"),
            "{err}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_folder_is_an_error_that_names_the_target() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).unwrap();
    write(&scratch.path("folder/x.safetensors"), OLD);
    // Permissions don't stop a superuser, a mount does.
    let script = "mount --bind folder folder && mount -o remount,bind,ro folder && \
                  \"$TENSORFMT\" convert demo.mag folder/x.safetensors --force; echo code $?";
    if let Some(output) = namespace(&scratch, script) {
        let err = text(&output.stderr);
        assert_eq!(text(&output.stdout), "code 3\n", "{err}");
        assert!(err.contains("folder/x.safetensors"), "{err}");
    }
    let permissions = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(scratch.path("folder"), permissions(0o555)).unwrap();
    if fs::write(scratch.path("folder/probe"), b"").is_err() {
        let run = scratch.run(&["convert", "demo.mag", "folder/x.safetensors", "--force"]);
        assert_eq!(run.code, 3, "{run:?}");
        assert!(run.err.contains("folder/x.safetensors"), "{run:?}");
    }
    fs::set_permissions(scratch.path("folder"), permissions(0o755)).unwrap();
    assert_eq!(fs::read(scratch.path("folder/x.safetensors")).unwrap(), OLD);
}

/// A conversion of so many bytes that it is still on its way when its temporary file is seen.
fn on_its_way(scratch: &Scratch) -> Child {
    sparse(&scratch.path("in.safetensors"), 8 << 30);
    write(&scratch.path("x.mag"), OLD);
    let child = scratch
        .command()
        .args(["convert", "in.safetensors", "x.mag", "--force"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while temporary_files(scratch.0.path()).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing begins");
        sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn a_killed_conversion_leaves_the_old_file_and_one_that_may_be_deleted() {
    let scratch = Scratch::new();
    let mut child = on_its_way(&scratch);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None);
    assert_eq!(fs::read(scratch.path("x.mag")).unwrap(), OLD);
    // Nobody is left to remove it; `AtomicFile` and the handbook say what it is.
    let left = temporary_files(scratch.0.path());
    assert!(left.len() == 1 && left[0].ends_with(".tmp"), "{left:?}");
    // The next one is not in its way.
    let run = scratch.run(&["convert", "demo.mag", "x.mag", "--force"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(temporary_files(scratch.0.path()), left);
}

#[test]
fn a_stopped_conversion_leaves_the_old_file_and_nothing_else() {
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let child = on_its_way(&scratch);
        let id = child.id();
        // The handler is there before the first byte is.
        let sent = shell(&scratch, &format!("kill -{signal} {id}"));
        assert!(sent.status.success());
        let output = child.wait_with_output().unwrap();
        let err = text(&output.stderr);
        assert!(
            !output.status.success() && err.contains("stopped"),
            "{signal}: {err}"
        );
        assert_eq!(fs::read(scratch.path("x.mag")).unwrap(), OLD);
        assert_eq!(temporary_files(scratch.0.path()), Vec::<String>::new());
    }
}

#[test]
fn links_keep_what_they_are() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name);
    fs::create_dir(path("elsewhere")).unwrap();
    write(&path("elsewhere/real.safetensors"), OLD);
    symlink("elsewhere/real.safetensors", path("soft.safetensors")).unwrap();
    write(&path("one.safetensors"), OLD);
    fs::hard_link(path("one.safetensors"), path("two.safetensors")).unwrap();
    for target in ["soft.safetensors", "one.safetensors"] {
        let run = scratch.run(&["convert", "demo.mag", target, "--force"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(scratch.run(&["verify", target]).code, 0);
    }
    // The link stays, and the file that it leads to is the new one.
    assert!(
        path("soft.safetensors")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
    let real = fs::read(path("elsewhere/real.safetensors")).unwrap();
    assert_eq!(real, fs::read(path("one.safetensors")).unwrap());
    assert!(temporary_files(&path("elsewhere")).is_empty());
    // Of two names of one file the other one keeps it.
    assert_eq!(fs::read(path("two.safetensors")).unwrap(), OLD);

    // The input under its other name is no output.
    fs::hard_link(path("demo.mag"), path("twin.mag")).unwrap();
    let before = fs::read(path("demo.mag")).unwrap();
    let run = scratch.run(&["convert", "demo.mag", "twin.mag", "--force", "--sort"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(fs::read(path("demo.mag")).unwrap(), before);
    let inode = |name: &str| fs::metadata(path(name)).unwrap().ino();
    assert_eq!(inode("demo.mag"), inode("twin.mag"));
}

/// Data first, then the name, then the folder: what strace sees of a conversion.
#[cfg(target_os = "linux")]
#[test]
fn the_data_is_on_the_disk_before_the_name() {
    let scratch = Scratch::new();
    let have = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .output();
    if !have.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no strace here");
        return;
    }
    let trace = "strace -f -y -o log -e trace=fsync,fdatasync,rename,renameat,renameat2,write";
    let script = format!("{trace} \"$TENSORFMT\" convert demo.mag x.safetensors");
    let output = shell(&scratch, &script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = fs::read_to_string(scratch.path("log")).unwrap();
    let folder = scratch.0.path().canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    let steps: Vec<&str> = log
        .lines()
        .filter_map(|line| {
            let call = line.split_once(' ')?.1.trim_start();
            if call.starts_with("write(") && call.contains(".tensorfmt-") {
                Some("write")
            } else if call.starts_with("fsync(") && call.contains(".tensorfmt-") {
                Some("fsync the file")
            } else if call.starts_with("rename") && call.contains("x.safetensors") {
                Some("rename")
            } else if call.starts_with("fsync(") && call.contains(&format!("<{folder}>")) {
                Some("fsync the folder")
            } else {
                None
            }
        })
        .collect();
    let mut order = steps.clone();
    order.dedup();
    let expected = ["write", "fsync the file", "rename", "fsync the folder"];
    assert_eq!(order, expected, "{log}");
}
