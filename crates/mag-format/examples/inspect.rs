//! Lists the tensors of a `.mag` file and prints the first values of one:
//! `cargo run -p mag-format --example inspect_mag -- FILE [NAME]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use mag_format::{Archive, DType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: inspect_mag FILE [NAME]")?;
    let archive = Archive::open(&path)?;
    for meta in archive.metadata() {
        println!("{} = {:?}", meta.key(), meta.value());
    }
    for entry in archive.entries() {
        println!(
            "{:?} {} {}",
            entry.name(),
            entry.dtype_code(),
            entry.shape()
        );
    }
    if let Some(name) = arguments.next() {
        let entry = archive.entry(&name).ok_or("no such tensor")?;
        let tensor = archive.read(entry)?;
        match tensor.dtype() {
            DType::F32 => println!(
                "{:?}",
                tensor.to_vec::<f32>()?.iter().take(8).collect::<Vec<_>>()
            ),
            dtype => println!("{} bytes of {dtype}", tensor.data().len()),
        }
    }
    Ok(())
}
