//! `/v1/hosts/{host}/runs` and `/v1/runs/{run}`

use super::Api;
use super::auth::Principal;
use super::extract::{Json, Params, Segment, wait_until};
use super::problem::{Code, Problem, Started};
use super::turns;
use crate::fleet::HostKey;
use crate::runs::{Order, OrderError, RunError, Seen};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::collections::BTreeMap;
use uuid::Uuid;
use willcall_protocol::ids::{RunId, SessionId};
use willcall_protocol::message::{Dispatch, LimitsAsked, StrategyAsked, ViewAsked};
use willcall_protocol::outcome::Outcome;

/// What a caller asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRun {
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    session: Option<String>,
    argv: Vec<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    view: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    turn: Option<turns::Asked>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    #[serde(default)]
    max_bytes: Option<u64>,
    #[serde(default)]
    max_lines: Option<u64>,
}

/// How long a caller waits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    wait: Option<u64>,
}

/// `POST /v1/hosts/{host}/runs`
pub(super) async fn submit(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    host: Result<Segment, Problem>,
    query: Result<Params<Wait>, Problem>,
    headers: HeaderMap,
    body: Result<Json<NewRun>, Problem>,
) -> Result<Response, Problem> {
    let asked = async {
        let until = wait_until(query?.0.wait, &headers)?;
        let Ok(host) = host?.0.parse::<HostKey>();
        let order = order(body?.0, principal)?;
        check_ceiling(&api, &host, &order)?;
        Ok((host, order, until))
    };
    let (host, order, until) = asked.await.map_err(|p: Problem| p.started(Started::No))?;
    let seen = api
        .runs
        .submit(&host, order, until)
        .await
        .map_err(refused)?;
    Ok(answer(seen))
}

/// `GET /v1/runs/{run}`
pub(super) async fn show(
    State(api): State<Api>,
    run: Segment,
    query: Params<Wait>,
    headers: HeaderMap,
) -> Result<axum::Json<Outcome>, Problem> {
    let until = wait_until(query.0.wait, &headers)?;
    Ok(axum::Json(api.runs.wait(run_id(&run)?, until).await?))
}

/// `POST /v1/runs/{run}/cancel`
pub(super) async fn cancel(State(api): State<Api>, run: Segment) -> Result<Response, Problem> {
    let outcome = api.runs.cancel(run_id(&run)?).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(outcome)).into_response())
}

/// The run that the path names. What is no id is the id of no run.
pub(super) fn run_id(segment: &Segment) -> Result<RunId, Problem> {
    segment.0.parse().map_err(|_| RunError::UnknownRun.into())
}

/// 201 or 200 for what is over, 202 for what is not.
fn answer(seen: Seen) -> Response {
    let run = seen.outcome.report.run;
    let status = match (seen.outcome.report.state.is_final(), seen.new) {
        (false, _) => StatusCode::ACCEPTED,
        (true, true) => StatusCode::CREATED,
        (true, false) => StatusCode::OK,
    };
    let mut response = (status, axum::Json(seen.outcome)).into_response();
    if let Ok(location) = HeaderValue::try_from(format!("/v1/runs/{run}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn refused(error: RunError) -> Problem {
    let started = match &error {
        RunError::UnknownHost | RunError::UnknownRun | RunError::Unreachable(_) => Started::No,
        // Stored or not, and so to be dispatched later or not; or somebody else's.
        RunError::Db(_) | RunError::Conflict => Started::Unknown,
    };
    Problem::from(error).started(started)
}

fn check_ceiling(api: &Api, host: &HostKey, order: &Order) -> Result<(), Problem> {
    let link = api.runs.fleet.find(host);
    let ceiling = link.map_or(0, |link| link.facts.capabilities.max_bytes_ceiling);
    Ok(order.check_ceiling(ceiling)?)
}

fn order(body: NewRun, Principal(principal): Principal) -> Result<Order, Problem> {
    let dispatch = Dispatch {
        run: new_run(body.run.as_deref())?,
        session: session(body.session)?,
        principal,
        argv: body.argv,
        cwd: body.cwd,
        env: body.env,
        timeout_ms: body.timeout_ms,
        limits: LimitsAsked {
            max_bytes: body.limits.max_bytes,
            max_lines: body.limits.max_lines,
        },
        strategy: strategy(body.strategy.as_deref())?,
        view: view(body.view.as_deref())?,
        reason: body.reason,
        not_after_ms: None,
        turn: body.turn.map(turns::Asked::parse).transpose()?,
    };
    Ok(Order::new(dispatch)?)
}

fn new_run(asked: Option<&str>) -> Result<RunId, Problem> {
    let Some(asked) = asked else {
        return Ok(RunId(Uuid::now_v7()));
    };
    asked
        .parse()
        .map_err(|e| Problem::new(Code::InvalidRun, format!("run: {e}")))
}

/// The session that a caller names, or the one of those who name none.
pub(super) fn session(asked: Option<String>) -> Result<SessionId, Problem> {
    let session = asked.map(SessionId::try_from).transpose();
    let session = session.map_err(|e| Problem::new(Code::InvalidSession, e.to_string()))?;
    Ok(session.unwrap_or_else(SessionId::unnamed))
}

fn strategy(asked: Option<&str>) -> Result<StrategyAsked, Problem> {
    match asked {
        None | Some("head_tail") => Ok(StrategyAsked::HeadTail),
        Some("head") => Ok(StrategyAsked::Head),
        Some("tail") => Ok(StrategyAsked::Tail),
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            let detail = format!("{other:?} is not a strategy: head_tail, head or tail");
            Err(Problem::new(Code::InvalidStrategy, detail))
        }
    }
}

fn view(asked: Option<&str>) -> Result<ViewAsked, Problem> {
    match asked {
        None | Some("auto") => Ok(ViewAsked::Auto),
        Some("raw") => Ok(ViewAsked::Raw),
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            let detail = format!("{other:?} is not a view: auto or raw");
            Err(Problem::new(Code::InvalidView, detail))
        }
    }
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Self {
        let code = match &error {
            OrderError::Nul("cwd") | OrderError::EmptyCwd => Code::InvalidCwd,
            OrderError::Nul("env") | OrderError::EnvName(_) => Code::InvalidEnv,
            OrderError::NoProgram | OrderError::TooLong(_) | OrderError::Nul(_) => {
                Code::InvalidArgv
            }
            OrderError::NoTime => Code::InvalidTimeout,
            OrderError::ZeroLimit(_) | OrderError::AboveCeiling { .. } => Code::InvalidLimits,
            OrderError::LongReason(_) => Code::InvalidReason,
            OrderError::NilRun => Code::InvalidRun,
        };
        Self::new(code, error.to_string())
    }
}
