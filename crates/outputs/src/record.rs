//! What is remembered of a run's outputs beside them, as JSON.

use crate::receipt::Receipt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The version that this crate writes.
pub const RECORD_VERSION: u32 = 1;

/// `<run>.json`, written last: an output without a record was never finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_VERSION`] of the writer.
    pub version: u32,
    /// The run.
    pub run: Uuid,
    /// The session that owns it.
    pub session: String,
    /// How the run ended.
    pub state: String,
    /// Milliseconds since 1970, by the host's clock.
    pub created_ms: u64,
    /// Milliseconds since 1970, by the host's clock.
    pub finished_ms: u64,
    /// What each stored stream holds.
    pub streams: BTreeMap<Stream, StoredStream>,
}

/// One stored stream of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredStream {
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes that the command wrote.
    pub total_size: u64,
    /// Lines that the command wrote.
    pub total_lines: u64,
    /// `blake3:` and hex of the file, where it was made.
    pub digest: Option<String>,
    /// Whether the file holds all of the stream.
    pub complete: bool,
    /// Bytes that are not in the file.
    pub dropped_bytes: u64,
    /// The detected type.
    pub mime: String,
}

/// A stream of a run; the name is part of file names and ids.
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

impl Stream {
    /// The name in file names and ids.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Tty => "tty",
        }
    }
}

impl StoredStream {
    /// What a record keeps of a receipt whose stream has a file; `None` where it has none.
    pub fn of(receipt: &Receipt, stored: u64, mime: &str) -> Self {
        Self {
            stored,
            total_size: receipt.total_size,
            total_lines: receipt.total_lines,
            digest: receipt.digest.clone(),
            complete: receipt.complete,
            dropped_bytes: receipt.dropped_bytes,
            mime: mime.into(),
        }
    }
}
