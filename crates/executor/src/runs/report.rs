//! From what a runner saw to what the caller is told. No I/O.

use super::machine::Conclusion;
use super::order::{Order, quoted};
use std::collections::BTreeMap;
use std::path::Path;
use willcall_outputs::capture::Kept;
use willcall_outputs::media;
use willcall_outputs::preview::{Place, preview};
use willcall_outputs::receipt::{Receipt, View};
use willcall_outputs::record::{RECORD_VERSION, Record, StoredStream, Stream};
use willcall_outputs::store::OutputKey;
use willcall_protocol::outcome::{
    Cause, OmittedReport, ProcessNote, Report, RunState, SpawnFailure, StreamReport,
};
use willcall_runner::wire::{
    Ending, KillCause, Leftover, RunResult, SpawnError, Status, StreamResult,
};

/// A finished run: what the caller is told, and what the store remembers.
#[derive(Debug)]
pub(crate) struct Finished {
    /// What the caller is told.
    pub(crate) report: Report,
    /// Each stream with a file.
    pub(crate) stored: BTreeMap<Stream, StoredStream>,
}

impl Finished {
    /// The record of the stored streams; `None` where there is none.
    pub(crate) fn record(&self, created_ms: u64, finished_ms: u64) -> Option<Record> {
        (!self.stored.is_empty()).then(|| Record {
            version: RECORD_VERSION,
            run: self.report.run.0,
            session: self.report.session.as_str().to_owned(),
            state: state_name(self.report.state),
            created_ms,
            finished_ms,
            streams: self.stored.clone(),
        })
    }
}

/// What to tell the caller of a run. `left` are the streams of a lost one, as far as their files go; `path_of` says
/// where an output's file is.
pub(crate) fn finished(
    order: &Order,
    conclusion: &Conclusion,
    left: &[StreamResult],
    path_of: impl Fn(&OutputKey) -> std::path::PathBuf,
) -> Finished {
    let mut report = bare(order, RunState::Lost);
    let mut stored = BTreeMap::new();
    match conclusion {
        Conclusion::Result(result) => {
            let RunResult {
                ending, streams, ..
            } = &**result;
            describe(&mut report, result);
            if matches!(ending, Ending::Ended { .. }) {
                for stream in streams {
                    add_stream(&mut report, &mut stored, order, stream, &path_of);
                }
            }
        }
        Conclusion::LaunchFailed(error) => not_started(&mut report, error),
        Conclusion::NoRunner => {
            report.state = RunState::Refused;
            report.cause = Some(Cause::SpawnerUnavailable);
            report.message =
                Some("this host's spawner gave no runner for the command; nothing ran".to_owned());
        }
        Conclusion::CanceledUnstarted => {
            report.state = RunState::Canceled;
            report.cause = Some(Cause::Cancel);
            report.message = Some("canceled before it was started; nothing ran".to_owned());
        }
        Conclusion::Interrupted => lost(&mut report, Cause::Interrupted, INTERRUPTED),
        Conclusion::OutcomeUnknown => lost(&mut report, Cause::OutcomeUnknown, OUTCOME_UNKNOWN),
        Conclusion::NoTrace => lost(&mut report, Cause::OutcomeUnknown, NO_TRACE),
        Conclusion::Unresponsive => lost(&mut report, Cause::OutcomeUnknown, UNRESPONSIVE),
        Conclusion::Reboot => lost(&mut report, Cause::Reboot, REBOOT),
    }
    for stream in left {
        add_stream(&mut report, &mut stored, order, stream, &path_of);
    }
    if !left.is_empty()
        && let Some(message) = &mut report.message
    {
        message.push_str(LEFT);
    }
    Finished { report, stored }
}

const INTERRUPTED: &str = "this host's executor was restarted before it started the command; \
    nothing ran, and it will not be started now";
const OUTCOME_UNKNOWN: &str = "the command was started, and the process that watched it is gone without \
    leaving a result; it may have run in part or to its end, and it was not started again: check \
    its effects before you repeat it";
const NO_TRACE: &str = "this host's executor lost the file that tells how far the run came, and the process that \
    watches it did not call; it may have run in part or to its end, or may still run, and it was not started \
    again: check its effects before you repeat it";
const UNRESPONSIVE: &str = "the command was started and its time is over, but the process that watches it has not \
    ended it and does not answer; both may still be there; it may have run in part or to its end, and it was not \
    started again: check its effects before you repeat it";
