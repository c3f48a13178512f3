#![no_main]

#[path = "../properties/index.rs"]
mod index;

libfuzzer_sys::fuzz_target!(|data: &[u8]| index::check(data));
