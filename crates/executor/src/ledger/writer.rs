//! The one thread that touches the ledger. It takes all that waits, does it in one
//! transaction, commits once and then answers each.

use super::claim::Verdict;
use super::error::LedgerError;
use super::forget::Forgotten;
use super::rows::Unfinished;
use super::tables::{Durability, NewRun, Standing, Tables};
use crate::limits::{MAX_LEDGER_BATCH, SYNC_WITHIN};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;
use willcall_daemon::in_words;
use willcall_outputs::retention::Now;
use willcall_protocol::ids::RunId;
use willcall_protocol::outcome::Report;

/// Where an answer goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What the ledger can be asked.
#[derive(Debug)]
pub(super) enum Request {
    Claim(NewRun, Answer<Verdict>),
    Finish(Arc<Report>, u64, Answer<u64>),
    Cancel(RunId, u64, Answer<Standing>),
    Ack(u64),
    Standing(RunId, Answer<Standing>),
    ResultAfter(u64, Answer<Option<(u64, Report)>>),
    ResultAt(u64, Answer<Option<(u64, Report)>>),
    Unfinished(Answer<Vec<Unfinished>>),
    Unsettled(Answer<BTreeSet<Uuid>>),
    ReportOf(RunId, Answer<Option<Report>>),
    NoteAcked(Now, Answer<()>),
    Forget(Now, Answer<Forgotten>),
}

/// An answer that waits for the commit.
type Held = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Serves requests until every handle is gone.
pub(super) async fn serve(mut tables: Tables, mut requests: mpsc::Receiver<Request>) {
    let mut sync_by: Option<Instant> = None;
    loop {
        let first = match sync_by {
            None => requests.recv().await,
            Some(by) => {
                let Ok(request) = timeout_at(by, requests.recv()).await else {
                    sync_by = sync(&mut tables);
                    continue;
                };
                request
            }
        };
        let Some(first) = first else { break };
        match Batch::gather(first, &mut requests).commit(&mut tables) {
            Debt::Same => {}
            Debt::None => sync_by = None,
            Debt::Some => sync_by = sync_by.or_else(|| Instant::now().checked_add(SYNC_WITHIN)),
        }
    }
    if sync_by.is_some() {
        sync(&mut tables);
    }
}

/// Syncs what was only written. Where that fails it is tried again with the same patience.
fn sync(tables: &mut Tables) -> Option<Instant> {
    match tables.sync() {
        Ok(()) => None,
        Err(error) => {
            tracing::error!(
                "{}; what ended last may be forgotten if the power goes now",
                in_words(&error)
            );
            Instant::now().checked_add(20 * SYNC_WITHIN)
        }
    }
}

/// What a batch does to the debt of commits that are written and not synced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Debt {
    Same,
    None,
    Some,
}

/// Requests of one transaction.
#[derive(Debug)]
pub(super) struct Batch(Vec<Request>);

impl Batch {
    pub(super) fn gather(first: Request, requests: &mut mpsc::Receiver<Request>) -> Self {
        let mut batch = vec![first];
        while batch.len() < MAX_LEDGER_BATCH
            && let Ok(request) = requests.try_recv()
        {
            batch.push(request);
        }
        Self(batch)
    }

    /// Does everything in one transaction, and answers each once it is through.
    pub(super) fn commit(self, tables: &mut Tables) -> Debt {
        let durability = self.durability();
        let owes = self
            .0
            .iter()
            .any(|request| matches!(request, Request::Finish(..)));
        let before = tables.changes();
        let mut held: Vec<Held> = Vec::with_capacity(self.0.len());
        let requests = self.0;
        let done = tables.transact(durability, |tables| {
            let mut work = Work {
                tables,
                failed: None,
            };
            held.extend(requests.into_iter().map(|request| work.perform(request)));
            work.failed
                .map_or(Ok(()), |why| Err(LedgerError::Batch(why)))
        });
        let done = done.map_err(|error| in_words(&error));
        if let Err(error) = &done {
            // Whoever asked hears it, and says so where it matters.
            tracing::debug!("the ledger did not take a transaction: {error}");
        }
        for answer in held {
            answer(done.clone());
        }
        match durability {
            // A commit that wrote nothing syncs nothing.
            _ if done.is_err() || tables.changes() == before => Debt::Same,
            Durability::Synced => Debt::None,
            Durability::Written if owes => Debt::Some,
            Durability::Written => Debt::Same,
        }
    }

    /// A claim must survive a loss of power before anything is started for it, and a tombstone
    /// before anybody relies on it. All else can be made good.
    fn durability(&self) -> Durability {
        let synced =
            |request: &Request| matches!(request, Request::Claim(..) | Request::Cancel(..));
        if self.0.iter().any(synced) {
            Durability::Synced
        } else {
            Durability::Written
        }
    }
}

/// One transaction under way. After the first statement that failed nothing more is done: SQLite may
/// have ended the transaction, and what follows would stand alone.
struct Work<'a> {
    tables: &'a mut Tables,
    failed: Option<String>,
}

impl Work<'_> {
    fn perform(&mut self, request: Request) -> Held {
        match request {
            Request::Claim(new, answer) => self.hold(answer, |tables| tables.claim(&new)),
            Request::Finish(report, now, answer) => {
                self.hold(answer, |tables| tables.finish(&report, now))
            }
            Request::Cancel(run, now, answer) => {
                self.hold(answer, |tables| tables.cancel(run, now))
            }
            Request::Standing(run, answer) => self.hold(answer, |tables| tables.standing(run)),
            Request::ResultAfter(seq, answer) => {
                self.hold(answer, |tables| tables.result_after(seq))
            }
            Request::ResultAt(seq, answer) => self.hold(answer, |tables| tables.result_at(seq)),
            Request::Unfinished(answer) => self.hold(answer, |tables| tables.unfinished()),
            Request::Unsettled(answer) => self.hold(answer, |tables| tables.unsettled()),
            Request::ReportOf(run, answer) => self.hold(answer, |tables| tables.report_of(run)),
            Request::NoteAcked(now, answer) => self.hold(answer, |tables| tables.note_acked(now)),
            Request::Forget(now, answer) => self.hold(answer, |tables| tables.forget(now)),
            Request::Ack(seq) => {
                // Nobody waits; the gateway acknowledges again whatever it is sent again.
                let _ = self.attempt(|tables| tables.ack(seq));
                Box::new(|_| {})
            }
        }
    }

    /// Does it, and keeps the answer back until the transaction is through.
    fn hold<T: Send + 'static>(
        &mut self,
        answer: Answer<T>,
        work: impl FnOnce(&mut Tables) -> Result<T, LedgerError>,
    ) -> Held {
        let result = self.attempt(work);
        Box::new(move |committed| {
            let result =
                result.and_then(|value| committed.map(|()| value).map_err(LedgerError::Batch));
            // Whoever asked may be gone.
            let _ = answer.send(result);
        })
    }

    fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Tables) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        if let Some(why) = &self.failed {
            return Err(LedgerError::Batch(why.clone()));
        }
        let result = work(self.tables);
        if let Err(error @ LedgerError::Sql { .. }) = &result {
            self.failed = Some(in_words(error));
        }
        result
    }
}
