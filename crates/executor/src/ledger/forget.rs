//! What the ledger forgets, and when: results and claims a week after the gateway had them, tombstones a week
//! after the cancel.
//!
//! When results were acknowledged is not written beside each of them: each sweep notes how far the gateway is,
//! and what was acknowledged at a note that is a week old may go. Where the clock has jumped, what it
//! jumped over is added to the notes, so that no claim is forgotten before its week and run again.

use super::error::LedgerError;
use super::tables::{Tables, signed, unreadable};
use crate::limits::{FORGET_STEP, REMEMBERED};
use rusqlite::{Row, params};
use std::collections::BTreeSet;
use uuid::Uuid;
use willcall_outputs::retention::{Now, TOLERANCE_MS};
use willcall_protocol::ids::RunId;
use willcall_protocol::outcome::Report;

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS acks (
    at_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL
) STRICT;
";

/// What was forgotten in one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Runs and results.
    pub runs: usize,
    /// Cancels that came before their dispatch.
    pub tombstones: usize,
    /// Whether there is more to forget.
    pub more: bool,
}

impl Tables {
    /// Notes how far the gateway is, and corrects the times of earlier notes.
    pub(super) fn note_acked(&self, now: Now) -> Result<(), LedgerError> {
        let future = signed(now.wall_ms.saturating_add(TOLERANCE_MS));
        let times = params![signed(now.wall_ms), signed(now.jump_ms), future];
        self.write(
            "UPDATE acks SET at_ms = min(at_ms + ?2, ?1) WHERE ?2 > 0 OR at_ms > ?3",
            times,
        )?;
        self.write(
            "UPDATE tombstones SET canceled_ms = min(canceled_ms + ?2, ?1)
             WHERE ?2 > 0 OR canceled_ms > ?3",
            times,
        )?;
        self.write(
            "INSERT INTO acks SELECT ?1, acked FROM meta",
            params![signed(now.wall_ms)],
        )
        .map(drop)
    }

