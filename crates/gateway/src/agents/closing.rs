//! Why a connection ends, what the peer is told, and who is to blame.

use crate::db::DbError;
use crate::pki::IdentityError;
use thiserror::Error;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, error::CapacityError};
use willcall_protocol::frame::FrameError;
use willcall_protocol::session::SessionError;

/// Why a connection that never became a link was refused.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    /// A step took too long.
    #[error("the peer took too long for its {0}")]
    Slow(&'static str),
    /// No TLS, or no certificate of ours.
    #[error("the TLS handshake failed")]
    Tls(#[source] std::io::Error),
    /// A certificate of ours that names no agent.
    #[error("the peer's certificate was refused")]
    Identity(#[from] IdentityError),
    /// An agent that is not registered, or not any more.
    #[error("agent {agent} is {standing}")]
    Stranger {
        agent: willcall_protocol::ids::AgentId,
        standing: &'static str,
    },
    /// No websocket.
    #[error("the websocket upgrade failed")]
    Upgrade(#[source] Box<tungstenite::Error>),
    /// No session.
    #[error("agent {agent} opened no session")]
    Session {
        agent: willcall_protocol::ids::AgentId,
        #[source]
        why: Closing,
    },
    /// Our own fault.
    #[error("the agent could not be looked up")]
    Db(#[from] DbError),
}

impl Refusal {
    /// Who is to blame.
    pub(super) fn blame(&self) -> &'static str {
        match self {
            Self::Db(_) => "gateway",
            Self::Session { why, .. } => why.blame(),
            _ => "peer",
        }
    }
}

/// Why a websocket is closed.
#[derive(Debug, Error)]
pub enum Closing {
    /// The peer closed it, or the connection broke.
    #[error("the peer closed the connection")]
    Gone,
    /// The transport failed.
    #[error("the connection failed")]
    Transport(#[source] Box<tungstenite::Error>),
    /// Text, where only binary messages are spoken.
    #[error("the peer sent a text message; only binary ones are spoken")]
    Text,
    /// A message longer than allowed.
    #[error("the peer sent a message longer than allowed")]
    TooLong,
    /// A message that cannot be read.
    #[error("the peer sent a message that cannot be read")]
    Malformed(#[from] FrameError),
    /// A message for the link, which hosts do not send.
    #[error("the peer sent a message for the link; hosts send none")]
    ForLink,
    /// A message that makes no sense where it came.
    #[error("the session cannot go on")]
    Session(#[from] SessionError),
    /// A report that is no end.
    #[error("the peer reported a run as finished that is not over, or an impossible number")]
    NotFinal,
    /// No hello in time.
    #[error("the peer sent no hello in time")]
    NoHello,
    /// A newer connection of the same agent has taken its place.
    #[error("a newer connection of this agent has taken this one's place")]
    Fenced,
    /// The agent has a live connection with another ledger.
    #[error(
        "another live connection has this identity with another ledger: one of them is a clone"
    )]
    Cloned,
    /// The gateway ends.
    #[error("the gateway is being stopped")]
    Drain,
    /// The database failed: nothing can be acknowledged any more.
    #[error("the gateway's database failed")]
    Db(#[from] DbError),
}

impl Closing {
    /// Who is to blame: `peer`, `gateway` or nobody.
    pub fn blame(&self) -> &'static str {
        match self {
            Self::Gone | Self::Transport(_) | Self::Fenced | Self::Drain => "nobody",
            Self::Db(_) => "gateway",
            _ => "peer",
        }
    }

    /// What the peer is told: a code and the reason, but nothing of our insides. None where nobody listens.
    pub(super) fn frame(&self) -> Option<CloseFrame> {
        let code = match self {
            Self::Gone | Self::Transport(_) => return None,
            Self::Text => CloseCode::Unsupported,
            Self::TooLong => CloseCode::Size,
            Self::Malformed(_) => CloseCode::Invalid,
            Self::ForLink | Self::Session(_) | Self::NotFinal => CloseCode::Protocol,
            Self::NoHello => CloseCode::Library(4408),
            Self::Fenced => CloseCode::Library(4409),
            Self::Cloned => CloseCode::Library(4410),
            Self::Drain => CloseCode::Away,
            Self::Db(_) => CloseCode::Error,
        };
        let reason = match self {
            Self::Session(why) => why.to_string(),
            Self::Malformed(why) => why.to_string(),
            other => other.to_string(),
        };
        // A control frame carries at most 125 bytes; the code takes two.
        let reason: String = reason.chars().take(120).filter(char::is_ascii).collect();
        Some(CloseFrame {
            code,
            reason: reason.into(),
        })
    }
}

impl From<tungstenite::Error> for Closing {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => Self::Gone,
            tungstenite::Error::Capacity(CapacityError::MessageTooLong { .. }) => Self::TooLong,
            other => Self::Transport(Box::new(other)),
        }
    }
}
