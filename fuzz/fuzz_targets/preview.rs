#![no_main]

#[path = "../properties/preview.rs"]
mod preview;

libfuzzer_sys::fuzz_target!(|data: &[u8]| preview::check(data));
