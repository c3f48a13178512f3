//! Messages on link.sock: `u32` little-endian length, then the message.

use crate::limits::{MAX_UNSENT, SOCKET_CHUNK};
use std::io;
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixStream;
use willcall_protocol::limits::MAX_MESSAGE;

/// Why a connection is over.
#[derive(Debug, Error)]
pub(super) enum PortError {
    /// The socket failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The peer announces more than it may.
    #[error("the peer announced a message of {0} bytes; {MAX_MESSAGE} are allowed")]
    TooLong(usize),
    /// The peer closed it in the middle of a message.
    #[error("the peer closed the connection in the middle of a message")]
    Torn,
}

/// What has happened on a port.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A whole message.
    Message(Vec<u8>),
    /// There is room again for what waits to be sent.
    Room,
    /// The peer has closed the connection.
    Closed,
}

const PREFIX: usize = 4;

/// A connection of the link.
#[derive(Debug)]
pub(super) struct Port {
    stream: UnixStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    sent: usize,
}

impl Port {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            inbox: Vec::new(),
            outbox: Vec::new(),
            sent: 0,
        }
    }

    /// Whether so much waits for the peer that large things should wait elsewhere.
    pub(super) fn is_full(&self) -> bool {
        self.outbox.len() - self.sent > MAX_UNSENT
    }

    /// Queues a message; [`Port::flush`] sends it.
    pub(super) fn queue(&mut self, message: &[u8]) {
        // The codec allows no message that is longer than a u32 can say.
        let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        self.outbox.extend_from_slice(&len.to_le_bytes());
        self.outbox.extend_from_slice(message);
    }

    /// Sends what can be sent now; the rest goes out while [`Port::next`] waits.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            match self
                .stream
                .try_write(self.outbox.get(self.sent..).unwrap_or_default())
            {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.outbox.clear();
        self.outbox.shrink_to(SOCKET_CHUNK);
        Ok(())
    }

    /// Waits for what happens next. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Arrival, PortError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Arrival::Message(message));
            }
            let writing = !self.outbox.is_empty();
            let interest = if writing {
                Interest::READABLE | Interest::WRITABLE
            } else {
                Interest::READABLE
            };
            let ready = self.stream.ready(interest).await?;
            if writing && ready.is_writable() {
                let was_full = self.is_full();
                self.flush()?;
                if was_full && !self.is_full() {
                    return Ok(Arrival::Room);
                }
            }
            if ready.is_readable() && !self.read()? {
                return if self.inbox.is_empty() {
                    Ok(Arrival::Closed)
                } else {
                    Err(PortError::Torn)
                };
            }
        }
    }

    /// Reads what is there. False at the end.
    fn read(&mut self) -> io::Result<bool> {
        // Room for what comes, not for what is announced.
        self.inbox
            .reserve(SOCKET_CHUNK.min(self.inbox.len().max(4096)));
        match self.stream.try_read_buf(&mut self.inbox) {
            Ok(n) => Ok(n > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self) -> Result<Option<Vec<u8>>, PortError> {
        let Some(prefix) = self.inbox.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let len = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
        if len > MAX_MESSAGE {
            return Err(PortError::TooLong(len));
        }
        let end = PREFIX + len;
        let Some(message) = self.inbox.get(PREFIX..end) else {
            return Ok(None);
        };
        let message = message.to_vec();
        self.inbox.drain(..end);
        self.inbox.shrink_to(SOCKET_CHUNK);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::io::AsyncWriteExt;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("runtime").block_on(work)
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let len = u32::try_from(message.len()).expect("short");
        [&len.to_le_bytes(), message].concat()
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        block_on(async {
            let (ours, mut theirs) = UnixStream::pair().expect("pair");
            let mut port = Port::new(ours);
            let bytes = [framed(b"one"), framed(b""), framed(b"three")].concat();
            for byte in bytes {
                theirs.write_all(&[byte]).await.expect("written");
            }
            drop(theirs);
            for expected in [b"one".as_slice(), b"", b"three"] {
                let arrival = port.next().await.expect("sound");
                assert_eq!(arrival, Arrival::Message(expected.to_vec()));
            }
            assert_eq!(port.next().await.expect("sound"), Arrival::Closed);
        });
    }

    #[test]
    fn a_message_that_is_too_long_or_torn_ends_the_connection() {
        block_on(async {
            let (ours, mut theirs) = UnixStream::pair().expect("pair");
            theirs.write_all(&[0xff; 4]).await.expect("written");
            assert!(matches!(
                Port::new(ours).next().await,
                Err(PortError::TooLong(_))
            ));
            let (ours, mut theirs) = UnixStream::pair().expect("pair");
            theirs
                .write_all(&framed(b"cut")[..5])
                .await
                .expect("written");
            drop(theirs);
            assert!(matches!(Port::new(ours).next().await, Err(PortError::Torn)));
        });
    }

    #[test]
    fn what_the_peer_does_not_take_waits_and_then_goes_out() {
        block_on(async {
            let (ours, mut theirs) = UnixStream::pair().expect("pair");
            let mut port = Port::new(ours);
            let large = vec![7; MAX_UNSENT];
            (0..3).for_each(|_| port.queue(&large));
            port.flush().expect("sound");
            assert!(port.is_full());
            let reader = async {
                let mut all = Vec::new();
                let len = 3 * (large.len() + PREFIX) as u64;
                (&mut theirs)
                    .take(len)
                    .read_to_end(&mut all)
                    .await
                    .expect("read");
                drop(theirs);
                all
            };
            let writer = async {
                assert_eq!(port.next().await.expect("sound"), Arrival::Room);
                assert_eq!(port.next().await.expect("sound"), Arrival::Closed);
            };
            let (all, ()) = tokio::join!(reader, writer);
            assert!(all == framed(&large).repeat(3));
        });
    }
}
