//! One connection to a spawner: launches come in, answers go out, and neither is waited for.

use super::LaunchFds;
use crate::limits::{LAUNCH_TIME, MAX_ANSWERS, MAX_WAITING_FDS, SOCKET_CHUNK};
use crate::sys;
use crate::wire::{self, Launch, Launched, MAX_LAUNCH, WireError};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;
use thiserror::Error;

/// Why a connection is closed.
#[derive(Debug, Error)]
pub(super) enum PeerError {
    /// The peer closed it; nothing is wrong.
    #[error("closed by the peer")]
    Closed,
    /// Closed inside a launch.
    #[error("closed by the peer inside a launch")]
    Torn,
    /// The peer's fault.
    #[error("not a launch")]
    Wire(#[from] WireError),
    /// The peer's fault.
    #[error("a launch has {got} descriptors; {expected} belong to it")]
    Descriptors {
        /// Received with it.
        got: usize,
        /// By its own words.
        expected: usize,
    },
    /// The peer's fault.
    #[error("a launch was not whole in time")]
    Stalled,
    /// The peer's fault.
    #[error("the peer does not read its answers")]
    Unread,
    /// Nobody's fault that we know.
    #[error("cannot use the socket")]
    Socket(#[source] std::io::Error),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Peer {
    socket: UnixStream,
    inbox: Vec<u8>,
    /// Descriptors that came with the bytes in `inbox`, in their order.
    fds: VecDeque<OwnedFd>,
    /// When the launch in `inbox` has to be whole.
    whole_by: Option<Instant>,
    outbox: Vec<u8>,
}

impl Peer {
    pub(super) fn new(socket: OwnedFd) -> Self {
        let socket = UnixStream::from(socket);
        let (inbox, outbox, fds) = (Vec::new(), Vec::new(), VecDeque::new());
        Self {
            socket,
            inbox,
            fds,
            whole_by: None,
            outbox,
        }
    }

    /// When [`Peer::check`] wants to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.whole_by
    }

    /// Refuses a peer that began a launch and stands still.
    pub(super) fn check(&self, now: Instant) -> Result<(), PeerError> {
        match self.whole_by {
            Some(at) if at <= now => Err(PeerError::Stalled),
            _ => Ok(()),
        }
    }

    pub(super) fn wants_to_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Reads what is there now.
    pub(super) fn read(&mut self, buffer: &mut [u8], now: Instant) -> Result<(), PeerError> {
        let mut fds = Vec::new();
        match sys::receive(self.socket.as_fd(), buffer, &mut fds) {
            Ok(0) if self.inbox.is_empty() => return Err(PeerError::Closed),
            Ok(0) => return Err(PeerError::Torn),
            Ok(n) => self.inbox.extend_from_slice(&buffer[..n]),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            Err(errno) => return Err(PeerError::Socket(errno.into())),
        }
        self.fds.extend(fds);
        if self.fds.len() > MAX_WAITING_FDS {
            return Err(PeerError::Descriptors {
                got: self.fds.len(),
                expected: MAX_WAITING_FDS,
            });
        }
        self.whole_by.get_or_insert(now + LAUNCH_TIME);
        Ok(())
    }

    /// The next whole launch and its descriptors.
    pub(super) fn next_launch(&mut self) -> Result<Option<(Launch, LaunchFds)>, PeerError> {
        let Some(len) = wire::frame_len(&self.inbox, MAX_LAUNCH)? else {
            return Ok(self.pause());
        };
        let Some(frame) = self.inbox.get(..len) else {
            return Ok(None);
        };
        let launch: Launch = wire::decode(frame)?;
        let fds = self.take_fds(launch.has_directory)?;
        self.inbox.drain(..len);
        // A huge launch must not leave a huge process to be forked.
        self.inbox.shrink_to(SOCKET_CHUNK);
        self.whole_by = self.whole_by.filter(|_| !self.inbox.is_empty());
        if self.inbox.is_empty() && !self.fds.is_empty() {
            return Err(PeerError::Descriptors {
                got: self.fds.len(),
                expected: 0,
            });
        }
        Ok(Some((launch, fds)))
    }

    /// Between two launches no clock runs.
    fn pause<T>(&mut self) -> Option<T> {
        self.whole_by = self.whole_by.filter(|_| !self.inbox.is_empty());
        None
    }

    fn take_fds(&mut self, has_directory: bool) -> Result<LaunchFds, PeerError> {
        let expected = 2 + usize::from(has_directory);
        let got = self.fds.len();
        let mut next = || {
            self.fds
                .pop_front()
                .ok_or(PeerError::Descriptors { got, expected })
        };
        let (executor, spool) = (next()?, next()?);
        let directory = if has_directory { Some(next()?) } else { None };
        Ok(LaunchFds {
            executor,
            spool,
            directory,
        })
    }

    /// Queues an answer and sends what can be sent now.
    pub(super) fn answer(&mut self, launched: &Launched) -> Result<(), PeerError> {
        self.outbox.extend(wire::encode(launched)?);
        self.flush()?;
        if self.outbox.len() > MAX_ANSWERS {
            return Err(PeerError::Unread);
        }
        Ok(())
    }

    /// Sends what can be sent now.
    pub(super) fn flush(&mut self) -> Result<(), PeerError> {
        while !self.outbox.is_empty() {
            match self.socket.write(&self.outbox) {
                Ok(n) => drop(self.outbox.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Err(PeerError::Closed),
                Err(e) => return Err(PeerError::Socket(e)),
            }
        }
        Ok(())
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
