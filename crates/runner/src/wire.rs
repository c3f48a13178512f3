//! What executor, spawner and runner say to each other, and its framing.
//!
//! ```text
//! executor ── Launch + fds [runner socket, spool, directory?] ──► spawner      (spawner.sock)
//! executor ◄── Launched ─────────────────────────────────────── spawner
//! executor ◄── Hello, Started, Finished ─────────────────────── runner        (the socket of the launch,
//! executor ── Go, Cancel, Collected ──────────────────────────► runner         later runner.sock)
//! ```
//!
//! A message is `u32 body length, u32 JSON length, JSON, blobs`, all little-endian; the body length counts all
//! that follows it. Blobs are the windows of the captured streams, in the order of [`RunResult::streams`]:
//! head, tail, and where a view changed the stream: text and gaps of the view's head, text and gaps of
//! its tail. Their lengths stand in the JSON.
//!
//! The first message on every connection from a runner is [`FromRunner::Hello`].

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;
use uuid::Uuid;
use willcall_outputs::capture::{Captured, Loss, Policy};
use willcall_outputs::limits::{DIGEST_AT_SEAL, Limits};
use willcall_outputs::record::Stream;
use willcall_outputs::view::{Mode, Rendered};

/// The version of this wire. A runner outlives upgrades of the executor, so an executor reads N and N−1.
pub const RUNNER_PROTO: u32 = 1;
/// The largest body. Each of two streams has two windows of at most 2 × `max_bytes`, 512 KiB at the ceiling.
/// Where they are those of a view, each byte may come with a gap of at most 7 bytes (for streams below
/// 8 PiB; usual is 2): 2 × 2 × 512 KiB × 8. The rest is room for the JSON and for how the streams begin and end.
pub const MAX_BODY: usize = 17 * 1024 * 1024;
/// The largest launch: the kernel's own limit on argv and environment together is 2 MiB at the usual stack limit.
pub const MAX_LAUNCH: usize = 3 * 1024 * 1024;

/// Executor → spawner: fork a runner. Carries descriptors beside its first byte, in this
/// order: one end of a stream socket pair, the locked spool file, and the directory for outputs if `has_directory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The run.
    pub run: Uuid,
    /// What to execute: program and arguments, at least the program.
    pub argv: Vec<String>,
    /// The working directory, absolute.
    pub cwd: String,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Milliseconds after the start at which the run is ended, counted by the runner.
    pub timeout_ms: Option<u64>,
    /// Milliseconds between TERM and KILL.
    pub grace_ms: u64,
    /// Limits of the previews: they size the windows that the result carries.
    pub limits: Limits,
    /// What happens to bytes past the limits.
    pub policy: Policy,
    /// Whether a view of the streams is made. An executor that does not ask for one cannot read it.
    #[serde(default = "no_view")]
    pub view: Mode,
    /// Bytes up to which a stream's file gets its digest at the end of the run.
    #[serde(default = "digest_at_seal")]
    pub digest_at_seal: u64,
    /// Whether the third descriptor is there; without it nothing can be kept.
    pub has_directory: bool,
    /// Why it is not there: what the streams say that need a file. `Loss::NoDirectory` where this says nothing.
    #[serde(default)]
    pub no_directory: Option<Loss>,
    /// The socket to dial again after the first one is lost.
    pub redial: String,
}

fn no_view() -> Mode {
    Mode::Raw
}

fn digest_at_seal() -> u64 {
    DIGEST_AT_SEAL
}

/// Spawner → executor: the answer to a [`Launch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Launched {
    /// A runner was forked; the rest comes from itself.
    Forked {
        /// The run.
        run: Uuid,
        /// The runner's process id.
        pid: i32,
    },
    /// No runner was forked; nothing ran.
    Failed {
        /// The run.
        run: Uuid,
        /// What failed.
        error: SpawnError,
    },
}

/// Runner → executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum FromRunner {
    /// Who is calling; the first message on every connection.
    Hello(Hello),
    /// The command was executed.
    Started {
        /// The command's process id.
        pid: i32,
    },
    /// The run is over. Sent again on every connection until [`ToRunner::Collected`].
    Finished(Box<RunResult>),
}

