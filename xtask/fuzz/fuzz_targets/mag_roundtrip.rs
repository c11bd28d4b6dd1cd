//! Any calls of the mag builder: what they write is read back, the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: fuzz::Input| fuzz::mag::roundtrip(&input));
