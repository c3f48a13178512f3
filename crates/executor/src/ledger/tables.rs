//! The ledger's tables and every statement on them. Whoever calls holds the transaction.
//!
//! `runs` holds a row for each claim; `seq` is null until the run is over. `results` is the
//! outbox, in the order of the ends. A tombstone is a cancel that came before its dispatch.

use super::claim::{Claim, Known, Verdict, decide};
use super::error::LedgerError;
use crate::limits::{LEDGER_CACHE_KIB, SEQ_GAP};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;
use willcall_protocol::ids::RunId;
use willcall_protocol::message::Dispatch;
use willcall_protocol::outcome::Report;

/// The version that this program writes.
const VERSION: u32 = 1;

const SCHEMA: &str = "
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    ledger BLOB NOT NULL,
    incarnation INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    acked INTEGER NOT NULL,
    seq_floor INTEGER NOT NULL
) STRICT;
CREATE TABLE runs (
    run BLOB PRIMARY KEY,
    session TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    dispatch TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL,
    accepted_ms INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    seq INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX unfinished ON runs (run) WHERE seq IS NULL;
CREATE TABLE results (
    seq INTEGER PRIMARY KEY,
    run BLOB NOT NULL,
    finished_ms INTEGER NOT NULL,
    report TEXT NOT NULL
) STRICT;
CREATE TABLE tombstones (
    run BLOB PRIMARY KEY,
    canceled_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Which ledger this is, and how often it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Made with the ledger.
    pub ledger: Uuid,
    /// Counts the openings.
    pub incarnation: u64,
}

/// A run as it is claimed.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// What was asked.
    pub dispatch: Box<Dispatch>,
    /// The timeout that applies, in milliseconds.
    pub timeout_ms: u64,
    /// Whether there is room for it.
    pub may_start: bool,
    /// Milliseconds since 1970.
    pub now_ms: u64,
}

/// What is known of a run by its id alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Unknown,
    /// Claimed and not over.
    Unfinished,
    /// Over.
    Finished,
}

/// When a commit reaches the disk itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Before it returns: it survives a loss of power.
    Synced,
    /// With a later one: until then it survives only the death of processes.
    Written,
}

/// An open ledger.
#[derive(Debug)]
pub(super) struct Tables {
    connection: Connection,
    boot_id: String,
    durability: Durability,
    identity: Identity,
    next_seq: u64,
}

type Sql<T> = Result<T, rusqlite::Error>;

impl Tables {
    /// Opens the ledger, making it if there is none, and counts the opening.
    pub(super) fn open(path: &Path, boot_id: &str) -> Result<Self, LedgerError> {
        let failed = |source| LedgerError::Open {
            path: path.to_owned(),
            source,
        };
        let connection = connect(path).map_err(failed)?;
        let found = version(&connection).map_err(failed)?;
        if found > VERSION {
            return Err(LedgerError::Newer {
                path: path.to_owned(),
                found,
                known: VERSION,
            });
        }
        let identity = Identity {
            ledger: Uuid::nil(),
            incarnation: 0,
        };
        let durability = Durability::Synced;
        let boot_id = boot_id.to_owned();
        let mut tables = Self {
            connection,
            boot_id,
            durability,
            identity,
            next_seq: 1,
        };
        tables.begin_incarnation(found == 0).map_err(failed)?;
        Ok(tables)
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Counts the rows that were written since the opening.
    pub(super) fn changes(&self) -> u64 {
        self.connection.total_changes()
    }

    /// Runs `work` in one transaction; on an error nothing of it has happened.
    pub(super) fn transact<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&mut Self) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let failed = |source| LedgerError::Sql {
            what: "write",
            source,
        };
        self.set_durability(durability).map_err(failed)?;
        self.connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(failed)?;
        let next_seq = self.next_seq;
        let done = work(self).and_then(|value| {
            self.connection
                .execute_batch("COMMIT")
                .map(|()| value)
                .map_err(failed)
        });
        if done.is_err() {
            self.next_seq = next_seq;
            // A failure may have ended the transaction already.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        done
    }

    /// Brings every commit so far to the disk.
    pub(super) fn sync(&mut self) -> Result<(), LedgerError> {
        // A synced commit syncs the whole log, with all that was only written before it.
        self.transact(Durability::Synced, |tables| {
            tables
                .write("UPDATE meta SET incarnation = incarnation", params![])
                .map(drop)
        })
    }

