//! Pages of held outputs: `/v1/runs/{run}/output` and `/v1/hosts/{host}/output`

use super::Api;
use super::extract::{Params, Segment};
use super::problem::{Code, Problem};
use super::runs::{run_id, session};
use super::turns;
use super::window::Window;
use crate::fleet::{Command, HostKey, ReadError, Unreachable};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tokio::sync::oneshot;
use willcall_protocol::ids::{OutputId, RunId, SessionId, Stream};
use willcall_protocol::message::{PageReport, Read, ReadFailure, ReadTarget};
use willcall_protocol::outcome::Report;

/// A page of a run's output.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfRun {
    stream: Option<String>,
    offset: Option<u64>,
    limit: Option<u64>,
    line: Option<i64>,
    lines: Option<u64>,
    encoding: Option<String>,
    verify: Option<bool>,
    turn: Option<String>,
    turn_calls: Option<u64>,
}

/// A page of an output on a host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfHost {
    output: Option<String>,
    path: Option<String>,
    session: Option<String>,
    offset: Option<u64>,
    limit: Option<u64>,
    line: Option<i64>,
    lines: Option<u64>,
    encoding: Option<String>,
    verify: Option<bool>,
    turn: Option<String>,
    turn_calls: Option<u64>,
}

/// `GET /v1/runs/{run}/output`: in the run's own session.
pub(super) async fn of_run(
    State(api): State<Api>,
    run: Segment,
    query: Params<OfRun>,
) -> Result<Json<PageReport>, Problem> {
    let query = query.0;
    let stream = query
        .stream
        .as_deref()
        .unwrap_or("stdout")
        .parse::<Stream>();
    let stream = stream.map_err(|_| {
        Problem::new(
            Code::InvalidOutput,
            "stream is one of stdout, stderr and tty",
        )
    })?;
    let run = run_id(&run)?;
    let window = Window {
        offset: query.offset,
        limit: query.limit,
        line: query.line,
        lines: query.lines,
        encoding: query.encoding,
        verify: query.verify,
    };
    let target = ReadTarget::Output(OutputId::Stream { run, stream });
    let turn = turns::Asked::in_query(query.turn, query.turn_calls)?;
    let turn = turn.map(turns::Asked::parse).transpose()?;
    let row = api.runs.find(run).await?;
    let read = window.read(row.session, target, turn)?;
    page(&api, &HostKey::Id(row.host), read).await
}

/// `GET /v1/hosts/{host}/output`: in the session that the caller names.
pub(super) async fn of_host(
    State(api): State<Api>,
    host: Segment,
    query: Params<OfHost>,
) -> Result<Json<PageReport>, Problem> {
    let query = query.0;
    let session = session(query.session)?;
    let target = target(query.output, query.path)?;
    let turn = turns::Asked::in_query(query.turn, query.turn_calls)?;
    let turn = turn.map(turns::Asked::parse).transpose()?;
    let window = Window {
        offset: query.offset,
        limit: query.limit,
        line: query.line,
        lines: query.lines,
        encoding: query.encoding,
        verify: query.verify,
    };
    let read = window.read(session, target, turn)?;
    let Ok(host) = host.0.parse::<HostKey>();
    page(&api, &host, read).await
}

fn target(output: Option<String>, path: Option<String>) -> Result<ReadTarget, Problem> {
    let wrong = |detail: String| Problem::new(Code::InvalidOutput, detail);
    match (output, path) {
        (Some(output), None) => Ok(ReadTarget::Output(
            output.parse().map_err(|e| wrong(format!("{e}")))?,
        )),
        (None, Some(path)) if path.starts_with('/') && !path.contains('\0') => {
            Ok(ReadTarget::Path(path))
        }
        (None, Some(_)) => Err(wrong(
            "path has to be absolute, as the receipt gave it".into(),
        )),
        _ => Err(wrong("name either output=RUN/STREAM or path=PATH".into())),
    }
}

/// Has the host read.
async fn page(api: &Api, host: &HostKey, read: Read) -> Result<Json<PageReport>, Problem> {
    let Some(link) = api.runs.fleet.find(host) else {
        api.runs.known_host(host).await?;
        return Err(Unreachable::Offline.into());
    };
    let (answer, answered) = oneshot::channel();
    let asked = stream_of(&read);
    link.tell(Command::Read(Box::new(read), answer))?;
    match tokio::time::timeout(api.timeouts.read, answered).await {
        Ok(Ok(Ok(page))) => Ok(Json(page)),
        Ok(Ok(Err(ReadError::Refused(ReadFailure::NotFound, message)))) => Err(Problem::new(
            Code::NotFound,
            missing(api, asked, message).await,
        )),
        Ok(Ok(Err(ReadError::Refused(reason, message)))) => Err(failed(reason, message)),
        Ok(Ok(Err(ReadError::TooLong))) => Err(Problem::new(
            Code::BadAnswer,
            "the host sent a page that is longer than any may be; the gateway dropped it",
        )),
        Ok(Ok(Err(ReadError::Busy))) => Err(Unreachable::Busy.into()),
        // The link went away with the question.
        Ok(Err(_)) => Err(Unreachable::Offline.into()),
        Err(_) => Err(Problem::new(
            Code::HostTimeout,
            "the host did not answer the read in time",
        )),
    }
}

/// Which stream of which run a read is about, and in what session.
fn stream_of(read: &Read) -> Option<(RunId, Stream, SessionId)> {
    match read.target {
        ReadTarget::Output(OutputId::Stream { run, stream }) => {
            Some((run, stream, read.session.clone()))
        }
        _ => None,
    }
}

/// Why there is nothing to read: what the host said, or what the run's report says better.
async fn missing(api: &Api, asked: Option<(RunId, Stream, SessionId)>, message: String) -> String {
    let Some((run, stream, session)) = asked else {
        return message;
    };
    let row = api.runs.find(run).await.ok();
    row.filter(|row| row.session == session)
        .and_then(|row| unheld(&row.report?, stream))
        .unwrap_or(message)
}

/// Of a stream that was given whole in its run's result: that nothing of it is held.
fn unheld(report: &Report, stream: Stream) -> Option<String> {
    let name = stream.as_str();
    let given = match stream {
        Stream::Stdout => &report.stdout,
        Stream::Stderr => &report.stderr,
        Stream::Tty => &report.tty,
    };
    let given = given.as_ref()?;
    if given.saved || given.truncated || given.output.is_some() {
        return None;
    }
    Some(match given.total_size {
        0 => format!("nothing is held: the run wrote nothing to {name}"),
        size => {
            format!("nothing is held: all of {name}, {size} bytes, was given in the run's result")
        }
    })
}

fn failed(reason: ReadFailure, message: String) -> Problem {
    let code = match reason {
        ReadFailure::NotFound => Code::NotFound,
        ReadFailure::Expired => Code::Expired,
        ReadFailure::AccessDenied => Code::AccessDenied,
        ReadFailure::NotAnOutput => Code::NotAnOutput,
        ReadFailure::Damaged => Code::Damaged,
        ReadFailure::Unfinished => Code::Unfinished,
        ReadFailure::Permission => Code::Permission,
        ReadFailure::InvalidLimit => Code::InvalidLimits,
        ReadFailure::IoError | ReadFailure::Other => Code::IoError,
    };
    Problem::new(code, message)
}
