//! Runs: what was asked, of whom, and what it came to.

use super::{blob, hosts, json, json_at, unreadable, uuid_at};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::{Duration, UNIX_EPOCH};
use uuid::Uuid;
use willcall_protocol::ids::{AgentId, RunId, SessionId};
use willcall_protocol::message::Dispatch;
use willcall_protocol::outcome::{Cause, Report, RunState};

/// A run.
#[derive(Debug, Clone)]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// Its host.
    pub host: AgentId,
    /// Its host's name.
    pub host_name: String,
    /// Its session.
    pub session: SessionId,
    /// SHA-256 of its body; unknown for a run that is known only from its result.
    pub hash: Option<Vec<u8>>,
    /// What it came to; none while it is not over.
    pub report: Option<Report>,
}

/// Why a run that is not over has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// A caller asked.
    Caller,
    /// It has not reached its host in time.
    Late,
}

/// Why a run is lost that its host accepted once and refuses now.
const DENIED: &str = "The host had accepted this run and now refuses it as one that it does not know; it may have run.";
/// Why a run is lost whose host has another ledger now.
const FORGOTTEN: &str =
    "The host came back without its memory of this run (another ledger); it may have run.";

/// A run that is not over, as it has to be dispatched again.
#[derive(Debug, Clone)]
pub struct OpenRun {
    /// Its place among the runs.
    pub place: i64,
    /// What was dispatched.
    pub dispatch: Dispatch,
    /// Whether it has to end.
    pub cancel: Option<Cancel>,
    /// When it was asked for, in milliseconds since 1970.
    pub created: i64,
    /// Whether it may have been put on a link before.
    pub sent: bool,
    /// Whether its host said that it would execute it.
    pub accepted: bool,
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It is the first for its run.
    New,
    /// The run was over already; the first result stands.
    Again,
    /// The run was given up for lost, and its result came after all; what callers were told stands.
    TooLate,
    /// The run belongs to another host; nothing is stored.
    Foreign,
}

/// Stores a run that is about to be sent to that ledger of its host, unless its id is taken; says whether it was stored.
pub fn insert(
    c: &Connection,
    (host, ledger): (AgentId, Uuid),
    dispatch: &Dispatch,
    hash: &[u8],
    now: i64,
) -> rusqlite::Result<bool> {
    let sql =
        "INSERT OR IGNORE INTO runs (run, host, session, principal, hash, body, created, ledger)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let stored = c.prepare_cached(sql)?.execute(params![
        blob(dispatch.run.0),
        blob(host.0),
        dispatch.session.as_str(),
        dispatch.principal,
        hash,
        json(dispatch)?,
        now,
        of_ledger(ledger)
    ])?;
    Ok(stored == 1)
}

/// Notes that the host of an open run said that it would execute it.
pub fn accept(c: &Connection, host: AgentId, run: RunId) -> rusqlite::Result<()> {
    let sql = "UPDATE runs SET accepted = 1
               WHERE run = ?1 AND host = ?2 AND finished IS NULL AND NOT accepted";
    c.prepare_cached(sql)?
        .execute(params![blob(run.0), blob(host.0)])
        .map(drop)
}

/// Notes that an open run goes to the ledger `to` instead of `from`, where it was never sent; false if it does not stand so.
pub fn redirect(c: &Connection, run: RunId, from: Uuid, to: Uuid) -> rusqlite::Result<bool> {
    let sql = "UPDATE runs SET ledger = ?3 WHERE run = ?1 AND ledger IS ?2 AND finished IS NULL";
    let changed =
        c.prepare_cached(sql)?
            .execute(params![blob(run.0), of_ledger(from), of_ledger(to)])?;
    Ok(changed == 1)
}

/// Ends the host's open runs that were sent to another ledger than this one: that ledger may have executed them, and this one
/// would execute them again. Gives their reports.
pub fn lose(
    c: &Connection,
    host: AgentId,
    ledger: Uuid,
    now: i64,
) -> rusqlite::Result<Vec<Report>> {
    let sql = "SELECT run, session FROM runs
               WHERE host = ?1 AND finished IS NULL AND ledger IS NOT NULL AND ledger IS NOT ?2";
    let mut statement = c.prepare_cached(sql)?;
    let rows = statement.query_map(params![blob(host.0), blob(ledger)], |row| {
        Ok((RunId(uuid_at(row, 0)?), session(row, 1)?))
    })?;
    let open: Vec<(RunId, SessionId)> = rows.collect::<rusqlite::Result<_>>()?;
    open.into_iter()
        .map(|(run, session)| {
            let report = lost(run, session, FORGOTTEN);
            end(c, &report, now)?;
            Ok(report)
        })
        .collect()
}

