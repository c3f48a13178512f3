//! Refusals, as `application/problem+json`.

use crate::db::DbError;
use crate::fleet::Unreachable;
use crate::runs::RunError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// No token, or none that is known.
    Unauthorized,
    /// Nothing is there.
    UnknownPath,
    /// Not with that method.
    WrongMethod,
    /// A body that is longer than allowed.
    BodyTooLarge,
    /// A body that is not the JSON that was expected.
    InvalidJson,
    /// A path or query that is not what was expected.
    InvalidQuery,
    /// A wait that is not 0 to 300 seconds.
    InvalidWait,
    /// Not a run's id.
    InvalidRun,
    /// Not a session's name.
    InvalidSession,
    /// A command that cannot be right.
    InvalidArgv,
    /// A working directory that cannot be right.
    InvalidCwd,
    /// An environment that cannot be right.
    InvalidEnv,
    /// A timeout of nothing.
    InvalidTimeout,
    /// A limit of 0 or above the ceiling.
    InvalidLimits,
    /// Not a strategy.
    InvalidStrategy,
    /// Not a view.
    InvalidView,
    /// A reason that is too long.
    InvalidReason,
    /// Not a turn.
    InvalidTurn,
    /// Not a stream, output id or path.
    InvalidOutput,
    /// No such host.
    UnknownHost,
    /// No such run.
    UnknownRun,
    /// The id belongs to another run.
    Conflict,
    /// The host is not connected.
    HostOffline,
    /// Too much waits for the host.
    HostBusy,
    /// The host did not answer in time.
    HostTimeout,
    /// The host has no such output.
    NotFound,
    /// The output was held, and is not any longer.
    Expired,
    /// The output belongs to another session.
    AccessDenied,
    /// The path is not that of a held output.
    NotAnOutput,
    /// The file is not what its record says.
    Damaged,
    /// The output is still being written, so that there is nothing to verify it by.
    Unfinished,
    /// The host may not read the file.
    Permission,
    /// The host could not read the file.
    IoError,
    /// The host's answer breaks the protocol.
    BadAnswer,
    /// Our own fault.
    Internal,
}

/// Whether anything was started for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// Nothing, and nothing will be.
    No,
    /// Nobody can say.
    Unknown,
    /// The request was not one that starts anything.
    NotApplicable,
}

/// A refusal.
#[derive(Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    started: Started,
}

impl Problem {
    /// A refusal of a request that starts nothing anyway.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            started: Started::NotApplicable,
        }
    }

    /// The same, of a request that would have started something.
    #[must_use]
    pub fn started(self, started: Started) -> Self {
        Self { started, ..self }
    }
}

impl Code {
    /// Status, name, title and who is to blame.
    fn row(self) -> (u16, &'static str, &'static str, &'static str) {
        match self {
            Self::Unauthorized => (401, "unauthorized", "A valid token is needed", "caller"),
            Self::UnknownPath => (404, "unknown_path", "Nothing is there", "caller"),
            Self::WrongMethod => (405, "wrong_method", "Not with that method", "caller"),
            Self::BodyTooLarge => (413, "body_too_large", "The body is too large", "caller"),
            Self::InvalidJson => (400, "invalid_json", "The body is not as expected", "caller"),
            Self::InvalidQuery => (
                400,
                "invalid_query",
                "The query is not as expected",
                "caller",
            ),
            Self::InvalidWait => (400, "invalid_wait", "The wait is out of range", "caller"),
            Self::InvalidRun => (400, "invalid_run", "Not a run id", "caller"),
            Self::InvalidSession => (400, "invalid_session", "Not a session", "caller"),
            Self::InvalidArgv => (400, "invalid_argv", "The command cannot be right", "caller"),
            Self::InvalidCwd => (
                400,
                "invalid_cwd",
                "The directory cannot be right",
                "caller",
            ),
            Self::InvalidEnv => (
                400,
                "invalid_env",
                "The environment cannot be right",
                "caller",
            ),
            Self::InvalidTimeout => (400, "invalid_timeout", "The timeout is 0", "caller"),
            Self::InvalidLimits => (400, "invalid_limits", "A limit is out of range", "caller"),
            Self::InvalidStrategy => (400, "invalid_strategy", "Not a strategy", "caller"),
            Self::InvalidView => (400, "invalid_view", "Not a view", "caller"),
            Self::InvalidTurn => (400, "invalid_turn", "Not a turn", "caller"),
            Self::InvalidReason => (400, "invalid_reason", "The reason is too long", "caller"),
            Self::InvalidOutput => (400, "invalid_output", "Names no output", "caller"),
            Self::UnknownHost => (404, "unknown_host", "There is no such host", "caller"),
            Self::UnknownRun => (404, "unknown_run", "There is no such run", "caller"),
            Self::Conflict => (409, "conflict", "The id belongs to another run", "caller"),
            Self::HostOffline => (503, "host_offline", "The host is not connected", "host"),
            Self::HostBusy => (503, "host_busy", "Too much waits for the host", "host"),
            Self::HostTimeout => (
                504,
                "host_timeout",
                "The host did not answer in time",
                "host",
            ),
            Self::NotFound => (404, "not_found", "The host has no such output", "caller"),
            Self::Expired => (410, "expired", "The output is no longer held", "caller"),
            Self::AccessDenied => (403, "access_denied", "Another session's output", "caller"),
            Self::NotAnOutput => (404, "not_an_output", "Not a held output", "caller"),
            Self::Damaged => (409, "damaged", "The output was changed on its host", "host"),
            Self::Unfinished => (409, "unfinished", "The output is not finished", "caller"),
            Self::Permission => (
                502,
                "permission",
                "The host may not read the output",
                "host",
            ),
            Self::IoError => (
                502,
                "io_error",
                "The host could not read the output",
                "host",
            ),
            Self::BadAnswer => (502, "bad_answer", "The host broke the protocol", "host"),
            Self::Internal => (500, "internal", "The gateway failed", "gateway"),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code, title, blame) = self.code.row();
        let outcome = match self.started {
            Started::No => "not_started",
            Started::Unknown => "unknown",
            Started::NotApplicable => "n/a",
        };
        let body = json!({
            "type": format!("urn:willcall:problem:{code}"),
            "title": title,
            "status": status,
            "detail": self.detail,
            "code": code,
            "blame": blame,
            "outcome": outcome,
        });
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        let problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem);
        match self.code {
            Code::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Code::HostOffline | Code::HostBusy => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

impl From<Unreachable> for Problem {
    fn from(why: Unreachable) -> Self {
        let code = match why {
            Unreachable::Offline => Code::HostOffline,
            Unreachable::Busy => Code::HostBusy,
        };
        Self::new(code, why.to_string())
    }
}

impl From<DbError> for Problem {
    fn from(error: DbError) -> Self {
        // The caller learns that it is our fault, and no more.
        tracing::error!(error = ?error, "a request failed");
        Self::new(
            Code::Internal,
            "the gateway's database failed; its log says more",
        )
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        match error {
            RunError::UnknownHost => Self::new(Code::UnknownHost, error.to_string()),
            RunError::UnknownRun => Self::new(Code::UnknownRun, error.to_string()),
            RunError::Unreachable(why) => Self::from(why),
            RunError::Conflict => {
                let detail =
                    "a run with this id and another body or host was there first; it stands";
                Self::new(Code::Conflict, detail)
            }
            RunError::Db(error) => Self::from(error),
        }
    }
}
