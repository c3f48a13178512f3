//! What can go wrong, who is to blame, whether the command ran, and what to do next.

use nix::sys::signal::Signal;
use serde::Deserialize;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;
use willcall_executor::config::ConfigError;
use willcall_gateway::lock::LockError;

/// Whether a command ran because of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// It did not.
    No,
    /// Nobody knows.
    Unknown,
    /// The call was not about running something.
    NotAsked,
}

/// A problem document of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// What, by name.
    pub code: String,
    /// What, for a person.
    #[serde(default)]
    pub title: String,
    /// What exactly.
    #[serde(default)]
    pub detail: String,
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// Who is to blame: `caller`, `host`, `gateway`.
    #[serde(default)]
    pub blame: String,
    /// Whether a command ran: `not_started`, `unknown`, `n/a`.
    #[serde(default)]
    pub outcome: String,
}

impl Problem {
    /// Whether a command ran.
    pub fn ran(&self) -> Ran {
        match self.outcome.as_str() {
            "not_started" => Ran::No,
            "unknown" => Ran::Unknown,
            _ => Ran::NotAsked,
        }
    }

    fn words(&self) -> &str {
        match (self.detail.as_str(), self.title.as_str()) {
            ("", "") => "no reason given",
            ("", title) => title,
            (detail, _) => detail,
        }
    }

    /// What helps, where something does.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self.code.as_str() {
            "unauthorized" => "check that WILLCALL_TOKEN_FILE holds the token of this gateway",
            "unknown_host" => "`willcall hosts` lists the hosts",
            "host_offline" => {
                "`willcall hosts` shows when it was last seen; try again once it is back"
            }
            "busy" | "host_busy" => "try again in a moment",
            "access_denied" => {
                "only the session that ran the command can read its outputs: give its --session"
            }
            "not_found" => {
                "outputs are kept for 7 days; small ones are in the result itself and are not kept"
            }
            _ => return None,
        })
    }
}

/// A call that failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// An environment variable is missing.
    #[error("{name} is not set")]
    NotSet {
        /// The variable.
        name: &'static str,
    },
    /// The API's address cannot be used.
    #[error("WILLCALL_URL is {url:?}: {why}")]
    Url {
        /// What it is.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The token cannot be read.
    #[error("the token in {} (WILLCALL_TOKEN_FILE) cannot be read", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The token file holds something else.
    #[error("{} (WILLCALL_TOKEN_FILE) does not hold a token", path.display())]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
    /// The gateway cannot be reached, and nothing was sent.
    #[error("the gateway at {url} cannot be reached")]
    Unreachable {
        /// Its address.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The connection was lost while an answer was awaited.
    #[error("the connection to the gateway was lost and did not come back within {patience:?}")]
    Lost {
        /// How long it was tried again.
        patience: Duration,
        /// Whether the call was to run something.
        runs: bool,
        /// The last error.
        source: Box<ureq::Error>,
    },
    /// The gateway's answer is not one.
    #[error("the gateway's answer ({status}) cannot be understood")]
    Answer {
        /// Its HTTP status.
        status: u16,
        /// Whether the call was to run something.
        runs: bool,
    },
    /// The gateway says no.
    #[error("{}", said(.0))]
    Problem(Box<Problem>),
    /// There is no host, or more than one.
    #[error("{}", which_host(.0))]
    WhichHost(Vec<String>),
    /// A limit of a run that leaves nothing.
    #[error("{0} has to be at least 1")]
    ZeroLimit(&'static str),
    /// A call that starts nothing anyway, and that failed as if it were one that does.
    #[error(transparent)]
    Read(Box<Self>),
    /// A process of a local system did not do what it should.
    #[error("{what}{}", log_tail(.log))]
    System {
        /// What went wrong.
        what: String,
        /// The end of the log.
        log: String,
    },
    /// Something on this machine failed.
    #[error("{what}")]
    Local {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Another system runs in the state directory, or nobody can tell.
    #[error(transparent)]
    Locked(LockError),
    /// The host's configuration cannot be used.
    #[error(transparent)]
    Config(ConfigError),
    /// Somebody ended us.
    #[error("interrupted by {0}")]
    Interrupted(Signal),
}

impl Failure {
    /// Whether the command ran.
    pub fn ran(&self) -> Ran {
        match self {
            Self::Problem(problem) => problem.ran(),
            Self::Lost { runs: true, .. } | Self::Answer { runs: true, .. } => Ran::Unknown,
            Self::ZeroLimit(_) | Self::WhichHost(_) => Ran::No,
            _ => Ran::NotAsked,
        }
    }

    /// The same of a call that starts nothing anyway: of that nobody wants to know whether the command ran.
    #[must_use]
    pub fn of_a_read(self) -> Self {
        match self.ran() {
            Ran::No => Self::Read(Box::new(self)),
            Ran::Unknown | Ran::NotAsked => self,
        }
    }

    /// Names the host that a problem is about; the gateway's words are about "the host".
    #[must_use]
    pub fn at(mut self, host: &str) -> Self {
        if let Self::Problem(problem) = &mut self
            && problem.code.contains("host")
        {
            problem.detail = format!("{host}: {}", problem.words());
        }
        self
    }

    /// What helps, where something does.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::NotSet { .. } => {
                Some("`willcall dev` prints export lines; or ask whoever runs the gateway")
            }
            Self::Unreachable { .. } => Some("is it running, and is WILLCALL_URL right?"),
            Self::Problem(problem) => problem.advice(),
            Self::Read(failure) => failure.advice(),
            _ => None,
        }
    }
}

