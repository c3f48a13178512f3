//! Every bound of the gateway, each with its why. Those of the wire are in [`willcall_protocol::limits`].

use std::time::Duration;
use willcall_protocol::limits::{
    HANDSHAKE_TIMEOUT, MAX_COMMAND_BYTES, MAX_MESSAGE, MAX_QUEUED, MAX_REASON,
};

/// Connections that are not yet a session; further ones wait in the kernel's queue, where they cost us nothing.
pub const MAX_HANDSHAKES: usize = 256;
/// Of them, those of one address: silence holds a place for 10 s, and no single source may hold all. Hosts behind one address
/// that come together after a restart have to share it; who is turned away dials again after its backoff.
pub const MAX_HANDSHAKES_PER_SOURCE: usize = 32;
/// The websocket's read buffer: allocated for every idle link.
pub const READ_BUFFER: usize = 4 * 1024;
/// The websocket's write buffer, before it is written out.
pub const WRITE_BUFFER: usize = 4 * 1024;
/// What may wait for a host that does not read: one message that is being written and one behind it.
pub const MAX_WRITE_BUFFER: usize = 2 * MAX_MESSAGE + 64 * 1024;

/// Commands that wait for a link's loop; beyond it the host is busy.
pub const MAX_COMMANDS: usize = 64;
/// Dispatches of one link that the host has not answered; fewer than the session queues, so that it never stalls for them.
pub const MAX_UNANSWERED: usize = MAX_QUEUED - 64;
/// Results of one link on their way into the database; a host may have 16 in flight.
pub const MAX_COMMITS: usize = 32;
/// Reads of one link that the host has not answered.
pub const MAX_READS: usize = 64;
/// Open runs that are read from the database at once after a reconnection: each may have 256 KiB of arguments.
pub const BACKLOG_PAGE: u32 = 16;
/// An open run that has not reached its host for this long is not started any more.
pub const LATE_AFTER: Duration = Duration::from_mins(1);
/// Text of a host that goes into a stored message, in characters.
pub const MAX_HOST_TEXT: usize = 4 * 1024;
/// What a report says besides its streams' texts, roughly in bytes: twice 256 processes with their names, and three paths.
pub const MAX_REPORT_FACTS: usize = 128 * 1024;
/// What stands for a process in that sum, besides its name.
pub const REPORT_NOTE: usize = 64;
/// A page's digest: `blake3:` and 64 digits, with room for another name.
pub const MAX_DIGEST: usize = 128;

/// Requests that wait for the database's thread.
pub const MAX_DB_QUEUE: usize = 1024;
/// Requests that share one transaction, and so one sync.
pub const MAX_DB_BATCH: usize = 128;
/// How long the database may be locked by another process of the gateway's (`agent-cert`).
pub const DB_BUSY: Duration = Duration::from_secs(5);
/// Finished runs are kept this long.
pub const KEEP_RUNS: Duration = Duration::from_hours(7 * 24);
/// How often those that are older are looked for.
pub const SWEEP_EVERY: Duration = Duration::from_hours(1);
/// An open run whose host was not heard of for this long is lost: whoever asked has stopped waiting long since.
pub const GIVE_UP_AFTER: Duration = Duration::from_hours(7 * 24);
/// So many of them are ended in one transaction, so that others get their turn.
pub const GIVE_UP_PAGE: u32 = 256;

/// A request's body: arguments, environment and reason at their largest, each byte escaped to six (`\u0061`), and as much again as
/// everything else in it needs.
pub const MAX_BODY: usize = 6 * (MAX_COMMAND_BYTES + MAX_REASON) + 16 * 1024;
/// How long a request may wait for a run, in seconds.
pub const MAX_WAIT_S: u64 = 300;
/// A host's name.
pub const MAX_HOST_NAME: usize = 64;
/// Connections of callers; further ones wait in the kernel's queue.
pub const MAX_API_CONNECTIONS: usize = 4096;
/// Callers get at most one in so many of the descriptors that the process may have: the hosts' links need them, too.
pub const API_SHARE_OF_DESCRIPTORS: usize = 4;
/// How long the body of a request may take to arrive, from a caller with a token.
pub const BODY_TIME: Duration = Duration::from_mins(1);

/// After a restart, one more millisecond of spread for every so many links: a full handshake costs half a millisecond.
pub const RECONNECT_SPREAD_PER_LINK_MS: u64 = 2;
/// The least spread of reconnections.
pub const RECONNECT_SPREAD_MS: u64 = 100;

/// Times that tests shorten.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the TLS handshake.
    pub tls: Duration,
    /// For the websocket upgrade.
    pub upgrade: Duration,
    /// For the hello.
    pub hello: Duration,
    /// For a sign of life of an older link, while a newer one with the same identity and another ledger waits.
    pub alive: Duration,
    /// For the peer's half of a close.
    pub linger: Duration,
    /// For the next header of a caller, whole, on a connection that is new, idle or half way through one; and for a caller
    /// to take more of its answer. A request that waits for its run has none of these under way.
    pub caller: Duration,
    /// For a host's answer to a read.
    pub read: Duration,
    /// For everything together at the end.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tls: HANDSHAKE_TIMEOUT,
            upgrade: HANDSHAKE_TIMEOUT,
            hello: HANDSHAKE_TIMEOUT,
            alive: Duration::from_secs(3),
            linger: Duration::from_secs(1),
            caller: Duration::from_secs(10),
            read: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}
