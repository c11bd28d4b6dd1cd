//! Lists the tensors of a `.safetensors` file and prints the first values of one:
//! `cargo run -p safetensors-format --example inspect_safetensors -- FILE [NAME]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use safetensors_format::{Archive, DType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: inspect_safetensors FILE [NAME]";
    let archive = Archive::open(arguments.next().ok_or(usage)?)?;
    for meta in archive.metadata() {
        println!("{} = {:?}", meta.key(), meta.value());
    }
    for entry in archive.entries() {
        let (name, code, shape) = (entry.name(), entry.dtype_code(), entry.shape());
        println!("{name:?} {code} {shape}");
        for extra in entry.extras() {
            println!("    {}: {}", extra.key(), extra.json());
        }
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
