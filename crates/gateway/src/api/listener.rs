//! Callers' connections: so many at a time, and none that takes nothing of its answer for ever.

use crate::descriptors;
use crate::limits::{API_SHARE_OF_DESCRIPTORS, MAX_API_CONNECTIONS};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

pub(super) struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
    stall: Duration,
}

/// A caller's connection, and its place among all.
pub(super) struct Connection {
    stream: TcpStream,
    stall: Duration,
    /// When a write that is under way counts as stalled.
    stalled: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Bounded {
    /// Accepts from `listener`; a write that makes no progress for `stall` ends its connection.
    pub(super) fn new(listener: TcpListener, stall: Duration) -> Self {
        let share = descriptors::allowed() / API_SHARE_OF_DESCRIPTORS;
        Self {
            listener,
            room: Arc::new(Semaphore::new(share.clamp(1, MAX_API_CONNECTIONS))),
            stall,
        }
    }

    /// The next connection, once there is room for it. Cancel safe.
    pub(super) async fn accept(&self) -> Connection {
        let place = Arc::clone(&self.room).acquire_owned().await.ok();
        let stream = loop {
            match self.listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(error) => {
                    // No descriptors, most likely: trying at once would only burn the processor.
                    tracing::error!(%error, "a caller's connection cannot be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a caller's connection keeps its delay");
        }
        Connection {
            stream,
            stall: self.stall,
            stalled: None,
            _place: place,
        }
    }
}

impl Connection {
    /// What a write came to, unless it has waited for too long.
    fn timed<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let deadline = Instant::now() + self.stall;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        stalled.as_mut().poll(cx).map(|()| {
            let why = "the caller does not take its answer";
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timed(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
