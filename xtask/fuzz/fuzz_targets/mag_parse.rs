//! Any bytes as a mag file: opened, read whole and in windows, and verified.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::mag::parse(bytes));