const REBOOT: &str = "the host was restarted while this run was not over; it may have run in part or to \
    its end, and it was not started again: check its effects before you repeat it";

const LEFT: &str = "; what was saved of its output is here, and there may have been more";

const OUTPUT_CAP: &str = "a stream of the command reached the cap on a job's output, and the command was \
    killed with everything it had started; the file holds the output up to the cap: have it write less, or \
    to a file of its own";

fn bare(order: &Order, state: RunState) -> Report {
    let mut report = Report::bare(order.dispatch.run, order.dispatch.session.clone(), state);
    report.timeout_ms = Some(order.timeout_ms);
    report
}

fn lost(report: &mut Report, cause: Cause, message: &str) {
    report.cause = Some(cause);
    report.message = Some(message.to_owned());
}

fn describe(report: &mut Report, result: &RunResult) {
    match &result.ending {
        Ending::NotStarted { error } => return not_started(report, error),
        Ending::Ended { status, killed } => {
            ended(report, *status, *killed);
        }
    }
    report.duration_ms = result.duration_ms;
    report.cpu_ms = Some(result.cpu_ms);
    report.max_rss_kib = Some(result.max_rss_kib);
    report.ended = notes(&result.ended);
    report.detached = notes(&result.detached);
}

fn ended(report: &mut Report, status: Status, killed: Option<KillCause>) {
    match status {
        Status::Exited(code) => report.exit_code = Some(code),
        Status::Signaled(signal) => report.signal = Some(signal_name(signal)),
    }
    match (killed, status) {
        // Ended by us, whatever it made of the signal.
        (Some(KillCause::Timeout), _) => {
            report.state = RunState::TimedOut;
            report.cause = Some(Cause::Timeout);
            let after = report
                .timeout_ms
                .map_or_else(String::new, |ms| format!(" after {}", span(ms)));
            report.message = Some(format!(
                "the command was ended{after}, its timeout; the output up to then is here"
            ));
        }
        (Some(KillCause::Cancel), _) => {
            report.state = RunState::Canceled;
            report.cause = Some(Cause::Cancel);
            report.message =
                Some("the command was ended on request; the output up to then is here".to_owned());
        }
        (Some(KillCause::OutputCap), _) => {
            report.state = RunState::OutputCap;
            report.cause = Some(Cause::OutputCap);
            report.message = Some(OUTPUT_CAP.to_owned());
        }
        (None, Status::Exited(_)) => report.state = RunState::Exited,
        (None, Status::Signaled(_)) => report.state = RunState::Signaled,
    }
}

fn not_started(report: &mut Report, error: &SpawnError) {
    let errno = nix::errno::Errno::from_raw(error.errno);
    let stage = serde_json::to_value(error.stage).ok();
    let stage = stage
        .as_ref()
        .and_then(|stage| stage.as_str())
        .unwrap_or_default();
    report.state = RunState::Refused;
    report.cause = Some(Cause::SpawnFailed);
    report.message = Some(format!(
        "cannot {} {:?}: {}; nothing ran",
        error.stage.verb(),
        quoted(&error.on),
        in_lower_case(errno.desc()),
    ));
    report.spawn_error = Some(SpawnFailure {
        stage: stage.to_owned(),
        errno: error.errno,
        name: format!("{errno:?}"),
    });
}

fn add_stream(
    report: &mut Report,
    stored: &mut BTreeMap<Stream, StoredStream>,
    order: &Order,
    of: &StreamResult,
    path_of: &impl Fn(&OutputKey) -> std::path::PathBuf,
) {
    let key = OutputKey {
        session: order.dispatch.session.as_str().to_owned(),
        run: order.dispatch.run.0,
        stream: of.stream,
    };
    let (path, output) = (shown(&path_of(&key)), key.to_string());
    let place = Place {
        file_path: &path,
        output: &output,
    };
    let receipt = preview(&of.captured, order.limits, order.strategy, place);
    if let Kept::File { stored: bytes, .. } = of.captured.kept {
        let mime = media::type_of(&of.captured.head);
        stored.insert(of.stream, StoredStream::of(&receipt, bytes, mime));
    }
    let place = match of.stream {
        Stream::Stdout => &mut report.stdout,
        Stream::Stderr => &mut report.stderr,
        Stream::Tty => &mut report.tty,
    };
    *place = Some(stream_report(receipt));
}

