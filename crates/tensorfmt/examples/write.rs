//! Writes a model from tensors in memory, to the format that the path's ending names.
//!
//! `cargo run -p tensorfmt --example write -- model.safetensors`

use tensorfmt::convert::{Model, Options};
use tensorfmt::{Tensor, Value, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let mut model = Model::new();
    let weight: Vec<f32> = (0u8..6).map(f32::from).collect();
    model.tensor("weight", Tensor::from_vec(weight, &[2, 3])?);
    model.tensor("bias", Tensor::from_vec(vec![0.5f32, -0.5], &[2])?);
    model.metadata.push(("step".into(), Value::from(7i64)));
    for loss in model.save(&path, &Options::default(), &WriteOptions::default())? {
        eprintln!("lost: {loss}");
    }
    Ok(())
}
