//! The releases of Burn that a burnpack file is written for.

use std::fs;

use crate::{Scratch, write};

#[test]
fn a_burnpack_file_is_written_for_the_release_that_is_asked_for() {
    let scratch = Scratch::new();
    let fixtures = test_data::workspace_root().join("fixtures/burnpack/valid");
    let file = fs::read(fixtures.join("bool_legacy.bpk")).unwrap();
    write(&scratch.path("old.bpk"), &file);

    // Its own, unless asked.
    let run = scratch.run(&["convert", "old.bpk", "copy.bpk", "--strict"]);
    assert_eq!(run.code, 0, "{run:?}");
    let listing = scratch.run(&["inspect", "copy.bpk", "--json"]).json();
    assert_eq!(listing["version"], "0.20");
    assert_eq!(listing["tensors"][0]["bool_store"], "native-legacy");

    // Another one is a loss that is said.
    let said = "\"w: dtype\": spelled as Burn 0.21 does, no longer as 0.20";
    let run = scratch.run(&["convert", "old.bpk", "new.bpk", "--to", "burnpack-0.21"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains(said), "{run:?}");
    let listing = scratch.run(&["inspect", "new.bpk", "--json"]).json();
    assert_eq!(listing["tensors"][0]["bool_store"], "native");
    let run = scratch.run(&[
        "convert",
        "old.bpk",
        "strict.bpk",
        "--to",
        "burnpack-0.21",
        "--strict",
    ]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(!scratch.path("strict.bpk").exists());

    // And back.
    let run = scratch.run(&["convert", "new.bpk", "back.bpk", "--to", "burnpack-0.20"]);
    assert_eq!(run.code, 0, "{run:?}");
    let listing = scratch.run(&["inspect", "back.bpk", "--json"]).json();
    assert_eq!(listing["version"], "0.20");

    let run = scratch.run(&["convert", "old.bpk", "x.bpk", "--to", "burnpack-0.19"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.err.contains("0.20"), "{run:?}");
}

#[test]
fn a_packed_file_that_is_written_aligned_is_a_loss() {
    let scratch = Scratch::new();
    let fixtures = test_data::workspace_root().join("fixtures/burnpack/valid");
    let file = fs::read(fixtures.join("packed.bpk")).unwrap();
    write(&scratch.path("old.bpk"), &file);
    let run = scratch.run(&["convert", "old.bpk", "copy.bpk"]);
    assert_eq!(run.code, 0, "{run:?}");
    let said = "lost: generation \"layout\": aligned as from Burn 0.20 on, no longer packed";
    assert!(run.err.contains(said), "{run:?}");
    let listing = scratch.run(&["inspect", "copy.bpk", "--json"]).json();
    assert_ne!(listing["version"], "0.19");
}
