//! What callers and hosts may do with runs.
//!
//! ```text
//! submit ──► stored ──► dispatched ──► accepted ──► over          (result: queued for the database, published, committed, acknowledged)
//!    │                       └───────────┴────────► refused       (committed, then published)
//!    │                       └─────────────────────► lost          (the host came back with another ledger, or not for a week)
//!    ├─► known: the first one's outcome
//!    └─► conflict, offline, busy: nothing stored, nothing sent
//! ```
//!
//! A dispatch is stored before it is sent, without a sync: a power cut may lose both, and then the host's result brings the
//! run back. With a run is stored to which ledger of its host it goes; it never goes to another one, whatever becomes of the
//! first: a host that comes back with another ledger may have executed it, so that it is lost. A run is claimed for a ledger before
//! it is on a link, so one that never left may be lost, too: that is the side to err on. A result may be shown before its sync: until it is acknowledged the host has it, too, and it is final. A refusal
//! is synced first: it says that nothing will be executed, and a lost refusal would be dispatched again.

mod absent;
mod board;
pub(crate) mod excess;
mod hosts;
mod order;

pub(crate) use hosts::Ticket;
pub use order::{Order, OrderError};

use crate::clock::now_ms;
use crate::db::runs::{Cancel, RunRow};
use crate::db::{self, Access, Db, DbError};
use crate::fleet::{Command, Fleet, HostKey, Link, Place, Unreachable};
use board::{Board, Progress};
use rusqlite::Connection;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use willcall_protocol::ids::{AgentId, RunId, SessionId};
use willcall_protocol::message::Dispatch;
use willcall_protocol::outcome::{Outcome, Report, RunState};

