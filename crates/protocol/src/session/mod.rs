//! The two ends of a session, without I/O: no socket, no clock, no randomness.
//!
//! Both ends work alike. The shell hands in messages (`handle`) and the passing of time
//! (`handle_timeout`, when `poll_timeout` has come), and takes out messages to send (`poll_transmit`, until it is
//! empty, after every other call). Extra calls are harmless.

mod agent;
mod gateway;

pub use agent::{AgentEvent, AgentSession};
pub use gateway::{GatewayEvent, GatewaySession};

use thiserror::Error;

/// Why a session ended. The shell closes the connection; the agent dials again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The peer's first message was another one than it had to be.
    #[error("the peer's first message was not the one that opens a session")]
    OutOfOrder,
    /// The peer opened the session a second time.
    #[error("the peer opened the session twice")]
    Reopened,
    /// There is no version that both speak.
    #[error(
        "the peer speaks versions {min} to {max} of the protocol; we speak {ours_min} to {ours_max}"
    )]
    Version {
        /// The peer's oldest.
        min: u32,
        /// The peer's newest.
        max: u32,
        /// Our oldest.
        ours_min: u32,
        /// Our newest.
        ours_max: u32,
    },
    /// The peer acknowledged a result that was never sent.
    #[error("the peer acknowledged result {acked}; the last one sent is {sent}")]
    AckAhead {
        /// What it acknowledged.
        acked: u64,
        /// What was sent.
        sent: u64,
    },
    /// Nothing came from the peer for too long.
    #[error("the peer was silent for too long")]
    Silent,
    /// The peer does not take what is sent to it.
    #[error("too many messages wait for the peer")]
    Stalled,
}

#[cfg(test)]
mod tests;
