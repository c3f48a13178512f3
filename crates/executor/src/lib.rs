//! Decides and remembers what runs on a host. No network code, no privileges.
//!
//! ```text
//!          link.sock                 spawner.sock
//! link ◄────────────► server ─► runs ────────────► spawner
//!                       │        │ ▲
//!                       ▼        ▼ │ runner.sock
//!                     store   ledger└───────────── runners
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`config`] | what an administrator can decide |
//! | [`ledger`] | what must not be forgotten: claims, ends, what the gateway has |
//! | [`runs`] | one task for each run, from its claim to its end; adoption after a restart |
//! | `outbox` | the newest results, for the session that sends them |
//! | `turns` | what of a call's texts may leave, given what else its turn has sent |
//! | `sweep` | what need not be held any longer goes, at the start and every hour |
//! | `server` | sessions with gateways over link.sock |
//! | [`service`] | the process: what is opened in which order, and how it ends |
//! | [`limits`] | every bound, each with its why |
//! | `sockets` | private directories and sockets, and who may call |
//! | `host` | what this process has to know of its host |
//! | `lifeline` | ends with whoever started this process |
//! | `reminder` | when to tell again of something that lasts |
//! | `sync` | locks that outlive a panic |
//! | `cli` | the command line |
#![forbid(unsafe_code)]

mod cli;
pub mod config;
mod host;
pub mod ledger;
mod lifeline;
pub mod limits;
mod outbox;
mod reminder;
pub mod runs;
mod server;
pub mod service;
mod sockets;
mod sweep;
mod sync;
mod turns;

pub use cli::main_from;
