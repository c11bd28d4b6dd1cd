//! Any bytes as an AERO file, as they are and with their hashes made right: opened, read whole and
//! in windows, and verified.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::aero::parse(bytes));
