//! The gateway's API over HTTP.

mod settings;
#[cfg(test)]
mod tests;

use crate::args::WindowArgs;
use crate::limits::{ANSWER, CONNECT, MAX_ANSWER, PATIENCE, RETRY, WAIT};
use crate::patience::{Next, Patience};
use crate::problem::{Failure, Problem};
use crate::stop::Stop;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
pub use settings::{Settings, is_exposed};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};
use ureq::http::{Method, Request, Uri};
use willcall_protocol::ids::{OutputId, RunId, SessionId};
use willcall_protocol::message::{
    LimitsAsked, PageReport, ReadTarget, StrategyAsked, Turn, ViewAsked,
};
use willcall_protocol::outcome::Outcome;

/// A gateway's API.
#[derive(Debug, Clone)]
pub struct Client {
    agent: ureq::Agent,
    url: String,
    authorization: String,
    stop: Stop,
}

/// An answer: as it came, and understood.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The JSON as it came, with fields that this version may not know.
    pub json: String,
    /// What this version knows.
    pub value: T,
}

/// The answer to `GET /v1/hosts`.
#[derive(Debug, Clone, Deserialize)]
pub struct Hosts {
    /// The hosts.
    pub hosts: Vec<Host>,
}

/// A host, as far as it is shown.
#[derive(Debug, Clone, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Whether its link is up.
    #[serde(default)]
    pub connected: bool,
    /// Milliseconds since 1970 of the last sign of life.
    #[serde(default)]
    pub last_seen_ms: Option<i64>,
    /// Runs that are not over.
    #[serde(default)]
    pub running: Option<i64>,
}

/// The body of `POST /v1/hosts/{host}/runs`.
#[derive(Debug, Clone, Serialize)]
pub struct RunRequest {
    /// Chosen here, so that a repeated request is the same run.
    pub run: RunId,
    /// The conversation.
    pub session: SessionId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the host's clean environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Limits of each stream's preview.
    pub limits: LimitsAsked,
    /// Which end of a stream is shown.
    pub strategy: StrategyAsked,
    /// How a stream is shown.
    pub view: ViewAsked,
    /// The turn that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
}

/// One page to read.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// The conversation that asks.
    pub session: SessionId,
    /// The host.
    pub host: String,
    /// What to read.
    pub target: ReadTarget,
    /// Which part of it.
    pub window: WindowArgs,
    /// The turn that it is part of.
    pub turn: Option<Turn>,
}

/// One attempt that failed.
enum Attempt {
    /// Without an answer; `reached` if the request may have arrived.
    Lost {
        reached: bool,
        source: Box<ureq::Error>,
    },
    /// With one.
    Failed(Failure),
}

/// What one request is.
struct Call<'a> {
    method: Method,
    path: String,
    body: Option<&'a [u8]>,
    /// How long the gateway may take beyond the usual.
    wait: Duration,
    /// Whether it is about running something.
    runs: bool,
}

impl<'a> Call<'a> {
    fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            body: None,
            wait: Duration::ZERO,
            runs: false,
        }
    }

    fn about_a_run(self) -> Self {
        Self {
            path: format!("{}?wait={}", self.path, WAIT.as_secs()),
            wait: WAIT,
            runs: true,
            ..self
        }
    }

    fn post(path: String, body: &'a [u8]) -> Self {
        Self {
            method: Method::POST,
            body: Some(body),
            ..Self::get(path)
        }
    }
}

