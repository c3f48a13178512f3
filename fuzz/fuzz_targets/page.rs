#![no_main]

#[path = "../properties/page.rs"]
mod page;

libfuzzer_sys::fuzz_target!(|data: &[u8]| page::check(data));
