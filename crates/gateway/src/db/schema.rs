//! The tables, and how they come to be.

use super::DbError;
use crate::limits::DB_BUSY;
use rusqlite::Connection;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// One step for each version; a step that was released never changes.
const STEPS: [&str; 2] = [
    "
    CREATE TABLE hosts (
        agent     BLOB PRIMARY KEY,
        name      TEXT NOT NULL UNIQUE,
        created   INTEGER NOT NULL,
        revoked   INTEGER,
        last_seen INTEGER,
        ledger    BLOB,
        acked     INTEGER NOT NULL DEFAULT 0,
        facts     TEXT
    ) STRICT;
    CREATE TABLE runs (
        run       BLOB PRIMARY KEY,
        host      BLOB NOT NULL REFERENCES hosts (agent),
        session   TEXT NOT NULL,
        principal TEXT NOT NULL,
        hash      BLOB,
        body      TEXT,
        cancel    TEXT,
        report    TEXT,
        seq       INTEGER,
        created   INTEGER NOT NULL,
        finished  INTEGER
    ) STRICT;
    CREATE INDEX runs_open ON runs (host) WHERE finished IS NULL;
    CREATE INDEX runs_finished ON runs (finished) WHERE finished IS NOT NULL;
    CREATE TABLE tokens (
        hash      BLOB PRIMARY KEY,
        principal TEXT NOT NULL,
        created   INTEGER NOT NULL
    ) STRICT;
",
    // Of the runs that are open, nobody noted where they were sent: to the host's last ledger, and it may have accepted them.
    "
    ALTER TABLE runs ADD COLUMN ledger BLOB;
    ALTER TABLE runs ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
    UPDATE runs SET accepted = 1, ledger = (SELECT ledger FROM hosts WHERE agent = host)
        WHERE finished IS NULL;
",
];

/// Opens the database at `path`, makes it if there is none, and brings it to the newest version.
pub fn open(path: &Path) -> Result<Connection, DbError> {
    // SQLite would make it for everybody to read. Where this fails, SQLite says why.
    let mut private = std::fs::OpenOptions::new();
    let _ = private.write(true).create_new(true).mode(0o600).open(path);
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(DB_BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    migrate(&mut connection)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<(), DbError> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let done = usize::try_from(found)
        .ok()
        .filter(|done| *done <= STEPS.len());
    let Some(done) = done else {
        return Err(DbError::TooNew { found, known });
    };
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_database_is_made_once_and_a_newer_one_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("gateway.db");
        drop(open(&path).expect("made"));
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let connection = open(&path).expect("opened again");
        connection
            .pragma_update(None, "user_version", 99)
            .expect("set");
        drop(connection);
        assert!(matches!(
            open(&path),
            Err(DbError::TooNew {
                found: 99,
                known: 2
            })
        ));
    }

    #[test]
    fn what_was_open_before_ledgers_were_noted_belongs_to_its_hosts_last_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("gateway.db");
        let old = Connection::open(&path).expect("opened");
        old.execute_batch(STEPS[0]).expect("made");
        old.pragma_update(None, "user_version", 1).expect("set");
        old.execute_batch(
            "INSERT INTO hosts (agent, name, created, ledger) VALUES (x'01', 'web', 0, x'02');
             INSERT INTO runs (run, host, session, principal, created) VALUES (x'03', x'01', 's', 'p', 0);
             INSERT INTO runs (run, host, session, principal, created, finished)
                 VALUES (x'04', x'01', 's', 'p', 0, 1);",
        )
        .expect("filled");
        drop(old);
        let sql = "SELECT ledger IS x'02', accepted FROM runs ORDER BY run";
        let new = open(&path).expect("brought up to date");
        let mut found = new.prepare(sql).expect("prepared");
        let found = found
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("read");
        let found: Vec<(i64, i64)> = found.map(|row| row.expect("a row")).collect();
        assert_eq!(found, [(1, 1), (0, 0)]);
    }
}
