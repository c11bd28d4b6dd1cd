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
fn a_set_does_not_take_the_files_of_another_without_force() {
    let scratch = Scratch::new();
    let run = scratch.run(&["convert", "demo.mag", "a.aeroset.json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let renamed = ["--rename", "s/^encoder/decoder/"];
    let convert = ["convert", "demo.mag", "b.aeroset.json"];
    let run = scratch.run(&[&convert[..], &renamed].concat());
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.err.contains("part-000.aero"), "{run:?}");
    assert!(run.err.contains("breaks the set a.aeroset.json"), "{run:?}");
    assert!(!scratch.path("b.aeroset.json").exists());
    assert_eq!(scratch.run(&["verify", "a.aeroset.json"]).code, 0);

    // A file that is no part of a set is as safe.
    fs::create_dir(scratch.path("folder")).unwrap();
    write(&scratch.path("folder/index.aero"), b"precious");
    let run = scratch.run(&["convert", "demo.mag", "folder/b.aeroset.json"]);
    assert_eq!(run.code, 2, "{run:?}");
    let index = fs::read(scratch.path("folder/index.aero")).unwrap();
    assert_eq!(index, b"precious");

    let run = scratch.run(&[&convert[..], &["--force"], &renamed].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(scratch.run(&["verify", "b.aeroset.json"]).code, 0);
}

/// A file that a set beside it names is not replaced in silence, whatever leads to it; the set that is written
/// is none of those.
#[test]
fn a_set_that_is_broken_is_named() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("f")).unwrap();
    let set = "f/m.safetensors.index.json";
    let run = scratch.run(&["convert", "demo.mag", set, "--max-shard-size", "100"]);
    assert_eq!(
        (run.code, run.err.contains("breaks")),
        (0, false),
        "{run:?}"
    );
    let shard = fs::read_dir(scratch.path("f")).unwrap();
    let mut names: Vec<String> = shard
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".json"))
        .collect();
    names.sort();
    assert!(names.len() > 1, "{names:?}");
    // A tensor of that name is no file.
    let renamed = format!("s/^encoder.weight$/{}/", "b.safetensors");
    let run = scratch.run(&[
        "convert",
        "demo.mag",
        "f/c.aeroset.json",
        "--rename",
        &renamed,
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    for name in ["b.safetensors", "other.safetensors"] {
        let (path, file) = (format!("f/{name}"), scratch.path(&format!("f/{name}")));
        write(&file, b"old");
        let run = scratch.run(&["convert", "demo.mag", &path]);
        assert_eq!(
            (run.code, run.err.contains("breaks")),
            (2, false),
            "{run:?}"
        );
        let run = scratch.run(&["convert", "demo.mag", &path, "--force"]);
        assert_eq!(
            (run.code, run.err.contains("broken")),
            (0, false),
            "{run:?}"
        );
    }
    let mut outputs = vec![format!("f/{}", names[0])];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&outputs[0], scratch.path("link.safetensors")).unwrap();
        outputs.push("link.safetensors".into());
    }
    for output in outputs.iter().rev() {
        let run = scratch.run(&["convert", "demo.mag", output]);
        assert_eq!(run.code, 2, "{run:?}");
        let said = format!(
            "breaks the set {}",
            if output.starts_with("link") { "" } else { set }
        );
        assert!(
            run.err.contains(&said) && run.err.contains("m.safetensors.index.json"),
            "{run:?}"
        );
        assert_eq!(scratch.run(&["verify", set]).code, 0);
    }
    let extract = [
        "extract",
        "demo.mag",
        "encoder.weight",
        "--force",
        "--to",
        "npy",
        "-o",
    ];
    for arguments in [
        &["convert", "demo.mag", &outputs[0], "--force"][..],
        &[&extract[..], &[&format!("f/{}", names[1])]].concat(),
        &[
            "inspect",
            "demo.mag",
            "--force",
            "--html",
            &format!("f/{}", names[1]),
        ],
    ] {
        let run = scratch.run(arguments);
        let said = format!("is a file of the set {set}, which is broken");
        assert!(run.err.contains(&said), "{arguments:?} {run:?}");
        let quiet = scratch.run(&[arguments, &["--quiet"]].concat());
        assert_eq!(quiet.err, "", "{arguments:?}");
    }
    let json = ["convert", "demo.mag", &outputs[0], "--force", "--json"];
    let target = scratch.run(&json).json()["target"].to_string();
    assert!(
        target.contains("of the set f/m.safetensors.index.json"),
        "{target}"
    );
    // Written anew it has them all again, and nothing is broken by that.
    let run = scratch.run(&[
        "convert",
        "demo.mag",
        set,
        "--max-shard-size",
        "4000",
        "--force",
    ]);
    assert_eq!(
        (run.code, run.err.contains("broken")),
        (0, false),
        "{run:?}"
    );
    assert_eq!(scratch.run(&["verify", set]).code, 0);
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
        let bin = crate::program();
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
    let bin = crate::program();
    // Limits in blocks of 512 bytes; what goes beyond gets a signal that would end the tool.
    let script = format!("ulimit -f 1; '{bin}' convert demo.mag x.safetensors");
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