    pub(super) fn claim(&self, new: &NewRun) -> Result<Verdict, LedgerError> {
        let run = new.dispatch.run;
        let body = to_json(run, &new.dispatch)?;
        let claim = Claim {
            body_hash: *blake3::hash(body.as_bytes()).as_bytes(),
            not_after_ms: new.dispatch.not_after_ms,
            may_start: new.may_start,
        };
        let known = self.known(run)?;
        let canceled = known.is_none() && self.is_canceled(run)?;
        let verdict = decide(&claim, known.as_ref(), canceled, new.now_ms);
        if verdict == Verdict::First {
            self.write(
                "INSERT INTO runs (run, session, body_hash, dispatch, timeout_ms, accepted_ms, boot_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    run.0.as_bytes(),
                    new.dispatch.session.as_str(),
                    claim.body_hash,
                    body,
                    signed(new.timeout_ms),
                    signed(new.now_ms),
                    self.boot_id
                ],
            )?;
        }
        Ok(verdict)
    }

    /// Enters the end of a run; the first one stands. Returns its number.
    pub(super) fn finish(&mut self, report: &Report, now_ms: u64) -> Result<u64, LedgerError> {
        let run = report.run;
        if let Some(Known {
            finished: Some(seq),
            ..
        }) = self.known(run)?
        {
            return Ok(seq);
        }
        let seq = self.next_seq;
        let json = to_json(run, report)?;
        self.write(
            "INSERT INTO results (seq, run, finished_ms, report) VALUES (?1, ?2, ?3, ?4)",
            params![signed(seq), run.0.as_bytes(), signed(now_ms), json],
        )?;
        self.write(
            "UPDATE runs SET seq = ?2 WHERE run = ?1",
            params![run.0.as_bytes(), signed(seq)],
        )?;
        self.next_seq += 1;
        Ok(seq)
    }

    /// Notes that a run must not be started, unless it is known already. Returns what it was.
    pub(super) fn cancel(&self, run: RunId, now_ms: u64) -> Result<Standing, LedgerError> {
        let standing = self.standing(run)?;
        if standing == Standing::Unknown {
            self.write(
                "INSERT OR IGNORE INTO tombstones (run, canceled_ms) VALUES (?1, ?2)",
                params![run.0.as_bytes(), signed(now_ms)],
            )?;
        }
        Ok(standing)
    }

    /// Notes that the gateway has every result up to `seq`.
    pub(super) fn ack(&self, seq: u64) -> Result<(), LedgerError> {
        self.write(
            "UPDATE meta SET acked = max(acked, ?1)",
            params![signed(seq)],
        )
        .map(drop)
    }

    pub(super) fn standing(&self, run: RunId) -> Result<Standing, LedgerError> {
        Ok(match self.known(run)? {
            None => Standing::Unknown,
            Some(Known { finished: None, .. }) => Standing::Unfinished,
            Some(_) => Standing::Finished,
        })
    }

    /// Makes the disk full after that many pages.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: u32) {
        self.connection
            .pragma_update(None, "max_page_count", pages)
            .expect("taken");
    }

    fn begin_incarnation(&mut self, new: bool) -> Sql<()> {
        let transaction = self.connection.transaction()?;
        if new {
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.execute(
                "INSERT INTO meta VALUES (1, ?1, 0, ?2, 0, 0)",
                params![Uuid::new_v4().as_bytes(), self.boot_id],
            )?;
        }
        let last =
            "SELECT max(acked, seq_floor, coalesce((SELECT max(seq) FROM results), 0)) FROM meta";
        let mut last = unsigned(transaction.query_row(last, [], |row| row.get(0))?);
        let boot: String =
            transaction.query_row("SELECT boot_id FROM meta", [], |row| row.get(0))?;
        if boot != self.boot_id {
            last = last.saturating_add(SEQ_GAP);
        }
        transaction.execute(
            "UPDATE meta SET incarnation = incarnation + 1, boot_id = ?1, seq_floor = ?2",
            params![self.boot_id, signed(last)],
        )?;
        transaction.execute_batch(super::forget::SCHEMA)?;
        self.identity =
            transaction.query_row("SELECT ledger, incarnation FROM meta", [], |row| {
                let ledger = Uuid::from_bytes(row.get(0)?);
                Ok(Identity {
                    ledger,
                    incarnation: unsigned(row.get(1)?),
                })
            })?;
        transaction.commit()?;
        self.next_seq = last + 1;
        Ok(())
    }

    fn set_durability(&mut self, durability: Durability) -> Sql<()> {
        if durability != self.durability {
            let level = match durability {
                Durability::Synced => "FULL",
                Durability::Written => "NORMAL",
            };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.durability = durability;
        }
        Ok(())
    }

    fn known(&self, run: RunId) -> Result<Option<Known>, LedgerError> {
        let known = |row: &Row<'_>| {
            let finished: Option<i64> = row.get(2)?;
            Ok(Known {
                body_hash: row.get(0).ok(),
                timeout_ms: unsigned(row.get(1)?),
                finished: finished.map(unsigned),
            })
        };
        self.connection
            .prepare_cached("SELECT body_hash, timeout_ms, seq FROM runs WHERE run = ?1")
            .and_then(|mut select| select.query_row([run.0.as_bytes()], known).optional())
            .map_err(unreadable)
    }

    fn is_canceled(&self, run: RunId) -> Result<bool, LedgerError> {
        self.connection
            .prepare_cached("SELECT 1 FROM tombstones WHERE run = ?1")
            .and_then(|mut select| select.exists([run.0.as_bytes()]))
            .map_err(unreadable)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The number of a run's result, if it is over.
    pub(super) fn seq_of(&self, run: RunId) -> Result<Option<u64>, LedgerError> {
        Ok(self.known(run)?.and_then(|known| known.finished))
    }

    pub(super) fn write(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<usize, LedgerError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(values))
            .map_err(|source| LedgerError::Sql {
                what: "write",
                source,
            })
    }
}

fn connect(path: &Path) -> Sql<Connection> {
    // SQLite would make it for everybody to read. Where this fails, SQLite says why.
    let mut private = std::fs::OpenOptions::new();
    let _ = private.write(true).create_new(true).mode(0o600).open(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(2))?;
    // Nobody else reads it: no shared memory, no locks for each transaction.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -LEDGER_CACHE_KIB)?;
    Ok(connection)
}

fn version(connection: &Connection) -> Sql<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn to_json<T: serde::Serialize>(run: RunId, value: &T) -> Result<String, LedgerError> {
    let run = run.to_string();
    serde_json::to_string(value).map_err(|source| LedgerError::Entry { run, source })
}

pub(super) fn unreadable(source: rusqlite::Error) -> LedgerError {
    LedgerError::Sql {
        what: "read",
        source,
    }
}

/// SQLite has no unsigned integers; nothing that is counted here comes near the difference.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
