//! The files of the state directory, and how private ones are written.

use crate::lock::{DirectoryLock, LockError};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file of the state directory that could not be read or made.
#[derive(Debug, Error)]
#[error("cannot {action} {}", path.display())]
pub struct StateError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The directory at `path`; nothing is touched yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Makes the directory, for its owner alone, unless it is there.
    pub fn create(&self) -> Result<(), StateError> {
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0);
        made.map_err(failed("create", &self.0))
    }

    /// Takes the directory for the one gateway that serves it.
    pub fn lock(&self) -> Result<DirectoryLock, LockError> {
        DirectoryLock::take(&self.0, "gateway.lock")
    }

    /// The CA's certificate.
    pub fn ca_certificate(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    /// The CA's key.
    pub fn ca_key(&self) -> PathBuf {
        self.0.join("ca.key")
    }

    /// The server's key and certificate.
    pub fn server(&self) -> PathBuf {
        self.0.join("server.pem")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.0.join("gateway.db")
    }

    /// The first API token, in the clear; the database has only its hash.
    pub fn token(&self) -> PathBuf {
        self.0.join("api.token")
    }
}

/// Reads a whole text file.
pub fn read(path: &Path) -> Result<String, StateError> {
    std::fs::read_to_string(path).map_err(failed("read", path))
}

/// Whether there is something at `path`.
pub fn exists(path: &Path) -> Result<bool, StateError> {
    path.try_exists().map_err(failed("look for", path))
}

/// Writes a new file that only its owner may read, whole or not at all; never replaces one.
pub fn write_private(path: &Path, text: &str) -> Result<(), StateError> {
    write_new(path, text, 0o600)
}

/// Writes a new file that anybody may read, whole or not at all; never replaces one.
pub fn write_public(path: &Path, text: &str) -> Result<(), StateError> {
    write_new(path, text, 0o644)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), StateError> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let written = write_synced(&temporary, text, mode).and_then(|()| {
        // A link, unlike a rename, fails where the file exists.
        std::fs::hard_link(&temporary, path)
    });
    let removed = std::fs::remove_file(&temporary);
    written
        .and(removed)
        .and_then(|()| sync_parent(path))
        .map_err(failed("write", path))
}

fn write_synced(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_private_file_is_private_and_never_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path().join("a/b"));
        state.create().expect("created");
        let key = state.ca_key();
        write_private(&key, "first").expect("written");
        assert!(write_private(&key, "second").is_err());
        assert_eq!(read(&key).expect("read"), "first");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&key) & 0o777, 0o600);
        assert_eq!(mode(key.parent().expect("a parent")) & 0o777, 0o700);
        let names = std::fs::read_dir(key.parent().expect("a parent"))
            .expect("read")
            .count();
        assert_eq!(names, 1, "nothing temporary is left");
    }
}
