//! Every bound of the agent, each with its why.

use std::time::Duration;

/// The first pause before a role that died is started again: a kill is hardly noticed.
pub const RESTART_FIRST: Duration = Duration::from_millis(100);
/// The longest pause: what cannot start now is tried again within seconds.
pub const RESTART_CAP: Duration = Duration::from_secs(5);
/// A role that ran for this long was healthy: the next pause is the first again.
pub const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// Between asking a role to end and ending it.
pub const ROLE_GRACE: Duration = Duration::from_secs(5);
/// Runs have 10 s between TERM and KILL, and a second to lay down their results.
pub const RUNS_GRACE: Duration = Duration::from_secs(12);
/// A killed process that is still not gone sleeps in the kernel; nobody waits for it.
pub const KILL_GRACE: Duration = Duration::from_secs(1);
/// How often the runs that still end are counted.
pub const RUNS_LOOK: Duration = Duration::from_millis(20);

/// Bytes of a unix socket's path, without its final NUL: the kernel's limit.
pub const MAX_SOCKET_PATH: usize = 107;
