//! Holds the host's identity and its websocket; relays frames and runs nothing.
//!
//! ```text
//! dial: TCP ► TLS ► upgrade ──► executor's socket ──► relay until one side ends ──► [back-off] ──► dial
//!   └── fails: who is to blame        └── nobody there: close the websocket,              ▲
//!       is logged ──────────────────►     wait for the executor ──────────────────────────┘
//! ```
//!
//! One websocket and one connection to the executor live and die together: when either ends, the other is
//! closed, and both are made anew. "Connected" means that the gateway's first session message arrived.
//!
//! | module | what |
//! |---|---|
//! | [`backoff`] | when to come back, without a clock |
//! | [`clock`] | how far the host's clock is from the gateway's |
//! | [`tls`] | the identity, the one trusted CA, and who is to blame for a failed handshake |
//! | [`dial`] | from a URL to an open websocket |
//! | [`frames`] | the framing of the executor's socket |
//! | [`relay`] | one session, until it ends |
//! | [`service`] | session after session |
//! | [`limits`] | every bound, each with its why |
//! | `observed` | when bytes last came, below TLS |
//! | `lifeline` | ends with whoever started this process |
//! | `args` | the command line |
#![forbid(unsafe_code)]

mod args;
pub mod backoff;
pub mod clock;
pub mod dial;
pub mod frames;
mod lifeline;
pub mod limits;
mod observed;
pub mod relay;
pub mod service;
pub mod tls;

#[cfg(test)]
mod tests;

pub use args::main_from;
