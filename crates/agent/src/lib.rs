//! The host's parent process, for containers and development: it starts spawner, executor and link, starts
//! again what dies, and ends all of them in order.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | [`supervisor`] | when to start, signal and give up, as a state machine | none |
//! | [`roles`] | how a role is started, from sibling programs or from one combined program | none |
//! | [`layout`] | the directories of a host | files |
//! | `children` | starting, signalling and reaping processes | processes |
//! | `runs` | the runs that are still there at the end | /proc, signals |
//! | `service` | the loop around them | all of the above |
//! | [`limits`] | every bound, each with its why | none |
//! | `args` | the command line | none |
#![forbid(unsafe_code)]

mod args;
mod children;
pub mod layout;
pub mod limits;
pub mod roles;
mod runs;
mod service;
pub mod supervisor;

pub use args::{main_from, main_with};
