//! Any calls of the burnpack builder: what they write is read back, the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: fuzz::Input| fuzz::burnpack::roundtrip(&input));
