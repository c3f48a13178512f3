//! Where a local system keeps its state.
//!
//! ```text
//! DIR/gateway    CA, certificates, token, database
//! DIR/agent      the host's identity
//! DIR/host       ledger and spool
//! DIR/workspace  where commands start; .outputs
//! DIR/dev.lock   held by the one system that runs here
//! DIR/run        sockets; elsewhere if DIR is too long for a socket's path
//! ```

use crate::problem::Failure;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use willcall_gateway::lock::DirectoryLock;

/// Everything is for its owner alone.
const PRIVATE: u32 = 0o700;
/// With the names of sockets behind it, this fits a socket's path with room to spare.
const LONGEST_RUN: usize = 80;
/// Where there is always room.
const SHORT: &str = "/tmp";

/// Where a local system keeps its state.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    run: PathBuf,
    /// The directory that goes with this value, if there is one.
    scratch: Option<TempDir>,
    /// Two systems on one directory would serve one database and one ledger twice.
    _lock: Option<DirectoryLock>,
}

impl Directory {
    /// A fresh one that goes with the value, unless it is to be kept.
    pub fn scratch(keep: bool) -> Result<Self, Failure> {
        let temporary = std::env::temp_dir();
        let parent = if fits(&temporary.join("willcall-XXXXXX/run")) {
            &temporary
        } else {
            Path::new(SHORT)
        };
        let dir = scratch_in(parent)?;
        let path = dir.path().to_owned();
        let run = path.join("run");
        // Closing a temporary directory removes it even where its clean-up is off.
        let scratch = if keep {
            drop(dir.keep());
            None
        } else {
            Some(dir)
        };
        // Nobody else knows of it.
        Ok(Self {
            path,
            run,
            scratch,
            _lock: None,
        })
    }

    /// One that stays. Refused while another system runs in it.
    pub fn lasting(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path).map_err(|source| failed(path, source))?;
        let made = DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE)
            .create(&path);
        made.map_err(|source| failed(&path, source))?;
        let lock = DirectoryLock::take(&path, "dev.lock").map_err(Failure::Locked)?;
        let (mut run, mut scratch) = (path.join("run"), None);
        if !fits(&run) {
            let dir = scratch_in(Path::new(SHORT))?;
            run = dir.path().join("run");
            scratch = Some(dir);
        }
        Ok(Self {
            path,
            run,
            scratch,
            _lock: Some(lock),
        })
    }

    /// Removes what does not stay.
    pub fn end(self) -> Result<(), Failure> {
        let Some(dir) = self.scratch else {
            return Ok(());
        };
        let path = dir.path().to_owned();
        dir.close().map_err(|source| Failure::Local {
            what: format!("{} could not be removed", path.display()),
            source,
        })
    }

    /// All of it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the processes said.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// The API's token.
    pub fn token(&self) -> PathBuf {
        self.gateway().join("api.token")
    }

    pub(super) fn gateway(&self) -> PathBuf {
        self.path.join("gateway")
    }

    pub(super) fn agent(&self) -> PathBuf {
        self.path.join("agent")
    }

    pub(super) fn identity(&self) -> PathBuf {
        self.agent().join("agent.pem")
    }

    pub(super) fn ca(&self) -> PathBuf {
        self.agent().join("ca.pem")
    }

    pub(super) fn host(&self) -> PathBuf {
        self.path.join("host")
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    pub(super) fn run(&self) -> PathBuf {
        self.run.clone()
    }
}

fn fits(run: &Path) -> bool {
    run.as_os_str().as_bytes().len() <= LONGEST_RUN
}

fn scratch_in(parent: &Path) -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new()
        .prefix("willcall-")
        .permissions(Permissions::from_mode(PRIVATE))
        .tempdir_in(parent);
    made.map_err(|source| failed(parent, source))
}

fn failed(path: &Path, source: io::Error) -> Failure {
    Failure::Local {
        what: format!(
            "a directory for the state cannot be made in {}",
            path.display()
        ),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_is_private_and_goes() {
        let directory = Directory::scratch(false).unwrap();
        let path = directory.path().to_owned();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, PRIVATE);
        std::fs::write(path.join("file"), "x").unwrap();
        directory.end().unwrap();
        assert!(!path.exists());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what this test made itself")]
    fn a_kept_directory_stays() {
        let directory = Directory::scratch(true).unwrap();
        let path = directory.path().to_owned();
        directory.end().unwrap();
        assert!(path.is_dir());
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_long_path_gets_its_sockets_elsewhere() {
        let parent = tempfile::tempdir().unwrap();
        let long = parent.path().join("d".repeat(100));
        let directory = Directory::lasting(&long).unwrap();
        let run = directory.run();
        assert!(fits(&run) && !run.starts_with(&long));
        directory.end().unwrap();
        assert!(long.exists() && !run.parent().unwrap().exists());
    }
}
