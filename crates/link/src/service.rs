//! Session after session, until cancelled.

use crate::backoff::{Backoff, ExecutorRetry};
use crate::dial::{self, DialError, GatewayUrl};
use crate::limits::Times;
use crate::relay::{self, End, Ended};
use crate::tls::{self, PemFileError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error as ThisError;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use willcall_daemon::in_words;

/// What a link needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The gateway.
    pub gateway: GatewayUrl,
    /// Key and certificate of this host, in one PEM file.
    pub identity: PathBuf,
    /// The one CA that the gateway's certificate must come from.
    pub ca: PathBuf,
    /// The executor's socket.
    pub socket: PathBuf,
    /// How long things may take.
    pub times: Times,
}

/// Why there is no session.
#[derive(Debug, ThisError)]
enum Failure {
    #[error("this host's identity cannot be used")]
    Identity(#[from] PemFileError),
    #[error("there is no connection to {gateway}")]
    Dial {
        gateway: GatewayUrl,
        source: DialError,
    },
}

/// Keeps a session with the gateway open whenever the executor is there. Never gives up by itself.
pub async fn run(settings: Settings, cancel: CancellationToken) {
    if tls::is_exposed(&settings.identity) {
        let path = settings.identity.display();
        tracing::warn!("{path} holds this host's key and others may read it: chmod 600 {path}");
    }
    let mut backoff = Backoff::default();
    while !cancel.is_cancelled() {
        let attempt = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            dialed = connect(&settings) => dialed,
        };
        let (connected, pace) = match attempt {
            Ok(dialed) => {
                let ended = session(dialed, &settings, &cancel).await;
                report(&ended);
                if matches!(ended.why, End::ExecutorAway(_)) {
                    // Until it is back there is nothing to dial for.
                    find_executor(&settings.socket, &cancel).await;
                }
                (ended.connected, ended.pace)
            }
            Err(failure) => {
                tracing::warn!("{}", in_words(&failure));
                (None, failure.pace())
            }
        };
        let pause = backoff.pause(connected, Instant::now(), pace, rand::random());
        if rest(pause, &cancel).await.is_break() {
            return;
        }
    }
}

/// The executor comes after the gateway: from its connection on it counts the time up to the welcome, and a dial may take
/// longer than that.
async fn session(dialed: dial::Dialed, settings: &Settings, cancel: &CancellationToken) -> Ended {
    let limit = settings.times.executor_wait;
    let found = tokio::time::timeout(limit, find_executor(&settings.socket, cancel)).await;
    match found {
        Ok(Some(executor)) => relay::relay(dialed, executor, settings.times, cancel).await,
        Ok(None) => relay::give_up(dialed, End::Asked).await,
        Err(_) => relay::give_up(dialed, End::ExecutorAway(limit)).await,
    }
}

impl Failure {
    fn pace(&self) -> Option<Duration> {
        match self {
            Self::Identity(_) => None,
            Self::Dial { source, .. } => source.pace(),
        }
    }
}

async fn connect(settings: &Settings) -> Result<dial::Dialed, Failure> {
    let config = tls::client_config(&settings.identity, &settings.ca)?;
    dial::dial(&settings.gateway, config, settings.times.handshake)
        .await
        .map_err(|source| Failure::Dial {
            gateway: settings.gateway.clone(),
            source,
        })
}

/// A connection to the executor; waits for it as long as it takes. `None` once cancelled.
async fn find_executor(socket: &Path, cancel: &CancellationToken) -> Option<UnixStream> {
    let mut retry = ExecutorRetry::default();
    let mut told = false;
    while !cancel.is_cancelled() {
        match UnixStream::connect(socket).await {
            Ok(executor) => return Some(executor),
            Err(error) if !told => {
                let path = socket.display();
                tracing::info!("waiting for the executor at {path}: {error}");
                told = true;
            }
            Err(_) => {}
        }
        if rest(retry.pause(), cancel).await.is_break() {
            break;
        }
    }
    None
}

async fn rest(pause: Duration, cancel: &CancellationToken) -> std::ops::ControlFlow<()> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => std::ops::ControlFlow::Break(()),
        () = tokio::time::sleep(pause) => std::ops::ControlFlow::Continue(()),
    }
}

fn report(ended: &Ended) {
    if !matches!(ended.why, End::Asked) {
        tracing::warn!("the session is over: {}", in_words(&ended.why));
    }
}
