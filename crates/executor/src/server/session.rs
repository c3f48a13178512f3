//! One session, from its connection to its end. It only carries: what to say is decided by the
//! protocol's core, what to do by the runs.

use super::port::{Arrival, Port, PortError};
use super::{expired, reads};
use crate::host::now_ms;
use crate::ledger::LedgerError;
use crate::limits::{LEDGER_RETRY, MAX_PENDING};
use crate::runs::{Answer, Runs};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use willcall_daemon::in_words;
use willcall_protocol::frame::{self, Channel, FrameError};
use willcall_protocol::ids::RunId;
use willcall_protocol::message::{Dispatch, Hello, Read, Refusal, ToAgent, ToGateway};
use willcall_protocol::outcome::{Cause, Report};
use willcall_protocol::session::{AgentEvent, AgentSession, SessionError};

/// Why a session ended.
#[derive(Debug, Error)]
enum End {
    #[error("the link closed the connection")]
    Closed,
    #[error("the link, or the gateway behind it, is to blame")]
    Port(#[from] PortError),
    #[error("the link, or the gateway behind it, sent a message that is none")]
    Frame(#[source] FrameError),
    #[error("the link passed on a message that was for itself")]
    NotForUs,
    #[error("we could not say something")]
    Ours(#[source] FrameError),
    #[error("the session ended")]
    Session(#[from] SessionError),
    #[error("the gateway asks for more than {MAX_PENDING} things at once")]
    TooMuch,
}

/// Something that was asked for is done.
enum Done {
    Say(ToGateway),
    Repeat(u64, Box<Report>),
    Fetched(Result<Option<(u64, Box<Report>)>, LedgerError>),
    Nothing,
}

/// One session.
pub(super) struct Session {
    runs: Arc<Runs>,
    port: Port,
    core: AgentSession,
    work: JoinSet<Done>,
    newest: watch::Receiver<u64>,
    /// Whether the ledger once had nothing more for this session: from then on all that ends is told by
    /// `newest`.
    caught_up: bool,
    /// Of a ledger that could not be read: when to try again, unless an end or an acknowledgement comes before.
    retry_at: Option<Instant>,
    /// Whether a result is on its way from the ledger.
    fetching: bool,
}

impl Session {
    pub(super) fn new(runs: Arc<Runs>, stream: UnixStream, hello: Hello) -> Self {
        Self {
            port: Port::new(stream),
            core: AgentSession::new(hello, Instant::now()),
            work: JoinSet::new(),
            newest: runs.outbox().newest(),
            caught_up: false,
            retry_at: None,
            fetching: false,
            runs,
        }
    }

    /// Serves until it ends, and says in the log why.
    pub(super) async fn run(mut self) {
        tracing::info!("a link is connected");
        match self.serve().await {
            End::Closed => tracing::info!("the link closed the connection"),
            end => tracing::warn!("the session is closed: {}", in_words(&end)),
        }
    }

    async fn serve(&mut self) -> End {
        loop {
            if let Err(end) = self.turn().await {
                return end;
            }
        }
    }

    async fn turn(&mut self) -> Result<(), End> {
        self.send_results()?;
        self.transmit()?;
        let timeout = self.poll_timeout();
        tokio::select! {
            arrival = self.port.next() => match arrival? {
                Arrival::Message(message) => self.hear(&message)?,
                Arrival::Room => {}
                Arrival::Closed => return Err(End::Closed),
            },
            Some(done) = self.work.join_next() => match done {
                Ok(done) => self.finish(done)?,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            Ok(()) = self.newest.changed() => self.retry_at = None,
            () = sleep_until(timeout.into()) => self.handle_timeout(Instant::now())?,
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Instant {
        let core = self.core.poll_timeout();
        self.retry_at.map_or(core, |retry| retry.min(core))
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), End> {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        Ok(self.core.handle_timeout(now)?)
    }

    fn transmit(&mut self) -> Result<(), End> {
        // What a full port does not take waits in the core, which ends the session of a peer that never reads.
        while !self.port.is_full()
            && let Some(message) = self.core.poll_transmit()
        {
            let message = frame::encode(Channel::Session, &message).map_err(End::Ours)?;
            self.port.queue(&message);
        }
        Ok(self.port.flush().map_err(PortError::from)?)
    }

    /// Sends the results whose turn it is, as far as the window and the link's appetite go.
    fn send_results(&mut self) -> Result<(), End> {
        while !self.fetching && self.retry_at.is_none() && !self.port.is_full() {
            let Some(after) = self.core.wants_result_after() else {
                return Ok(());
            };
            if self.caught_up && after >= *self.newest.borrow() {
                return Ok(());
            }
            let Some((seq, report)) = self.runs.outbox().take_after(after) else {
                self.fetch(after);
                return Ok(());
            };
            self.core.send_result(seq, Arc::unwrap_or_clone(report))?;
            self.transmit()?;
        }
        Ok(())
    }

    fn fetch(&mut self, after: u64) {
        let found = self.runs.ledger().result_after(after);
        self.fetching = true;
        self.work.spawn(async move {
            let found = found.await;
            Done::Fetched(found.map(|found| found.map(|(seq, report)| (seq, Box::new(report)))))
        });
    }

    fn hear(&mut self, message: &[u8]) -> Result<(), End> {
        if frame::channel(message).map_err(End::Frame)? == Channel::Link {
            return Err(End::NotForUs);
        }
        let message: ToAgent = frame::decode(message).map_err(End::Frame)?;
        for event in self.core.handle(message, Instant::now())? {
            self.act(event)?;
        }
        Ok(())
    }

    fn act(&mut self, event: AgentEvent) -> Result<(), End> {
        if self.work.len() >= MAX_PENDING {
            return Err(End::TooMuch);
        }
        match event {
            AgentEvent::Welcome => tracing::info!("the gateway has opened the session"),
            AgentEvent::Dispatch(dispatch) => self.dispatch(*dispatch),
            AgentEvent::Cancel(run) => self.cancel(run),
            AgentEvent::Read(read) => self.read(read),
            AgentEvent::Acked(seq) => {
                self.retry_at = None;
                self.runs.outbox().forget(seq);
                self.runs.ledger().ack(seq);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, dispatch: Dispatch) {
        let run = dispatch.run;
        let answer = self.runs.dispatch(dispatch);
        let runs = Arc::clone(&self.runs);
        self.work.spawn(async move {
            match answer.await {
                None => Done::Nothing,
                Some(answer) => say(&runs, run, answer).await,
            }
        });
    }

    fn cancel(&mut self, run: RunId) {
        let canceled = self.runs.cancel(run);
        self.work.spawn(async move {
            canceled.await;
            Done::Nothing
        });
    }

    fn read(&mut self, read: Read) {
        let pass = self.runs.turns().arrive(&read.session, read.turn.as_ref());
        let runs = Arc::clone(&self.runs);
        self.work.spawn(async move {
            // The semaphore is never closed.
            let permit = Arc::clone(runs.read_permits()).acquire_owned().await;
            let store = Arc::clone(runs.store());
            let caps = runs.outputs().pages;
            let answer = move || {
                // A read that hangs has its thread for longer than its session lives.
                let _permit = permit;
                (reads::answer(&store, &read, pass, caps), read)
            };
            match tokio::task::spawn_blocking(answer).await {
                Ok((answer, read)) => Done::Say(expired::explain(&runs, &read, answer).await),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        });
    }

    fn finish(&mut self, done: Done) -> Result<(), End> {
        match done {
            Done::Say(message) => self.core.send(message)?,
            Done::Repeat(seq, report) => self.core.repeat_result(seq, *report)?,
            Done::Nothing => {}
            Done::Fetched(result) => {
                self.fetching = false;
                self.take_fetched(result)?;
            }
        }
        Ok(())
    }

    fn take_fetched(
        &mut self,
        found: Result<Option<(u64, Box<Report>)>, LedgerError>,
    ) -> Result<(), End> {
        match found {
            Ok(Some((seq, report))) => self.core.send_result(seq, *report)?,
            Ok(None) => self.caught_up = true,
            Err(error) => {
                self.retry_at = Instant::now().checked_add(LEDGER_RETRY);
                tracing::error!("results cannot be delivered now: {}", in_words(&error));
            }
        }
        Ok(())
    }
}

async fn say(runs: &Runs, run: RunId, answer: Answer) -> Done {
    match answer {
        Answer::Accepted { timeout_ms } => Done::Say(ToGateway::Accepted {
            run,
            timeout_ms: Some(timeout_ms),
        }),
        Answer::Refused { cause, message } => {
            tracing::info!(%run, ?cause, at = now_ms(), "refused: {message}");
            Done::Say(ToGateway::Refused(Refusal {
                run,
                cause,
                message,
            }))
        }
        Answer::Finished { seq } => match runs.ledger().result_at(seq).await {
            Ok(Some((seq, report))) => Done::Repeat(seq, Box::new(report)),
            missing => {
                let why = missing
                    .err()
                    .map_or_else(|| "it is not there".into(), |e| in_words(&e));
                let message = format!(
                    "this run is over, and was not started again; its result cannot be read here now: {why}"
                );
                Done::Say(ToGateway::Refused(Refusal {
                    run,
                    cause: Cause::OutcomeUnknown,
                    message,
                }))
            }
        },
    }
}

#[cfg(test)]
mod tests;
