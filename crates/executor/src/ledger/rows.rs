//! Rows read back. One that cannot be read holds up no other: what is certain of its run is told in its place.

use super::error::LedgerError;
use super::tables::{Tables, unreadable, unsigned};
use crate::runs::order::quoted;
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension as _, Row};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use uuid::Uuid;
use willcall_protocol::ids::{RunId, SessionId};
use willcall_protocol::message::{Dispatch, LimitsAsked, StrategyAsked, ViewAsked};
use willcall_protocol::outcome::{Cause, Report, RunState};

/// A run that is claimed and not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// What was asked. If its row has a fault: run and session, and nothing else.
    pub dispatch: Dispatch,
    /// The timeout that applies, in milliseconds.
    pub timeout_ms: u64,
    /// When it was claimed, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// The boot of the host that it was claimed in.
    pub boot_id: String,
    /// Why the row does not say what was asked.
    pub fault: Option<String>,
}

impl Tables {
    /// Every run that is claimed and not over, but for rows that do not even say which one it is.
    pub(super) fn unfinished(&self) -> Result<Vec<Unfinished>, LedgerError> {
        let mut select = self
            .connection()
            .prepare(
                "SELECT run, session, dispatch, timeout_ms, accepted_ms, boot_id FROM runs
                 WHERE seq IS NULL ORDER BY run",
            )
            .map_err(unreadable)?;
        let mut rows = select.query([]).map_err(unreadable)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(unreadable)? {
            all.extend(unfinished(row).map_err(unreadable)?);
        }
        Ok(all)
    }

    /// The first result after `seq`. In place of one that cannot be read: that its run is lost.
    pub(super) fn result_after(&self, seq: u64) -> Result<Option<(u64, Report)>, LedgerError> {
        self.result(
            "SELECT seq, run, report FROM results WHERE seq > ?1 ORDER BY seq",
            seq,
        )
    }

    /// One result, as [`Tables::result_after`] gives it.
    pub(super) fn result_at(&self, seq: u64) -> Result<Option<(u64, Report)>, LedgerError> {
        self.result("SELECT seq, run, report FROM results WHERE seq = ?1", seq)
    }

    fn result(&self, sql: &str, seq: u64) -> Result<Option<(u64, Report)>, LedgerError> {
        let mut select = self.connection().prepare_cached(sql).map_err(unreadable)?;
        let mut rows = select
            .query([super::tables::signed(seq)])
            .map_err(unreadable)?;
        while let Some(row) = rows.next().map_err(unreadable)? {
            let seq = unsigned(row.get(0).map_err(unreadable)?);
            let fault = match parse(row.get_ref(2).map_err(unreadable)?) {
                Ok(report) => return Ok(Some((seq, report))),
                Err(fault) => fault,
            };
            let run = run_of(row.get_ref(1).map_err(unreadable)?);
            tracing::error!(
                seq,
                ?run,
                "the ledger has a result that cannot be read: {fault}"
            );
            // Of one whose run is not known either there is nothing to tell anybody.
            if let Some(run) = run {
                return Ok(Some((seq, lost(run, self.session_of(run)?, &fault))));
            }
        }
        Ok(None)
    }

    fn session_of(&self, run: RunId) -> Result<SessionId, LedgerError> {
        let session = self
            .connection()
            .query_row(
                "SELECT session FROM runs WHERE run = ?1",
                [run.0.as_bytes()],
                |row| Ok(session_of(row.get_ref(0)?)),
            )
            .optional()
            .map_err(unreadable)?;
        Ok(session.flatten().unwrap_or_else(SessionId::unnamed))
    }
}

fn unfinished(row: &Row<'_>) -> Result<Option<Unfinished>, rusqlite::Error> {
    let Some(run) = run_of(row.get_ref(0)?) else {
        tracing::error!("the ledger has a run whose id cannot be read; it is skipped");
        return Ok(None);
    };
    let (dispatch, fault) = match parse(row.get_ref(2)?) {
        Ok(dispatch) => (dispatch, None),
        Err(fault) => {
            tracing::error!(%run, "the ledger has a run that cannot be read: {fault}");
            let session = session_of(row.get_ref(1)?).unwrap_or_else(SessionId::unnamed);
            (stand_in(run, session), Some(fault))
        }
    };
    Ok(Some(Unfinished {
        dispatch,
        timeout_ms: unsigned(row.get(3)?),
        accepted_ms: unsigned(row.get(4)?),
        boot_id: String::from_utf8_lossy(bytes(row.get_ref(5)?)).into_owned(),
        fault,
    }))
}

/// What is certain of a result that cannot be read.
fn lost(run: RunId, session: SessionId, fault: &str) -> Report {
    let mut report = Report::bare(run, session, RunState::Lost);
    report.cause = Some(Cause::OutcomeUnknown);
    report.message = Some(format!(
        "the run is over, and the row of this host's ledger that says how cannot be read ({fault}); it was \
         not started again: check its effects before you repeat it"
    ));
    report
}

/// What is certain of a dispatch that cannot be read.
fn stand_in(run: RunId, session: SessionId) -> Dispatch {
    Dispatch {
        run,
        session,
        principal: String::new(),
        argv: Vec::new(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: None,
        limits: LimitsAsked::default(),
        strategy: StrategyAsked::default(),
        view: ViewAsked::default(),
        reason: None,
        not_after_ms: None,
        turn: None,
    }
}

fn parse<T: DeserializeOwned>(json: ValueRef<'_>) -> Result<T, String> {
    serde_json::from_slice(bytes(json)).map_err(|error| quoted(&error.to_string()))
}

fn run_of(id: ValueRef<'_>) -> Option<RunId> {
    Some(RunId(Uuid::from_slice(bytes(id)).ok()?))
}

fn session_of(name: ValueRef<'_>) -> Option<SessionId> {
    std::str::from_utf8(bytes(name)).ok()?.parse().ok()
}

/// Of a text even where it is none in UTF-8.
fn bytes(value: ValueRef<'_>) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}
