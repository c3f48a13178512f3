//! What a run came to. [`Outcome`] is the JSON that every caller sees; it changes only by additions.

use crate::ids::{RunId, SessionId};
use serde::{Deserialize, Serialize};

/// A run as callers see it: the report of its host, under the host's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The host's name at the gateway.
    pub host: String,
    /// What the host reports.
    #[serde(flatten)]
    pub report: Report,
}

/// A run as its host reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The run.
    pub run: RunId,
    /// The session that owns it.
    pub session: SessionId,
    /// Where it stands, or how it ended.
    pub state: RunState,
    /// The command's exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The name of the signal that ended the command, if one did: `SIGKILL`.
    pub signal: Option<String>,
    /// Why, where the state alone does not say it.
    pub cause: Option<Cause>,
    /// One sentence for a person: what happened, who is to blame, what helps. Null where nothing needs saying.
    #[serde(default)]
    pub message: Option<String>,
    /// The step at which a launch failed, and the kernel's error number.
    #[serde(default)]
    pub spawn_error: Option<SpawnFailure>,
    /// Milliseconds from the start of the command to the end of the run.
    pub duration_ms: u64,
    /// User and system time, in milliseconds.
    #[serde(default)]
    pub cpu_ms: Option<u64>,
    /// Peak resident memory of the largest process, in KiB.
    #[serde(default)]
    pub max_rss_kib: Option<u64>,
    /// The timeout that applies, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Standard output; null where there is none to show.
    pub stdout: Option<StreamReport>,
    /// Standard error.
    pub stderr: Option<StreamReport>,
    /// The one stream of a run under a PTY.
    pub tty: Option<StreamReport>,
    /// Processes of the run that were ended after the command's exit.
    pub ended: Vec<ProcessNote>,
    /// Processes that left the run on purpose and were left alone.
    pub detached: Vec<ProcessNote>,
}

/// Where a run stands. The states up to `running` are passing, the others final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Not yet answered by its host.
    Dispatched,
    /// Claimed by its host.
    Accepted,
    /// Being started.
    Starting,
    /// Executing.
    Running,
    /// Ended with an exit code.
    Exited,
    /// Ended by a signal that was not ours.
    Signaled,
    /// Ended by us, at its timeout.
    TimedOut,
    /// Ended by us, on request.
    Canceled,
    /// Ended by us, at its output cap.
    OutputCap,
    /// Nobody knows; never run again, never guessed.
    Lost,
    /// Nothing was executed.
    Refused,
}

impl RunState {
    /// Whether the run is over.
    pub fn is_final(self) -> bool {
        !matches!(
            self,
            Self::Dispatched | Self::Accepted | Self::Starting | Self::Running
        )
    }
}

/// Why a run came to its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its time was over.
    Timeout,
    /// Somebody asked.
    Cancel,
    /// One of its streams passed the cap on a job's output.
    OutputCap,
    /// The same id was dispatched with another body; the first one stands.
    Conflict,
    /// The host runs as many as it may.
    Busy,
    /// A limit is 0 or above the host's ceiling.
    InvalidLimit,
    /// The command itself cannot be right: empty, too long, a NUL in it.
    InvalidCommand,
    /// It arrived after its `not_after`.
    Expired,
    /// It was canceled before it arrived.
    CanceledBefore,
    /// The ledger cannot be written, so that nothing may be started.
    LedgerUnavailable,
    /// The spawner does not answer.
    SpawnerUnavailable,
    /// The launch failed; `spawn_error` says where.
    SpawnFailed,
    /// Lost before it was executed: it did not run.
    Interrupted,
    /// Lost while it may have been running.
    OutcomeUnknown,
    /// Lost to a reboot.
    Reboot,
    /// A cause that this version does not know.
    #[serde(other)]
    Other,
}

/// A launch that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFailure {
    /// The step: `chdir`, `exec`, `fork`, ...
    pub stage: String,
    /// The kernel's error number.
    pub errno: i32,
    /// Its name: `ENOENT`.
    pub name: String,
}

/// One process in `ended` or `detached`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessNote {
    /// Its process id on the host.
    pub pid: i32,
    /// Its name there.
    pub name: String,
}

/// One stream: the text that left the host, and the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own in the JSON"
)]
pub struct StreamReport {
    /// The text that left.
    pub result: String,
    /// Whether something is left out of `result`.
    pub truncated: bool,
    /// Bytes of the stream.
    pub total_size: u64,
    /// Lines of the stream.
    pub total_lines: u64,
    /// What is left out; null exactly when `truncated` is false.
    pub omitted: Option<OmittedReport>,
    /// Where the exact bytes are on the host.
    pub file_path: Option<String>,
    /// The id for reads, `RUN/STREAM`.
    pub output: Option<String>,
    /// `blake3:` and hex of the file.
    pub digest: Option<String>,
    /// Whether every byte that had to be kept was.
    pub complete: bool,
    /// Bytes that had to be kept and were not.
    pub dropped_bytes: u64,
    /// Whether something shown stands for bytes that are not text.
    pub lossy: bool,
    /// Whether a view changed what is shown.
    pub rendered: bool,
    /// How the text was made: `text`, `rendered`, `binary`.
    #[serde(default)]
    pub view: String,
    /// Whether the exact bytes are (at least in part) on disk.
    pub saved: bool,
    /// Why something that had to be kept was not.
    pub reason: Option<String>,
}

/// What a preview leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedReport {
    /// Raw bytes left out.
    pub bytes: u64,
    /// Lines all of whose bytes are left out.
    pub lines: u64,
    /// The line that holds the first omitted byte, from 1.
    pub from_line: u64,
    /// The line that holds the last omitted byte, from 1.
    pub to_line: u64,
    /// The raw offset of the first omitted byte: where to pick up.
    #[serde(default)]
    pub offset: u64,
}

impl Report {
    /// A run about which nothing is known but where it stands.
    pub fn bare(run: RunId, session: SessionId, state: RunState) -> Self {
        Self {
            run,
            session,
            state,
            exit_code: None,
            signal: None,
            cause: None,
            message: None,
            spawn_error: None,
            duration_ms: 0,
            cpu_ms: None,
            max_rss_kib: None,
            timeout_ms: None,
            stdout: None,
            stderr: None,
            tty: None,
            ended: Vec::new(),
            detached: Vec::new(),
        }
    }
}