/// Why a caller gets no run.
#[derive(Debug, Error)]
pub enum RunError {
    /// No such host.
    #[error("there is no such host")]
    UnknownHost,
    /// No such run.
    #[error("there is no such run")]
    UnknownRun,
    /// The host cannot be reached; nothing was stored or sent.
    #[error("nothing was sent to the host")]
    Unreachable(#[from] Unreachable),
    /// The id belongs to a run with another body or host.
    #[error("the run's id belongs to another run")]
    Conflict,
    /// The database failed.
    #[error("the run could not be looked up or stored")]
    Db(#[from] DbError),
}

/// A run as a caller gets to see it, and whether this call made it.
#[derive(Debug)]
pub struct Seen {
    /// Where it stands, or what it came to.
    pub outcome: Outcome,
    /// Whether this call made it.
    pub new: bool,
}

/// The runs of this gateway.
#[derive(Debug, Clone)]
pub struct Runs {
    pub(crate) db: Db,
    pub(crate) fleet: Arc<Fleet>,
    board: Arc<Board>,
    /// When canceled, nobody waits any longer.
    shutdown: CancellationToken,
}

/// What the database says to an order.
enum Admitted {
    Stored(watch::Receiver<Progress>),
    Known(Box<RunRow>),
    Absent,
}

impl Runs {
    /// Runs kept in `db`, on the hosts of `fleet`.
    pub fn new(db: Db, fleet: Arc<Fleet>, shutdown: CancellationToken) -> Self {
        Self {
            db,
            fleet,
            board: Arc::default(),
            shutdown,
        }
    }

    /// Has a host run a command, at most once, and waits for its end until `until`.
    pub async fn submit(
        &self,
        host: &HostKey,
        order: Order,
        until: Instant,
    ) -> Result<Seen, RunError> {
        let run = order.dispatch.run;
        let Some(link) = self.fleet.find(host) else {
            let agent = self.known_host(host).await?;
            return self
                .repeat(agent, &order, Unreachable::Offline, until)
                .await;
        };
        let place = match link.reserve() {
            Ok(place) => place,
            Err(why) => return self.repeat(link.agent, &order, why, until).await,
        };
        let (hash, session) = (order.hash, order.dispatch.session.clone());
        match self.store(&link, order, place).await? {
            Admitted::Stored(watch) => self.first(&link.name, (run, &session), watch, until).await,
            Admitted::Known(row) => self.second(&row, link.agent, &hash, until).await,
            Admitted::Absent => Err(RunError::Conflict),
        }
    }

    /// Where a run stands; waits for its end until `until`.
    pub async fn wait(&self, run: RunId, until: Instant) -> Result<Outcome, RunError> {
        let row = self.find(run).await?;
        if let Some(report) = row.report {
            return Ok(outcome(&row.host_name, report, &row.session));
        }
        let watch = self.board.watch(run, row.host);
        let row = self.find(run).await?;
        if let Some(report) = row.report {
            self.board.remove(run);
            return Ok(outcome(&row.host_name, report, &row.session));
        }
        match self.last(watch, until).await {
            Progress::Over(report) => Ok(outcome(&row.host_name, (*report).clone(), &row.session)),
            Progress::Conflict => Err(RunError::UnknownRun),
            passing => Ok(outcome(
                &row.host_name,
                standing(run, &row.session, &passing),
                &row.session,
            )),
        }
    }

    /// Asks for the end of a run, now or when its host is back; says where it stands.
    pub async fn cancel(&self, run: RunId) -> Result<Outcome, RunError> {
        let (answer, stored) = oneshot::channel();
        let fleet = Arc::clone(&self.fleet);
        let work = move |c: &Connection| {
            db::runs::want_end(c, run, Cancel::Caller)?;
            db::runs::find(c, run)
        };
        let then = move |done: Result<Option<RunRow>, DbError>| {
            let told = match &done {
                Ok(Some(row)) if row.report.is_none() => fleet.tell(row.host, Command::Cancel(run)),
                _ => Ok(()),
            };
            // The caller may be gone.
            drop(answer.send(done.map(|row| (row, told))));
        };
        self.db.submit(Access::Durable, work, then).await?;
        let (row, told) = stored.await.unwrap_or(Err(DbError::Closed))?;
        if row.is_none() {
            return Err(RunError::UnknownRun);
        }
        match told {
            Err(Unreachable::Busy) => Err(Unreachable::Busy.into()),
            Ok(()) | Err(Unreachable::Offline) => self.wait(run, Instant::now()).await,
        }
    }

    /// The run's host and session.
    pub async fn find(&self, run: RunId) -> Result<RunRow, RunError> {
        let row = self
            .db
            .call(Access::Read, move |c| db::runs::find(c, run))
            .await?;
        row.ok_or(RunError::UnknownRun)
    }

    /// The agent of a host that need not be connected.
    pub async fn known_host(&self, host: &HostKey) -> Result<AgentId, RunError> {
        let host = host.clone();
        let found = self.db.call(Access::Read, move |c| match host {
            HostKey::Name(name) => db::hosts::by_name(c, &name),
            HostKey::Id(agent) => Ok(match db::hosts::standing(c, agent)? {
                db::hosts::Standing::Unknown => None,
                _ => Some(agent),
            }),
        });
        found.await?.ok_or(RunError::UnknownHost)
    }

    /// Stores the order and sends it once it is stored, whatever becomes of the caller meanwhile.
    async fn store(&self, link: &Link, order: Order, place: Place) -> Result<Admitted, RunError> {
        let (answer, admitted) = oneshot::channel();
        let (agent, run, ledger) = (link.agent, order.dispatch.run, link.ledger);
        let (board, fleet) = (Arc::clone(&self.board), Arc::clone(&self.fleet));
        let work = move |c: &Connection| {
            let dispatch = order.dispatch;
            if db::runs::insert(c, (agent, ledger), &dispatch, &order.hash, now_ms())? {
                return Ok((Some(dispatch), None));
            }
            Ok((None, db::runs::find(c, run)?))
        };
        let then = move |done: Result<(Option<Box<Dispatch>>, Option<RunRow>), DbError>| {
            let admitted = done.map(|done| match done {
                (Some(dispatch), _) => {
                    let watch = board.watch(run, agent);
                    place.dispatch(&fleet, dispatch);
                    Admitted::Stored(watch)
                }
                (None, Some(row)) => Admitted::Known(Box::new(row)),
                (None, None) => Admitted::Absent,
            });
            // The caller may be gone; the run goes on.
            drop(answer.send(admitted));
        };
        self.db.submit(Access::Write, work, then).await?;
        Ok(admitted.await.unwrap_or(Err(DbError::Closed))?)
    }

    /// The answer to the first call with a run's id.
    async fn first(
        &self,
        host: &str,
        (run, session): (RunId, &SessionId),
        watch: watch::Receiver<Progress>,
        until: Instant,
    ) -> Result<Seen, RunError> {
        let outcome = match self.last(watch, until).await {
            Progress::Conflict => return Err(RunError::Conflict),
            Progress::Over(report) => outcome(host, (*report).clone(), session),
            passing => outcome(host, standing(run, session, &passing), session),
        };
        Ok(Seen { outcome, new: true })
    }

    /// The answer to a further call with a run's id.
    async fn second(
        &self,
        row: &RunRow,
        agent: AgentId,
        hash: &[u8; 32],
        until: Instant,
    ) -> Result<Seen, RunError> {
        // Of a run that is known only from its result the body is unknown: its id alone has to do.
        let same = row.hash.as_ref().is_none_or(|known| known == hash);
        if row.host != agent || !same {
            return Err(RunError::Conflict);
        }
        Ok(Seen {
            outcome: self.wait(row.run, until).await?,
            new: false,
        })
    }

    /// The answer where nothing can be sent: the first one's outcome, if there was a first one.
    async fn repeat(
        &self,
        agent: AgentId,
        order: &Order,
        why: Unreachable,
        until: Instant,
    ) -> Result<Seen, RunError> {
        match self.find(order.dispatch.run).await {
            Ok(row) => self.second(&row, agent, &order.hash, until).await,
            Err(RunError::UnknownRun) => Err(why.into()),
            Err(other) => Err(other),
        }
    }

    /// The last progress, or the one at `until`. Cancel safe.
    async fn last(&self, mut watch: watch::Receiver<Progress>, until: Instant) -> Progress {
        let last = async {
            // A sender that is gone has left its last value behind.
            drop(watch.wait_for(Progress::is_last).await);
        };
        tokio::select! {
            biased;
            () = last => {}
            () = self.shutdown.cancelled() => {}
            () = tokio::time::sleep_until(until) => {}
        }
        watch.borrow().clone()
    }
}

fn outcome(host: &str, mut report: Report, session: &SessionId) -> Outcome {
    // The session is what the run was asked for in, whatever its host says.
    report.session.clone_from(session);
    Outcome {
        host: host.to_owned(),
        report,
    }
}

fn standing(run: RunId, session: &SessionId, progress: &Progress) -> Report {
    let state = match progress {
        Progress::Accepted(_) => RunState::Accepted,
        _ => RunState::Dispatched,
    };
    let mut report = Report::bare(run, session.clone(), state);
    if let Progress::Accepted(timeout_ms) = progress {
        report.timeout_ms = *timeout_ms;
    }
    report
}
