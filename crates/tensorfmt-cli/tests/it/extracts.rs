//! Several tensors, rows and casts that `extract` takes out.

use serde_json::json;
use tensorfmt::{Tensor, bf16, safetensors, ztensor};

use crate::names::with_names;
use crate::{Run, Scratch, write};

fn file(scratch: &Scratch, path: &str, tensors: &[(&str, Tensor)]) {
    let mut builder = safetensors::Builder::new();
    for (name, tensor) in tensors {
        builder.tensor(*name, tensor.clone()).unwrap();
    }
    write(&scratch.path(path), builder.to_vec().unwrap());
}

fn extract(scratch: &Scratch, arguments: &[&str]) -> Run {
    scratch.run(&[&["extract"], arguments].concat())
}

/// The files that the directory at the end of a zip archive lists, stored as they are, their checksums
/// compared.
fn members(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([archive[at], archive[at + 1]]));
    let u32_at = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap()) as usize;
    let end = archive.len() - 22;
    assert_eq!(archive[end..end + 4], *b"PK\x05\x06");
    let mut at = u32_at(end + 16);
    assert_eq!(at + u32_at(end + 12), end);
    let mut members = Vec::new();
    for _ in 0..u16_at(end + 10) {
        assert_eq!(archive[at..at + 4], *b"PK\x01\x02");
        let (method, crc, stored, len) = (
            u16_at(at + 10),
            u32_at(at + 16),
            u32_at(at + 20),
            u32_at(at + 24),
        );
        assert_eq!((method, stored), (0, len));
        let name = &archive[at + 46..at + 46 + u16_at(at + 28)];
        let local = u32_at(at + 42);
        assert_eq!(archive[local..local + 4], *b"PK\x03\x04");
        let start = local + 30 + u16_at(local + 26) + u16_at(local + 28);
        assert_eq!(archive[local + 30..local + 30 + name.len()], *name);
        let data = archive[start..start + len].to_vec();
        assert_eq!(test_data::crc32_ieee(&data) as usize, crc);
        assert_eq!(archive[start + len..start + len + 4], *b"PK\x07\x08");
        assert_eq!(
            (u32_at(start + len + 4), u32_at(start + len + 8)),
            (crc, len)
        );
        members.push((String::from_utf8(name.to_vec()).unwrap(), data));
        at += 46 + name.len() + u16_at(at + 30);
    }
    assert_eq!(at, end);
    members
}

/// The head of an .npy file as text, and its data.
fn npy(bytes: &[u8]) -> (String, Vec<u8>) {
    assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
    let len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((10 + len) % 64, 0);
    let head = std::str::from_utf8(&bytes[10..10 + len]).unwrap();
    (head.trim_end().to_owned(), bytes[10 + len..].to_vec())
}

fn read(scratch: &Scratch, path: &str) -> (String, Vec<u8>) {
    npy(&std::fs::read(scratch.path(path)).unwrap())
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn head(kind: &str, shape: &str) -> String {
    format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}")
}

