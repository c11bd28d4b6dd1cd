//! A model that Burn 0.20 or 0.21 saved is filtered, renamed and written by tensorfmt; the same release
//! loads the result and finds its values: `cargo run --release --manifest-path
//! xtask/interop/burn-models/Cargo.toml`.

use std::path::Path;

use tensorfmt::convert::{Model, Options, Target, plan};
use tensorfmt::{Archive, WriteOptions};

mod v0_20 {
    use burn_core_0_20 as burn;
    use burn_ndarray_0_20 as ndarray;
    use burn_store_0_20 as store;
    include!("model.rs");
}

mod v0_21 {
    use burn_core_0_21 as burn;
    use burn_ndarray_0_21 as ndarray;
    use burn_store_0_21 as store;
    include!("model.rs");
}

/// Keeps the tensors of the encoder, under the names that they have in it.
fn encoder_alone(from: &Path, to: &Path) -> String {
    let archive = Archive::open(from).expect("Burn's file opens");
    let mut model = Model::of(&archive);
    model.retain(|name| name.starts_with("encoder."));
    model
        .rename(|name| name.trim_start_matches("encoder.").to_owned())
        .expect("no two have one name");
    let plan =
        plan(model, Target::Burnpack, &Options::default()).expect("all of it can be written");
    assert!(plan.losses().is_empty(), "{:?}", plan.losses());
    plan.write_file(to, &WriteOptions::default())
        .expect("it is written");
    archive.version()
}

fn main() {
    let run = |name: &str, run: fn(&Path, &mut dyn FnMut(&Path, &Path))| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut version = String::new();
        run(folder.path(), &mut |from, to| {
            version = encoder_alone(from, to)
        });
        println!(
            "Burn {name}: 4 of 5 tensors kept, renamed and loaded again; the file is of {version}"
        );
    };
    run("0.20.1", |folder, change| v0_20::run(folder, change));
    run("0.21.0", |folder, change| v0_21::run(folder, change));
}
