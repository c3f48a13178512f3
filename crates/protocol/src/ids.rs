//! Names that cannot be wrong: parsed once, at the edge.

use crate::limits::MAX_SESSION_ID;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use uuid::Uuid;

/// A run's id, chosen by the caller's side, unique for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

/// An agent's id: what its certificate says, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentId(pub Uuid);

/// The conversation that a call belongs to: `[A-Za-z0-9_-]{1,64}`. It is also a directory name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// A turn's id, in its session: `[A-Za-z0-9_-]{1,64}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TurnId(String);

/// A stream of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output of a run with pipes.
    Stdout,
    /// Standard error of a run with pipes.
    Stderr,
    /// The one stream of a run under a PTY.
    Tty,
}

/// The id of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OutputId {
    /// A stream of a run: `RUN/STREAM`.
    Stream {
        /// The run.
        run: RunId,
        /// Its stream.
        stream: Stream,
    },
    /// A parcel, held under the hash of its bytes: its digest, `blake3:` and 64 digits.
    Parcel([u8; 32]),
}

/// A name that is not one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdError {
    /// Not a session id.
    #[error("{0:?} is not a session id: 1 to 64 of A-Z a-z 0-9 _ -")]
    Session(String),
    /// Not a turn id.
    #[error("{0:?} is not a turn id: 1 to 64 of A-Z a-z 0-9 _ -")]
    Turn(String),
    /// Not an output id.
    #[error("{0:?} is not an output id: RUN/stdout, RUN/stderr, RUN/tty or blake3:DIGEST")]
    Output(String),
    /// Not a UUID.
    #[error("{0:?} is not a UUID")]
    Uuid(String),
    /// Not the SAN URI of an agent.
    #[error("{0:?} does not name an agent: spiffe://willcall/agent/UUID")]
    AgentUri(String),
}

const PARCEL_PREFIX: &str = "blake3:";
const PARCEL_DIGITS: usize = 64;
const AGENT_URI_PREFIX: &str = "spiffe://willcall/agent/";

impl AgentId {
    /// The one SAN URI of the agent's certificate.
    pub fn to_uri(self) -> String {
        format!("{AGENT_URI_PREFIX}{self}")
    }

    /// The agent that a certificate's SAN URI names.
    pub fn from_uri(uri: &str) -> Result<Self, IdError> {
        uri.strip_prefix(AGENT_URI_PREFIX)
            .and_then(|id| id.parse().ok())
            .ok_or_else(|| IdError::AgentUri(uri.to_owned()))
    }
}

impl SessionId {
    /// The session of calls that name none.
    pub fn unnamed() -> Self {
        Self("default".to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionId {
    type Error = IdError;

    fn try_from(name: String) -> Result<Self, IdError> {
        if is_name(&name) {
            return Ok(Self(name));
        }
        let beginning = name.chars().take(MAX_SESSION_ID).collect();
        Err(IdError::Session(beginning))
    }
}

/// Whether it is 1 to [`MAX_SESSION_ID`] of the characters that mean nothing to any shell or file system.
fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=MAX_SESSION_ID).contains(&name.len()) && name.bytes().all(allowed)
}

impl TurnId {
    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TurnId {
    type Error = IdError;

    fn try_from(id: String) -> Result<Self, IdError> {
        if is_name(&id) {
            return Ok(Self(id));
        }
        let beginning = id.chars().take(MAX_SESSION_ID).collect();
        Err(IdError::Turn(beginning))
    }
}

impl FromStr for TurnId {
    type Err = IdError;

    fn from_str(id: &str) -> Result<Self, IdError> {
        Self::try_from(id.to_owned())
    }
}

impl From<TurnId> for String {
    fn from(id: TurnId) -> Self {
        id.0
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = IdError;

    fn from_str(name: &str) -> Result<Self, IdError> {
        Self::try_from(name.to_owned())
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Stream {
    /// The name in ids and file names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Tty => "tty",
        }
    }
}

impl FromStr for Stream {
    type Err = IdError;

    fn from_str(name: &str) -> Result<Self, IdError> {
        match name {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            "tty" => Ok(Self::Tty),
            other => Err(IdError::Output(other.chars().take(64).collect())),
        }
    }
}

impl FromStr for OutputId {
    type Err = IdError;

    fn from_str(id: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Output(id.chars().take(128).collect());
        if let Some(hex) = id.strip_prefix(PARCEL_PREFIX) {
            return unhex(hex).map(Self::Parcel).ok_or_else(wrong);
        }
        let (run, stream) = id.split_once('/').ok_or_else(wrong)?;
        Ok(Self::Stream {
            run: run.parse().map_err(|_| wrong())?,
            stream: stream.parse().map_err(|_| wrong())?,
        })
    }
}

impl TryFrom<String> for OutputId {
    type Error = IdError;

    fn try_from(id: String) -> Result<Self, IdError> {
        id.parse()
    }
}

impl From<OutputId> for String {
    fn from(id: OutputId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for OutputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { run, stream } => write!(f, "{run}/{}", stream.as_str()),
            Self::Parcel(hash) => {
                f.write_str(PARCEL_PREFIX)?;
                hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// One digest has one id: 64 digits, no capitals.
fn unhex(hex: &str) -> Option<[u8; 32]> {
    let digit = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    let mut hash = [0; 32];
    if hex.len() != PARCEL_DIGITS || !hex.as_bytes().iter().all(digit) {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

macro_rules! uuid_id {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = IdError;

            fn from_str(id: &str) -> Result<Self, IdError> {
                let wrong = |_| IdError::Uuid(id.chars().take(64).collect());
                Uuid::try_parse(id).map(Self).map_err(wrong)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_id!(RunId);
uuid_id!(AgentId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_a_safe_directory_name_and_a_turn_id_one_as_well() {
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad:?}");
            assert!(bad.parse::<TurnId>().is_err(), "{bad:?}");
        }
        for good in ["default", "A-Za-z0-9_-", &"x".repeat(64)] {
            assert_eq!(good.parse::<SessionId>().expect("good").as_str(), good);
            assert_eq!(good.parse::<TurnId>().expect("good").as_str(), good);
        }
    }

    #[test]
    fn an_agent_is_named_by_its_uri_and_nothing_near_it() {
        let id = AgentId(Uuid::from_u128(5));
        assert_eq!(AgentId::from_uri(&id.to_uri()), Ok(id));
        for bad in [
            "spiffe://willcall/agent/",
            "spiffe://other/agent/x",
            "agent/5",
            "",
        ] {
            assert!(AgentId::from_uri(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_output_id_is_a_run_and_a_stream_or_a_digest() {
        let id = OutputId::Stream {
            run: RunId(Uuid::from_u128(5)),
            stream: Stream::Stderr,
        };
        assert_eq!(id.to_string().parse(), Ok(id));
        let parcel = OutputId::Parcel([0xa5; 32]);
        assert_eq!(parcel.to_string(), format!("blake3:{}", "a5".repeat(32)));
        assert_eq!(parcel.to_string().parse(), Ok(parcel));
        for bad in [
            "",
            "x/stdout",
            "00000000-0000-0000-0000-000000000005",
            "00000000-0000-0000-0000-000000000005/../x",
            &format!("blake3:{}", "a5".repeat(31)),
            &format!("blake3:{}", "A5".repeat(32)),
            &format!("blake3:{}", "+5".repeat(32)),
            &"a5".repeat(32),
        ] {
            assert!(bad.parse::<OutputId>().is_err(), "{bad}");
        }
    }
}
