//! The control plane's side: accepts links, dispatches runs, serves the HTTP API.
//!
//! ```text
//! callers ──HTTP, bearer──► api ──► runs ──► db (SQLite, one thread, group commits)
//!                                    │  ▲
//!                            fleet ◄─┘  └─── results, refusals
//!                              │                   ▲
//! hosts ──wss, mutual TLS──► agents: one loop per link, around `protocol::session::GatewaySession`
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`state`] | the files of the state directory |
//! | [`lock`] | one process for one directory |
//! | [`pki`] | the CA, what it issues, and whom a certificate names |
//! | [`db`] | what the gateway knows for good |
//! | [`fleet`] | on which process the link of a host hangs: the only module that knows |
//! | [`runs`] | what callers and hosts may do with runs |
//! | [`agents`] | the hosts' listener and their links |
//! | [`api`] | the callers' listener |
//! | [`server`] | all of it together, from two bound listeners to the end of the drain |
//! | [`limits`] | every bound, each with its why |
//! | `command` | the command line |
//! | `descriptors` | how many connections this process may have at all |
//! | `clock` | the wall clock, read in one place |
#![forbid(unsafe_code)]

pub mod agents;
pub mod api;
mod clock;
mod command;
pub mod db;
mod descriptors;
pub mod fleet;
pub mod limits;
pub mod lock;
pub mod pki;
pub mod runs;
pub mod server;
pub mod state;

pub use command::main_from;