/// A file named as its own output is replaced whole, also where writing in place was asked for; under any
/// other name that leads to it, it is left alone.
#[test]
fn the_input_is_edited_safely_or_not_at_all() {
    let scratch = Scratch::new();
    fs::hard_link(scratch.path("demo.mag"), scratch.path("hard.mag")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("demo.mag", scratch.path("soft.mag")).unwrap();
    for name in ["hard.mag", "soft.mag"] {
        if cfg!(not(unix)) && name != "hard.mag" {
            continue;
        }
        for options in [
            &["--force"][..],
            &["--in-place"],
            &["--force", "--in-place"],
        ] {
            let run = scratch.run(&[&["convert", "demo.mag", name][..], options].concat());
            assert_eq!(run.code, 2, "{name} {options:?}: {run:?}");
            let bytes = fs::read(scratch.path("demo.mag")).unwrap();
            assert_eq!(bytes, case("mag", "demo"));
        }
    }
    for (options, key) in [(&["--force"][..], "a=1"), (&["--in-place"], "b=2")] {
        for name in ["demo.mag", "./demo.mag"] {
            let edit = ["convert", "demo.mag", name, "--set-metadata", key];
            let run = scratch.run(&[&edit[..], options].concat());
            assert_eq!(run.code, 0, "{run:?}");
        }
    }
    let listing = scratch.run(&["inspect", "demo.mag", "--json"]).json();
    assert_eq!(
        (&listing["metadata"]["a"], &listing["metadata"]["b"]),
        (&1.into(), &2.into())
    );
    assert_eq!(
        fs::read(scratch.path("hard.mag")).unwrap(),
        case("mag", "demo")
    );
    let run = scratch.run(&["convert", "demo.mag", "other.mag", "--in-place"]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn an_option_without_effect_is_a_usage_error() {
    let scratch = Scratch::new();
    for option in [
        &["a.mag", "--cast", "f64"][..],
        &["a.mag", "--zstd"],
        &["a.mag", "--checksum", "crc32c"],
        &["a.mag", "--whole-names"],
        &["a.mag", "--with-stats"],
        &["a.zt", "--promote-scalars"],
        &["a.zt", "--zstd", "99"],
        // A Shape file holds no tensor.
        &["a.shape"],
    ] {
        let run = scratch.run(&[&["convert", "demo.mag"], option].concat());
        assert_eq!(run.code, 2, "{option:?}: {run:?}");
        assert!(!run.err.contains("tensor \"\""), "{}", run.err);
        assert_eq!(scratch.files(), ["demo.mag"]);
    }
}

#[test]
fn integers_given_as_metadata_stay_exact() {
    let scratch = Scratch::new();
    let set = "id=18446744073709551615";
    let run = scratch.run(&["convert", "demo.mag", "a.bpk", "--set-metadata", set]);
    assert_eq!(run.code, 0, "{run:?}");
    let listing = scratch.run(&["inspect", "a.bpk", "--json"]).json();
    assert_eq!(listing["metadata"]["id"], u64::MAX);
}

/// A primitiv model of these parameters with one value each, and the statistic `m` of the first.
fn model(names: &[&str]) -> Vec<u8> {
    fn number(out: &mut Vec<u8>, value: u32) {
        out.push(0xCE);
        out.extend(value.to_be_bytes());
    }
    fn text(out: &mut Vec<u8>, text: &str) {
        out.push(0xA0 | u8::try_from(text.len()).unwrap());
        out.extend(text.as_bytes());
    }
    fn tensor(out: &mut Vec<u8>, value: f32) {
        out.extend([0x91]);
        number(out, 1);
        number(out, 1);
        out.extend([0xC4, 4]);
        out.extend(value.to_le_bytes());
    }
    let mut out = Vec::new();
    for word in [0, 1, 0x300, u32::try_from(names.len()).unwrap()] {
        number(&mut out, word);
    }
    for (at, name) in names.iter().enumerate() {
        out.push(0x91);
        text(&mut out, name);
        tensor(&mut out, at as f32);
        number(&mut out, u32::from(at == 0));
        if at == 0 {
            text(&mut out, "m");
            tensor(&mut out, 9.0);
        }
    }
    out
}

#[test]
fn a_statistic_never_takes_the_place_of_its_parameter() {
    let scratch = Scratch::new();
    write(&scratch.path("a.model"), model(&["w", "w-x", "w:y"]));
    let listing = |name: &str| {
        let json = scratch.run(&["inspect", name, "--json"]).json();
        let tensors = json["tensors"].as_array().unwrap().clone();
        let line = |tensor: &serde_json::Value| {
            (
                tensor["name"].as_str().unwrap().to_owned(),
                tensor["stat"].as_str().unwrap_or_default().to_owned(),
            )
        };
        tensors.iter().map(line).collect::<Vec<_>>()
    };
    let pairs = |expected: &[(&str, &str)]| {
        let owned = |(name, stat): &(&str, &str)| ((*name).to_owned(), (*stat).to_owned());
        expected.iter().map(owned).collect::<Vec<_>>()
    };
    let all = [("w", ""), ("w:m", "m"), ("w-x", ""), ("w:y", "")];
    assert_eq!(listing("a.model"), pairs(&all));

    // Sorting keeps it behind its parameter, although `w-x` sorts before `w:m`.
    let run = scratch.run(&["convert", "a.model", "b.model", "--sort", "--quiet"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(listing("b.model"), pairs(&all));

    // A parameter that is named like a statistic stays a parameter.
    let run = scratch.run(&["convert", "a.model", "c.model", "--exclude", "w:m"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let rest = [("w", ""), ("w-x", ""), ("w:y", "")];
    assert_eq!(listing("c.model"), pairs(&rest));

    // Alone it is not written at its parameter's address.
    for options in [["--filter", "w:m"], ["--rename", "s/^w$/q/"]] {
        let convert = ["convert", "a.model", "d.model", "--force"];
        let run = scratch.run(&[&convert[..], &options].concat());
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("lost: attribute \"w:m\""), "{}", run.err);
        let names: Vec<String> = listing("d.model")
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert!(names.contains(&"w:m".into()) && !names.contains(&"w".into()));
    }
}

#[test]
fn an_optimizer_target_refuses_tensors_unless_they_may_be_left_out() {
    let scratch = Scratch::new();
    write(&scratch.path("a.model"), model(&["w"]));
    let run = scratch.run(&["convert", "a.model", "a.optimizer"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(!scratch.path("a.optimizer").exists());
    let convert = ["convert", "a.model", "a.optimizer", "--skip-unsupported"];
    let run = scratch.run(&convert);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(!scratch.path("a.optimizer").exists());
    let run = scratch.run(&[&convert[..], &["--allow-empty", "--json"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.json()["losses"][0]["item"], "w");
}

#[cfg(target_os = "linux")]
#[test]
fn help_on_a_full_standard_output_is_an_error() {
    let scratch = Scratch::new();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = scratch.command();
    let output = command.arg("--help").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn metadata_under_the_tools_own_key_is_kept() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    for (key, value) in [("tensorfmt", "mine"), ("a", "b")] {
        builder.metadata(key, value).unwrap();
    }
    write(&scratch.path("a.safetensors"), builder.to_vec().unwrap());
    // The key set here is out of order, which alone is no reason for a record, and no text, which
    // burnpack has a place for.
    for (target, lost) in [("b.safetensors", true), ("b.bpk", false)] {
        let set = ["--set-metadata", "0=7"];
        let run = scratch.run(&[&["convert", "a.safetensors", target][..], &set].concat());
        assert_eq!(run.code, 0, "{run:?}");
        let said = run.err.contains("lost: metadata \"tensorfmt\"");
        assert_eq!(said, lost, "{}", run.err);
        let listing = scratch.run(&["inspect", target, "--json"]).json();
        assert_eq!(listing["metadata"]["tensorfmt"], "mine");
    }
}

#[test]
fn names_that_clash_in_a_primitiv_model_are_told_the_option_that_helps() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    for name in ["a", "a.b"] {
        let one = tensorfmt::Tensor::from_slice(&[1.0f32], &[1]).unwrap();
        builder.tensor(name, one).unwrap();
    }
    write(&scratch.path("x.safetensors"), builder.to_vec().unwrap());
    let run = scratch.run(&["convert", "x.safetensors", "x.model"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.err.contains("--whole-names"), "{}", run.err);
    assert!(!run.err.contains("split_names"), "{}", run.err);
    assert!(!scratch.path("x.model").exists());
    let run = scratch.run(&["convert", "x.safetensors", "x.model", "--whole-names"]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn two_processes_write_the_same_bytes() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    for i in 0..1000u16 {
        let one = tensorfmt::Tensor::from_slice(&[f32::from(i)], &[1]).unwrap();
        builder.tensor(format!("t{}", (i * 7) % 1000), one).unwrap();
    }
    for i in 0..20 {
        builder
            .metadata(format!("key {}", (i * 7) % 20), "x")
            .unwrap();
    }
    write(&scratch.path("x.safetensors"), builder.to_vec().unwrap());
    for folder in ["1", "2"] {
        fs::create_dir(scratch.path(folder)).unwrap();
        for name in [
            "x.mag",
            "x.zt",
            "x.bpk",
            "x.aero",
            "x.aeroset.json",
            "x.model",
            "x.safetensors",
        ] {
            let out = format!("{folder}/{name}");
            let run = scratch.run(&["convert", "--quiet", "x.safetensors", &out]);
            assert_eq!(run.code, 0, "{out}: {run:?}");
        }
    }
    let mut compared = 0;
    for file in fs::read_dir(scratch.path("1")).unwrap() {
        let name = file.unwrap().file_name();
        let one = fs::read(scratch.path("1").join(&name)).unwrap();
        let other = fs::read(scratch.path("2").join(&name)).unwrap();
        assert!(one == other, "{name:?}");
        compared += 1;
    }
    assert_eq!(compared, 9);
}

#[test]
fn a_cast_that_overflows_is_counted_and_strict_refuses_it() {
    let scratch = Scratch::new();
    let mut builder = tensorfmt::safetensors::Builder::new();
    let tensor = tensorfmt::Tensor::from_slice(&[70_000.0f32, 1.0], &[2]).unwrap();
    builder.tensor("w", tensor).unwrap();
    write(&scratch.path("x.safetensors"), builder.to_vec().unwrap());
    let cast = ["convert", "x.safetensors", "x.mag", "--cast", "f16"];
    let run = scratch.run(&[&cast[..], &["--strict"]].concat());
    assert_eq!(run.code, 4, "{run:?}");
    assert!(!scratch.path("x.mag").exists());
    let run = scratch.run(&cast);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.err.contains("f32 cast to f16: 1 out of range"),
        "{}",
        run.err
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_names_the_path() {
    let scratch = Scratch::new();
    // What is written to this device finds no space, as on a full disk.
    let full = [
        "convert",
        "demo.mag",
        "/dev/full",
        "--to",
        "safetensors",
        "--force",
    ];
    let run = scratch.run(&full);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("/dev/full"), "{}", run.err);
    assert!(run.err.to_lowercase().contains("no space"), "{}", run.err);
    assert_eq!(scratch.files(), ["demo.mag"]);
}

/// Damage must not travel on under a new checksum that is right.
#[test]
fn what_fails_its_checks_is_not_converted() {
    let scratch = Scratch::new();
    assert_eq!(
        scratch
            .run(&["convert", "demo.mag", "x.zt", "--checksum", "crc32c"])
            .code,
        0
    );
    let listed = scratch.run(&["inspect", "--json", "x.zt"]).json();
    let damaged = &listed["tensors"][1];
    let at = usize::try_from(damaged["offset"].as_u64().unwrap()).unwrap();
    let mut bytes = std::fs::read(scratch.path("x.zt")).unwrap();
    bytes[at] ^= 1;
    write(&scratch.path("x.zt"), bytes);
    let name = damaged["name"].as_str().unwrap();
    for target in ["y.safetensors", "y.zt", "y.aeroset.json"] {
        let run = scratch.run(&["convert", "x.zt", target]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(
            run.err.contains(&format!("x.zt: {name}: FAILED")),
            "{run:?}"
        );
        assert!(run.err.contains("nothing written"), "{run:?}");
    }
    assert_eq!(scratch.files(), ["demo.mag", "x.zt"]);
    let run = scratch.run(&["convert", "x.zt", "y.safetensors", "--exclude", name]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = scratch.run(&["convert", "x.zt", "z.safetensors", "--no-verify"]);
    assert_eq!(run.code, 0, "{run:?}");
}

/// Data that can't be had at all is damage too, not something that is not supported.
#[test]
fn data_that_is_damaged_is_no_unsupported_data() {
    let scratch = Scratch::new();
    let mut seen = 0;
    for format in ["mag", "ztensor", "burnpack", "aero", "primitiv"] {
        for case in test_data::cases(format).unwrap() {
            if !matches!(case.expect, test_data::Expect::Reject(_)) {
                continue;
            }
            write(&scratch.path("x"), &case.bytes);
            // A file of another format is none of this one's, but may be whole.
            if scratch.run(&["verify", "x"]).code == 0 {
                continue;
            }
            let listed = scratch.run(&["inspect", "x"]).code;
            for verb in [
                &["convert", "x", "y.safetensors", "--force"][..],
                &[
                    "convert",
                    "x",
                    "y.safetensors",
                    "--force",
                    "--skip-unsupported",
                ],
            ] {
                let run = scratch.run(verb);
                assert_eq!(run.code, 1, "{format} {}: {run:?}", case.name);
            }
            seen += i32::from(listed == 0);
        }
    }
    assert!(seen > 10, "{seen} files that open and are damaged");
}
