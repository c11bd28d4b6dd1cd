//! Tensors as arrays of `ndarray`, and back.
//!
//! `cargo run -p tensorfmt --example arrays -- model.safetensors`

#![allow(clippy::print_stdout, reason = "an example prints")]

use ndarray::{ArrayD, ArrayViewD, IxDyn};
use tensorfmt::convert::{Model, Options};
use tensorfmt::{Archive, Tensor, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;

    // An array becomes a tensor without a copy of its elements, in the order of its own dims.
    let array = ArrayD::from_shape_fn(IxDyn(&[2, 3]), |at| f32::from(u8::from(at[0] == at[1])));
    let dims: Vec<u64> = array.shape().iter().map(|&dim| dim as u64).collect();
    let (elements, _) = array.into_raw_vec_and_offset();
    let mut model = Model::new();
    model.tensor("eye", Tensor::from_vec(elements, &dims)?);
    model.save(&path, &Options::default(), &WriteOptions::default())?;

    // A tensor is viewed without a copy; `to_row_major` does nothing where it is row-major already.
    let tensor = Archive::open(&path)?.read("eye")?.to_row_major()?;
    let view = ArrayViewD::from_shape(tensor.dims_usize()?, tensor.as_slice::<f32>()?)?;
    println!("{view}");
    Ok(())
}
