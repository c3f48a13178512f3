//! Every bound on the wire, each with its why.

use std::time::Duration;

/// The newest version of the session protocol that this crate speaks.
pub const VERSION: u32 = 1;
/// The oldest version that this crate still speaks.
pub const OLDEST_VERSION: u32 = 1;

/// A whole message as it travels: an idle peer must not be able to make the other side reserve more.
pub const MAX_MESSAGE: usize = 1024 * 1024;
/// A message after decompression. Two previews at their ceiling of 256 KiB, each byte escaped to six by JSON, are 3 MiB.
pub const MAX_DECOMPRESSED: usize = 8 * 1024 * 1024;
/// Messages above this size are compressed; below it the header costs what compression gains.
pub const COMPRESS_ABOVE: usize = 1024;
/// The largest window a compressed message may ask the decoder for, as a power of two: 8 MiB, as large as the content may be.
pub const MAX_WINDOW_LOG: u32 = 23;
/// zstd level 1: level 3 gains nothing on terminal output and costs half as much again.
pub const ZSTD_LEVEL: i32 = 1;

/// A session's name.
pub const MAX_SESSION_ID: usize = 64;
/// Arguments, environment and working directory of one run, in bytes: a quarter of a message as it travels. JSON makes at most six
/// bytes of one; what is so much longer for being escaped, compression brings below a message again.
pub const MAX_COMMAND_BYTES: usize = 256 * 1024;
/// Text of one stream in a report, or of one page, in bytes: the highest ceiling that a host can be configured to. As base64
/// a page's text is a third longer.
pub const MAX_TEXT: usize = 256 * 1024;
/// The free text a caller may give as the reason of a run.
pub const MAX_REASON: usize = 1024;

/// TCP connect, TLS, websocket upgrade and hello have this long each.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The gateway pings this often, ±10 %, so that the silence of a live peer never lasts long.
pub const PING_EVERY: Duration = Duration::from_secs(20);
/// A peer that was silent for this long is dead: two pings and a margin.
pub const DEAD_AFTER: Duration = Duration::from_secs(45);

/// Results sent and not yet acknowledged, on one session. The rest waits in the ledger, not in memory.
pub const MAX_UNACKED_RESULTS: usize = 16;
/// Dispatches sent and not yet answered, on one session.
pub const MAX_DISPATCHES_IN_FLIGHT: usize = 64;
/// Messages that wait for the transport, on one session; a peer that lets more pile up is cut off.
pub const MAX_QUEUED: usize = 256;
