//! Lists the tensors of a burnpack file and prints the first values of one:
//! `cargo run -p burnpack-format --example inspect_burnpack -- FILE [NAME]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use burnpack_format::{Archive, DType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: inspect_burnpack FILE [NAME]")?;
    let archive = Archive::open(&path)?;
    println!(
        "{} layout, Burn {}",
        archive.layout().name(),
        archive.generation().name()
    );
    for meta in archive.metadata() {
        println!("{:?} = {:?}", meta.key(), meta.value());
    }
    for scalar in archive.scalars() {
        println!("{:?} = {:?}", scalar.name(), scalar.value());
    }
    for entry in archive.entries() {
        let (name, code, shape) = (entry.name(), entry.dtype_code(), entry.shape());
        match entry.param_id() {
            Some(id) => println!("{name:?} {code} {shape} parameter {id}"),
            None => println!("{name:?} {code} {shape}"),
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
