//! Lists the tensors of a primitiv file and prints the first values of one:
//! `cargo run -p primitiv-format --example inspect_primitiv -- FILE [NAME]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use primitiv_format::{Archive, Object};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: inspect_primitiv FILE [NAME]")?;
    let archive = Archive::open(&path)?;
    println!("{}", archive.data_type().name());
    if let Object::Optimizer(optimizer) = archive.object() {
        for (key, value) in optimizer.uints() {
            println!("{key} = {value}");
        }
        for (key, value) in optimizer.floats() {
            println!("{key} = {value}");
        }
    }
    for entry in archive.entries() {
        println!("{:?} {}", entry.name(), entry.shape());
    }
    if let Some(name) = arguments.next() {
        let entry = archive.entry(&name).ok_or("no such tensor")?;
        let rows = archive.read(entry)?.to_row_major()?;
        println!(
            "{:?}",
            rows.to_vec::<f32>()?.iter().take(8).collect::<Vec<_>>()
        );
    }
    Ok(())
}
