//! Lists the tensors of a `.zt` file and prints the first values of one:
//! `cargo run -p ztensor-format --example inspect_ztensor -- FILE [NAME]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use ztensor_format::{Archive, DType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: inspect_ztensor FILE [NAME]")?;
    let archive = Archive::open(&path)?;
    for entry in archive.entries() {
        println!(
            "{:?} {} {} {} {}",
            entry.name(),
            entry.dtype_name(),
            entry.shape(),
            entry.layout_name(),
            entry.encoding_name(),
        );
        for field in entry.custom() {
            println!("    {:?} = {:?}", field.key(), field.value());
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
