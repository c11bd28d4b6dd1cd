//! Tensors whose values can't be read: of an unknown dtype, layout or encoding. Their bytes can be had.

use std::fs;

use crate::{Scratch, write};

/// Hand-assembled files with such a tensor, in formats that say how long its bytes are.
const FILES: &[(&str, &[&str])] = &[
    (
        "ztensor",
        &[
            "dtype_case.zt",
            "dtype_complex.zt",
            "dtype_empty.zt",
            "encoding_lz4.zt",
            "layout_coo.zt",
            "layout_csr.zt",
            "layout_other.zt",
            "zstd_big.zt",
        ],
    ),
    (
        "burnpack",
        &[
            "bool_store_unknown.bpk",
            "dtype_lower_case.bpk",
            "dtype_qfloat_text.bpk",
            "dtype_unknown.bpk",
            "dtype_unknown_map.bpk",
            "scheme_mode.bpk",
            "scheme_value.bpk",
        ],
    ),
    (
        "aero",
        &[
            "dtype_7fff.aero",
            "dtype_8001.aero",
            "dtype_d.aero",
            "dtype_ffff.aero",
        ],
    ),
];

#[test]
fn bytes_without_values_are_hashed_compared_copied_and_extracted_in_every_format() {
    let scratch = Scratch::new();
    let fixtures = test_data::workspace_root().join("fixtures");
    for (format, names) in FILES {
        for name in *names {
            let bytes = fs::read(fixtures.join(format).join("unsupported").join(name)).unwrap();
            let (_, ending) = name.rsplit_once('.').unwrap();
            let (file, copy) = (format!("x.{ending}"), format!("copy.{ending}"));
            write(&scratch.path(&file), &bytes);
            let listing = scratch.run(&["inspect", &file, "--json"]).json();
            assert_eq!(scratch.run(&["verify", &file]).code, 4, "{name}");

            let hash = scratch.run(&["hash", &file, "--json", "--algorithm", "sha256"]);
            assert_eq!(hash.code, 0, "{name}: {hash:?}");
            let run = scratch.run(&["convert", &file, &copy, "--force", "--strict"]);
            assert_eq!(run.code, 0, "{name}: {run:?}");
            let again = scratch.run(&["hash", &copy, "--json", "--algorithm", "sha256"]);
            assert_eq!(again.out, hash.out, "{name}");
            assert_eq!(scratch.run(&["verify", &copy]).code, 4, "{name}");
            if *format == "burnpack" {
                // The dtype too is spelled as it was, whatever kind of item it is.
                assert!(fs::read(scratch.path(&copy)).unwrap() == bytes, "{name}");
            }
            let run = scratch.run(&["diff", &file, &copy]);
            assert_eq!(
                (run.code, run.out.as_str()),
                (0, "same\n"),
                "{name}: {run:?}"
            );
            let copied = scratch.run(&["inspect", &copy, "--json"]).json();
            for (a, b) in listing["tensors"]
                .as_array()
                .unwrap()
                .iter()
                .zip(copied["tensors"].as_array().unwrap())
            {
                for key in [
                    "name",
                    "dtype",
                    "shape",
                    "encoding",
                    "layout",
                    "checksum",
                    "custom",
                    "stored_bytes",
                ] {
                    assert_eq!(a[key], b[key], "{name}: {key}");
                }
            }

            for tensor in listing["tensors"].as_array().unwrap() {
                let (tensor_name, offset, len) = (
                    tensor["name"].as_str().unwrap(),
                    tensor["offset"].as_u64().unwrap() as usize,
                    tensor["stored_bytes"].as_u64().unwrap() as usize,
                );
                let run = scratch.run(&["extract", &file, tensor_name, "-o", "x.bin", "--force"]);
                assert_eq!(run.code, 0, "{name} {tensor_name}: {run:?}");
                let dtype = tensor["dtype"].as_str().unwrap();
                let extracted = fs::read(scratch.path("x.bin")).unwrap();
                if tensor["encoding"] != "zstd" {
                    assert_eq!(
                        extracted,
                        &bytes[offset..offset + len],
                        "{name} {tensor_name} {dtype}"
                    );
                }
            }
            // Nothing else can hold what has no values.
            let other = if *format == "aero" { "y.zt" } else { "y.aero" };
            let run = scratch.run(&["convert", &file, other]);
            assert_eq!(run.code, 4, "{name}: {run:?}");
            assert!(
                run.err.contains("--skip-unsupported"),
                "{name}: {}",
                run.err
            );
            assert!(!scratch.path(other).exists());
        }
    }
}
