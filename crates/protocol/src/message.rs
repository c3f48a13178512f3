//! What is said. Unknown fields are ignored; unknown types become `Unknown`, are counted and ignored.

use crate::ids::{OutputId, RunId, SessionId, TurnId};
use crate::outcome::{Cause, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use uuid::Uuid;

/// Executor → gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ToGateway {
    /// Who is there and what it knows; first on every session.
    Hello(Hello),
    /// The run is claimed; it will be executed at most once. Also the answer to a duplicate that is not over yet.
    Accepted {
        /// The run.
        run: RunId,
        /// The timeout that applies, in milliseconds.
        timeout_ms: Option<u64>,
    },
    /// The dispatch was refused, and nothing was executed for it.
    Refused(Refusal),
    /// A run is over. Sent until acknowledged, and again for a duplicate dispatch.
    Finished {
        /// Position in the host's outbox: rising by the time of the end.
        seq: u64,
        /// What it came to.
        report: Box<Report>,
    },
    /// The answer to a read.
    Page {
        /// The read's call number.
        call: u64,
        /// The page.
        page: PageReport,
    },
    /// A read that was refused.
    ReadFailed {
        /// The read's call number.
        call: u64,
        /// Why, by name.
        reason: ReadFailure,
        /// Why, for a person.
        message: String,
    },
    /// The answer to a ping.
    Pong {
        /// The ping's number.
        nonce: u64,
    },
    /// A type that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Gateway → executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ToAgent {
    /// The answer to a hello: from now on the session is open.
    Welcome {
        /// The version that both speak.
        version: u32,
        /// The gateway has committed every result of this ledger up to this number.
        resume_from: u64,
    },
    /// Run a command, at most once.
    Dispatch(Box<Dispatch>),
    /// The gateway has committed every result up to this number.
    Ack {
        /// The number.
        seq: u64,
    },
    /// End a run; before its dispatch: never start it.
    Cancel {
        /// The run.
        run: RunId,
    },
    /// Read a page.
    Read(Read),
    /// Say that you are there.
    Ping {
        /// Comes back in the pong.
        nonce: u64,
    },
    /// A type that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Gateway → link: the few things that concern the connection itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ToLink {
    /// The session is open; the gateway's clock, in milliseconds since 1970.
    Clock {
        /// The gateway's time.
        server_time_ms: u64,
    },
    /// The gateway will close this connection; come back after that long.
    Drain {
        /// Milliseconds; the link adds jitter of its own.
        reconnect_after_ms: u64,
    },
    /// A type that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Who is there and what it knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The oldest version of the session protocol that the executor speaks.
    pub min_version: u32,
    /// The newest.
    pub max_version: u32,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Counts the executor's starts on this ledger.
    pub incarnation: u64,
    /// The ledger. Result numbers mean something only within one ledger.
    pub ledger: Uuid,
    /// The program's version.
    pub agent_version: String,
    /// What this host can and cannot do.
    pub capabilities: Capabilities,
    /// Runs that are claimed and not over.
    pub running: Vec<RunId>,
}

/// What this host can and cannot do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// The user that commands run as.
    pub run_as: String,
    /// Where outputs are kept.
    pub outputs: String,
    /// The ceiling of `max_bytes`.
    pub max_bytes_ceiling: u32,
}

/// One run, as it is asked for. The body is compared byte for byte with that of a duplicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The run; chosen by the caller's side, executed at most once.
    pub run: RunId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// Who asked, as the gateway knows it.
    pub principal: String,
    /// Program and arguments; no shell unless one is named here.
    pub argv: Vec<String>,
    /// The working directory; the workspace where null.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Added to the host's clean environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Milliseconds; the host's default where null.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Limits of each stream's preview.
    #[serde(default)]
    pub limits: LimitsAsked,
    /// Which end of a stream is shown: `head_tail`, `head`, `tail`.
    #[serde(default)]
    pub strategy: StrategyAsked,
    /// How a stream is shown: `auto`, `raw`. Left out where it is the default, as in bodies from before there were views.
    #[serde(default, skip_serializing_if = "is_default")]
    pub view: ViewAsked,
    /// Why the caller runs it, for the host's audit.
    #[serde(default)]
    pub reason: Option<String>,
    /// Milliseconds since 1970 by the gateway's clock, after which it must not be started.
    #[serde(default)]
    pub not_after_ms: Option<u64>,
    /// The turn that it is part of; none, and no budget, where it is not there. Left out then: a ledger
    /// compares bodies with those that were written before there were turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
}

