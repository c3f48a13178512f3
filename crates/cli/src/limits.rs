//! Every bound of the client, each with its why.

use std::time::Duration;

/// How long one request waits at the gateway for a run's end; shorter than proxies allow an idle request to be.
pub const WAIT: Duration = Duration::from_secs(50);
/// What a request may take beyond its wait.
pub const ANSWER: Duration = Duration::from_secs(40);
/// A gateway that is there accepts at once.
pub const CONNECT: Duration = Duration::from_secs(5);
/// How long a lost connection is dialled again before the outcome counts as unknown.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Between two such attempts.
pub const RETRY: Duration = Duration::from_millis(250);
/// What one exec has to attend to and has not yet: its end, the cancel's, and signals.
pub const MAX_EVENTS: usize = 8;
/// An answer: two previews at their ceiling of 256 KiB, each byte escaped to six, and the fields around them.
pub const MAX_ANSWER: u64 = 16 * 1024 * 1024;
/// A token, with room for a comment.
pub const MAX_TOKEN_FILE: u64 = 4096;

/// Init, certificates and the first answer of a gateway on this machine.
pub const GATEWAY_START: Duration = Duration::from_secs(10);
/// From a started agent to a connected host.
pub const CONNECTED: Duration = Duration::from_secs(10);
/// Between two looks at something on this machine that cannot call back.
pub const LOOK: Duration = Duration::from_millis(5);
/// The agent's own longest stop: link, executor and spawner have 6 s each, the runs 12 s.
pub const AGENT_STOP: Duration = Duration::from_secs(32);
/// The gateway drains within 5 s.
pub const GATEWAY_STOP: Duration = Duration::from_secs(8);
/// What is shown of a log after a failure.
pub const LOG_TAIL: usize = 4096;

/// Lines that the demo shows of each end of a preview, and of a page.
pub const DEMO_LINES: usize = 8;
/// Characters that the demo shows of a line.
pub const DEMO_WIDTH: usize = 120;