/// Ends open runs, at most `limit` of them, that were asked for before that time and whose host was last heard of before it.
/// Gives their hosts and reports.
pub fn give_up(
    c: &Connection,
    before: i64,
    limit: u32,
    now: i64,
) -> rusqlite::Result<Vec<(AgentId, Report)>> {
    let sql = "SELECT run, host, runs.session, coalesce(last_seen, 0) FROM runs JOIN hosts ON agent = host
               WHERE finished IS NULL AND runs.created < ?1 AND coalesce(last_seen, 0) < ?1 LIMIT ?2";
    let mut statement = c.prepare_cached(sql)?;
    let rows = statement.query_map(params![before, limit], |row| {
        let (run, host) = (RunId(uuid_at(row, 0)?), AgentId(uuid_at(row, 1)?));
        Ok((
            host,
            lost(run, session(row, 2)?, &not_heard_of(row.get(3)?)),
        ))
    })?;
    let open: Vec<(AgentId, Report)> = rows.collect::<rusqlite::Result<_>>()?;
    for (_, report) in &open {
        end(c, report, now)?;
    }
    Ok(open)
}

fn not_heard_of(since_ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(since_ms).unwrap_or(0));
    let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + since);
    format!(
        "The host has not been heard of since {since}; whether it executed the run, and how that ended, nobody knows."
    )
}

/// Finds a run.
pub fn find(c: &Connection, run: RunId) -> rusqlite::Result<Option<RunRow>> {
    let sql = "SELECT run, host, name, session, hash, report
               FROM runs JOIN hosts ON agent = host WHERE run = ?1";
    c.prepare_cached(sql)?
        .query_row([blob(run.0)], read)
        .optional()
}

/// Stores what a run came to, and that its host's results are committed up to `seq`. A run that nobody here remembers
/// is stored from its result.
pub fn finish(
    c: &Connection,
    host: AgentId,
    ledger: Uuid,
    seq: i64,
    report: &Report,
    now: i64,
) -> rusqlite::Result<Stored> {
    hosts::acknowledge(c, host, ledger, seq)?;
    let sql = "INSERT INTO runs (run, host, session, principal, report, seq, created, finished)
               VALUES (?1, ?2, ?3, '', ?4, ?5, ?6, ?6)
               ON CONFLICT (run) DO UPDATE
                   SET report = ?4, seq = ?5, finished = ?6, body = NULL
                   WHERE host = ?2 AND finished IS NULL";
    let session = report.session.as_str();
    let stored = c.prepare_cached(sql)?.execute(params![
        blob(report.run.0),
        blob(host.0),
        session,
        json(report)?,
        seq,
        now
    ])?;
    if stored == 1 {
        return Ok(Stored::New);
    }
    let known = find(c, report.run)?.filter(|known| known.host == host);
    let Some(known) = known else {
        return Ok(Stored::Foreign);
    };
    let given_up = known.report.is_some_and(|r| r.state == RunState::Lost);
    Ok(if given_up && report.state != RunState::Lost {
        Stored::TooLate
    } else {
        Stored::Again
    })
}

/// Stores that the host refused a run and executed nothing for it; gives the report, or none if the run is over or another
/// host's. A host that had accepted it before has lost its memory of it: then nobody knows what was executed.
pub fn refuse(
    c: &Connection,
    host: AgentId,
    (run, cause, message): (RunId, Cause, String),
    now: i64,
) -> rusqlite::Result<Option<Report>> {
    let open = "SELECT session, cancel, accepted FROM runs
                WHERE run = ?1 AND host = ?2 AND finished IS NULL";
    let found: Option<(SessionId, Option<Cancel>, bool)> = c
        .prepare_cached(open)?
        .query_row(params![blob(run.0), blob(host.0)], |row| {
            Ok((session(row, 0)?, cancel(row, 1)?, row.get(2)?))
        })
        .optional()?;
    let report = match found {
        None => return Ok(None),
        Some((session, _, true)) => lost(run, session, DENIED),
        Some((session, cancel, false)) => refused(run, session, (cause, message), cancel),
    };
    end(c, &report, now)?;
    Ok(Some(report))
}

