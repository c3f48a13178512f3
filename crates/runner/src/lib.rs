//! The privileged side of a host: the spawner, and below it one runner process for each run.
//!
//! The spawner is one small single-threaded process. It forks a runner for each launch and forgets
//! it. A runner owns one command: its pipes, its output files, its death; it survives the loss
//! of every other process and is gone soon after its run.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | [`wire`] | what executor, spawner and runner say to each other | none |

pub mod wire;
