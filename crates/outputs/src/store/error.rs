//! Every way in which the store can refuse, each by its name.

use super::dir::{DirError, Distrust};
use crate::limits::{LimitError, MAX_SESSION_NAME};
use crate::record::RecordError;
use nix::errno::Errno;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use uuid::Uuid;

/// A name that no session has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no session name: it takes 1 to {MAX_SESSION_NAME} of A-Z a-z 0-9 _ -")]
pub struct SessionError(pub String);

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
    /// The record of a parcel cannot be written as JSON.
    #[error("cannot write the record of {path}")]
    ParcelRecord {
        /// The parcel.
        path: PathBuf,
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
        source: io::Error,
    },
}

impl StoreError {
    /// Names what was tried on `path`.
    pub(super) fn io<E: Into<io::Error>>(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            what,
            path,
            source: source.into(),
        }
    }

    /// Names the directory that could not be used.
    pub(super) fn dir(path: &Path) -> impl FnOnce(DirError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            DirError::Unsafe(why) => Self::Unsafe { path, why },
            DirError::Io(errno) => Self::Io {
                what: "open the directory",
                path,
                source: errno.into(),
            },
        }
    }
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
    /// The file's bytes are not those that its record was made of.
    #[error(
        "output {output} is damaged: its record says {recorded}, its file has the digest {found}"
    )]
    Altered {
        /// The output.
        output: String,
        /// The digest by the record.
        recorded: String,
        /// The digest of the file.
        found: String,
    },
    /// There is nothing yet to verify it by.
    #[error("output {0} is still being written: it has no digest yet to verify it by")]
    Unfinished(String),
    /// The record says that there is a file, and there is none.
    #[error("the file of output {0} is gone; its record is still there")]
    Missing(String),
    /// The record cannot be used.
    #[error("the record of output {output} cannot be used")]
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
    Limit(#[from] LimitError),
    /// The file system refused.
    #[error("cannot read output {output}")]
    Io {
        /// The output.
        output: String,
        /// Why not.
        source: io::Error,
    },
}

impl ReadError {
    /// Names the output that could not be read.
    pub(super) fn io<E: Into<io::Error>>(output: &str) -> impl FnOnce(E) -> Self {
        let output = output.to_owned();
        move |source| Self::Io {
            output,
            source: source.into(),
        }
    }

    /// A name that leads to no regular file, or to none at all that we may read.
    pub(super) fn open(output: &str) -> impl FnOnce(Errno) -> Self {
        let output = output.to_owned();
        move |errno| match errno {
            Errno::ELOOP | Errno::ENXIO => Self::NotAnOutput(output),
            errno => Self::Io {
                output,
                source: errno.into(),
            },
        }
    }
}
