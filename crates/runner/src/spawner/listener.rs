//! The socket of a spawner, and who may speak on it.

use super::{SpawnerConfig, SpawnerError};
use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, accept4, connect, getsockopt, socket,
};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Uid, chown, geteuid};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Listens, on a socket that nobody but root and the configured user can reach at any moment.
pub(super) fn listen(config: &SpawnerConfig) -> Result<UnixListener, SpawnerError> {
    remove_stale(&config.socket)?;
    // One thread: nobody else makes a file under this mask.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(&config.socket);
    umask(before);
    let failed = |source| SpawnerError::Listen {
        path: config.socket.clone(),
        source,
    };
    let listener = bound.map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    if let Some(uid) = config
        .allow_uid
        .map(Uid::from_raw)
        .filter(|uid| *uid != geteuid())
    {
        chown(&config.socket, Some(uid), None).map_err(|errno| failed(errno.into()))?;
    }
    Ok(listener)
}

/// Only a socket is removed, and only one that nobody listens on.
fn remove_stale(path: &Path) -> Result<(), SpawnerError> {
    let failed = |source| SpawnerError::Listen {
        path: path.to_owned(),
        source,
    };
    match path.symlink_metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(failed(e)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SpawnerError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match dial(path) {
        Err(Errno::ECONNREFUSED) => std::fs::remove_file(path).map_err(failed),
        // It was removed meanwhile.
        Err(Errno::ENOENT) => Ok(()),
        // A queue that is full is somebody's who does not accept: it listens all the same.
        Ok(()) | Err(Errno::EAGAIN) => Err(SpawnerError::InUse(path.to_owned())),
        Err(errno) => Err(failed(errno.into())),
    }
}

/// Connects without waiting, and hangs up.
fn dial(path: &Path) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)
}

/// The next connection of somebody who may speak to us; `None` if there is none now, or it was not.
pub(super) fn accept(
    listener: &UnixListener,
    config: &SpawnerConfig,
) -> nix::Result<Option<OwnedFd>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = match accept4(listener, flags) {
        Ok(socket) => socket,
        Err(Errno::EAGAIN | Errno::ECONNABORTED) => {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    let uid = Uid::from_raw(getsockopt(&socket, PeerCredentials)?.uid());
    let allowed = uid.is_root() || uid == geteuid() || config.allow_uid == Some(uid.as_raw());
    if !allowed {
        tracing::warn!(%uid, "a connection of a user who may not launch is closed");
    }
    Ok(allowed.then_some(socket))
}
