//! Converts a file, with what is lost said before it is written, and progress.
//!
//! `cargo run -p tensorfmt --example convert -- IN OUT`

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use tensorfmt::convert::{Model, Options, Target, plan};
use tensorfmt::{Archive, DType, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("from which file to which?".into());
    };
    let archive = Archive::open(from)?;
    let target = Target::from_path(&to).ok_or("an ending that no format has")?;
    let mut options = Options::default();
    options.cast = Some(DType::BF16);
    let plan = plan(Model::of(&archive), target, &options)?;
    for loss in plan.losses() {
        eprintln!("lost: {loss}");
    }
    let (done, all) = (AtomicU64::new(0), plan.data_len());
    let progress = |bytes: u64| {
        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        eprint!("\r{done} of {all} bytes");
        ControlFlow::Continue(()) // `Break(())` stops, and leaves nothing behind
    };
    let write = WriteOptions::default().with_progress(&progress);
    plan.write_file(to, &write)?;
    eprintln!();
    Ok(())
}
