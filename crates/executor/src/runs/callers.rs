//! Runners that dial because they have lost their executor.

use super::Runs;
use super::line::{Line, LineError};
use crate::ledger::{LedgerError, Standing};
use crate::limits::{HELLO_TIME, MAX_CALLERS, STRANGER_TIME};
use crate::sockets::{Guests, PeerError};
use std::collections::BTreeSet;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use willcall_daemon::in_words;
use willcall_protocol::ids::RunId;
use willcall_runner::wire::{FromRunner, Hello, Phase, RUNNER_PROTO, ToRunner};

/// Why a caller was sent away. It dials again.
#[derive(Debug, Error)]
enum CallError {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error(transparent)]
    Line(#[from] LineError),
    #[error("it did not say who it is")]
    NoHello,
    #[error("it speaks version {0} of the runners' protocol; this executor speaks {RUNNER_PROTO}")]
    Version(u32),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Serves runners that dial. Never returns.
pub(crate) async fn serve(runs: Arc<Runs>, listener: UnixListener) {
    let mut calls = JoinSet::new();
    let mut strangers = BTreeSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(_) if calls.len() >= MAX_CALLERS => {
                    tracing::warn!("too many runners call at once; the newest has to call again");
                }
                Ok((stream, _)) => drop(calls.spawn(take(Arc::clone(&runs), stream))),
                Err(error) => {
                    tracing::error!(%error, "cannot accept a runner");
                    tokio::time::sleep(crate::limits::ACCEPT_PAUSE).await;
                }
            },
            Some(call) = calls.join_next() => match call {
                Ok(Call::Over) => {}
                Ok(Call::Stranger(run, line)) => {
                    if strangers.len() < MAX_CALLERS && strangers.insert(run) {
                        tracing::warn!(%run, "a runner calls whose run the ledger does not know; it is ended");
                    }
                    calls.spawn(send_away(line));
                }
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    }
}

enum Call {
    Over,
    Stranger(RunId, Line),
}

async fn take(runs: Arc<Runs>, stream: UnixStream) -> Call {
    match answer(&runs, stream).await {
        Ok(call) => call,
        Err(error) => {
            tracing::warn!("a runner was sent away: {}", in_words(&error));
            Call::Over
        }
    }
}

async fn answer(runs: &Runs, stream: UnixStream) -> Result<Call, CallError> {
    Guests::default().check(&stream)?;
    let mut line = Line::new(stream);
    let hello = hello(&mut line).await?;
    let run = RunId(hello.run);
    let Err(mut line) = runs.attach(run, line, hello.phase) else {
        return Ok(Call::Over);
    };
    match runs.ledger.standing(run).await? {
        // It holds a result that the ledger has.
        Standing::Finished => {
            if hello.phase == Phase::Finished {
                tracing::info!(%run, "a runner calls whose run is over; what it brings is dropped");
            }
            line.say(ToRunner::Collected).await?;
            // The executor that entered the end may not have come to it.
            runs.spool.remove(run);
        }
        Standing::Unknown if hello.phase != Phase::Armed => return Ok(Call::Stranger(run, line)),
        // Its task is about to begin or end, or it will execute nothing.
        Standing::Unknown | Standing::Unfinished => {}
    }
    Ok(Call::Over)
}

async fn hello(line: &mut Line) -> Result<Hello, CallError> {
    let first = timeout(HELLO_TIME, line.next())
        .await
        .map_err(|_| CallError::NoHello)?;
    match first? {
        FromRunner::Hello(hello) if hello.proto > RUNNER_PROTO => {
            Err(CallError::Version(hello.proto))
        }
        FromRunner::Hello(hello) => Ok(hello),
        _ => Err(CallError::NoHello),
    }
}

/// Ends a run that nobody here has claimed, and lets its runner go.
async fn send_away(mut line: Line) -> Call {
    let ending = async {
        line.say(ToRunner::Cancel).await?;
        while !matches!(line.next().await?, FromRunner::Finished(_)) {}
        line.say(ToRunner::Collected).await
    };
    // One that takes longer calls again.
    let _ = timeout(STRANGER_TIME, ending).await;
    Call::Over
}
