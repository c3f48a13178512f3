//! What hosts say of runs.

use super::{Progress, Runs, excess};
use crate::clock::now_ms;
use crate::db::hosts::{self, Facts, Standing};
use crate::db::runs::{self, Cancel, OpenRun, Stored};
use crate::db::{Access, DbError};
use crate::limits::{BACKLOG_PAGE, LATE_AFTER};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::oneshot;
use uuid::Uuid;
use willcall_protocol::ids::{AgentId, RunId};
use willcall_protocol::message::Refusal;
use willcall_protocol::outcome::{Cause, Report};

/// What arrives once the database has committed.
pub(crate) type Ticket<T> = oneshot::Receiver<Result<T, DbError>>;

impl Runs {
    /// Whether an agent may connect.
    pub(crate) async fn standing(&self, agent: AgentId) -> Result<Standing, DbError> {
        self.db
            .call(Access::Read, move |c| hosts::standing(c, agent))
            .await
    }

    /// Notes a hello; gives the number of the last result of that ledger that is committed. Needs no sync of its own: the next
    /// result that is acknowledged syncs it, and a ledger that is lost with it begins at 0 again.
    pub(crate) async fn greet(
        &self,
        agent: AgentId,
        ledger: Uuid,
        facts: Facts,
    ) -> Result<u64, DbError> {
        let now = now_ms();
        self.db
            .call(Access::Write, move |c| {
                hosts::greet(c, agent, ledger, &facts, now)
            })
            .await
    }

    /// Notes that a host was heard of until now.
    pub(crate) async fn parted(&self, agent: AgentId, last_heard: i64) -> Result<(), DbError> {
        self.db
            .call(Access::Write, move |c| hosts::seen(c, agent, last_heard))
            .await
    }

    /// The host has claimed a run: from now on nobody may say that it was not started, only its host.
    pub(crate) async fn accepted(
        &self,
        agent: AgentId,
        run: RunId,
        timeout_ms: Option<u64>,
    ) -> Result<(), DbError> {
        self.board
            .publish(run, agent, Progress::Accepted(timeout_ms));
        let work = move |c: &rusqlite::Connection| runs::accept(c, agent, run);
        let then = move |done: Result<(), DbError>| {
            if let Err(error) = done {
                tracing::error!(%agent, %run, %error, "it cannot be noted that the host accepted a run");
            }
        };
        self.db.submit(Access::Write, work, then).await
    }

    /// A run is over. Shows it to those who wait, and gives the ticket of its commit: acknowledge no earlier.
    pub(crate) async fn finished(
        &self,
        agent: AgentId,
        ledger: Uuid,
        seq: i64,
        report: Report,
    ) -> Result<Ticket<Stored>, DbError> {
        let (report, now) = (Arc::new(report), now_ms());
        let stored = Arc::clone(&report);
        let work =
            move |c: &rusqlite::Connection| runs::finish(c, agent, ledger, seq, &stored, now);
        let ticket = self.db.ticket(Access::Durable, work).await?;
        let run = report.run;
        self.board.publish(run, agent, Progress::Over(report));
        Ok(ticket)
    }

    /// The host refused a run. Shown once it is committed.
    pub(crate) async fn refused(&self, agent: AgentId, refusal: Refusal) -> Result<(), DbError> {
        let Refusal {
            run,
            cause,
            message,
        } = refusal;
        let board = Arc::clone(&self.board);
        if cause == Cause::Conflict {
            let work = move |c: &rusqlite::Connection| runs::forget(c, agent, run);
            return self
                .db
                .submit(Access::Durable, work, move |done| {
                    if matches!(done, Ok(true)) {
                        board.publish(run, agent, Progress::Conflict);
                    }
                })
                .await;
        }
        let message = excess::shortened(&message);
        let now = now_ms();
        let work =
            move |c: &rusqlite::Connection| runs::refuse(c, agent, (run, cause, message), now);
        let then = move |done: Result<Option<Report>, DbError>| match done {
            Ok(Some(report)) => board.publish(run, agent, Progress::Over(Arc::new(report))),
            Ok(None) => tracing::debug!(%agent, %run, "the host refused a run that is not open"),
            Err(error) => tracing::error!(%agent, %run, %error, "a refusal cannot be stored"),
        };
        self.db.submit(Access::Durable, work, then).await
    }

    /// Whether a run that was stored for the ledger `from`, and never sent there, may be sent to `to`.
    pub(crate) async fn redirect(&self, run: RunId, from: Uuid, to: Uuid) -> Result<bool, DbError> {
        self.db
            .call(Access::Durable, move |c| runs::redirect(c, run, from, to))
            .await
    }

    /// Ends the open runs that were sent to another ledger of that host: what that one did, nobody knows any more, and this one
    /// would do it again. To be asked for once the link is in the fleet, and before its backlog.
    pub(crate) async fn lose(&self, agent: AgentId, ledger: Uuid) -> Result<(), DbError> {
        let (board, now) = (Arc::clone(&self.board), now_ms());
        let work = move |c: &rusqlite::Connection| runs::lose(c, agent, ledger, now);
        let then = move |done: Result<Vec<Report>, DbError>| match done {
            Ok(lost) => {
                for report in lost {
                    let run = report.run;
                    tracing::warn!(%agent, %run, blame = "peer", "the host has another ledger than the run was sent to: it is lost");
                    board.publish(run, agent, Progress::Over(Arc::new(report)));
                }
            }
            Err(error) => tracing::error!(%agent, %error, "lost runs cannot be noted"),
        };
        self.db.submit(Access::Durable, work, then).await
    }

    /// The next open runs of a host after `place`, noted as sent to that ledger. Those that have waited too long, and that the
    /// host has neither accepted nor names as running, have to end.
    pub(crate) async fn backlog(
        &self,
        agent: AgentId,
        ledger: Uuid,
        place: i64,
        running: Arc<HashSet<RunId>>,
    ) -> Result<Ticket<Vec<OpenRun>>, DbError> {
        let late = now_ms() - i64::try_from(LATE_AFTER.as_millis()).unwrap_or(i64::MAX);
        let board = Arc::clone(&self.board);
        let work = move |c: &rusqlite::Connection| {
            let mut open = runs::open_after(c, (agent, ledger), place, BACKLOG_PAGE)?;
            for run in &mut open {
                let id = run.dispatch.run;
                let arrived = run.accepted || running.contains(&id);
                match run.cancel {
                    // It was there in time after all.
                    Some(Cancel::Late) if arrived => run.cancel = None,
                    None if run.created < late && !arrived => {
                        runs::want_end(c, id, Cancel::Late)?;
                        run.cancel = Some(Cancel::Late);
                    }
                    _ => {}
                }
                if !run.sent {
                    runs::redirect(c, id, Uuid::nil(), ledger)?;
                }
                drop(board.watch(id, agent));
            }
            Ok(open)
        };
        self.db.ticket(Access::Durable, work).await
    }
}
