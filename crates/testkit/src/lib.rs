//! Test support: the real system as real processes on free ports, and the awkward programs.
//!
//! Everything here panics with the whole story when the product does not do what a test needs first;
//! it is only ever used from tests and benchmarks.
//!
//! | module | what |
//! |---|---|
//! | [`command`] | the `willcall` program, run with a deadline |
//! | [`dev`] | `willcall dev`: gateway and agent, with their processes by role |
//! | [`processes`] | what `/proc` says of a process and its descendants |
//! | [`wait`] | waiting for a value instead of for time |
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot begin has to say so at once"
)]

pub mod command;
pub mod dev;
pub mod processes;
pub mod wait;

pub use command::{Ran, willcall};
pub use dev::Dev;
pub use wait::wait_for;