/// The calls that a model issues together: their texts share one budget on each host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Which turn of the session.
    pub id: TurnId,
    /// How many calls it has in all, for this host; null if the caller does not know.
    #[serde(default)]
    pub calls: Option<NonZeroU32>,
}

/// Limits as a caller asks for them; null means the host's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsAsked {
    /// Bytes of text.
    pub max_bytes: Option<u64>,
    /// Lines of text.
    pub max_lines: Option<u64>,
}

/// Which end of a stream a preview shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyAsked {
    /// Beginning and end.
    #[default]
    HeadTail,
    /// The beginning.
    Head,
    /// The end.
    Tail,
}

/// How a stream is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewAsked {
    /// As a person would have seen it: without escape sequences, progress bars as they ended.
    #[default]
    Auto,
    /// As its bytes are.
    Raw,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A dispatch that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The run.
    pub run: RunId,
    /// Why, by name.
    pub cause: Cause,
    /// Why, for a person.
    pub message: String,
}

/// A read of one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// Comes back with the answer; chosen by the gateway, unique on its session.
    pub call: u64,
    /// The session that asks; it reads only its own.
    pub session: SessionId,
    /// What to read.
    pub target: ReadTarget,
    /// Raw bytes from the beginning; 0 where `line` says where to begin.
    #[serde(default)]
    pub offset: u64,
    /// Bytes that the page may have; null for the page's cap.
    #[serde(default)]
    pub limit: Option<u64>,
    /// The line to begin at: from 1, or from -1 for the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<i64>,
    /// Lines that the page may have; null for the page's cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// How the content travels.
    #[serde(default)]
    pub encoding: Encoding,
    /// Whether the file is to be compared with its digest first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
    /// The turn that it is part of; none, and no budget, where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
}

/// What a read names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadTarget {
    /// A held output, by id.
    Output(OutputId),
    /// A held output, by the absolute path that its receipt gave.
    Path(String),
}

/// How a page's content travels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// As text.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// As base64 of the exact bytes.
    #[serde(rename = "base64")]
    Base64,
}

/// One page: the JSON that callers see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageReport {
    /// Text, or base64.
    pub content: String,
    /// How `content` is encoded.
    pub encoding: Encoding,
    /// Where `content` begins, in raw bytes.
    pub offset: u64,
    /// Where the next page begins; null at the end of a finished output.
    pub next: Option<u64>,
    /// Whether there is more after this page.
    pub truncated: bool,
    /// Raw bytes of the whole output.
    pub total: u64,
    /// Whether something in `content` stands for bytes that are not text.
    pub lossy: bool,
    /// The line (from 1) that `content` begins in; null where the host does not know, and where there is no content.
    #[serde(default)]
    pub line: Option<u64>,
    /// `blake3:` and hex of the file; null where none was made yet.
    #[serde(default)]
    pub digest: Option<String>,
    /// Whether the file was compared with a digest that was known before.
    #[serde(default)]
    pub verified: bool,
}

/// Why a read was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadFailure {
    /// No such output.
    NotFound,
    /// The output was held, and its time or its room is over.
    Expired,
    /// The output belongs to another session.
    AccessDenied,
    /// The path names something that is not a held output.
    NotAnOutput,
    /// The file is not what its record says.
    Damaged,
    /// The output is still being written, so that there is no digest to verify it by.
    Unfinished,
    /// The host may not read the file.
    Permission,
    /// A limit of 0, a line 0, or two places to begin at.
    InvalidLimit,
    /// The host could not read; the message says why.
    IoError,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}