fn end(c: &Connection, report: &Report, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE runs SET report = ?2, finished = ?3, body = NULL WHERE run = ?1";
    c.prepare_cached(sql)?
        .execute(params![blob(report.run.0), json(report)?, now])
        .map(drop)
}

fn refused(
    run: RunId,
    session: SessionId,
    (cause, message): (Cause, String),
    cancel: Option<Cancel>,
) -> Report {
    let mut report = Report::bare(run, session, RunState::Refused);
    (report.cause, report.message) = match (cause, cancel) {
        (Cause::CanceledBefore, Some(Cancel::Late)) => {
            let late = "The run did not reach its host in time, and was not started.";
            (Some(Cause::Expired), Some(late.into()))
        }
        _ => (Some(cause), Some(message)),
    };
    report
}

fn lost(run: RunId, session: SessionId, why: &str) -> Report {
    let mut report = Report::bare(run, session, RunState::Lost);
    report.cause = Some(Cause::OutcomeUnknown);
    report.message = Some(why.into());
    report
}

/// A ledger as the database has it; a host without one has none.
fn of_ledger(ledger: Uuid) -> Option<Vec<u8>> {
    (!ledger.is_nil()).then(|| blob(ledger))
}

/// Forgets an open run whose id its host knows with another body: what is stored here is not what that run is.
pub fn forget(c: &Connection, host: AgentId, run: RunId) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM runs WHERE run = ?1 AND host = ?2 AND finished IS NULL";
    Ok(c.prepare_cached(sql)?
        .execute(params![blob(run.0), blob(host.0)])?
        == 1)
}

/// Stores that an open run has to end.
pub fn want_end(c: &Connection, run: RunId, why: Cancel) -> rusqlite::Result<()> {
    let sql = "UPDATE runs SET cancel = ?2 WHERE run = ?1 AND finished IS NULL AND cancel IS NULL";
    c.prepare_cached(sql)?
        .execute(params![blob(run.0), why.as_str()])
        .map(drop)
}

/// The host's open runs after `place` that may be sent to that ledger, oldest first, at most `limit` of them.
pub fn open_after(
    c: &Connection,
    (host, ledger): (AgentId, Uuid),
    place: i64,
    limit: u32,
) -> rusqlite::Result<Vec<OpenRun>> {
    let sql = "SELECT rowid, body, cancel, created, ledger IS NOT NULL, accepted FROM runs
               WHERE host = ?1 AND finished IS NULL AND rowid > ?2 AND body IS NOT NULL
                   AND (ledger IS NULL OR ledger IS ?4)
               ORDER BY rowid LIMIT ?3";
    let mut statement = c.prepare_cached(sql)?;
    let rows = statement.query_map(params![blob(host.0), place, limit, blob(ledger)], |row| {
        let dispatch = json_at(row, 1)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(OpenRun {
            place: row.get(0)?,
            dispatch,
            cancel: cancel(row, 2)?,
            created: row.get(3)?,
            sent: row.get(4)?,
            accepted: row.get(5)?,
        })
    })?;
    rows.collect()
}

/// Forgets runs that were over before that time.
pub fn sweep(c: &Connection, before: i64) -> rusqlite::Result<usize> {
    c.prepare_cached("DELETE FROM runs WHERE finished < ?1")?
        .execute([before])
}

impl Cancel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Late => "late",
        }
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        run: RunId(uuid_at(row, 0)?),
        host: AgentId(uuid_at(row, 1)?),
        host_name: row.get(2)?,
        session: session(row, 3)?,
        hash: row.get(4)?,
        report: json_at(row, 5)?,
    })
}

fn session(row: &Row<'_>, column: usize) -> rusqlite::Result<SessionId> {
    row.get::<_, String>(column)?
        .parse()
        .map_err(|e| unreadable(column, e))
}

fn cancel(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Cancel>> {
    Ok(row
        .get::<_, Option<String>>(column)?
        .map(|why| match why.as_str() {
            "late" => Cancel::Late,
            _ => Cancel::Caller,
        }))
}
