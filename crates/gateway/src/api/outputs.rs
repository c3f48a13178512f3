//! Pages of held outputs: `/v1/runs/{run}/output` and `/v1/hosts/{host}/output`

use super::Api;
use super::extract::{Params, Segment};
use super::problem::{Code, Problem};
use super::runs::{run_id, session};
use super::turns;
use crate::fleet::{Command, HostKey, ReadError, Unreachable};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tokio::sync::oneshot;
use willcall_protocol::ids::{OutputId, SessionId, Stream};
use willcall_protocol::message::{Encoding, PageReport, Read, ReadFailure, ReadTarget};

/// A page of a run's output.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfRun {
    stream: Option<String>,
    offset: Option<u64>,
    limit: Option<u64>,
    encoding: Option<String>,
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
    encoding: Option<String>,
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
    let range = (query.offset, query.limit, query.encoding.as_deref());
    let target = ReadTarget::Output(OutputId { run, stream });
    let turn = turns::Asked::in_query(query.turn, query.turn_calls)?;
    let row = api.runs.find(run).await?;
    let read = read(row.session, target, range, turn)?;
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
    let range = (query.offset, query.limit, query.encoding.as_deref());
    let read = read(session, target, range, turn)?;
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

fn read(
    session: SessionId,
    target: ReadTarget,
    (offset, limit, encoding): (Option<u64>, Option<u64>, Option<&str>),
    turn: Option<turns::Asked>,
) -> Result<Read, Problem> {
    if limit == Some(0) {
        return Err(Problem::new(
            Code::InvalidLimits,
            "limit has to be at least 1",
        ));
    }
    let encoding = match encoding {
        None | Some("utf-8") => Encoding::Utf8,
        Some("base64") => Encoding::Base64,
        Some(_) => {
            return Err(Problem::new(
                Code::InvalidQuery,
                "encoding is utf-8 or base64",
            ));
        }
    };
    Ok(Read {
        call: 0,
        session,
        target,
        offset: offset.unwrap_or(0),
        limit,
        encoding,
        turn: turn.map(turns::Asked::parse).transpose()?,
    })
}

/// Has the host read.
async fn page(api: &Api, host: &HostKey, read: Read) -> Result<Json<PageReport>, Problem> {
    let Some(link) = api.runs.fleet.find(host) else {
        api.runs.known_host(host).await?;
        return Err(Unreachable::Offline.into());
    };
    let (answer, answered) = oneshot::channel();
    link.tell(Command::Read(Box::new(read), answer))?;
    match tokio::time::timeout(api.timeouts.read, answered).await {
        Ok(Ok(Ok(page))) => Ok(Json(page)),
        Ok(Ok(Err(ReadError::Refused(reason, message)))) => Err(failed(reason, message)),
        Ok(Ok(Err(ReadError::Busy))) => Err(Unreachable::Busy.into()),
        // The link went away with the question.
        Ok(Err(_)) => Err(Unreachable::Offline.into()),
        Err(_) => Err(Problem::new(
            Code::HostTimeout,
            "the host did not answer the read in time",
        )),
    }
}

fn failed(reason: ReadFailure, message: String) -> Problem {
    let code = match reason {
        ReadFailure::NotFound => Code::NotFound,
        ReadFailure::AccessDenied => Code::AccessDenied,
        ReadFailure::NotAnOutput => Code::NotAnOutput,
        ReadFailure::Damaged => Code::Damaged,
        ReadFailure::Permission => Code::Permission,
        ReadFailure::InvalidLimit => Code::InvalidLimits,
        ReadFailure::IoError | ReadFailure::Other => Code::IoError,
    };
    Problem::new(code, message)
}
