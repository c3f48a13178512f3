//! The `.outputs` directory. All access goes through directory descriptors and follows no link.

use crate::capture::Loss;
use crate::page::{Encoding, Page};
use crate::record::{Record, Stream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use thiserror::Error;
use uuid::Uuid;

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
        why: String,
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
    pub fn read(&self, key: &OutputKey, offset: u64, limit: u64, encoding: Encoding) -> Result<Page, ReadError> {
        let _ = (key, offset, limit, encoding);
        todo!()
    }

    /// The output that an absolute path names, if it is one of `session`'s in this store.
    pub fn resolve(&self, session: &str, path: &Path) -> Result<OutputKey, ReadError> {
        let _ = (session, path);
        todo!()
    }
}

/// The file of one stream while it is written. Used by runners, which hold no store, only the
/// descriptor of the session's directory.
#[derive(Debug)]
pub struct OutputFile {
    file: std::fs::File,
}

impl OutputFile {
    /// Creates `<run>.<stream>.txt` in `dir`: O_EXCL, O_NOFOLLOW, 0640, owned like the directory, locked (flock).
    pub fn create(dir: BorrowedFd<'_>, run: Uuid, stream: Stream) -> Result<Self, Loss> {
        let _ = (dir, run, stream);
        todo!()
    }

    /// Appends once; returns how much was taken (more than 0), or why nothing was.
    pub fn append(&mut self, slices: [&[u8]; 2]) -> Result<usize, Loss> {
        let _ = slices;
        let _ = &self.file;
        todo!()
    }

    /// Makes the digest of the file by reading it back; `None` above [`crate::limits::DIGEST_AT_SEAL`] bytes.
    pub fn seal(self) -> Result<Option<String>, Loss> {
        todo!()
    }
}