impl Client {
    /// A client of the API that `settings` name. Nothing is sent yet.
    pub fn new(settings: Settings, stop: Stop) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_idle_connections(1)
            .timeout_connect(Some(CONNECT))
            .build();
        Self {
            agent: config.into(),
            url: settings.url,
            authorization: format!("Bearer {}", settings.token),
            stop,
        }
    }

    /// All hosts.
    pub fn hosts(&self) -> Result<Answer<Hosts>, Failure> {
        self.call(&Call::get("/v1/hosts".to_owned()), Patience::default())
    }

    /// The host that is meant: the one asked for, or the only one.
    pub fn host(&self, asked: Option<&str>) -> Result<String, Failure> {
        if let Some(name) = asked {
            return Ok(name.to_owned());
        }
        let mut hosts = self.hosts()?.value.hosts;
        match (hosts.pop(), hosts.is_empty()) {
            (Some(only), true) => Ok(only.name),
            (last, _) => {
                let names = hosts.into_iter().chain(last).map(|host| host.name);
                Err(Failure::WhichHost(names.collect()))
            }
        }
    }

    /// The host that holds an output: the only one, or the one that ran the run. A parcel may be anywhere.
    pub fn holder(&self, output: OutputId) -> Result<String, Failure> {
        match (self.host(None), output) {
            (Err(Failure::WhichHost(names)), OutputId::Stream { run, .. }) if !names.is_empty() => {
                let run = Call::get(format!("/v1/runs/{run}"));
                let outcome: Answer<Outcome> = self.call(&run, Patience::default())?;
                Ok(outcome.value.host)
            }
            (found, _) => found,
        }
    }

    /// Runs a command and waits for its end. A lost connection is taken up again with the same run.
    pub fn run(&self, host: &str, request: &RunRequest) -> Result<Answer<Outcome>, Failure> {
        let body = serde_json::to_vec(request).unwrap_or_default();
        let path = format!("/v1/hosts/{}/runs", escaped(host));
        let post = Call::post(path, &body).about_a_run();
        let poll = Call::get(format!("/v1/runs/{}", request.run)).about_a_run();
        let first = self.call(&post, Patience::default());
        let mut answer: Answer<Outcome> = first.map_err(|failure| failure.at(host))?;
        while !answer.value.report.state.is_final() {
            let asked = Instant::now();
            answer = self.call(&poll, Patience::known())?;
            // A gateway that does not wait is not asked again at once.
            self.rest(RETRY.saturating_sub(asked.elapsed()))?;
        }
        Ok(answer)
    }

    /// Asks for the end of a run, until the gateway has noted that. A run that the gateway does not know yet may still be on its way.
    pub fn cancel(&self, run: RunId) -> Result<(), Failure> {
        let call = Call::post(format!("/v1/runs/{run}/cancel"), &[]);
        loop {
            match self.call::<Outcome>(&call, Patience::known()) {
                Err(Failure::Problem(no)) if matches!(&*no.code, "unknown_run" | "host_busy") => {
                    self.rest(RETRY)?;
                }
                done => return done.map(drop),
            }
        }
    }

    /// Reads a page.
    pub fn page(&self, request: &PageRequest) -> Result<Answer<PageReport>, Failure> {
        self.call(&Call::get(page_path(request)), Patience::default())
            .map_err(|failure| failure.at(&request.host))
    }

    /// Calls until there is an answer, or patience ends.
    fn call<T: DeserializeOwned>(
        &self,
        call: &Call<'_>,
        mut patience: Patience,
    ) -> Result<Answer<T>, Failure> {
        loop {
            let (reached, source) = match self.attempt(call) {
                Ok(answer) => return Ok(answer),
                Err(Attempt::Failed(failure)) => return Err(failure),
                Err(Attempt::Lost { reached, source }) => (reached, source),
            };
            match patience.failed(Instant::now(), reached) {
                Next::Retry(pause) => self.rest(pause)?,
                Next::Unreachable => {
                    let url = self.url.clone();
                    return Err(Failure::Unreachable { url, source });
                }
                Next::GiveUp => {
                    return Err(Failure::Lost {
                        patience: PATIENCE,
                        runs: call.runs,
                        source,
                    });
                }
            }
        }
    }

    fn rest(&self, pause: Duration) -> Result<(), Failure> {
        match self.stop.pause(pause) {
            Some(signal) => Err(Failure::Interrupted(signal)),
            None => Ok(()),
        }
    }

    fn attempt<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<Answer<T>, Attempt> {
        let lost = |source: ureq::Error| Attempt::Lost {
            reached: may_have_arrived(&source),
            source: Box::new(source),
        };
        let mut response = self.send(call).map_err(lost)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER);
        let json = body.read_to_string().map_err(|source| Attempt::Lost {
            reached: true,
            source: Box::new(source),
        })?;
        understood(call.runs, status, json).map_err(Attempt::Failed)
    }

    fn send(&self, call: &Call<'_>) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let uri: Uri = format!("{}{}", self.url, call.path)
            .parse()
            .map_err(|_| ureq::Error::BadUri(self.url.clone()))?;
        let request = Request::builder()
            .method(call.method.clone())
            .uri(uri)
            .header("authorization", &self.authorization)
            .header("content-type", "application/json")
            .body(call.body.unwrap_or_default())?;
        let timeout = Some(call.wait + ANSWER);
        let request = self.agent.configure_request(request);
        self.agent.run(request.timeout_global(timeout).build())
    }
}

/// The answer, or what the gateway says is wrong.
fn understood<T: DeserializeOwned>(
    runs: bool,
    status: u16,
    json: String,
) -> Result<Answer<T>, Failure> {
    if !(200..300).contains(&status) {
        let problem: Result<Box<Problem>, _> = serde_json::from_str(&json);
        return Err(problem.map_or(Failure::Answer { status, runs }, Failure::Problem));
    }
    match serde_json::from_str(&json) {
        Ok(value) => Ok(Answer { json, value }),
        Err(_) => Err(Failure::Answer { status, runs }),
    }
}

/// Whether the gateway may have got the request, although there is no answer.
fn may_have_arrived(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match error {
        ureq::Error::Io(io) => !matches!(
            io.kind(),
            ConnectionRefused | HostUnreachable | NetworkUnreachable
        ),
        ureq::Error::Timeout(what) => {
            !matches!(what, ureq::Timeout::Resolve | ureq::Timeout::Connect)
        }
        ureq::Error::ConnectionFailed
        | ureq::Error::HostNotFound
        | ureq::Error::BadUri(_)
        | ureq::Error::Http(_) => false,
        _ => true,
    }
}

fn page_path(request: &PageRequest) -> String {
    let (name, value) = match &request.target {
        ReadTarget::Output(id) => ("output", escaped(&id.to_string())),
        ReadTarget::Path(path) => ("path", escaped(path)),
    };
    let PageRequest {
        session, window, ..
    } = request;
    let host = escaped(&request.host);
    let mut path = format!("/v1/hosts/{host}/output?{name}={value}&session={session}");
    let numbers = [
        ("offset", window.offset),
        ("limit", window.limit),
        ("lines", window.lines),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            let _ = write!(path, "&{name}={number}");
        }
    }
    if let Some(line) = window.line {
        let _ = write!(path, "&line={line}");
    }
    if window.verify {
        path.push_str("&verify=true");
    }
    if let Some(turn) = &request.turn {
        let _ = write!(path, "&turn={}", turn.id);
        if let Some(calls) = turn.calls {
            let _ = write!(path, "&turn_calls={calls}");
        }
    }
    path
}

/// A path segment or a query's value.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
