#![no_main]

#[path = "../properties/record.rs"]
mod record;

libfuzzer_sys::fuzz_target!(|data: &[u8]| record::check(data));
