//! The executor as a process, with a real spawner and real runners, against a gateway's end of the
//! protocol. Needs the spawner's binary beside it: `cargo build -p willcall-runner`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on fails where it stands"
)]

mod access;
mod full;
mod gateway;
mod host;
mod hung;
mod limits;
mod once;
mod outputs;
mod survival;
mod sweep;
mod turns;
