//! One process for one directory: a lock that goes with its process, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The longest process id, and some more.
const MAX_PID_TEXT: u64 = 32;

/// Why a directory cannot be had for oneself.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{} is in use by {}; two on one directory would undo each other's work", directory.display(), holder(*pid))]
    Held {
        /// The directory.
        directory: PathBuf,
        /// Who has it, if that can be read.
        pid: Option<u32>,
    },
    /// The lock's file cannot be used.
    #[error("{} cannot be locked", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A directory that this process has for itself, for as long as the value lives. Its file stays, and says nothing then.
#[derive(Debug)]
pub struct DirectoryLock {
    /// The lock is the open file's.
    _file: File,
}

impl DirectoryLock {
    /// Takes the directory by a lock on the file `name` in it, without waiting.
    pub fn take(directory: &Path, name: &str) -> Result<Self, LockError> {
        let path = directory.join(name);
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    directory: directory.to_owned(),
                    pid: written(&file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// Who wrote its process id into the file.
fn written(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_PID_TEXT).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_had_once_and_again_after_its_holder() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = DirectoryLock::take(dir.path(), "lock").expect("free");
        let second = DirectoryLock::take(dir.path(), "lock").expect_err("held");
        let said = second.to_string();
        let (path, pid) = (dir.path().display(), std::process::id());
        assert!(
            said.contains(&format!("{path} is in use by process {pid};")),
            "{said}"
        );
        drop(held);
        DirectoryLock::take(dir.path(), "lock").expect("free again");
    }
}