/// Who a runner is and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The run.
    pub run: Uuid,
    /// [`RUNNER_PROTO`] of the runner.
    pub proto: u32,
    /// The runner's process id.
    pub pid: i32,
    /// The runner's start time in clock ticks after boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
    /// How far the run is.
    pub phase: Phase,
}

/// How far a run is, as its runner knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Everything is prepared; waits for [`ToRunner::Go`]. A runner that loses its executor here ends without having executed anything.
    Armed,
    /// The command was executed.
    Running,
    /// The run is over; [`FromRunner::Finished`] follows.
    Finished,
}

/// Executor → runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ToRunner {
    /// The claim is durable: execute.
    Go,
    /// End the run: TERM, grace, KILL. No effect on a run that is over.
    Cancel,
    /// The result is in the ledger: the runner may forget it.
    Collected,
}

/// How a run ended and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// The run.
    pub run: Uuid,
    /// How it ended.
    pub ending: Ending,
    /// Milliseconds from exec to the end of the run.
    pub duration_ms: u64,
    /// User and system time of the command and its waited-for descendants, in milliseconds.
    pub cpu_ms: u64,
    /// Peak resident memory of the largest process, in KiB. The kernel counts what a process was before its
    /// exec, too: a figure no larger than a runner (a few MiB) says "at most", not "exactly".
    pub max_rss_kib: u64,
    /// What the streams held; none where nothing was executed.
    pub streams: Vec<StreamResult>,
    /// Processes that the runner ended after the command's exit.
    pub ended: Vec<Leftover>,
    /// Processes that left the run's process session on purpose and were left alone.
    pub detached: Vec<Leftover>,
}

/// One stream of a [`RunResult`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Which.
    pub stream: Stream,
    /// What it held. The windows travel as blobs.
    pub captured: Captured,
    /// Length of the head window's blob.
    pub head_len: u32,
    /// Length of the tail window's blob.
    pub tail_len: u32,
    /// Lengths of the view's blobs: text and gaps of its head, text and gaps of its tail.
    #[serde(default)]
    pub view_lens: [u32; 4],
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Ending {
    /// Nothing was executed.
    NotStarted {
        /// Why not.
        error: SpawnError,
    },
    /// The command was executed, and ended.
    Ended {
        /// How the kernel says that it ended.
        status: Status,
        /// Why the runner ended it; `None` when it ended by itself.
        killed: Option<KillCause>,
    },
}

/// How the kernel says that a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
}

/// Why a runner ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillCause {
    /// Its time was over.
    Timeout,
    /// Somebody asked.
    Cancel,
    /// One of its streams passed the cap of its policy.
    OutputCap,
}

/// A process that was still there after the command's exit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Its process id.
    pub pid: i32,
    /// Its name (`comm`).
    pub name: String,
}

/// A launch that failed: at which step, and what the kernel said.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("cannot {} {on}: {}", .stage.verb(), nix::errno::Errno::from_raw(*.errno).desc())]
pub struct SpawnError {
    /// The step.
    pub stage: Stage,
    /// The kernel's error number.
    pub errno: i32,
    /// What the step was about: the program, the directory, the resource.
    pub on: String,
}

/// The steps of a launch, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Forking the runner or the command.
    Fork,
    /// Making pipes and descriptors.
    Pipes,
    /// Writing [`SPOOL_GO`]: a run that nobody could later know to have begun must not begin.
    Spool,
    /// A process session of its own.
    Session,
    /// Putting descriptors 0–2 in place.
    Descriptors,
    /// Signals, umask, resource limits.
    Attributes,
    /// Entering the working directory.
    Chdir,
    /// Finding and executing the program.
    Exec,
}

impl Stage {
    /// What was tried, as a verb.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Fork => "fork for",
            Self::Pipes => "make pipes for",
            Self::Spool => "write down the start of",
            Self::Session => "make a process session for",
            Self::Descriptors => "set up standard descriptors of",
            Self::Attributes => "set process attributes of",
            Self::Chdir => "enter directory",
            Self::Exec => "execute",
        }
    }
}

/// What a spool file says. It is empty from the claim on, holds [`SPOOL_GO`] from just before the command is
/// executed, and then, where nobody collected the result in time, one framed [`FromRunner::Finished`].
/// The runner holds its lock (flock) for as long as it lives.
pub const SPOOL_GO: u8 = b'G';

