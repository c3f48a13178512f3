//! The sessions with gateways, each over one connection of the link.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | `port` | messages on link.sock | socket |
//! | `session` | one session: carries between port, protocol and host | socket |
//! | `reads` | pages | files |
//! | `expired` | what is known of an output that is gone | ledger |

mod expired;
mod port;
mod reads;
mod session;

use crate::limits::ACCEPT_PAUSE;
use crate::runs::Runs;
use crate::sockets::Guests;
use session::Session;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use willcall_protocol::message::Hello;

/// Serves one link at a time, the newest; each gets `hello`, with the runs of the moment. Never returns.
pub(crate) async fn serve(runs: Arc<Runs>, listener: UnixListener, guests: &Guests, hello: Hello) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => match guests.check(&stream) {
                    Ok(()) => welcome(&mut sessions, &runs, stream, &hello),
                    Err(error) => tracing::error!("a connection to link.sock is refused: {error}"),
                },
                Err(error) => {
                    tracing::error!(%error, "cannot accept a link");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = sessions.join_next() => match ended {
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                _ => {}
            },
        }
    }
}

fn welcome(sessions: &mut JoinSet<()>, runs: &Arc<Runs>, stream: UnixStream, hello: &Hello) {
    if !sessions.is_empty() {
        tracing::info!("a newer link takes over; the older one is closed");
        sessions.abort_all();
    }
    let hello = Hello {
        running: runs.running(),
        ..hello.clone()
    };
    let session = Session::new(Arc::clone(runs), stream, hello);
    sessions.spawn(session.run());
}
