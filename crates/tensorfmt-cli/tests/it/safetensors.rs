//! What the command makes of safetensors files that are unusual.

use crate::{Scratch, write};

/// A file of this header and this data.
pub(crate) fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let len = (header.len() as u64).to_le_bytes();
    [&len, header.as_bytes(), data].concat()
}

const ODD: &str = concat!(
    r#"{"packed":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]},"#,
    r#""unknown":{"dtype":"I4","shape":[4],"data_offsets":[2,4]},"#,
    r#""b":{"dtype":"U8","shape":[2],"data_offsets":[4,6],"unit":"m"}}"#,
);
const DATA: &[u8] = &[0x21, 0x43, 0x65, 0x87, 1, 2];

/// SHA-256 of the bytes 21 43, of 65 87 and of 01 02, as `sha256sum` has them.
const DIGESTS: [&str; 3] = [
    "992accb9917efeb56837bcf8194fd82da11a32bee150de6b9cf503bb9c0f7357",
    "53cc82284322a8a9b036fb5ab530c7865776463163b3a04bcc325e6ff968c193",
    "a12871fee210fb8619291eaea194581cbd2531e4b23759d225f6806923f63222",
];

#[test]
fn bytes_of_any_dtype_are_hashed_compared_copied_and_extracted() {
    let scratch = Scratch::new();
    write(&scratch.path("odd.safetensors"), file(ODD, DATA));
    let run = scratch.run(&["hash", "odd.safetensors", "--algorithm", "sha256", "--json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let hashes = run.json();
    for (at, digest) in DIGESTS.iter().enumerate() {
        assert_eq!(hashes["tensors"][at]["digest"], *digest, "{at}");
    }
    for (name, bytes) in [("packed", &DATA[..2]), ("unknown", &DATA[2..4])] {
        let run = scratch.run(&["extract", "odd.safetensors", name, "-o", "x.bin", "--force"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(std::fs::read(scratch.path("x.bin")).unwrap(), bytes);
        let run = scratch.run(&["extract", "odd.safetensors", name, "-o", "x.npy"]);
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.err.contains("extract the bytes as .bin"), "{run:?}");
        assert!(!scratch.path("x.npy").exists());
    }
    let run = scratch.run(&["convert", "odd.safetensors", "copy.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = scratch.run(&["diff", "odd.safetensors", "copy.safetensors"]);
    assert_eq!((run.code, run.out.trim()), (0, "same"), "{run:?}");
    let copied = scratch
        .run(&["inspect", "copy.safetensors", "--json"])
        .json();
    assert_eq!(copied["tensors"][2]["extra"]["unit"], "m");
    assert_eq!(copied["tensors"][1]["dtype"], "I4");

    let mut other = DATA.to_vec();
    other[3] = 0;
    write(&scratch.path("other.safetensors"), file(ODD, &other));
    let run = scratch.run(&["diff", "odd.safetensors", "other.safetensors"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.out.contains("unknown: 1 byte differs, first at 1"),
        "{run:?}"
    );
    // What is checked says that one tensor was not understood.
    assert_eq!(scratch.run(&["verify", "odd.safetensors"]).code, 4);
}

#[test]
fn an_unknown_dtype_hides_no_fault_of_others() {
    let scratch = Scratch::new();
    for (b, data) in [
        (r#"{"dtype":"F32","shape":[100],"data_offsets":[0,4]}"#, 4),
        (r#"{"dtype":"F32","shape":[100],"data_offsets":[4,8]}"#, 8),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[8,12]}"#, 12),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#, 9),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#, 7),
    ] {
        let header =
            format!(r#"{{"w":{{"dtype":"Q9","shape":[4],"data_offsets":[0,4]}},"b":{b}}}"#);
        write(
            &scratch.path("x.safetensors"),
            file(&header, &vec![0; data]),
        );
        for verb in ["inspect", "verify", "stats", "hash"] {
            let run = scratch.run(&[verb, "x.safetensors"]);
            assert_eq!(run.code, 1, "{verb} {b}: {run:?}");
        }
        let run = scratch.run(&["extract", "x.safetensors", "b", "-o", "b.npy"]);
        assert_eq!(run.code, 1, "{b}: {run:?}");
        assert!(!scratch.path("b.npy").exists());
    }
}

#[test]
fn keys_of_a_tensor_are_shown_and_lost_only_elsewhere() {
    let scratch = Scratch::new();
    let header = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"nntr_dtype":"Q4_0"}}"#;
    write(&scratch.path("a.safetensors"), file(header, &[1, 2, 3, 4]));
    let run = scratch.run(&["inspect", "a.safetensors"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out.contains(r#"extra={"nntr_dtype":"Q4_0"}"#),
        "{run:?}"
    );
    assert_eq!(
        scratch.run(&["verify", "a.safetensors", "--strict"]).code,
        0
    );
    let run = scratch.run(&["convert", "a.safetensors", "b.safetensors", "--strict"]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = scratch.run(&["convert", "a.safetensors", "a.zt"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.err.contains("lost: attribute \"a: nntr_dtype\""),
        "{run:?}"
    );
    let run = scratch.run(&["convert", "a.safetensors", "c.zt", "--strict"]);
    assert_eq!(run.code, 4, "{run:?}");
}

#[test]
fn nul_padding_is_called_that() {
    let scratch = Scratch::new();
    write(&scratch.path("x.safetensors"), file("{}\0\0", &[]));
    let run = scratch.run(&["inspect", "x.safetensors"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("filled up with NUL bytes"), "{run:?}");
}
