//! The hosts' listener.
//!
//! ```text
//! accept ──► handshake task: TLS ► who ► upgrade ► hello ──► link task: welcome ► loop ──► close
//!            at most MAX_HANDSHAKES, each step timed,          one per connected host
//!            and of one source MAX_HANDSHAKES_PER_SOURCE
//! ```

mod closing;
mod handshake;
mod link;
mod sources;
mod wire;

pub use closing::Closing;

use crate::limits::{MAX_HANDSHAKES, Timeouts};
use crate::runs::Runs;
use handshake::Guest;
use link::LinkLoop;
use rustls::ServerConfig;
use sources::{Seat, Sources};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use willcall_daemon::in_words;

/// What every connection of a host needs.
#[derive(Clone)]
pub struct Reception {
    tls: TlsAcceptor,
    runs: Runs,
    timeouts: Timeouts,
    shutdown: CancellationToken,
}

impl std::fmt::Debug for Reception {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reception")
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

impl Reception {
    /// Receives hosts with that TLS configuration until `shutdown` is canceled.
    pub fn new(
        tls: ServerConfig,
        runs: Runs,
        timeouts: Timeouts,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            tls: TlsAcceptor::from(Arc::new(tls)),
            runs,
            timeouts,
            shutdown,
        }
    }

    /// Serves the listener; after `shutdown`, returns when every link has been told to come back later and is closed.
    pub async fn serve(self, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(MAX_HANDSHAKES));
        let sources = Sources::default();
        let mut handshakes = JoinSet::new();
        let mut links = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => break,
                Some(done) = handshakes.join_next() => {
                    if let Some(guest) = finished(done).flatten() {
                        // A fresh task: the one of the handshake has grown by what a handshake needs.
                        links.spawn(LinkLoop::run(self.clone(), guest));
                    }
                }
                Some(done) = links.join_next() => drop(finished(done)),
                (stream, peer, permit) = accept(&listener, &room) => {
                    if let Some(seat) = seat(&sources, peer) {
                        handshakes.spawn(self.clone().receive(stream, peer, (permit, seat)));
                    }
                }
            }
        }
        drop(listener);
        handshakes.shutdown().await;
        while let Some(done) = links.join_next().await {
            finished(done);
        }
    }

    async fn receive(
        self,
        stream: TcpStream,
        peer: SocketAddr,
        place: (OwnedSemaphorePermit, Seat),
    ) -> Option<Box<Guest>> {
        let received = Box::pin(handshake::receive(&self, stream)).await;
        drop(place);
        match received {
            Ok(guest) => Some(guest),
            Err(refusal) => {
                let reason = in_words(&refusal);
                tracing::warn!(%peer, blame = refusal.blame(), reason, "a connection was refused");
                None
            }
        }
    }
}

/// A place among the handshakes with `peer`'s source, if it has one left.
fn seat(sources: &Sources, peer: SocketAddr) -> Option<Seat> {
    match sources.enter(peer.ip()) {
        Ok(seat) => Some(seat),
        Err(crowded) => {
            // Once: a flood must not become one of the log.
            if crowded.first {
                let source = peer.ip();
                tracing::warn!(%source, blame = "peer", "too many connections of one address are no session yet; further ones are closed");
            }
            None
        }
    }
}

/// The next connection, once there is room for its handshake. Cancel safe.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(room).acquire_owned().await else {
            std::future::pending().await
        };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, permit),
            Err(error) => {
                // No descriptors, most likely: trying at once would only burn the processor.
                tracing::error!(%error, "a host's connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One host must not end the service of the others, not even through a fault of ours.
fn finished<T>(done: Result<T, JoinError>) -> Option<T> {
    done.inspect_err(|error| {
        if error.is_panic() {
            tracing::error!(%error, "a connection's task panicked: this is a fault of the gateway");
        }
    })
    .ok()
}