pub(super) fn stream_report(receipt: Receipt) -> StreamReport {
    StreamReport {
        result: receipt.result,
        truncated: receipt.truncated,
        total_size: receipt.total_size,
        total_lines: receipt.total_lines,
        omitted: receipt.omitted.map(|omitted| OmittedReport {
            bytes: omitted.bytes,
            lines: omitted.lines,
            from_line: omitted.from_line,
            to_line: omitted.to_line,
            offset: omitted.offset,
        }),
        file_path: receipt.file_path,
        output: receipt.output,
        digest: receipt.digest,
        complete: receipt.complete,
        dropped_bytes: receipt.dropped_bytes,
        lossy: receipt.lossy,
        rendered: receipt.rendered,
        view: match receipt.view {
            View::Text => "text",
            View::Rendered => "rendered",
            View::Binary => "binary",
        }
        .to_owned(),
        saved: receipt.saved,
        reason: receipt.reason.and_then(|loss| {
            serde_json::to_value(loss)
                .ok()
                .and_then(|name| Some(name.as_str()?.to_owned()))
        }),
    }
}

fn notes(leftovers: &[Leftover]) -> Vec<ProcessNote> {
    leftovers
        .iter()
        .map(|one| ProcessNote {
            pid: one.pid,
            name: one.name.clone(),
        })
        .collect()
}

/// The name that the state has on the wire.
pub(crate) fn state_name(state: RunState) -> String {
    let name = serde_json::to_value(state).ok();
    name.as_ref()
        .and_then(|name| name.as_str())
        .unwrap_or_default()
        .to_owned()
}

/// The signal's name; real-time signals have only numbers.
fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal).map_or_else(
        |_| format!("SIG{signal}"),
        |signal| signal.as_str().to_owned(),
    )
}

