//! What must not be forgotten: which runs were claimed, how they ended, what the gateway has.
//!
//! One thread owns the database; everybody else holds a [`Ledger`], a handle to ask it.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | [`claim`] | what a dispatch comes to | none |
//! | `tables` | the tables, and every statement on them | SQLite |
//! | `writer` | the thread: many requests, one commit | SQLite |

pub mod claim;
mod error;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use error::LedgerError;
pub(crate) use error::in_words;
pub use tables::{Identity, NewRun, Standing, Unfinished};

use crate::limits::MAX_LEDGER_QUEUE;
use claim::Verdict;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tables::Tables;
use tokio::sync::{mpsc, oneshot};
use willcall_protocol::ids::RunId;
use willcall_protocol::outcome::Report;
use writer::{Answer, Request};

/// A handle to the ledger; cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledger {
    requests: Option<mpsc::Sender<Request>>,
    identity: Identity,
    /// Why there is none.
    closed: Arc<str>,
}

/// The ledger's thread. It ends when the last handle is gone.
#[derive(Debug)]
pub struct LedgerThread(JoinHandle<()>);

impl LedgerThread {
    /// Waits for it. Blocks: every handle must be gone.
    pub fn join(self) {
        if let Err(panic) = self.0.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Ledger {
    /// Opens the ledger at `path`, making it where there is none, and starts its thread.
    pub fn open(path: &Path, boot_id: &str) -> Result<(Self, LedgerThread), LedgerError> {
        let tables = Tables::open(path, boot_id)?;
        let identity = tables.identity();
        let (requests, queue) = mpsc::channel(MAX_LEDGER_QUEUE);
        let no_thread =
            |error: io::Error| LedgerError::Closed(format!("no thread for it: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(no_thread)?;
        let thread = std::thread::Builder::new()
            .name("ledger".into())
            .spawn(move || runtime.block_on(writer::serve(tables, queue)))
            .map_err(no_thread)?;
        let ledger = Self {
            requests: Some(requests),
            identity,
            closed: "its thread has ended".into(),
        };
        Ok((ledger, LedgerThread(thread)))
    }

    /// Stands in for a ledger that cannot be opened: answers everything with the reason.
    pub fn closed(why: &str) -> Self {
        let identity = Identity {
            ledger: uuid::Uuid::nil(),
            incarnation: 0,
        };
        Self {
            requests: None,
            identity,
            closed: why.into(),
        }
    }

    /// Which ledger this is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Claims a run. Once this returns [`Verdict::First`], the claim survives a loss of power.
    pub async fn claim(&self, new: NewRun) -> Result<Verdict, LedgerError> {
        self.claiming(new).await
    }

    /// As [`Ledger::claim`], but the claim is under way when this returns, before it is awaited.
    pub fn claiming(
        &self,
        new: NewRun,
    ) -> impl Future<Output = Result<Verdict, LedgerError>> + Send + use<> {
        let asked = self.ask(|answer| Request::Claim(new, answer));
        let closed = self.closed.clone();
        async move { answered(asked?.await, &closed) }
    }

    /// Enters the end of a run. Once this returns its number, it survives the death of this
    /// process, and soon a loss of power.
    pub async fn finish(&self, report: Arc<Report>, now_ms: u64) -> Result<u64, LedgerError> {
        self.wait(|answer| Request::Finish(report, now_ms, answer))
            .await
    }

    /// Notes that a run must not be started, unless it is known. Returns what it was.
    pub async fn cancel(&self, run: RunId, now_ms: u64) -> Result<Standing, LedgerError> {
        self.wait(|answer| Request::Cancel(run, now_ms, answer))
            .await
    }

    /// What is known of a run.
    pub async fn standing(&self, run: RunId) -> Result<Standing, LedgerError> {
        self.wait(|answer| Request::Standing(run, answer)).await
    }

    /// The first result after `seq`.
    pub async fn result_after(&self, seq: u64) -> Result<Option<(u64, Report)>, LedgerError> {
        self.wait(|answer| Request::ResultAfter(seq, answer)).await
    }

    /// The result with this number.
    pub async fn result_at(&self, seq: u64) -> Result<Option<(u64, Report)>, LedgerError> {
        self.wait(|answer| Request::ResultAt(seq, answer)).await
    }

    /// Every run that is claimed and not over.
    pub async fn unfinished(&self) -> Result<Vec<Unfinished>, LedgerError> {
        self.wait(Request::Unfinished).await
    }

    /// Notes that the gateway has every result up to `seq`. One that is lost comes again.
    pub fn ack(&self, seq: u64) {
        if let Some(requests) = &self.requests {
            let _ = requests.try_send(Request::Ack(seq));
        }
    }

    async fn wait<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, LedgerError> {
        answered(self.ask(request)?.await, &self.closed)
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(Answer<T>) -> Request,
    ) -> Result<oneshot::Receiver<Result<T, LedgerError>>, LedgerError> {
        let closed = || LedgerError::Closed(self.closed.to_string());
        let requests = self.requests.as_ref().ok_or_else(closed)?;
        let (answer, receiver) = oneshot::channel();
        requests
            .try_send(request(answer))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => LedgerError::Behind,
                mpsc::error::TrySendError::Closed(_) => closed(),
            })?;
        Ok(receiver)
    }
}

fn answered<T>(
    answer: Result<Result<T, LedgerError>, oneshot::error::RecvError>,
    closed: &str,
) -> Result<T, LedgerError> {
    answer.unwrap_or_else(|_| Err(LedgerError::Closed(closed.to_owned())))
}
