//! Any bytes as a primitiv file: opened, read whole and in windows, and verified.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::primitiv::parse(bytes));
