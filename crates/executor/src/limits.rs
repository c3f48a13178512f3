//! Every bound of this crate, each with its why.

use std::time::Duration;

/// Runs at once; the next one is refused as busy, so that a host is never forked to death.
pub const MAX_RUNS: usize = 32;
/// The timeout of a run whose caller gives none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);
/// The longest timeout that a caller may ask for.
pub const MAX_TIMEOUT: Duration = Duration::from_hours(24);
/// Between TERM and KILL for a command that is ended.
pub const GRACE: Duration = Duration::from_secs(10);
/// A runner that has not called this long after its launch never will.
pub const START_TIME: Duration = Duration::from_secs(10);
/// A launch whose socket has closed may still be explained by the spawner, for this long.
pub const EXPLAIN_TIME: Duration = Duration::from_millis(200);

/// Looks at the spool of a runner without a connection: at first it may just be ending,
/// later it redials by itself and the look is for one that was killed.
pub const SPOOL_LOOKS: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];
/// How much longer than all its times together a runner may take to end its run: what it kills may be asleep in the
/// kernel, and its outputs on a slow disk.
pub const RUNNER_MARGIN: Duration = Duration::from_secs(30);
/// How long a run without its spool waits for its runner to dial: runners do four times a second.
pub const MISSING_TIME: Duration = Duration::from_secs(2);
/// Time between two attempts to write the end of a run into a ledger that cannot be written, or to read one from it.
pub const LEDGER_RETRY: Duration = Duration::from_secs(1);
/// Time between two lines of the log that say the same of something that is tried again and again.
pub const REMIND_EVERY: Duration = Duration::from_mins(1);
/// Time between two attempts to open a ledger that cannot be opened.
pub const LEDGER_REOPEN: Duration = Duration::from_secs(5);
/// A message on any of the sockets must be whole this long after its connection began.
pub const HELLO_TIME: Duration = Duration::from_secs(10);
/// How long a runner whose run nobody knows is listened to: its grace and its end.
pub const STRANGER_TIME: Duration = Duration::from_mins(1);
/// Connections of runners that have not said yet who they are, and of strangers.
pub const MAX_CALLERS: usize = 2 * MAX_RUNS;
/// Connections of runners that wait for their run's task; one at a time is alive.
pub const MAX_ATTACHING: usize = 2;

/// How long a listener is left alone that could not accept (no descriptors, no memory).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Requests that wait for the ledger: every run's end, every dispatch of a session, and room.
pub const MAX_LEDGER_QUEUE: usize = 256;
/// Requests in one transaction, so that the first of them does not wait for ever.
pub const MAX_LEDGER_BATCH: usize = 64;
/// A finished run is safe from a loss of power after this time at the latest.
pub const SYNC_WITHIN: Duration = Duration::from_millis(50);
/// After a reboot result numbers go on this much higher: those of ends that were sent but
/// not yet synced when the power went are never used again.
pub const SEQ_GAP: u64 = 1 << 20;
/// What SQLite may keep of the ledger in memory, in KiB.
pub const LEDGER_CACHE_KIB: i64 = 512;

/// Results kept in memory for the session that is about to send them.
pub const MAX_RECENT: usize = 16;
/// Text that such a result may have; larger ones are read back from the ledger.
pub const MAX_RECENT_TEXT: usize = 64 * 1024;

/// How long a result waits for a text to be kept that its turn has no room for; after that it says that it is
/// not saved.
pub const PARCEL_TIME: Duration = Duration::from_secs(3);

/// Reads at once, of all sessions together: each may hold a page, its encoding and a thread.
pub const MAX_READS: usize = 8;
/// Things that a session may ask for before it takes the answers.
pub const MAX_PENDING: usize = 256;
/// Bytes that wait for a link that does not read; until it does, no further result is fetched.
pub const MAX_UNSENT: usize = 1024 * 1024;
/// One read from a socket.
pub const SOCKET_CHUNK: usize = 64 * 1024;
/// Threads for what blocks: pages, and as many again for records and syncs. Reads that hang take their own
/// half, and no run's end waits for them.
pub const MAX_BLOCKING_THREADS: usize = 2 * MAX_READS;
/// How often is looked for what need not be held any longer.
pub const SWEEP_EVERY: Duration = Duration::from_hours(1);
/// What the gateway has is remembered for so long: until then a second dispatch gets the first one's answer.
pub const REMEMBERED: Duration = Duration::from_hours(7 * 24);
/// Rows that one transaction forgets, so that no run waits for the ledger meanwhile.
pub const FORGET_STEP: usize = 500;
/// A process that was told to end is gone after this time.
pub const SHUTDOWN_TIME: Duration = Duration::from_secs(1);
/// What a message quotes of a caller's text, in characters.
pub const MAX_QUOTED: usize = 200;
