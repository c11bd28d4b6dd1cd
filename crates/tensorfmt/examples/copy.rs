//! Copies a zTensor file with one tensor changed; all others keep their bytes, compression and checksums.
//!
//! `cargo run -p tensorfmt --example copy -- IN.zt OUT.zt NAME`

use tensorfmt::Tensor;
use tensorfmt::ztensor::{Archive, Builder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to), Some(name)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("from which file to which, and which tensor?".into());
    };
    let archive = Archive::open(from)?;
    let mut new = Builder::new();
    for entry in &archive {
        if entry.name() == name {
            let old = archive.read(entry)?.to_vec::<f32>()?;
            let halved: Vec<f32> = old.iter().map(|value| value / 2.0).collect();
            new.tensor(&name, Tensor::from_vec(halved, entry.shape().dims())?)?;
        } else {
            new.copy(&archive, entry)?;
        }
    }
    new.write_file(to)?;
    Ok(())
}