    /// Forgets some of what is old enough.
    pub(super) fn forget(&self, now: Now) -> Result<Forgotten, LedgerError> {
        let cutoff = signed(
            now.wall_ms
                .saturating_sub(crate::runs::order::millis(REMEMBERED)),
        );
        let step = i64::try_from(FORGET_STEP).unwrap_or(i64::MAX);
        let runs = "SELECT run FROM results
             WHERE seq <= (SELECT max(seq) FROM acks WHERE at_ms < ?1) ORDER BY seq LIMIT ?2";
        self.write(
            &format!("DELETE FROM runs WHERE run IN ({runs})"),
            params![cutoff, step],
        )?;
        let runs = self.write(
            "DELETE FROM results WHERE seq IN (SELECT seq FROM results
             WHERE seq <= (SELECT max(seq) FROM acks WHERE at_ms < ?1) ORDER BY seq LIMIT ?2)",
            params![cutoff, step],
        )?;
        let tombstones = self.write(
            "DELETE FROM tombstones WHERE run IN
             (SELECT run FROM tombstones WHERE canceled_ms < ?1 LIMIT ?2)",
            params![cutoff, step],
        )?;
        let more = runs == FORGET_STEP || tombstones == FORGET_STEP;
        if !more {
            self.write("DELETE FROM acks WHERE at_ms < ?1", params![cutoff])?;
        }
        Ok(Forgotten {
            runs,
            tombstones,
            more,
        })
    }

    /// Every run that is not over, or whose result the gateway does not have.
    pub(super) fn unsettled(&self) -> Result<BTreeSet<Uuid>, LedgerError> {
        self.connection()
            .prepare_cached(
                "SELECT run FROM runs WHERE seq IS NULL UNION ALL
                 SELECT run FROM results WHERE seq > (SELECT acked FROM meta)",
            )
            .and_then(|mut select| {
                // One without an id has no outputs either.
                let run = |row: &Row<'_>| Ok(row.get(0).map(Uuid::from_bytes).ok());
                let runs = select.query_map([], run)?;
                runs.filter_map(Result::transpose).collect()
            })
            .map_err(unreadable)
    }

    /// How a run ended, if it is over and not forgotten.
    pub(super) fn report_of(&self, run: RunId) -> Result<Option<Report>, LedgerError> {
        match self.seq_of(run)? {
            Some(seq) => Ok(self.result_at(seq)?.map(|(_, report)| report)),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::claim::Verdict;
    use super::super::tables::{Durability, Standing};
    use super::super::tests::{claim, finish, open, plain, run};
    use super::*;

    const HOUR: u64 = 3_600_000;
    const WEEK: u64 = 7 * 24 * HOUR;
    const T0: u64 = 3000 * WEEK;

    fn at(wall_ms: u64) -> Now {
        Now {
            wall_ms,
            jump_ms: 0,
        }
    }

    /// What an hourly sweep does.
    fn sweep(tables: &mut Tables, now: Now) -> usize {
        let forgotten = tables.transact(Durability::Written, |tables| {
            tables.note_acked(now)?;
            tables.forget(now)
        });
        let forgotten = forgotten.expect("written");
        forgotten.runs + forgotten.tombstones
    }

    fn ended(tables: &mut Tables, n: u8) {
        assert_eq!(claim(tables, &plain(n)), Verdict::First);
        finish(tables, n);
    }

    #[test]
    fn what_was_acknowledged_is_forgotten_a_week_later() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut tables = open(&dir, "boot");
        (1..=3).for_each(|n| ended(&mut tables, n));
        assert_eq!(claim(&mut tables, &plain(4)), Verdict::First);
        assert_eq!(sweep(&mut tables, at(T0)), 0);
        tables.ack(2).expect("written");
        assert_eq!(sweep(&mut tables, at(T0 + HOUR)), 0);
        // Noted an hour after the acknowledgement: never too early.
        assert_eq!(sweep(&mut tables, at(T0 + WEEK)), 0);
        assert_eq!(sweep(&mut tables, at(T0 + WEEK + HOUR)), 0);
        assert_eq!(sweep(&mut tables, at(T0 + WEEK + HOUR + 1)), 2);
        let standings: Vec<_> = (1..=4)
            .map(|n| tables.standing(run(n)).expect("read"))
            .collect();
        let (unknown, finished) = (Standing::Unknown, Standing::Finished);
        assert_eq!(
            standings,
            [unknown, unknown, finished, Standing::Unfinished]
        );
        assert_eq!(sweep(&mut tables, at(T0 + 9 * WEEK)), 0);
        drop(tables);
        let mut tables = open(&dir, "boot");
        assert_eq!(finish(&mut tables, 4), 4);
    }

    #[test]
    fn a_clock_that_jumps_forgets_nothing_early() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut tables = open(&dir, "boot");
        ended(&mut tables, 1);
        tables.cancel(run(2), T0).expect("written");
        tables.ack(1).expect("written");
        assert_eq!(sweep(&mut tables, at(T0)), 0);
        let jump_ms = 500 * WEEK;
        let later = T0 + HOUR + jump_ms;
        let jumped = Now {
            wall_ms: later,
            jump_ms,
        };
        assert_eq!(sweep(&mut tables, jumped), 0);
        assert_eq!(sweep(&mut tables, at(later + WEEK - 2 * HOUR)), 0);
        // Back again: what was noted then is as young as now.
        assert_eq!(sweep(&mut tables, at(T0)), 0);
        assert_eq!(sweep(&mut tables, at(T0 + WEEK)), 0);
        assert_eq!(sweep(&mut tables, at(T0 + WEEK + 1)), 2);
    }

    #[test]
    fn much_is_forgotten_in_steps() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let tables = open(&dir, "boot");
        for n in 0..u64::try_from(FORGET_STEP).expect("small") + 7 {
            let run = RunId(Uuid::from_u64_pair(1, n));
            tables.cancel(run, T0).expect("written");
        }
        let now = at(T0 + WEEK + 1);
        let first = tables.forget(now).expect("written");
        assert_eq!((first.tombstones, first.more), (FORGET_STEP, true));
        let rest = tables.forget(now).expect("written");
        assert_eq!((rest.tombstones, rest.more), (7, false));
    }

    #[test]
    fn what_is_unsettled_is_not_over_or_not_acknowledged() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut tables = open(&dir, "boot");
        ended(&mut tables, 1);
        ended(&mut tables, 2);
        assert_eq!(claim(&mut tables, &plain(3)), Verdict::First);
        tables.ack(1).expect("written");
        let unsettled = tables.unsettled().expect("read");
        assert_eq!(unsettled, BTreeSet::from([run(2).0, run(3).0]));
        let report = tables.report_of(run(1)).expect("read");
        assert_eq!(report.map(|report| report.run), Some(run(1)));
        assert_eq!(tables.report_of(run(3)).expect("read"), None);
        assert_eq!(tables.report_of(run(9)).expect("read"), None);
    }
}