fn in_lower_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// A span as a person would say it: `600 s`, `1500 ms`.
fn span(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        format!("{} s", ms / 1000)
    } else {
        format!("{ms} ms")
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use uuid::Uuid;
    use willcall_outputs::capture::Captured;
    use willcall_outputs::limits::LimitRange;
    use willcall_protocol::ids::{RunId, SessionId};
    use willcall_protocol::message::{Dispatch, LimitsAsked, StrategyAsked, ViewAsked};
    use willcall_runner::wire::Stage;

    fn order() -> Order {
        let dispatch = Dispatch {
            run: RunId(Uuid::from_u128(1)),
            session: SessionId::unnamed(),
            principal: "test".into(),
            argv: vec!["nosuch".into()],
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: Some(1500),
            limits: LimitsAsked::default(),
            strategy: StrategyAsked::default(),
            view: ViewAsked::default(),
            reason: None,
            not_after_ms: None,
            turn: None,
        };
        Order::new(dispatch, LimitRange::default()).expect("sound")
    }

    fn stream(stream: Stream, text: &[u8], kept: Kept) -> StreamResult {
        let newlines = u64::from(text.ends_with(b"\n"));
        let (total_size, head) = (text.len() as u64, text.to_vec());
        StreamResult::new(
            stream,
            Captured {
                total_size,
                newlines,
                head,
                tail: Vec::new(),
                rendered: None,
                terminal: None,
                kept,
            },
        )
    }

    fn result(ending: Ending) -> Conclusion {
        Conclusion::Result(Box::new(RunResult {
            run: Uuid::from_u128(1),
            ending,
            duration_ms: 9,
            cpu_ms: 3,
            max_rss_kib: 4,
            streams: vec![
                stream(Stream::Stdout, b"hi\n", Kept::NotNeeded),
                stream(
                    Stream::Stderr,
                    b"\0\xff",
                    Kept::File {
                        stored: 2,
                        digest: None,
                        loss: None,
                    },
                ),
            ],
            ended: Vec::new(),
            detached: vec![Leftover {
                pid: 5,
                name: "daemon".into(),
            }],
        }))
    }

    fn report(conclusion: &Conclusion) -> Report {
        finished(&order(), conclusion, &[], |_| {
            PathBuf::from("/outputs/file")
        })
        .report
    }

    fn ended(status: Status, killed: Option<KillCause>) -> Report {
        report(&result(Ending::Ended { status, killed }))
    }

    #[test]
    fn how_a_command_ended_is_told_exactly() {
        let exited = ended(Status::Exited(3), None);
        assert_eq!(
            (exited.state, exited.exit_code, exited.cause),
            (RunState::Exited, Some(3), None)
        );
        assert_eq!(
            (exited.message, exited.duration_ms, exited.detached.len()),
            (None, 9, 1)
        );
        let killed = ended(Status::Signaled(9), None);
        assert_eq!(
            (killed.state, killed.signal.as_deref()),
            (RunState::Signaled, Some("SIGKILL"))
        );
        assert_eq!(killed.exit_code, None);
        assert_eq!(
            ended(Status::Signaled(35), None).signal.as_deref(),
            Some("SIG35")
        );
        let late = ended(Status::Signaled(15), Some(KillCause::Timeout));
        assert_eq!(
            (late.state, late.cause),
            (RunState::TimedOut, Some(Cause::Timeout))
        );
        let expected =
            "the command was ended after 1500 ms, its timeout; the output up to then is here";
        assert_eq!(late.message.as_deref(), Some(expected));
        let capped = ended(Status::Signaled(9), Some(KillCause::OutputCap));
        assert_eq!(
            (capped.state, capped.cause),
            (RunState::OutputCap, Some(Cause::OutputCap))
        );
        let canceled = ended(Status::Exited(0), Some(KillCause::Cancel));
        assert_eq!(
            (canceled.state, canceled.exit_code),
            (RunState::Canceled, Some(0))
        );
    }

    #[test]
    fn both_streams_of_an_executed_run_are_there() {
        let report = ended(Status::Exited(0), None);
        let (out, err) = (report.stdout.expect("there"), report.stderr.expect("there"));
        assert_eq!(
            (out.result.as_str(), out.truncated, out.file_path),
            ("hi\n", false, None)
        );
        assert_eq!((err.view.as_str(), err.saved), ("binary", true));
        assert_eq!(err.file_path.as_deref(), Some("/outputs/file"));
        assert_eq!(report.tty, None);
    }

    #[test]
    fn only_streams_with_a_file_are_recorded() {
        let status = Status::Exited(0);
        let conclusion = result(Ending::Ended {
            status,
            killed: None,
        });
        let all = finished(&order(), &conclusion, &[], |_| {
            PathBuf::from("/outputs/file")
        });
        let record = all.record(1, 2).expect("a stream has a file");
        assert_eq!(record.streams.keys().collect::<Vec<_>>(), [&Stream::Stderr]);
        assert_eq!(
            (
                record.state.as_str(),
                record.streams[&Stream::Stderr].stored
            ),
            ("exited", 2)
        );
        let none = finished(&order(), &Conclusion::NoRunner, &[], |_| PathBuf::new());
        assert_eq!(none.record(1, 2), None);
    }

    #[test]
    fn a_launch_that_failed_names_the_step_and_says_that_nothing_ran() {
        let error = SpawnError {
            stage: Stage::Exec,
            errno: 2,
            on: "nosuch".into(),
        };
        for conclusion in [
            result(Ending::NotStarted {
                error: error.clone(),
            }),
            Conclusion::LaunchFailed(error),
        ] {
            let report = report(&conclusion);
            assert_eq!(
                (report.state, report.cause),
                (RunState::Refused, Some(Cause::SpawnFailed))
            );
            let expected = "cannot execute \"nosuch\": no such file or directory; nothing ran";
            assert_eq!(report.message.as_deref(), Some(expected));
            let failure = report.spawn_error.expect("there");
            assert_eq!(
                (failure.stage.as_str(), failure.name.as_str()),
                ("exec", "ENOENT")
            );
            assert_eq!((report.stdout, report.stderr), (None, None));
        }
    }

    #[test]
    fn what_is_lost_says_whether_it_may_have_run() {
        for (conclusion, cause, ran) in [
            (Conclusion::Interrupted, Cause::Interrupted, false),
            (Conclusion::OutcomeUnknown, Cause::OutcomeUnknown, true),
            (Conclusion::Reboot, Cause::Reboot, true),
        ] {
            let report = report(&conclusion);
            assert_eq!((report.state, report.cause), (RunState::Lost, Some(cause)));
            let message = report.message.expect("there");
            assert_eq!(message.contains("may have run"), ran, "{message}");
            assert_eq!(message.contains("nothing ran"), !ran, "{message}");
        }
    }
}
