//! Private unix sockets.

use nix::unistd::Uid;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

/// Why a connection is not served.
#[derive(Debug, Error)]
pub(crate) enum PeerError {
    /// Somebody else's process.
    #[error("a process of user {0} has no business here")]
    Foreign(u32),
    /// The kernel does not say whose process it is.
    #[error("cannot tell whose process is calling")]
    Unknown(#[source] io::Error),
}

/// Makes a directory that only its owner may enter. One that is there has to be ours alone to write: whoever else could
/// write there could replace what we put in it.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = std::fs::metadata(path)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != Uid::effective().as_raw() {
        Err(io::Error::other(format!("it belongs to user {owner}")))
    } else if mode & 0o022 != 0 {
        Err(io::Error::other(format!(
            "others may write to it (mode {mode:o})"
        )))
    } else {
        Ok(())
    }
}

/// Listens on a socket that only its owner may open. One that a dead process left is replaced; the caller
/// holds the lock which says that it is dead. The directory is private, so that nobody comes between.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => {
            return Err(io::Error::other(
                "something that is not a socket stands there",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Whether a peer is one of ours: the same user, or root.
pub(crate) fn check_peer(stream: &UnixStream) -> Result<(), PeerError> {
    let uid = stream.peer_cred().map_err(PeerError::Unknown)?.uid();
    if uid == 0 || uid == Uid::effective().as_raw() {
        Ok(())
    } else {
        Err(PeerError::Foreign(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_may_write_to_is_not_private() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("a/b");
        private_dir(&path).expect("made");
        private_dir(&path).expect("there");
        let mode = std::fs::metadata(&path).expect("there").mode();
        assert_eq!(mode & 0o7777, 0o700);
        for mode in [0o720, 0o702, 0o1777] {
            set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
            let error = private_dir(&path).expect_err("open to others");
            assert!(error.to_string().contains("others may write"), "{error}");
        }
    }
}
