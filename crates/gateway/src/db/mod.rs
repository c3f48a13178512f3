//! What the gateway knows for good: SQLite on one thread of its own, with group commits.
//!
//! Requests queue up, in order; those that wait together share one transaction, and so one sync. A request that fails
//! undoes itself alone. Whatever follows from a request runs only once its transaction is committed. Because there is one
//! queue, a request sees everything that was queued before it.

pub mod hosts;
mod queue;
pub mod runs;
mod schema;
pub mod tokens;

pub use queue::{Access, Db, DbThread};
pub use schema::open;

use std::sync::Arc;
use thiserror::Error;

/// Something that the database could not do.
#[derive(Debug, Clone, Error)]
pub enum DbError {
    /// SQLite refused.
    #[error("the gateway's database refused")]
    Sqlite(#[source] Arc<rusqlite::Error>),
    /// A newer gateway made it.
    #[error(
        "the gateway's database has version {found}; this program knows versions up to {known}"
    )]
    TooNew {
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// Its thread is gone.
    #[error("the gateway's database is closed")]
    Closed,
    /// The thread could not be started.
    #[error("the thread of the gateway's database cannot be started")]
    Thread(#[source] Arc<std::io::Error>),
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

/// A UUID as the database has it.
fn blob(id: uuid::Uuid) -> Vec<u8> {
    id.as_bytes().to_vec()
}

/// A column that holds a UUID.
fn uuid_at(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<uuid::Uuid> {
    let bytes: Vec<u8> = row.get(column)?;
    uuid::Uuid::from_slice(&bytes).map_err(|e| unreadable(column, e))
}

/// A column that holds JSON, or nothing.
fn json_at<T: serde::de::DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|e| unreadable(column, e)))
        .transpose()
}

/// What is written as JSON.
fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn unreadable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Null, error.into())
}
