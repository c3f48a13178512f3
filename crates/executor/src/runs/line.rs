//! A connection to a runner.

use crate::limits::SOCKET_CHUNK;
use std::io;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use willcall_runner::wire::{self, FromRunner, MAX_BODY, ToRunner, WireError};

/// Why a connection to a runner ended.
#[derive(Debug, Error)]
pub(crate) enum LineError {
    /// The runner closed it, or is gone.
    #[error("the runner closed the connection")]
    Closed,
    /// The socket failed.
    #[error("the connection to the runner failed")]
    Io(#[from] io::Error),
    /// The runner does not speak as runners do.
    #[error("the runner sent something that is no message")]
    Wire(#[from] WireError),
}

/// A connection to a runner.
#[derive(Debug)]
pub(crate) struct Line {
    stream: UnixStream,
    inbox: Vec<u8>,
}

impl Line {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            inbox: Vec::new(),
        }
    }

    /// Takes over our end of a new pair; the other end goes to the spawner.
    pub(crate) fn pair() -> io::Result<(Self, std::os::unix::net::UnixStream)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((Self::new(UnixStream::from_std(ours)?), theirs))
    }

    /// The next message. Cancel safe: what has come stays in the inbox.
    pub(crate) async fn next(&mut self) -> Result<FromRunner, LineError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            // Room for what is there, not for what is announced.
            self.inbox
                .reserve(SOCKET_CHUNK.min(self.inbox.len().max(4096)));
            if self.stream.read_buf(&mut self.inbox).await? == 0 {
                return Err(LineError::Closed);
            }
        }
    }

    /// Says a word. All of them together fit a socket's buffer: this does not wait.
    pub(crate) async fn say(&mut self, word: ToRunner) -> Result<(), LineError> {
        let frame = wire::encode(&word)?;
        self.stream.write_all(&frame).await?;
        Ok(())
    }

    fn take(&mut self) -> Result<Option<FromRunner>, WireError> {
        let Some(len) = wire::frame_len(&self.inbox, MAX_BODY)? else {
            return Ok(None);
        };
        let Some(frame) = self.inbox.get(..len) else {
            return Ok(None);
        };
        let message = wire::decode_from_runner(frame)?;
        if len == self.inbox.len() {
            // A large result leaves nothing behind.
            self.inbox = Vec::new();
        } else {
            self.inbox.drain(..len);
        }
        Ok(Some(message))
    }
}
