//! Notes when bytes last came, below TLS: a large message that is still arriving is not silence.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// When bytes last came.
#[derive(Debug, Clone)]
pub struct LastHeard {
    start: Instant,
    /// Milliseconds after `start`.
    at: Arc<AtomicU64>,
}

impl LastHeard {
    /// Counts from now.
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            at: Arc::default(),
        }
    }

    fn note(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.store(millis, Ordering::Relaxed);
    }

    /// Returns once nothing came for `limit`.
    pub(crate) async fn silence(&self, limit: Duration) {
        loop {
            let dead = self.start + Duration::from_millis(self.at.load(Ordering::Relaxed)) + limit;
            if Instant::now() >= dead {
                return;
            }
            tokio::time::sleep_until(dead).await;
        }
    }
}

/// A stream that notes when bytes come.
#[derive(Debug)]
pub struct Observed<S> {
    inner: S,
    heard: LastHeard,
}

impl<S> Observed<S> {
    pub(crate) fn new(inner: S, heard: LastHeard) -> Self {
        Self { inner, heard }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.heard.note();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