fn listed(folder: &std::path::Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_folder_has_a_safely_named_file_of_each_and_a_list() {
    let scratch = Scratch::new();
    let names = ["l.0.w", "L.0.w", "../../up", "nul", "a/b", "l.1.w"];
    with_names(&scratch, "m.safetensors", &names);
    let run = extract(&scratch, &["m.safetensors", "*", "-o", "out/"]);
    assert_eq!(run.code, 0, "{run:?}");
    let files = listed(&scratch.path("out"));
    assert_eq!(files.len(), names.len() + 1);
    for file in [
        "L.0.w_2.npy",
        "_nul.npy",
        "a_b.npy",
        "l.0.w.npy",
        "l.1.w.npy",
        "index.json",
    ] {
        assert!(files.contains(&file.to_owned()), "{file} {files:?}");
    }
    assert!(!scratch.path("up.npy").exists() && files.iter().all(|file| !file.starts_with('.')));
    let list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scratch.path("out/index.json")).unwrap()).unwrap();
    for (at, name) in names.iter().enumerate() {
        let entry = &list["files"][at];
        assert_eq!(entry["name"], *name);
        assert_eq!(
            (&entry["dtype"], &entry["shape"]),
            (&json!("f32"), &json!([1]))
        );
        let (head_of, data) = read(
            &scratch,
            &format!("out/{}", entry["file"].as_str().unwrap()),
        );
        assert_eq!(head_of, head("<f4", "1, "));
        assert_eq!(data, bytes(&[at as f32]), "{name}");
    }
    // Nothing is replaced unless asked for, and nothing is written where one file is in the way.
    std::fs::remove_file(scratch.path("out/l.0.w.npy")).unwrap();
    let again = extract(&scratch, &["m.safetensors", "l.*", "-o", "out"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(!scratch.path("out/l.0.w.npy").exists());
    assert_eq!(
        extract(&scratch, &["m.safetensors", "l.*", "-o", "out", "--force"]).code,
        0
    );
    let run = extract(
        &scratch,
        &[
            "m.safetensors",
            "l.{0,1}.w",
            "a/b",
            "-o",
            "bytes/",
            "--to",
            "bin",
        ],
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        listed(&scratch.path("bytes")),
        ["a_b.bin", "index.json", "l.0.w.bin", "l.1.w.bin"]
    );
    assert_eq!(
        std::fs::read(scratch.path("bytes/a_b.bin")).unwrap(),
        bytes(&[4.0])
    );
}

#[test]
fn an_npz_has_all_under_their_names() {
    let scratch = Scratch::new();
    file(
        &scratch,
        "m.safetensors",
        &[
            (
                "l/0.w",
                Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap(),
            ),
            ("../x", Tensor::from_slice(&[5u8], &[]).unwrap()),
            ("ids", Tensor::from_slice(&[6i64, 7], &[2]).unwrap()),
        ],
    );
    let run = extract(&scratch, &["m.safetensors", "*", "-o", "m.npz"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("\"../x\" is"), "{}", run.err);
    let archive = std::fs::read(scratch.path("m.npz")).unwrap();
    let members = members(&archive);
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["l/0.w.npy", "_.._x.npy", "ids.npy"]);
    for (name, expected, data) in [
        (
            "l/0.w.npy",
            head("<f4", "2, 2, "),
            bytes(&[1.0, 2.0, 3.0, 4.0]),
        ),
        ("_.._x.npy", head("|u1", ""), vec![5]),
        (
            "ids.npy",
            head("<i8", "2, "),
            [6i64, 7].iter().flat_map(|v| v.to_le_bytes()).collect(),
        ),
    ] {
        let (_, bytes) = members.iter().find(|(member, _)| member == name).unwrap();
        assert_eq!(npy(bytes), (expected, data.clone()), "{name}");
    }
    // The same calls give the same bytes, and standard output takes them too.
    let mut command = scratch.command();
    let command = command.args([
        "extract",
        "m.safetensors",
        "*",
        "-o",
        "-",
        "--to",
        "npz",
        "-q",
    ]);
    assert!(command.output().unwrap().stdout == archive);
    assert_eq!(
        extract(&scratch, &["m.safetensors", "*", "-o", "m.npz"]).code,
        2
    );
    let run = extract(&scratch, &["m.safetensors", "*", "-o", "one.npy"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.err.contains("3 are chosen") && !scratch.path("one.npy").exists(),
        "{run:?}"
    );
}

#[test]
fn rows_are_taken_in_every_order_and_format() {
    let scratch = Scratch::new();
    let values: Vec<f32> = (0..12u8).map(f32::from).collect();
    file(
        &scratch,
        "m.safetensors",
        &[
            ("w", Tensor::from_slice(&values, &[4, 3]).unwrap()),
            ("s", Tensor::from_slice(&[1.0f32], &[]).unwrap()),
        ],
    );
    let model = ["convert", "m.safetensors", "m.model", "-q"];
    assert_eq!(scratch.run(&model).code, 0);
    let packed = ["convert", "m.safetensors", "m.zt", "--zstd", "-q"];
    assert_eq!(scratch.run(&packed).code, 0);
    for from in ["m.safetensors", "m.model", "m.zt"] {
        for (rows, shape, expected) in [
            ("w[1:3]", "2, 3, ", &values[3..9]),
            ("w[:1]", "1, 3, ", &values[..3]),
            ("w[3:]", "1, 3, ", &values[9..]),
            ("w[2:2]", "0, 3, ", &[]),
            ("w[:]", "4, 3, ", &values[..]),
        ] {
            let run = extract(&scratch, &[from, rows, "-o", "r.npy", "--force"]);
            assert_eq!(run.code, 0, "{run:?}");
            assert_eq!(
                read(&scratch, "r.npy"),
                (head("<f4", shape), bytes(expected)),
                "{from} {rows}"
            );
        }
    }
    for (rows, why) in [
        ("w[1:5]", "there are no rows 1 to 5 of 4"),
        ("w[3:1]", "there are no rows 3 to 1"),
        ("s[0:1]", "a scalar has no rows"),
        ("x[0:1]", "x[0:1]"),
        ("w[", "[[] is the character"),
    ] {
        let run = extract(&scratch, &["m.safetensors", rows, "-o", "x.npy"]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.err.contains(why) && !scratch.path("x.npy").exists(),
            "{}",
            run.err
        );
    }
    let run = extract(
        &scratch,
        &["m.safetensors", "w[0:1]", "w[3:4]", "s", "-o", "rows/"],
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        listed(&scratch.path("rows")),
        ["index.json", "s.npy", "w_0_1_.npy", "w_3_4_.npy"]
    );
    let list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scratch.path("rows/index.json")).unwrap()).unwrap();
    assert_eq!(
        list["files"][1],
        json!({"file": "w_3_4_.npy", "name": "w", "dtype": "f32", "shape": [1, 3], "rows": [3, 4]})
    );
}

