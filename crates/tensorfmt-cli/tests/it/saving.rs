//! Converting never loses what was there, and says what it leaves out.

use std::fs;

use crate::{Scratch, case, write};

#[test]
fn there_and_back_gives_the_same_bytes() {
    let scratch = Scratch::new();
    assert_eq!(
        scratch.run(&["convert", "demo.mag", "x.safetensors"]).code,
        0
    );
    assert_eq!(
        scratch.run(&["convert", "x.safetensors", "back.mag"]).code,
        0
    );
    assert_eq!(
        fs::read(scratch.path("back.mag")).unwrap(),
        case("mag", "demo")
    );
}

#[test]
fn an_existing_target_needs_force() {
    let scratch = Scratch::new();
    write(&scratch.path("x.safetensors"), b"precious");
    let run = scratch.run(&["convert", "demo.mag", "x.safetensors"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("--force"), "{}", run.err);
    assert_eq!(
        fs::read(scratch.path("x.safetensors")).unwrap(),
        b"precious"
    );
    assert_eq!(
        scratch
            .run(&["convert", "demo.mag", "x.safetensors", "--force"])
            .code,
        0
    );
    assert_eq!(scratch.run(&["verify", "x.safetensors"]).code, 0);
}

#[test]
fn a_file_can_be_converted_onto_itself_also_through_a_link() {
    let scratch = Scratch::new();
    let run = scratch.run(&["convert", "demo.mag", "demo.mag", "--force", "--sort"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(scratch.run(&["verify", "demo.mag"]).code, 0);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("demo.mag", scratch.path("link.mag")).unwrap();
        let rename = ["--rename", "s/^encoder/decoder/"];
        let convert = ["convert", "link.mag", "link.mag", "--force"];
        let run = scratch.run(&[&convert[..], &rename].concat());
        assert_eq!(run.code, 0, "{run:?}");
        assert!(
            scratch
                .path("link.mag")
                .symlink_metadata()
                .unwrap()
                .is_symlink()
        );
        assert!(
            scratch
                .run(&["inspect", "demo.mag"])
                .out
                .contains("decoder.weight")
        );
    }
    assert!(scratch.files().iter().all(|name| name.ends_with(".mag")));
}

#[test]
fn what_the_target_cannot_hold_is_refused_before_the_first_byte() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    let longs = tensorfmt::Tensor::from_slice(&[1i64, 2], &[2]).unwrap();
    let floats = tensorfmt::Tensor::from_slice(&[1.5f32], &[1]).unwrap();
    builder.tensor("ids", longs).unwrap();
    builder.tensor("w", floats).unwrap();
    builder.metadata("author", "nobody").unwrap();
    write(&scratch.path("x.safetensors"), builder.to_vec().unwrap());

    let run = scratch.run(&["convert", "x.safetensors", "x.mag"]);
    assert_eq!(run.code, 4);
    assert!(
        run.err.contains("\"ids\"") && run.err.contains("i64"),
        "{}",
        run.err
    );
    assert!(!scratch.path("x.mag").exists());

    let run = scratch.run(&["convert", "x.safetensors", "x.mag", "--cast", "i32"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("lost: metadata \"author\""), "{}", run.err);

    let strict = [
        "convert",
        "x.safetensors",
        "y.mag",
        "--cast",
        "i32",
        "--strict",
    ];
    assert_eq!(scratch.run(&strict).code, 4);
    assert!(!scratch.path("y.mag").exists());

    let skip = [
        "convert",
        "x.safetensors",
        "y.mag",
        "--skip-unsupported",
        "--json",
    ];
    let run = scratch.run(&skip);
    assert_eq!(run.code, 0);
    let losses = run.json()["losses"].clone();
    assert_eq!(losses[0]["kind"], "tensor");
    assert_eq!(losses[0]["item"], "ids");
}

#[test]
fn no_folder_and_a_read_only_one_are_io_errors_that_name_the_path() {
    let scratch = Scratch::new();
    let run = scratch.run(&["convert", "demo.mag", "absent/x.safetensors"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("absent/x.safetensors"), "{}", run.err);
}

#[cfg(unix)]
#[test]
fn modes_follow_the_umask_and_the_old_file() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let run = |script: &str| {
        let bin = env!("CARGO_BIN_EXE_tensorfmt");
        let script = script.replace("tensorfmt", &format!("'{bin}'"));
        let mut shell = std::process::Command::new("sh");
        let status = shell
            .args(["-c", &script])
            .current_dir(scratch.0.path())
            .status()
            .unwrap();
        assert!(status.success(), "{script}");
    };
    let mode = |name: &str| {
        fs::metadata(scratch.path(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    run("umask 022; tensorfmt convert demo.mag a.safetensors");
    assert_eq!(mode("a.safetensors"), 0o644);
    run("umask 077; tensorfmt convert demo.mag b.safetensors");
    assert_eq!(mode("b.safetensors"), 0o600);
    fs::set_permissions(
        scratch.path("a.safetensors"),
        PermissionsExt::from_mode(0o640),
    )
    .unwrap();
    run("umask 077; tensorfmt convert demo.mag a.safetensors --force");
    assert_eq!(mode("a.safetensors"), 0o640);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_size_limit_is_an_error_that_leaves_nothing() {
    let scratch = Scratch::new();
    let bin = env!("CARGO_BIN_EXE_tensorfmt");
    // Limits in blocks of 512 bytes; the shell ignores the signal on the tool's behalf.
    let script = format!("trap '' XFSZ; ulimit -f 1; '{bin}' convert demo.mag x.safetensors");
    let mut shell = std::process::Command::new("sh");
    let output = shell
        .args(["-c", &script])
        .current_dir(scratch.0.path())
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("x.safetensors"), "{err}");
    assert_eq!(scratch.files(), ["demo.mag"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error() {
    let scratch = Scratch::new();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = scratch
        .command()
        .args(["inspect", "demo.mag"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}
