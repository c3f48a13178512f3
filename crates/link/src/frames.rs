//! The framing of the executor's socket: `u32` little-endian length, then one message.

use crate::limits::READ_BUFFER;
use std::io;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use willcall_protocol::limits::MAX_MESSAGE;

const HEADER: usize = 4;

/// A frame that could not be read.
#[derive(Debug, Error)]
pub enum FrameReadError {
    /// Longer than a message may be; nothing was reserved for it.
    #[error("the executor announced a message of {0} bytes; at most {MAX_MESSAGE} may travel")]
    TooLong(u32),
    /// The connection ended inside a frame.
    #[error("the executor closed its connection in the middle of a message")]
    Torn,
    /// The socket failed.
    #[error("the executor's socket cannot be read")]
    Io(#[source] io::Error),
}

/// Reads frames.
#[derive(Debug)]
pub struct FrameReader<R>(BufReader<R>);

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from `inner`, in buffers of a few KiB.
    pub fn new(inner: R) -> Self {
        Self(BufReader::with_capacity(READ_BUFFER, inner))
    }

    /// The next message; `None` at an end between two messages. Not cancel safe: a frame that was begun is lost.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, FrameReadError> {
        let mut header = [0; HEADER];
        match self.0.read(&mut header).await.map_err(FrameReadError::Io)? {
            0 => return Ok(None),
            HEADER => {}
            short => {
                let rest = header.get_mut(short..).unwrap_or_default();
                self.fill(rest).await?;
            }
        }
        let announced = u32::from_le_bytes(header);
        let length = usize::try_from(announced).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE {
            return Err(FrameReadError::TooLong(announced));
        }
        let mut message = vec![0; length];
        self.fill(&mut message).await?;
        Ok(Some(message))
    }

    async fn fill(&mut self, buffer: &mut [u8]) -> Result<(), FrameReadError> {
        match self.0.read_exact(buffer).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(FrameReadError::Torn),
            Err(error) => Err(FrameReadError::Io(error)),
        }
    }
}

/// Writes one message as one frame, in one write: the reader wakes up once. Not cancel safe.
pub async fn write<W: AsyncWrite + Unpin>(writer: &mut W, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(message.len() + HEADER);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(message);
    writer.write_all(&frame).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Result<Option<Vec<u8>>, FrameReadError> {
        FrameReader::new(bytes).next().await
    }

    #[tokio::test]
    async fn frames_come_back_as_written() {
        let mut wire = Vec::new();
        let messages = [vec![1, 2, 3], vec![], vec![7; 100_000]];
        for message in &messages {
            write(&mut wire, message).await.unwrap();
        }
        let mut reader = FrameReader::new(wire.as_slice());
        for message in messages {
            assert_eq!(reader.next().await.unwrap(), Some(message));
        }
        assert_eq!(reader.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_length_above_the_maximum_is_refused_before_it_is_read() {
        let longest = u32::try_from(MAX_MESSAGE).unwrap();
        assert!(matches!(
            read(&(longest + 1).to_le_bytes()).await,
            Err(FrameReadError::TooLong(_))
        ));
        assert!(matches!(
            read(&longest.to_le_bytes()).await,
            Err(FrameReadError::Torn)
        ));
    }

    #[tokio::test]
    async fn an_end_inside_a_frame_is_not_an_end() {
        for torn in [&[3][..], &[3, 0, 0, 0], &[3, 0, 0, 0, 1, 2]] {
            assert!(
                matches!(read(torn).await, Err(FrameReadError::Torn)),
                "{torn:?}"
            );
        }
    }
}
