//! Integration tests of the facade with every codec.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise"
)]

mod casts;
mod changing;
mod checked;
mod detect;
mod faults;
mod first_lines;
mod generations;
mod in_place;
mod matrix;
mod memory;
mod page;
mod parts;
#[cfg(feature = "remote")]
mod remote;
mod reports;
mod safetensors;
mod snapshots;
mod tables;
mod telling;
