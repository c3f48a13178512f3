//! Every bound of this crate, each with its why.

use std::time::Duration;

/// Connections that a spawner serves at once: one executor, its successor during an upgrade, and room.
pub const MAX_CONNECTIONS: usize = 16;
/// A launch must be whole this long after its first byte; senders write it in one go.
pub const LAUNCH_TIME: Duration = Duration::from_secs(10);
/// Descriptors that may wait on a connection: those of one launch beside the end of another.
pub const MAX_WAITING_FDS: usize = 6;
/// Descriptors that one message can carry (the kernel's own limit); room for all, so that a wrong
/// number of them is seen and not cut.
pub const MAX_MESSAGE_FDS: usize = 253;
/// Answers that a spawner holds for a peer that does not read.
pub const MAX_ANSWERS: usize = 64 * 1024;
/// How long a spawner leaves its listener alone after it could not accept (no descriptors, no memory).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// One read from a socket.
pub const SOCKET_CHUNK: usize = 64 * 1024;

/// The largest message to a runner; all of them are words.
pub const MAX_TO_RUNNER: usize = 4096;
/// Time between two attempts of a runner to find its executor again.
pub const REDIAL: Duration = Duration::from_millis(250);
/// A result that nobody collected for this long goes to the spool, and its runner ends.
pub const COLLECT_TIME: Duration = Duration::from_secs(1);
/// Time between two attempts to write a spool that cannot be written.
pub const SPOOL_RETRY: Duration = Duration::from_secs(5);

/// The longest grace between TERM and KILL, whatever a launch says.
pub const MAX_GRACE: Duration = Duration::from_hours(1);
/// Output is awaited for this long after the command's exit; fixed once, whatever still arrives.
pub const DRAIN_TIME: Duration = Duration::from_secs(2);
/// Time between TERM and KILL for what is left after the command's exit.
pub const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// How often what is left is looked at again.
pub const LEFTOVER_LOOK: Duration = Duration::from_millis(10);
/// Processes that survive KILL for this long (asleep in the kernel) no longer hold the result up.
pub const KILL_TIME: Duration = Duration::from_secs(5);
/// Processes that one walk meets, more or less: a walk holds up everything else. Of more, some are killed at once.
pub const MAX_WALK: usize = 4096;
/// Walks, and time, for stopping a family of processes before it is killed: two are enough for one that stands still.
pub const FREEZE_WALKS: usize = 64;
/// See [`FREEZE_WALKS`].
pub const FREEZE_TIME: Duration = Duration::from_millis(50);
/// Leftovers that a result names; the rest is ended all the same.
pub const MAX_LISTED: usize = 256;

/// What a pipe holds by default; a read that returns this much came from a full pipe.
pub const PIPE_DEFAULT: usize = 64 * 1024;
/// What a busy pipe is grown to: the most that is allowed without privileges.
pub const PIPE_GROWN: i32 = 1024 * 1024;
/// What is still read at the deadline: what the pipe can hold, however fast its writers are.
pub const LAST_SWEEP: usize = 1024 * 1024;
