//! The product as a whole: real processes, real TLS, real files.

mod alone;
mod bad_input;
mod config;
mod demo;
mod disk;
mod exec;
mod interrupt;
mod law;
mod ledger;
mod lines;
mod paging;
mod survive;
mod terminal;
mod turns;
mod twice;
mod views;

use std::path::Path;

/// The combined binary, as built for this test run.
fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_willcall"))
}
