//! Any bytes as a burnpack file: opened, read whole and in windows, and verified.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::burnpack::parse(bytes));
