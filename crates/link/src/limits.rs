//! Every bound of the link, each with its why.

use std::time::Duration;
use willcall_protocol::limits::{DEAD_AFTER, HANDSHAKE_TIMEOUT, MAX_MESSAGE};

/// The first ceiling of the back-off.
pub const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The last ceiling: a gateway that was away for a day is back for every host within a minute.
pub const BACKOFF_CAP: Duration = Duration::from_mins(1);
/// A connection that held this long was healthy: the next loss starts from the beginning.
pub const HEALTHY_AFTER: Duration = Duration::from_mins(1);
/// The longest pause that a gateway may ask for, so that a wrong number does not lose a host for days.
pub const MAX_PACE: Duration = Duration::from_mins(10);

/// The executor is on this host: asking again costs a system call.
pub const EXECUTOR_RETRY_FIRST: Duration = Duration::from_millis(25);
/// Its ceiling, so that a restarted executor is found within a second.
pub const EXECUTOR_RETRY_CAP: Duration = Duration::from_secs(1);
/// What an executor has to take a connection once the gateway waits for its hello: half of what the gateway gives it.
pub const EXECUTOR_WAIT: Duration = Duration::from_secs(5);
/// An executor that reads nothing for this long is stuck: better a new session than a full one.
pub const EXECUTOR_STALLED: Duration = Duration::from_secs(10);
/// What a clean close may take.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A PEM file: a key, a chain of a few certificates, or a bundle of a few roots.
pub const MAX_PEM: u64 = 256 * 1024;

/// Read buffers: one for the websocket and one for the executor's socket. Most messages are smaller; larger
/// ones are read into a buffer of their own length.
pub const READ_BUFFER: usize = 4 * 1024;
/// What the websocket collects before it writes. Every message is flushed, so this only sets the size of writes.
pub const WRITE_BUFFER: usize = 16 * 1024;
/// What the websocket may hold unwritten: one message, its header, and control frames.
pub const MAX_WRITE_BUFFER: usize = MAX_MESSAGE + WRITE_BUFFER + 4 * 1024;

/// A skew of the host's clock from which certificates are about to look expired or not yet valid.
pub const SKEW_ALARMING: Duration = Duration::from_mins(5);
/// A skew worth a line in the log.
pub const SKEW_NOTABLE: Duration = Duration::from_secs(2);

/// The times of a session, so that tests need not wait for the real ones.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// TCP, TLS, upgrade and welcome have this long each.
    pub handshake: Duration,
    /// A gateway that was silent for this long is dead.
    pub dead_after: Duration,
    /// An executor that takes no connection for this long is away.
    pub executor_wait: Duration,
    /// An executor that reads nothing for this long is stuck.
    pub executor_stalled: Duration,
}

impl Times {
    /// The times of the protocol.
    pub const REAL: Self = Self {
        handshake: HANDSHAKE_TIMEOUT,
        dead_after: DEAD_AFTER,
        executor_wait: EXECUTOR_WAIT,
        executor_stalled: EXECUTOR_STALLED,
    };
}
