//! Private unix sockets.

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::{Gid, Uid, User, chown};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::fd::AsRawFd;
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

/// Who may call beside root and our own user: users by their ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guests(pub(crate) Vec<u32>);

impl Guests {
    /// Whether a peer is one of ours, or a guest.
    pub(crate) fn check(&self, stream: &UnixStream) -> Result<(), PeerError> {
        let uid = stream.peer_cred().map_err(PeerError::Unknown)?.uid();
        if uid == 0 || uid == Uid::effective().as_raw() || self.0.contains(&uid) {
            Ok(())
        } else {
            Err(PeerError::Foreign(uid))
        }
    }

    /// The group of all of them, if it is one and we may give it.
    fn group(&self) -> Option<Gid> {
        let group = |uid: &u32| Some(User::from_uid(Uid::from_raw(*uid)).ok()??.gid.as_raw());
        let groups: Option<BTreeSet<u32>> = self.0.iter().map(group).collect();
        let groups = groups.filter(|groups| groups.len() == 1)?;
        groups.first().map(|gid| Gid::from_raw(*gid))
    }
}

/// Makes a directory that only its owner may enter.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    owned_dir(path, 0o700)
}

/// Makes a directory of sockets: guests may pass through it.
pub(crate) fn socket_dir(path: &Path, guests: &Guests) -> io::Result<()> {
    if guests.0.is_empty() {
        return private_dir(path);
    }
    owned_dir(path, 0o711)?;
    if std::fs::metadata(path)?.mode() & 0o011 == 0 {
        let path = path.display();
        tracing::warn!("no guest can get to the sockets in {path}: chmod 711 would let them");
    }
    Ok(())
}

/// One that is there has to be ours alone to write: whoever else could write there could replace what we put in it.
fn owned_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)?;
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

/// Listens on a socket that only its owner may open. One that a dead process left is replaced. The directory is
/// ours alone to write, and the caller holds its lock, so that nobody comes between.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    remove_stale(path)?;
    let listener = UnixListener::bind(path)?;
    set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Only a socket is removed, and only one that nobody listens on.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => {
            return Err(io::Error::other(
                "something that is not a socket stands there",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match dial(path) {
        Err(Errno::ECONNREFUSED) => std::fs::remove_file(path),
        // It was removed meanwhile.
        Err(Errno::ENOENT) => Ok(()),
        // A queue that is full is somebody's who does not accept: it listens all the same.
        Ok(()) | Err(Errno::EAGAIN) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "a living process listens there",
        )),
        Err(errno) => Err(errno.into()),
    }
}

/// Connects without waiting, and hangs up.
fn dial(path: &Path) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)
}

/// As [`listen`], on a socket that guests may open, too. Who they are is asked of the kernel at each connection; the
/// mode only keeps others from the door where the guests have a group that we may give.
pub(crate) fn listen_to(path: &Path, guests: &Guests) -> io::Result<UnixListener> {
    let listener = listen(path)?;
    if !guests.0.is_empty() {
        let given = guests.group().map(|gid| chown(path, None, Some(gid)));
        let mode = if given == Some(Ok(())) { 0o660 } else { 0o666 };
        set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_may_pass_and_open_and_nobody_else_may() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("runtime");
        let _inside = runtime.enter();
        let (us, nobody) = (Uid::effective().as_raw(), u32::MAX - 1);
        for (name, guests, modes) in [
            ("none", vec![], [0o700, 0o600]),
            ("us", vec![us], [0o711, 0o660]),
            ("without a group", vec![us, nobody], [0o711, 0o666]),
        ] {
            let (dir, guests) = (dir.path().join(name), Guests(guests));
            socket_dir(&dir, &guests).expect("made");
            let socket = dir.join("socket");
            let _listener = listen_to(&socket, &guests).expect("bound");
            let found = [&dir, &socket].map(|path| path.metadata().expect("there").mode() & 0o7777);
            assert_eq!(found, modes, "{name}");
        }
    }

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("socket");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("runtime");
        let _inside = runtime.enter();
        let living = listen(&path).expect("bound");
        let refused = listen(&path).expect_err("in use");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
        drop(living);
        listen(&path).expect("nobody listens there");
    }

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
