//! The directories of a host.

use crate::limits::MAX_SOCKET_PATH;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Only ours: keys, ledger and sockets.
const PRIVATE: u32 = 0o700;
/// Commands start here, whoever they run as: they may enter it, and not see what else is in it.
const SHARED: u32 = 0o711;
/// The longest name of a socket in the run directory.
const LONGEST_SOCKET: &str = "spawner.sock";

/// Where everything of a host is. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Ledger and spool.
    pub state: PathBuf,
    /// Sockets.
    pub run: PathBuf,
    /// Where commands start, and where `.outputs` is.
    pub workspace: PathBuf,
}

/// Directories that cannot be used.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// A path that cannot be made absolute.
    #[error("{} is not a usable path", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Sockets in it would have names that the kernel does not take.
    #[error(
        "the run directory's path is too long: {} has {length} bytes and a socket's path at most {MAX_SOCKET_PATH}; \
         give a shorter --run-dir",
        socket.display()
    )]
    SocketPathTooLong {
        /// The longest one.
        socket: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// A directory that is not there and cannot be made, or not be made ours.
    #[error("the directory {} cannot be made, or not be kept to ourselves", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Layout {
    /// Decides where everything is; makes nothing.
    pub fn new(
        state: &Path,
        run: Option<&Path>,
        workspace: Option<&Path>,
    ) -> Result<Self, LayoutError> {
        let state = absolute(state)?;
        let or =
            |given: Option<&Path>, name: &str| given.map_or_else(|| Ok(state.join(name)), absolute);
        let (run, workspace) = (or(run, "run")?, or(workspace, "workspace")?);
        let socket = run.join(LONGEST_SOCKET);
        let length = socket.as_os_str().as_bytes().len();
        if length > MAX_SOCKET_PATH {
            return Err(LayoutError::SocketPathTooLong { socket, length });
        }
        Ok(Self {
            state,
            run,
            workspace,
        })
    }

    /// Makes what is not there, and closes the private directories to everybody else.
    pub fn make(&self) -> Result<(), LayoutError> {
        make(&self.state, PRIVATE)?;
        make(&self.run, PRIVATE)?;
        for directory in [&self.state, &self.run] {
            let closed = fs::set_permissions(directory, Permissions::from_mode(PRIVATE));
            closed.map_err(|source| failed(directory, source))?;
        }
        let new = !self.workspace.exists();
        make(&self.workspace, SHARED)?;
        if new {
            // Whatever the umask took away. One that was there is somebody's choice.
            let opened = fs::set_permissions(&self.workspace, Permissions::from_mode(SHARED));
            opened.map_err(|source| failed(&self.workspace, source))?;
        }
        Ok(())
    }

    /// A socket in the run directory.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.run.join(name)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, LayoutError> {
    std::path::absolute(path).map_err(|source| LayoutError::Path {
        path: path.to_owned(),
        source,
    })
}

fn make(path: &Path, mode: u32) -> Result<(), LayoutError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: io::Error) -> LayoutError {
    LayoutError::Directory {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn directories_are_made_and_the_private_ones_closed() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/state");
        fs::create_dir_all(&state).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o777)).unwrap();
        let layout = Layout::new(&state, None, None).unwrap();
        layout.make().unwrap();
        layout.make().unwrap();
        assert_eq!((mode(&layout.state), mode(&layout.run)), (0o700, 0o700));
        assert_eq!(mode(&layout.workspace), 0o711);
        fs::set_permissions(&layout.workspace, Permissions::from_mode(0o2775)).unwrap();
        layout.make().unwrap();
        assert_eq!(mode(&layout.workspace), 0o775);
    }

    #[test]
    fn a_socket_path_is_measured_before_anything_is_made() {
        let fits = MAX_SOCKET_PATH - "/".len() - LONGEST_SOCKET.len();
        let run = |length: usize| PathBuf::from(format!("/{}", "r".repeat(length - 1)));
        let layout = |length| Layout::new(Path::new("/state"), Some(&run(length)), None);
        assert!(layout(fits).is_ok());
        assert!(matches!(
            layout(fits + 1),
            Err(LayoutError::SocketPathTooLong { length: 108, .. })
        ));
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state");
        fs::write(&file, "").unwrap();
        let error = Layout::new(&file, None, None).unwrap().make().unwrap_err();
        assert!(error.to_string().contains("state"), "{error}");
    }
}
