//! What must not be forgotten: which runs were claimed, how they ended, what the gateway has.
//!
//! One thread owns the database; everybody else holds a [`Ledger`], a handle to ask it.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | [`claim`] | what a dispatch comes to | none |
//! | `tables` | the tables, and every statement on them | SQLite |
//! | `rows` | runs and results as they are read back | SQLite |
//! | `forget` | what it forgets, and when | SQLite |
//! | `writer` | the thread: many requests, one commit | SQLite |

pub mod claim;
mod error;
mod forget;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use error::LedgerError;
pub use forget::Forgotten;
pub use rows::Unfinished;
pub use tables::{Identity, NewRun, Standing};

use crate::limits::MAX_LEDGER_QUEUE;
use claim::Verdict;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use tables::Tables;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;
use willcall_outputs::retention::Now;
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
    fn serving(tables: Tables, queue: mpsc::Receiver<Request>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let thread = std::thread::Builder::new().name("ledger".into());
        Ok(Self(thread.spawn(move || {
            runtime.block_on(writer::serve(tables, queue));
        })?))
    }

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
        let (requests, queue) = mpsc::channel(MAX_LEDGER_QUEUE);
        let ledger = Self::asking(requests, tables.identity());
        let no_thread =
            |error: io::Error| LedgerError::Closed(format!("no thread for it: {error}"));
        let thread = LedgerThread::serving(tables, queue).map_err(no_thread)?;
        Ok((ledger, thread))
    }

    /// One that has more to do than it may hold, until it is told to begin with it.
    #[cfg(test)]
    pub(crate) fn behind(path: &Path) -> (Self, impl FnOnce() -> LedgerThread + use<>) {
        let tables = Tables::open(path, "boot").expect("opens");
        let (requests, queue) = mpsc::channel(1);
        requests.try_send(Request::Ack(0)).expect("room for one");
        let ledger = Self::asking(requests, tables.identity());
        let begin = move || LedgerThread::serving(tables, queue).expect("a thread");
        (ledger, begin)
    }

    fn asking(requests: mpsc::Sender<Request>, identity: Identity) -> Self {
        Self {
            requests: Some(requests),
            identity,
            closed: "its thread has ended".into(),
        }
    }

    /// Stands in for a ledger that cannot be opened: answers everything with the reason.
    pub fn closed(why: &str) -> Self {
        let identity = Identity {
            ledger: Uuid::nil(),
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

    /// Claims a run. Once this says [`Verdict::First`], the claim survives a loss of power.
    pub fn claim(&self, new: NewRun) -> Asked<Verdict> {
        self.ask(|answer| Request::Claim(new, answer))
    }

    /// Enters the end of a run. Once this says its number, it survives the death of this process, and
    /// soon a loss of power.
    pub fn finish(&self, report: Arc<Report>, now_ms: u64) -> Asked<u64> {
        self.ask(|answer| Request::Finish(report, now_ms, answer))
    }

    /// Notes that a run must not be started, unless it is known. Says what it was.
    pub fn cancel(&self, run: RunId, now_ms: u64) -> Asked<Standing> {
        self.ask(|answer| Request::Cancel(run, now_ms, answer))
    }

    /// What is known of a run.
    pub fn standing(&self, run: RunId) -> Asked<Standing> {
        self.ask(|answer| Request::Standing(run, answer))
    }

    /// The first result after `seq`.
    pub fn result_after(&self, seq: u64) -> Asked<Option<(u64, Report)>> {
        self.ask(|answer| Request::ResultAfter(seq, answer))
    }

    /// The result with this number.
    pub fn result_at(&self, seq: u64) -> Asked<Option<(u64, Report)>> {
        self.ask(|answer| Request::ResultAt(seq, answer))
    }

    /// Every run that is claimed and not over.
    pub fn unfinished(&self) -> Asked<Vec<Unfinished>> {
        self.ask(Request::Unfinished)
    }

    /// Every run that is not over, or whose result the gateway does not have.
    pub fn unsettled(&self) -> Asked<BTreeSet<Uuid>> {
        self.ask(Request::Unsettled)
    }

    /// How a run ended, if it is over and not forgotten.
    pub fn report_of(&self, run: RunId) -> Asked<Option<Report>> {
        self.ask(|answer| Request::ReportOf(run, answer))
    }

    /// Notes how far the gateway is now, for [`Ledger::forget`] of a week later. To be called before it.
    pub fn note_acked(&self, now: Now) -> Asked<()> {
        self.ask(|answer| Request::NoteAcked(now, answer))
    }

    /// Forgets some of what is old enough; to be called again while there is more.
    pub fn forget(&self, now: Now) -> Asked<Forgotten> {
        self.ask(|answer| Request::Forget(now, answer))
    }

    /// Notes that the gateway has every result up to `seq`. One that is lost comes again.
    pub fn ack(&self, seq: u64) {
        if let Some(requests) = &self.requests {
            let _ = requests.try_send(Request::Ack(seq));
        }
    }

    fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Asked<T> {
        let closed = || LedgerError::Closed(self.closed.to_string());
        let Some(requests) = &self.requests else {
            return Asked(Err(Some(closed())));
        };
        let (answer, receiver) = oneshot::channel();
        Asked(match requests.try_send(request(answer)) {
            Ok(()) => Ok(receiver),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Some(LedgerError::Behind)),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Some(closed())),
        })
    }
}

/// A request that is under way, in the order of the calls: what was asked later is done later. Dropping it
/// takes nothing back.
#[derive(Debug)]
#[must_use = "the answer says whether it was done"]
pub struct Asked<T>(Result<oneshot::Receiver<Result<T, LedgerError>>, Option<LedgerError>>);

impl<T> Future for Asked<T> {
    type Output = Result<T, LedgerError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = || LedgerError::Closed("its thread has ended".to_owned());
        match &mut self.get_mut().0 {
            Ok(receiver) => Pin::new(receiver)
                .poll(cx)
                .map(|answer| answer.unwrap_or_else(|_| Err(ended()))),
            Err(refused) => Poll::Ready(Err(refused.take().unwrap_or_else(ended))),
        }
    }
}
