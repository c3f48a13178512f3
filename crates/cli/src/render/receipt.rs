//! Receipts in a few words: what is not there, and how to pick it up. Only fields are looked at, never the text.

use super::quoted;
use willcall_protocol::ids::SessionId;
use willcall_protocol::outcome::{ProcessNote, Report, RunState, StreamReport};

/// What a person has to know besides the text.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> = ending(report).into_iter().collect();
    let streams = [
        ("stdout", &report.stdout),
        ("stderr", &report.stderr),
        ("tty", &report.tty),
    ];
    for (name, stream) in streams {
        let Some(stream) = stream else { continue };
        notes.extend(held(name, stream));
        notes.extend(lost(name, stream));
        notes.extend(pick_up(stream, &report.session));
    }
    notes.extend(processes("ended after the command's exit", &report.ended));
    notes.extend(processes("left running", &report.detached));
    notes
}

/// How the run ended, where the exit code does not say it.
fn ending(report: &Report) -> Option<String> {
    let said = match report.state {
        RunState::Exited => return report.message.clone(),
        RunState::Signaled => format!("ended by {}", signal(report)),
        RunState::TimedOut => match report.timeout_ms {
            Some(timeout) => format!("timed out after {timeout} ms"),
            None => "timed out".to_owned(),
        },
        RunState::Canceled => "canceled".to_owned(),
        RunState::OutputCap => "ended at its output cap".to_owned(),
        RunState::Refused => "refused, and did not run".to_owned(),
        RunState::Lost => {
            let run = report.run;
            format!("run {run} is lost: whether it ran to its end is not known")
        }
        RunState::Dispatched | RunState::Accepted | RunState::Starting | RunState::Running => {
            "not over yet".to_owned()
        }
    };
    Some(match why(report) {
        Some(why) => format!("{said}: {why}"),
        None => said,
    })
}

fn signal(report: &Report) -> &str {
    report.signal.as_deref().unwrap_or("a signal")
}

/// The host's own words; without them the step and error of a failed launch.
fn why(report: &Report) -> Option<String> {
    let launch = || {
        let failure = report.spawn_error.as_ref()?;
        Some(format!("{} failed with {}", failure.stage, failure.name))
    };
    report.message.clone().or_else(launch)
}

fn held(name: &str, stream: &StreamReport) -> Option<String> {
    let StreamReport {
        total_size,
        total_lines,
        ..
    } = stream;
    if let Some(omitted) = stream.omitted {
        let (bytes, from, to) = (omitted.bytes, omitted.from_line, omitted.to_line);
        return Some(format!(
            "{name} truncated: {total_size} bytes, {total_lines} lines in all; {bytes} bytes left out, from line {from} to {to}"
        ));
    }
    if stream.lossy {
        return Some(format!(
            "{name}: some bytes are not text and are shown as \u{fffd}"
        ));
    }
    stream
        .rendered
        .then(|| format!("{name} is shown without its escape sequences"))
}

/// What nobody can pick up any more.
fn lost(name: &str, stream: &StreamReport) -> Option<String> {
    if stream.complete && stream.reason.is_none() {
        return None;
    }
    let reason = stream.reason.as_deref().unwrap_or("no reason given");
    let dropped = stream.dropped_bytes;
    Some(format!(
        "{name}: {dropped} bytes could not be kept ({reason})"
    ))
}

fn pick_up(stream: &StreamReport, session: &SessionId) -> Option<String> {
    let output = stream.output.as_deref()?;
    let session = match session {
        named if *named != SessionId::unnamed() => format!(" --session {named}"),
        _ => String::new(),
    };
    let offset = stream.omitted.map(|omitted| omitted.offset);
    let offset = offset.map_or(String::new(), |offset| format!(" --offset {offset}"));
    let path = stream.file_path.as_deref().map(quoted);
    let path = path.map_or(String::new(), |path| format!("; on the host: {path}"));
    Some(format!(
        "pick up: willcall read --output {output}{session}{offset}{path}"
    ))
}

fn processes(what: &str, processes: &[ProcessNote]) -> Option<String> {
    if processes.is_empty() {
        return None;
    }
    let named = processes.iter().map(|p| format!("{} ({})", p.name, p.pid));
    Some(format!("{what}: {}", named.collect::<Vec<_>>().join(", ")))
}
