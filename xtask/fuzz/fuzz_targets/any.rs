//! Any bytes as a file of any format: detected, opened, read, verified, and converted to every
//! format there is.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::any(bytes));
