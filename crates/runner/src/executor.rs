//! A runner's connection to its executor. Nothing here ever waits: an executor that stands still
//! must not keep a runner from its command.

use crate::limits::MAX_TO_RUNNER;
use crate::wire::{self, ToRunner};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// The connection, while there is one.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: UnixStream,
    inbox: Vec<u8>,
    /// Bounded by what a runner says on a connection: hello, started, and one result.
    outbox: VecDeque<Rc<Vec<u8>>>,
    /// Bytes of the first message that are sent.
    sent: usize,
}

/// The peer is gone, or no longer makes sense.
#[derive(Debug)]
pub(crate) struct Lost;

impl Connection {
    /// Takes over a connected socket.
    pub(crate) fn new(socket: OwnedFd) -> std::io::Result<Self> {
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            inbox: Vec::new(),
            outbox: VecDeque::new(),
            sent: 0,
        })
    }

    /// Dials without waiting: a listener whose queue is full counts as not there.
    pub(crate) fn dial(path: &str) -> std::io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        Self::new(socket)
    }

    /// Queues a message and sends what can be sent now.
    pub(crate) fn send(&mut self, message: Rc<Vec<u8>>) -> Result<(), Lost> {
        self.outbox.push_back(message);
        self.flush()
    }

    /// Whether something waits for the peer to read.
    pub(crate) fn wants_to_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends what can be sent now.
    pub(crate) fn flush(&mut self) -> Result<(), Lost> {
        while let Some(message) = self.outbox.front() {
            match self
                .socket
                .write(message.get(self.sent..).unwrap_or_default())
            {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Lost),
            }
            if self.sent >= message.len() {
                self.outbox.pop_front();
                self.sent = 0;
            }
        }
        Ok(())
    }

    /// Takes every message that is there; `Lost` tells that none will follow them.
    pub(crate) fn receive(&mut self) -> (Vec<ToRunner>, Result<(), Lost>) {
        let mut messages = Vec::new();
        let end = loop {
            let mut buffer = [0; MAX_TO_RUNNER];
            match self.socket.read(&mut buffer) {
                Ok(0) => break Err(Lost),
                Ok(n) => self.inbox.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break Err(Lost),
            }
            if let Err(error) = self.take_messages(&mut messages) {
                tracing::warn!(%error, "the executor sent something that is no message");
                break Err(Lost);
            }
        };
        (messages, end)
    }

    fn take_messages(&mut self, messages: &mut Vec<ToRunner>) -> Result<(), wire::WireError> {
        while let Some(len) = wire::frame_len(&self.inbox, MAX_TO_RUNNER)? {
            let Some(frame) = self.inbox.get(..len) else {
                break;
            };
            messages.push(wire::decode(frame)?);
            self.inbox.drain(..len);
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
