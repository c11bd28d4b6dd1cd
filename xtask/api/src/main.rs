//! Prints the public interface of a crate, an item a line, from the JSON that rustdoc makes of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("api: which JSON of rustdoc?");
        return ExitCode::from(2);
    };
    let api = public_api::Builder::from_rustdoc_json(&path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    match api {
        Ok(api) => {
            print!("{api}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("api: {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
