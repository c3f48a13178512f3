//! Why the ledger could not do what it was asked.

use std::path::PathBuf;
use thiserror::Error;

/// Why the ledger could not do what it was asked.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// It cannot be opened or created.
    #[error("cannot open the ledger {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// A newer version of this program has written it.
    #[error(
        "the ledger {path} is of version {found}; this program knows versions up to {known}: \
         install the newer program again"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// It could not be read or written.
    #[error("cannot {what} the ledger")]
    Sql {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: rusqlite::Error,
    },
    /// The transaction with this request in it failed.
    #[error("{0}")]
    Batch(String),
    /// What it holds is not what was written.
    #[error("the ledger's entry of run {run} cannot be read")]
    Entry {
        /// The run.
        run: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It has more to do than it may hold.
    #[error("the ledger is behind: too many requests wait for the disk")]
    Behind,
    /// It was never opened, or its thread has ended.
    #[error("the ledger is closed: {0}")]
    Closed(String),
}
