//! What the ledger knows of an output that the store no longer has.

use crate::runs::Runs;
use std::path::Path;
use willcall_daemon::in_words;
use willcall_outputs::record::Stream as Stored;
use willcall_outputs::store::OutputKey;
use willcall_protocol::ids::{OutputId, RunId};
use willcall_protocol::message::{Read, ReadFailure, ReadTarget, ToGateway};
use willcall_protocol::outcome::{Report, StreamReport};

/// Says of an output that is not there whether it ever was: a caller that holds its receipt is told that its
/// time was over, and not that it had dreamt.
pub(super) async fn explain(runs: &Runs, read: &Read, answer: ToGateway) -> ToGateway {
    let not_found = matches!(
        answer,
        ToGateway::ReadFailed {
            reason: ReadFailure::NotFound,
            ..
        }
    );
    let Some((run, stream)) = named(&read.target).filter(|_| not_found) else {
        return answer;
    };
    let report = match runs.ledger().report_of(run).await {
        Ok(Some(report)) => report,
        Ok(None) => return answer,
        Err(error) => {
            tracing::warn!(%run, "cannot tell whether an output was held: {}", in_words(&error));
            return answer;
        }
    };
    let id = format!("{run}/{}", stream.as_str());
    let (reason, message) = if report.session != read.session {
        let message = format!("output {id} belongs to another session");
        (ReadFailure::AccessDenied, message)
    } else if was_held(&report, stream) {
        let message = format!(
            "output {id} was held and is gone: its time was over, or its room was needed for newer ones; \
             run the command again if you need it"
        );
        (ReadFailure::Expired, message)
    } else {
        return answer;
    };
    ToGateway::ReadFailed {
        call: read.call,
        reason,
        message,
    }
}

/// The stream of a run that a read is about, by id or by path.
fn named(target: &ReadTarget) -> Option<(RunId, Stored)> {
    match target {
        ReadTarget::Output(OutputId::Stream { run, stream }) => {
            Some((*run, Stored::parse(stream.as_str())?))
        }
        ReadTarget::Output(OutputId::Parcel(_)) => None,
        ReadTarget::Path(path) => {
            let key = OutputKey::of_path(Path::new(path))?;
            Some((RunId(key.run), key.stream))
        }
    }
}

fn was_held(report: &Report, stream: Stored) -> bool {
    let stream = match stream {
        Stored::Stdout => &report.stdout,
        Stored::Stderr => &report.stderr,
        Stored::Tty => &report.tty,
    };
    stream
        .as_ref()
        .is_some_and(|StreamReport { saved, .. }| *saved)
}
