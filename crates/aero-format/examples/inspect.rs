//! Lists the chunks and tensors of an AERO file and prints the first values of one:
//! `cargo run -p aero-format --example inspect_aero -- FILE [NAME]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use aero_format::{Archive, DType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: inspect_aero FILE [NAME]")?;
    let archive = Archive::open(&path)?;
    for chunk in archive.chunks() {
        println!(
            "{} {:?} {} bytes",
            chunk.fourcc(),
            chunk.name(),
            chunk.length()
        );
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
        let tensor = archive.read(archive.entry(&name).ok_or("no such tensor")?)?;
        match tensor.dtype() {
            DType::F32 => {
                println!(
                    "{:?}",
                    tensor.to_vec::<f32>()?.iter().take(8).collect::<Vec<_>>()
                );
            }
            dtype => println!("{} bytes of {dtype}", tensor.data().len()),
        }
    }
    Ok(())
}
