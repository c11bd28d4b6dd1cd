//! Any bytes as a safetensors file: opened, read whole and in windows, verified, and copied.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::safetensors::parse(bytes));
