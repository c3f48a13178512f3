//! How this process ends, for scripts.

use crate::problem::{Failure, Ran};
use nix::sys::signal::Signal;
use std::process::ExitCode;
use willcall_protocol::outcome::{Cause, Report, RunState};

/// The command was ended at its timeout.
pub const TIMED_OUT: i32 = 124;
/// Refused, or the call failed: as far as we know nothing ran because of this call.
pub const OURS: i32 = 125;
/// Nobody knows what became of the command.
pub const UNKNOWN: i32 = 255;
/// A signal's number comes on top.
const SIGNALED: i32 = 128;

/// As the kernel takes it: one byte.
pub fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX))
}

/// Ended by Ctrl-C or TERM.
pub fn of_signal(signal: Signal) -> i32 {
    SIGNALED + signal as i32
}

/// The exit code that stands for a run.
pub fn of_run(report: &Report) -> i32 {
    match report.state {
        RunState::Exited => report.exit_code.unwrap_or(UNKNOWN),
        RunState::Signaled | RunState::Canceled | RunState::OutputCap => of_ended(report),
        RunState::TimedOut => TIMED_OUT,
        RunState::Refused => OURS,
        RunState::Lost
        | RunState::Dispatched
        | RunState::Accepted
        | RunState::Starting
        | RunState::Running => UNKNOWN,
    }
}

/// The exit code that stands for a run that we canceled because of a signal: the signal's, as of any program that it ends; but
/// that of a run that was over before.
pub fn of_interrupted(report: &Report, signal: Signal) -> i32 {
    let canceled = match report.state {
        RunState::Canceled => true,
        RunState::Refused => report.cause == Some(Cause::CanceledBefore),
        _ => false,
    };
    if canceled {
        of_signal(signal)
    } else {
        of_run(report)
    }
}

/// A run that a signal ended; one that ended by itself while we were ending it keeps its own code.
fn of_ended(report: &Report) -> i32 {
    match (&report.signal, report.exit_code) {
        (Some(name), _) => SIGNALED + number(name),
        (None, Some(code)) => code,
        (None, None) => OURS,
    }
}

/// The number behind a signal's name; real-time signals have a number for a name.
fn number(name: &str) -> i32 {
    let known: Result<Signal, _> = name.parse();
    known.map_or_else(
        |_| {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            digits.parse().unwrap_or(0)
        },
        |signal| signal as i32,
    )
}

/// The exit code that stands for a failed call.
pub fn of_failure(failure: &Failure) -> i32 {
    match (failure, failure.ran()) {
        (Failure::Interrupted(signal), _) => of_signal(*signal),
        (_, Ran::Unknown) => UNKNOWN,
        (_, Ran::No | Ran::NotAsked) => OURS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use willcall_protocol::ids::{RunId, SessionId};

    #[track_caller]
    fn check(state: RunState, change: impl FnOnce(&mut Report), expected: i32) {
        let mut report = Report::bare(RunId(Uuid::from_u128(1)), SessionId::unnamed(), state);
        change(&mut report);
        assert_eq!(of_run(&report), expected, "{report:?}");
    }

    #[test]
    fn an_interrupted_run_ends_by_the_signal_unless_it_was_over_before() {
        let of = |state, cause| {
            let mut report = Report::bare(RunId(Uuid::from_u128(1)), SessionId::unnamed(), state);
            (report.exit_code, report.cause) = (Some(3), cause);
            of_interrupted(&report, Signal::SIGINT)
        };
        assert_eq!(of(RunState::Canceled, Some(Cause::Cancel)), 130);
        assert_eq!(of(RunState::Refused, Some(Cause::CanceledBefore)), 130);
        assert_eq!(of(RunState::Refused, Some(Cause::Busy)), OURS);
        assert_eq!(of(RunState::Exited, None), 3);
        assert_eq!(of(RunState::Lost, None), UNKNOWN);
    }

    fn signal(name: &'static str) -> impl FnOnce(&mut Report) {
        move |report| report.signal = Some(name.to_owned())
    }

    #[test]
    fn the_exit_code_is_the_commands_and_says_what_else_happened() {
        check(RunState::Exited, |r| r.exit_code = Some(7), 7);
        check(RunState::Exited, |r| r.exit_code = Some(255), 255);
        check(RunState::Signaled, signal("SIGKILL"), 137);
        check(RunState::Signaled, signal("SIGRT35"), 163);
        check(RunState::TimedOut, signal("SIGTERM"), 124);
        check(RunState::Canceled, signal("SIGTERM"), 143);
        check(RunState::Canceled, |r| r.exit_code = Some(3), 3);
        check(RunState::OutputCap, signal("SIGKILL"), 137);
        check(RunState::Refused, |_| (), 125);
        check(RunState::Lost, |_| (), 255);
        check(RunState::Running, |_| (), 255);
    }
}