/// A file that is mostly a hole: rows at its end take no time and no memory.
#[test]
fn rows_are_read_without_the_rest() {
    let scratch = Scratch::new();
    let header =
        br#"{"w":{"dtype":"F32","shape":[1048576,262144],"data_offsets":[0,1099511627776]}}  "#;
    let mut start = (header.len() as u64).to_le_bytes().to_vec();
    start.extend_from_slice(header);
    write(&scratch.path("huge.safetensors"), &start);
    let file = std::fs::File::options()
        .write(true)
        .open(scratch.path("huge.safetensors"))
        .unwrap();
    if file.set_len(start.len() as u64 + (1 << 40)).is_err() {
        return eprintln!("this file system has no files of a TiB");
    }
    let run = extract(
        &scratch,
        &["huge.safetensors", "w[1048575:1048576]", "-o", "r.npy"],
    );
    assert_eq!(run.code, 0, "{run:?}");
    let (head_of, data) = read(&scratch, "r.npy");
    assert_eq!((head_of, data.len()), (head("<f4", "1, 262144, "), 1 << 20));
}

#[test]
fn what_numpy_lacks_is_cast_when_asked_for() {
    let scratch = Scratch::new();
    let brain = |values: &[f32]| {
        let values: Vec<bf16> = values.iter().map(|v| bf16::from_f32(*v)).collect();
        Tensor::from_slice(&values, &[values.len() as u64]).unwrap()
    };
    file(
        &scratch,
        "m.safetensors",
        &[
            ("a", brain(&[1.5, -2.0])),
            ("b", brain(&[0.25])),
            ("i", Tensor::from_slice(&[300i64], &[1]).unwrap()),
        ],
    );
    let run = extract(&scratch, &["m.safetensors", "*", "-o", "out/"]);
    assert_eq!(run.code, 4, "{run:?}");
    for name in [
        "\"a\": NumPy has no dtype bf16",
        "\"b\": NumPy has no dtype bf16",
        "--cast f32",
    ] {
        assert!(run.err.contains(name), "{}", run.err);
    }
    assert!(!run.err.contains("\"i\"") && !scratch.path("out").exists());
    let run = extract(
        &scratch,
        &["m.safetensors", "*", "-o", "out/", "--cast", "float32"],
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        read(&scratch, "out/a.npy"),
        (head("<f4", "2, "), bytes(&[1.5, -2.0]))
    );
    assert_eq!(read(&scratch, "out/i.npy").0, head("<i8", "1, "));
    let row = ["m.safetensors", "a[1:2]", "-o", "r.bin", "--cast", "f64"];
    assert_eq!(extract(&scratch, &row).code, 0);
    assert_eq!(
        std::fs::read(scratch.path("r.bin")).unwrap(),
        (-2.0f64).to_le_bytes()
    );
    let narrow = extract(
        &scratch,
        &["m.safetensors", "i", "-o", "i.npy", "--cast", "u8"],
    );
    assert_eq!(narrow.code, 4, "{narrow:?}");
    assert!(narrow.err.contains("1 values of i64 don't fit u8") && !scratch.path("i.npy").exists());
    let idle = extract(
        &scratch,
        &["m.safetensors", "i", "-o", "i.npy", "--cast", "f32"],
    );
    assert!(
        idle.code == 0 && idle.err.contains("--cast changed nothing"),
        "{idle:?}"
    );
    assert_eq!(
        extract(
            &scratch,
            &["m.safetensors", "i", "-o", "j.npy", "--cast", "f33"]
        )
        .code,
        2
    );
}

/// What has a checksum that it fails is not given away as if it were whole.
#[test]
fn what_is_damaged_is_extracted_only_when_asked_for() {
    let scratch = Scratch::new();
    let whole = Tensor::from_slice(&[1.0f32, 2.0], &[2, 1]).unwrap();
    let mut builder = ztensor::Builder::new();
    builder.tensor("a", whole.clone()).unwrap();
    builder.tensor("b", whole).unwrap();
    let path = scratch.path("m.zt");
    write(&path, builder.to_vec().unwrap());
    let mut broken = std::fs::read(&path).unwrap();
    let found = broken
        .windows(4)
        .position(|bytes| bytes == 2f32.to_le_bytes());
    broken[found.unwrap()] ^= 1;
    std::fs::write(&path, broken).unwrap();
    let run = extract(&scratch, &["m.zt", "*", "-o", "all.npz"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("\"a\": failed a: expected"), "{run:?}");
    assert!(!run.err.contains("\"b\""), "{run:?}");
    assert!(!scratch.path("all.npz").exists());
    let whole = extract(&scratch, &["m.zt", "b", "-o", "b.npy"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    let rows = extract(&scratch, &["m.zt", "a[0:1]", "-o", "row.npy"]);
    assert_eq!(rows.code, 0, "{rows:?}");
    let all = ["m.zt", "*", "-o", "all.npz", "--no-verify"];
    assert_eq!(extract(&scratch, &all).code, 0);
    assert!(scratch.path("all.npz").exists());
}