/// A frame that is not one.
#[derive(Debug, Error)]
pub enum WireError {
    /// The peer announces more than it may.
    #[error("a message of {len} bytes was announced; at most {max} are allowed")]
    TooLong {
        /// Announced.
        len: usize,
        /// Allowed.
        max: usize,
    },
    /// Lengths inside the message contradict each other.
    #[error("a message's lengths contradict each other")]
    Malformed,
    /// Not the JSON that was expected.
    #[error("a message is not the JSON that was expected")]
    Json(#[from] serde_json::Error),
}

/// Frames a message with no blobs.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    frame(&serde_json::to_vec(message)?, &[])
}

/// Frames a message of a runner, with the windows of its streams as blobs.
pub fn encode_from_runner(message: &FromRunner) -> Result<Vec<u8>, WireError> {
    let json = serde_json::to_vec(message)?;
    let FromRunner::Finished(result) = message else {
        return frame(&json, &[]);
    };
    let blobs: Vec<&[u8]> = result
        .streams
        .iter()
        .flat_map(|s| windows(&s.captured))
        .map(Vec::as_slice)
        .collect();
    frame(&json, &blobs)
}

/// How long the frame at the start of `bytes` is, prefix included: `None` until its first 4 bytes are there.
pub fn frame_len(bytes: &[u8], max: usize) -> Result<Option<usize>, WireError> {
    let Some(prefix) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
    if len > max {
        return Err(WireError::TooLong { len, max });
    }
    Ok(Some(len + 4))
}

/// Decodes one whole frame that has no blobs.
pub fn decode<T: for<'de> Deserialize<'de>>(frame: &[u8]) -> Result<T, WireError> {
    let (json, _) = split(frame)?;
    Ok(serde_json::from_slice(json)?)
}

/// Decodes one whole frame of a runner and puts the windows back in place.
pub fn decode_from_runner(frame: &[u8]) -> Result<FromRunner, WireError> {
    let (json, mut blobs) = split(frame)?;
    let mut message = serde_json::from_slice(json)?;
    if let FromRunner::Finished(result) = &mut message {
        for stream in &mut result.streams {
            stream.captured.head = take(&mut blobs, stream.head_len)?;
            stream.captured.tail = take(&mut blobs, stream.tail_len)?;
            let [head, head_gaps, tail, tail_gaps] = stream.view_lens;
            if let Some(Rendered { head: h, tail: t }) = &mut stream.captured.rendered {
                h.text = take(&mut blobs, head)?;
                h.gaps = take(&mut blobs, head_gaps)?;
                t.text = take(&mut blobs, tail)?;
                t.gaps = take(&mut blobs, tail_gaps)?;
            }
        }
    }
    Ok(message)
}

impl StreamResult {
    /// Names a captured stream and notes the lengths of its windows.
    pub fn new(stream: Stream, captured: Captured) -> Self {
        // The windows are bounded by the ceiling of the limits, far below u32::MAX.
        let len = |window: &Vec<u8>| u32::try_from(window.len()).unwrap_or(u32::MAX);
        let view_lens = captured
            .rendered
            .as_ref()
            .map_or([0; 4], |rendered| view_windows(rendered).map(len));
        Self {
            stream,
            head_len: len(&captured.head),
            tail_len: len(&captured.tail),
            view_lens,
            captured,
        }
    }
}

/// The blobs of a stream, in their order.
fn windows(captured: &Captured) -> impl Iterator<Item = &Vec<u8>> {
    let view = captured.rendered.iter().flat_map(view_windows);
    [&captured.head, &captured.tail].into_iter().chain(view)
}

fn view_windows(Rendered { head, tail }: &Rendered) -> [&Vec<u8>; 4] {
    [&head.text, &head.gaps, &tail.text, &tail.gaps]
}

fn frame(json: &[u8], blobs: &[&[u8]]) -> Result<Vec<u8>, WireError> {
    let len = 4 + json.len() + blobs.iter().map(|b| b.len()).sum::<usize>();
    let too_long = WireError::TooLong { len, max: MAX_BODY };
    if len > MAX_BODY {
        return Err(too_long);
    }
    let prefix = |n: usize| u32::try_from(n).map(u32::to_le_bytes);
    let (Ok(body), Ok(head)) = (prefix(len), prefix(json.len())) else {
        return Err(too_long);
    };
    let mut out = Vec::with_capacity(len + 4);
    out.extend_from_slice(&body);
    out.extend_from_slice(&head);
    out.extend_from_slice(json);
    for blob in blobs {
        out.extend_from_slice(blob);
    }
    Ok(out)
}

