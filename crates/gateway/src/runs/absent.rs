//! Runs of hosts that do not come back.

use super::{Progress, Runs};
use crate::db::{Access, DbError, hosts, runs};
use crate::limits::{GIVE_UP_AFTER, GIVE_UP_PAGE};
use std::sync::Arc;
use tokio::sync::oneshot;
use willcall_protocol::ids::AgentId;
use willcall_protocol::outcome::Report;

impl Runs {
    /// Ends as lost the open runs of hosts that were not heard of for [`GIVE_UP_AFTER`]; says how many. `now` is in milliseconds
    /// since 1970. Not to be asked for before hosts have had the time to come back to a gateway that was away itself.
    pub(crate) async fn give_up(&self, now: i64) -> Result<usize, DbError> {
        self.note_heard().await?;
        let before =
            now.saturating_sub(i64::try_from(GIVE_UP_AFTER.as_millis()).unwrap_or(i64::MAX));
        let (mut all, page) = (0, usize::try_from(GIVE_UP_PAGE).unwrap_or(usize::MAX));
        loop {
            let ended = self.give_up_some(before, now).await?;
            all += ended;
            if ended < page {
                return Ok(all);
            }
        }
    }

    /// Writes down until when connected hosts were heard of: of a link that lasts nothing else does, and a gateway that dies
    /// would know only when it began.
    async fn note_heard(&self) -> Result<(), DbError> {
        let heard = self.fleet.last_heard();
        let work = move |c: &rusqlite::Connection| {
            heard
                .into_iter()
                .try_for_each(|(agent, at)| hosts::seen(c, agent, at))
        };
        self.db.call(Access::Write, work).await
    }

    async fn give_up_some(&self, before: i64, now: i64) -> Result<usize, DbError> {
        let (answer, ended) = oneshot::channel();
        let board = Arc::clone(&self.board);
        let work = move |c: &rusqlite::Connection| runs::give_up(c, before, GIVE_UP_PAGE, now);
        let then = move |done: Result<Vec<(AgentId, Report)>, DbError>| {
            let ended = done.map(|lost| {
                let count = lost.len();
                for (agent, report) in lost {
                    let run = report.run;
                    tracing::warn!(%agent, %run, "the host does not come back: the run is lost");
                    board.publish(run, agent, Progress::Over(Arc::new(report)));
                }
                count
            });
            drop(answer.send(ended));
        };
        self.db.submit(Access::Durable, work, then).await?;
        ended.await.unwrap_or(Err(DbError::Closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::hosts::Facts;
    use crate::db::{self, Db};
    use crate::fleet::Fleet;
    use tokio::time::{Duration, Instant};
    use tokio_util::sync::CancellationToken;
    use uuid::Uuid;
    use willcall_protocol::ids::RunId;
    use willcall_protocol::message::Dispatch;
    use willcall_protocol::outcome::{Cause, RunState};

    const DAY: i64 = 24 * 60 * 60 * 1000;
    const LEDGER: Uuid = Uuid::from_u128(9);

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    fn dispatch(run: u128) -> Dispatch {
        let run = Uuid::from_u128(run);
        let json =
            serde_json::json!({"run": run, "session": "s", "principal": "p", "argv": ["true"]});
        serde_json::from_value(json).expect("a dispatch")
    }

    /// A gateway whose host 1 was last heard of on day 0 and has a run of that day.
    fn world() -> (tempfile::TempDir, Runs) {
        let dir = tempfile::tempdir().expect("a directory");
        let connection = db::open(&dir.path().join("db")).expect("opened");
        hosts::insert(&connection, agent(1), "web", 0).expect("registered");
        hosts::seen(&connection, agent(1), 1).expect("seen");
        insert(&connection, 10, 0);
        let (db, _) = Db::start(connection).expect("started");
        (dir, Runs::new(db, Arc::default(), CancellationToken::new()))
    }

    fn insert(c: &rusqlite::Connection, run: u128, at: i64) {
        let stored = runs::insert(c, (agent(1), LEDGER), &dispatch(run), &[0; 32], at);
        assert!(stored.expect("stored"));
    }

    async fn state(runs: &Runs, run: u128) -> Report {
        let run = RunId(Uuid::from_u128(run));
        runs.wait(run, Instant::now()).await.expect("known").report
    }

    #[tokio::test]
    async fn a_run_of_a_host_that_does_not_come_back_is_lost_after_a_week() {
        let (_dir, runs) = world();
        let waiting = runs.clone();
        let until = Instant::now() + Duration::from_secs(20);
        let run = RunId(Uuid::from_u128(10));
        let mut waiters = tokio::task::JoinSet::new();
        waiters.spawn(async move { waiting.wait(run, until).await });
        assert_eq!(runs.give_up(7 * DAY).await.expect("looked"), 0);
        assert!(!state(&runs, 10).await.state.is_final());
        assert_eq!(runs.give_up(7 * DAY + 2).await.expect("looked"), 1);
        let seen = waiters
            .join_next()
            .await
            .expect("waited")
            .expect("no panic");
        for report in [seen.expect("known").report, state(&runs, 10).await] {
            assert_eq!(
                (report.state, report.cause),
                (RunState::Lost, Some(Cause::OutcomeUnknown))
            );
            let message = report.message.expect("a message");
            assert!(
                message.contains("not been heard of since 1970-01-01T00:00:00Z"),
                "{message}"
            );
        }
        assert_eq!(runs.give_up(8 * DAY).await.expect("looked"), 0);
    }

    #[tokio::test]
    async fn a_host_that_is_there_keeps_its_runs_however_old_and_so_does_a_new_run() {
        let (_dir, runs) = world();
        let fleet: &Arc<Fleet> = &runs.fleet;
        let berth = fleet.register((agent(1), LEDGER), "web", Facts::default());
        berth.heard(30 * DAY);
        assert_eq!(runs.give_up(30 * DAY).await.expect("looked"), 0);
        // What is known of the link survives it, even where nobody noted its end.
        drop(berth);
        assert_eq!(runs.give_up(36 * DAY).await.expect("looked"), 0);
        let new = |c: &rusqlite::Connection| {
            insert(c, 11, 36 * DAY);
            Ok(())
        };
        runs.db.call(Access::Write, new).await.expect("stored");
        assert_eq!(runs.give_up(38 * DAY).await.expect("looked"), 1);
        assert!(!state(&runs, 11).await.state.is_final());
    }

    #[tokio::test]
    async fn more_runs_than_one_transaction_ends_are_all_ended() {
        let (_dir, runs) = world();
        let more = |c: &rusqlite::Connection| {
            (100..100 + u128::from(GIVE_UP_PAGE)).for_each(|run| insert(c, run, 0));
            Ok(())
        };
        runs.db.call(Access::Write, more).await.expect("stored");
        let all = usize::try_from(GIVE_UP_PAGE).expect("small") + 1;
        assert_eq!(runs.give_up(9 * DAY).await.expect("looked"), all);
    }
}
