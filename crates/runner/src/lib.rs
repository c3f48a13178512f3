//! The privileged side of a host: the spawner, and below it one runner process for each run.
//!
//! The spawner is one small single-threaded process. It forks a runner for each launch, and kills
//! what a runner leaves that was killed. A runner owns one command: its pipes, its output files, its death; it survives the loss
//! of every other process and is gone soon after its run.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | [`wire`] | what executor, spawner and runner say to each other | none |
//! | [`limits`] | the bounds, each with its why | none |
//! | `lifecycle` | every decision of a runner, as a state machine | none |
//! | [`spawner`] | takes launches, forks runners | sockets, fork |
//! | `runner` | the shell around a lifecycle: waits, carries, obeys | all of the below |
//! | `executor` | a runner's connection to its executor | socket |
//! | `command` | a command prepared for exec, and why it could not be executed | exec |
//! | `output` | a stream from its pipe into capture and file | pipe, file |
//! | `tree` | the processes below a runner | /proc, signals |
//! | `spool` | what is left of a run when nobody collects its result | file |
//! | `sys` | all `unsafe` code | system calls |
//! | `cli` | the command line | none |

mod cli;
mod command;
mod executor;
mod lifecycle;
pub mod limits;
mod output;
mod runner;
pub mod spawner;
mod spool;
#[expect(
    unsafe_code,
    reason = "forking, and the child between fork and exec, have no safe interface"
)]
mod sys;
mod tree;
pub mod wire;

pub use cli::main_from;