fn split(frame: &[u8]) -> Result<(&[u8], &[u8]), WireError> {
    let rest = frame.get(4..).ok_or(WireError::Malformed)?;
    let (prefix, rest) = rest.split_first_chunk::<4>().ok_or(WireError::Malformed)?;
    let len = usize::try_from(u32::from_le_bytes(*prefix)).map_err(|_| WireError::Malformed)?;
    rest.split_at_checked(len).ok_or(WireError::Malformed)
}

fn take(blobs: &mut &[u8], len: u32) -> Result<Vec<u8>, WireError> {
    let len = usize::try_from(len).map_err(|_| WireError::Malformed)?;
    let (blob, rest) = blobs.split_at_checked(len).ok_or(WireError::Malformed)?;
    *blobs = rest;
    Ok(blob.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use willcall_outputs::capture::Kept;
    use willcall_outputs::view::Traced;

    fn finished(head: &[u8], tail: &[u8]) -> FromRunner {
        let captured = Captured {
            total_size: 9,
            newlines: 1,
            head: head.to_vec(),
            tail: tail.to_vec(),
            rendered: None,
            terminal: None,
            kept: Kept::NotNeeded,
        };
        FromRunner::Finished(Box::new(RunResult {
            run: Uuid::from_u128(7),
            ending: Ending::Ended {
                status: Status::Exited(3),
                killed: Some(KillCause::Timeout),
            },
            duration_ms: 5,
            cpu_ms: 1,
            max_rss_kib: 2,
            streams: vec![StreamResult::new(Stream::Stderr, captured)],
            ended: vec![Leftover {
                pid: 4,
                name: "sleep".into(),
            }],
            detached: Vec::new(),
        }))
    }

    #[test]
    fn windows_travel_beside_the_json() {
        let message = finished(b"a\0\xff\n", b"tail");
        let bytes = encode_from_runner(&message).expect("fits");
        assert_eq!(
            frame_len(&bytes, MAX_BODY).expect("short"),
            Some(bytes.len())
        );
        assert_eq!(decode_from_runner(&bytes).expect("whole"), message);
    }

    fn with_view(mut message: FromRunner) -> FromRunner {
        let FromRunner::Finished(result) = &mut message else {
            return message;
        };
        let StreamResult {
            stream,
            mut captured,
            ..
        } = result.streams.remove(0);
        let traced = |from, text: &[u8], gaps: &[u8]| Traced {
            from,
            text: text.to_vec(),
            gaps: gaps.to_vec(),
        };
        captured.rendered = Some(Rendered {
            head: traced(3, b"red", &[1, 5]),
            tail: traced(70, b"\xff\n", &[]),
        });
        result.streams = vec![StreamResult::new(stream, captured); 2];
        message
    }

    #[test]
    fn views_travel_behind_the_windows_of_their_stream() {
        let message = with_view(finished(b"head", b"tail"));
        let bytes = encode_from_runner(&message).expect("fits");
        assert_eq!(decode_from_runner(&bytes).expect("whole"), message);
        assert!(bytes.ends_with(b"headtailred\x01\x05\xff\nheadtailred\x01\x05\xff\n"));
    }

    #[test]
    fn a_torn_frame_is_refused_at_every_length() {
        let bytes = encode_from_runner(&with_view(finished(b"head", b"tail"))).expect("fits");
        for len in 0..bytes.len() {
            assert!(
                decode_from_runner(&bytes[..len]).is_err(),
                "{len} of {} bytes",
                bytes.len()
            );
        }
    }

    #[test]
    fn an_announced_length_is_bounded_before_anything_is_read() {
        let refused = frame_len(&[0xff; 4], MAX_BODY);
        assert!(matches!(
            refused,
            Err(WireError::TooLong { max: MAX_BODY, .. })
        ));
        assert!(matches!(frame_len(&[1, 0], MAX_BODY), Ok(None)));
    }
}