fn said(problem: &Problem) -> String {
    let blame = match problem.blame.as_str() {
        "host" => "the host: ",
        "gateway" => "the gateway: ",
        _ => "",
    };
    format!("{blame}{} ({})", problem.words(), problem.code)
}

fn which_host(names: &[String]) -> String {
    match names {
        [] => "no host is registered at this gateway".to_owned(),
        names => format!(
            "there is more than one host: give --host, one of {}",
            names.join(", ")
        ),
    }
}

fn log_tail(log: &str) -> String {
    match log.trim_end() {
        "" => String::new(),
        log => format!("; the end of its log:\n{log}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(json: &str) -> Failure {
        Failure::Problem(Box::new(serde_json::from_str(json).unwrap()))
    }

    #[test]
    fn a_problem_says_what_who_and_whether_it_ran() {
        let offline = problem(
            r#"{"type":"urn:willcall:problem:host_offline","title":"Offline","status":503,
                "detail":"web-1 is not connected","code":"host_offline","blame":"host","outcome":"not_started"}"#,
        );
        assert_eq!(
            offline.to_string(),
            "the host: web-1 is not connected (host_offline)"
        );
        assert_eq!(offline.ran(), Ran::No);
        assert!(offline.advice().unwrap().contains("willcall hosts"));
    }

    #[test]
    fn a_read_that_cannot_be_meant_says_nothing_of_a_command() {
        let which = || Failure::WhichHost(vec!["a".to_owned(), "b".to_owned()]);
        for failure in [Failure::ZeroLimit("limit"), which()] {
            let said = failure.to_string();
            assert_eq!(failure.ran(), Ran::No);
            let read = failure.of_a_read();
            assert_eq!((read.to_string(), read.ran()), (said, Ran::NotAsked));
        }
    }

    #[test]
    fn a_problem_with_a_host_names_it() {
        let unknown = problem(r#"{"code":"unknown_host","detail":"there is no such host"}"#);
        assert_eq!(
            unknown.at("web-1").to_string(),
            "web-1: there is no such host (unknown_host)"
        );
        let other = problem(r#"{"code":"not_found","detail":"no such output"}"#);
        assert_eq!(other.at("web-1").to_string(), "no such output (not_found)");
    }

    #[test]
    fn a_problem_of_a_later_gateway_is_still_readable() {
        let new = problem(r#"{"code":"sung_badly","title":"Sung badly"}"#);
        assert_eq!(new.to_string(), "Sung badly (sung_badly)");
        assert_eq!((new.ran(), new.advice()), (Ran::NotAsked, None));
    }
}
