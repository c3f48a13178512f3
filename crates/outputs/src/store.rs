//! The `.outputs` directory. All access goes through directory descriptors and follows no link.

use crate::limits::MAX_SESSION_NAME;
use crate::page::{Encoding, Page};
use crate::record::{Record, RecordError, Stream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use thiserror::Error;
use uuid::Uuid;

mod dir;
mod output_file;

pub use dir::Distrust;
pub use output_file::OutputFile;

/// One run's stream in one session: what a read names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputKey {
    /// The session that owns the run.
    pub session: String,
    /// The run.
    pub run: Uuid,
    /// The stream.
    pub stream: Stream,
}

/// A name that no session has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no session name: 1 to 64 of A-Z a-z 0-9 _ - are")]
pub struct SessionError(pub String);

/// Whether a session may have this name: `[A-Za-z0-9_-]{1,64}`. It is a directory's name, too.
pub fn check_session(name: &str) -> Result<(), SessionError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if (1..=MAX_SESSION_NAME).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(SessionError(name.chars().take(MAX_SESSION_NAME).collect()))
}

/// Why the store could not be opened or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process holds the lock of this store.
    #[error("{0} is in use by another executor")]
    InUse(PathBuf),
    /// The directory is not one that we may trust (a link, a foreign owner, writable by others).
    #[error("{path} is not safe to keep outputs in: {why}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: Distrust,
    },
    /// No session has such a name.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The record cannot be written as JSON.
    #[error("cannot write the record of run {run}")]
    Record {
        /// The run.
        run: Uuid,
        /// Why not.
        source: RecordError,
    },
    /// The file system refused.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Why a read was refused. Each names its true cause: EACCES is not "deleted".
#[derive(Debug, Error)]
pub enum ReadError {
    /// No such output in this store.
    #[error("there is no output {0}")]
    NotFound(String),
    /// The output belongs to another session.
    #[error("output {0} belongs to another session")]
    AccessDenied(String),
    /// The path is not one of this store's outputs.
    #[error("{0} is not a held output")]
    NotAnOutput(String),
    /// The file's size is not what its record says.
    #[error("output {output} is damaged: its record says {recorded} bytes, its file has {found}")]
    Damaged {
        /// The output.
        output: String,
        /// Bytes by the record.
        recorded: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The record says that there is a file, and there is none.
    #[error("the file of output {0} is gone; its record is still there")]
    Missing(String),
    /// The record cannot be used.
    #[error("the record of output {output} is damaged")]
    Record {
        /// The output.
        output: String,
        /// What is wrong with it.
        source: RecordError,
    },
    /// No session has such a name.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A limit of 0.
    #[error(transparent)]
    Limit(#[from] crate::limits::LimitError),
    /// The file system refused.
    #[error("cannot read output {output}")]
    Io {
        /// The output.
        output: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// An open store. Holds the lock of its directory for as long as it lives.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens (creating what is missing) `<workspace>/.outputs` and takes its lock.
    pub fn open(workspace: &Path) -> Result<Self, StoreError> {
        let _ = workspace;
        todo!()
    }

    /// The directory's absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The session's directory, created if missing, for a runner to create its files in.
    pub fn session_dir(&self, session: &str) -> Result<OwnedFd, StoreError> {
        let _ = session;
        todo!()
    }

    /// Where a stream's file is, or would be.
    pub fn path_of(&self, key: &OutputKey) -> PathBuf {
        let _ = key;
        todo!()
    }

    /// Writes the record, last and whole: temporary file, fsync, rename, fsync of the directory.
    /// Writing the same record twice is no error.
    pub fn write_record(&self, record: &Record) -> Result<(), StoreError> {
        let _ = record;
        todo!()
    }

    /// One page of an output. `limit` is clamped to the page's caps; 0 is refused.
    /// An output that has no record yet is read as running: `next` at its present end is that offset.
    pub fn read(
        &self,
        key: &OutputKey,
        offset: u64,
        limit: u64,
        encoding: Encoding,
    ) -> Result<Page, ReadError> {
        let _ = (key, offset, limit, encoding);
        todo!()
    }

    /// The output that an absolute path names, if it is one of `session`'s in this store.
    pub fn resolve(&self, session: &str, path: &Path) -> Result<OutputKey, ReadError> {
        let _ = (session, path);
        todo!()
    }
}
