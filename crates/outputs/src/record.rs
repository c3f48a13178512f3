//! What is remembered of a run's outputs beside them, as JSON.

use crate::receipt::Receipt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;
use uuid::Uuid;

/// The version that this crate writes, and the only one that it reads.
pub const RECORD_VERSION: u32 = 1;
/// Longest record that is read: three streams take well below 4 KiB.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Why a record could not be used.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A later version of this program wrote it.
    #[error("the record has version {found}; this program reads version {RECORD_VERSION}")]
    Version {
        /// The version that it says.
        found: u64,
    },
    /// It is not a record.
    #[error("the record is malformed")]
    Malformed(#[from] serde_json::Error),
    /// It is longer than any record.
    #[error("the record is longer than {MAX_RECORD_BYTES} bytes")]
    TooLong,
    /// It stands at the place of another run's record.
    #[error("the record is that of run {run} in session {session}")]
    Misplaced {
        /// The run that it says.
        run: Uuid,
        /// The session that it says.
        session: String,
    },
    /// It stands at the place of another parcel's record.
    #[error("the record is that of parcel {0}")]
    OtherParcel(String),
}

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

impl Record {
    /// The bytes of `<run>.json`: indented, since people read it, too.
    pub fn to_json(&self) -> Result<Vec<u8>, RecordError> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        Ok(json)
    }

    /// Reads what [`Record::to_json`] wrote. The version is judged before anything else, so that
    /// a later one is refused by its name and not by its first unknown field.
    pub fn from_json(json: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        if json.len() > MAX_RECORD_BYTES {
            return Err(RecordError::TooLong);
        }
        let Versioned { version } = serde_json::from_slice(json)?;
        if version != u64::from(RECORD_VERSION) {
            return Err(RecordError::Version { found: version });
        }
        Ok(serde_json::from_slice(json)?)
    }

    /// The name of a run's record.
    pub fn file_name(run: Uuid) -> String {
        format!("{run}.json")
    }
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

    /// The stream of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Stdout, Self::Stderr, Self::Tty]
            .into_iter()
            .find(|s| s.as_str() == name)
    }

    /// The name of a run's file for this stream.
    pub fn file_name(self, run: Uuid) -> String {
        format!("{run}.{}.txt", self.as_str())
    }

    /// The name of that file's line index.
    pub fn index_file_name(self, run: Uuid) -> String {
        format!("{run}.{}.idx", self.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let stored = StoredStream {
            stored: 7,
            total_size: 9,
            total_lines: 2,
            digest: None,
            complete: false,
            dropped_bytes: 2,
            mime: "text/plain; charset=utf-8".into(),
        };
        Record {
            version: RECORD_VERSION,
            run: Uuid::from_u128(1),
            session: "default".into(),
            state: "exited".into(),
            created_ms: 1,
            finished_ms: 2,
            streams: BTreeMap::from([(Stream::Stdout, stored)]),
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let json = record().to_json().expect("a record is JSON");
        assert_eq!(Record::from_json(&json).expect("just written"), record());
    }

    #[test]
    fn a_later_version_is_refused_by_name() {
        let refused = Record::from_json(br#"{"version": 2, "streams": "told otherwise"}"#);
        assert!(matches!(refused, Err(RecordError::Version { found: 2 })));
    }

    #[test]
    fn what_is_no_record_is_malformed() {
        for json in [&b""[..], b"{}", br#"{"version": 1}"#, b"[1]"] {
            assert!(matches!(
                Record::from_json(json),
                Err(RecordError::Malformed(_))
            ));
        }
        let long = vec![b' '; MAX_RECORD_BYTES + 1];
        assert!(matches!(
            Record::from_json(&long),
            Err(RecordError::TooLong)
        ));
    }

    #[test]
    fn streams_are_parsed_by_their_names() {
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Tty] {
            assert_eq!(Stream::parse(stream.as_str()), Some(stream));
        }
        assert_eq!(Stream::parse("STDOUT"), None);
    }
}
