//! The database's thread.
//!
//! ```text
//! submit ──► queue ──► [BEGIN  work work work  COMMIT] ──► then, then, then
//! ```

use super::DbError;
use crate::limits::{MAX_DB_BATCH, MAX_DB_QUEUE};
use rusqlite::Connection;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What a request does, and what its commit has to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Changes nothing.
    Read,
    /// Survives the death of this process; a power cut may undo it.
    Write,
    /// Survives a power cut.
    Durable,
}

type Then = Box<dyn FnOnce(Result<(), DbError>) + Send>;
type Work = Box<dyn FnOnce(&Connection) -> Then + Send>;

struct Request {
    access: Access,
    work: Work,
}

/// The way to the database. Cloned freely; the thread ends when the last one is gone.
#[derive(Debug, Clone)]
pub struct Db {
    queue: mpsc::Sender<Request>,
}

/// The database's thread, to be joined.
#[derive(Debug)]
pub struct DbThread(std::thread::JoinHandle<()>);

impl Db {
    /// Starts the thread on an open database.
    pub fn start(connection: Connection) -> Result<(Self, DbThread), DbError> {
        let (queue, requests) = mpsc::channel(MAX_DB_QUEUE);
        let thread = std::thread::Builder::new()
            .name("database".into())
            .spawn(move || serve(&connection, requests))
            .map_err(|e| DbError::Thread(Arc::new(e)))?;
        Ok((Self { queue }, DbThread(thread)))
    }

    /// Queues `work`, and has `then` run with what came of it once that is committed, on the database's thread. Returns as
    /// soon as it is queued; from then on it happens, whatever becomes of the caller. Not queued if dropped before.
    pub async fn submit<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        then: impl FnOnce(Result<T, DbError>) + Send + 'static,
    ) -> Result<(), DbError> {
        let work: Work = Box::new(move |connection| {
            let done = within_savepoint(connection, access, work);
            Box::new(move |committed| then(committed.and_then(|()| done.map_err(DbError::from))))
        });
        let queued = self.queue.send(Request { access, work }).await;
        queued.map_err(|_| DbError::Closed)
    }

    /// Queues `work`; what came of it arrives once it is committed.
    pub async fn ticket<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, DbError>>, DbError> {
        let (answer, ticket) = oneshot::channel();
        // Nobody may be waiting any more: the work is done all the same.
        self.submit(access, work, |done| drop(answer.send(done)))
            .await?;
        Ok(ticket)
    }

    /// Does `work` and waits until it is committed.
    pub async fn call<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DbError> {
        self.ticket(access, work)
            .await?
            .await
            .unwrap_or(Err(DbError::Closed))
    }

    /// Completes when the thread has ended.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }
}

impl DbThread {
    /// Waits for the thread: until every [`Db`] is dropped and the queue is empty. False if it panicked.
    pub fn join(self) -> bool {
        self.0.join().is_ok()
    }
}

fn serve(connection: &Connection, mut requests: mpsc::Receiver<Request>) {
    let mut batch = Vec::with_capacity(MAX_DB_BATCH);
    let mut synced = true;
    while requests.blocking_recv_many(&mut batch, MAX_DB_BATCH) > 0 {
        let access = batch.iter().map(|r| r.access).max().unwrap_or(Access::Read);
        let (thens, committed) = run(connection, access, &mut synced, batch.drain(..));
        for then in thens {
            then(committed.clone());
        }
    }
}

fn run(
    connection: &Connection,
    access: Access,
    synced: &mut bool,
    batch: impl Iterator<Item = Request>,
) -> (Vec<Then>, Result<(), DbError>) {
    let begun = begin(connection, access, synced);
    // Without a transaction each request fails by itself, and its owner hears why from `begun`.
    let thens = batch.map(|request| (request.work)(connection)).collect();
    let committed = begun.and_then(|()| {
        execute(connection, "COMMIT").inspect_err(|_| drop(execute(connection, "ROLLBACK")))
    });
    (thens, committed.map_err(DbError::from))
}

fn begin(connection: &Connection, access: Access, synced: &mut bool) -> rusqlite::Result<()> {
    let sync = access == Access::Durable;
    if access > Access::Read && *synced != sync {
        let level = if sync { "FULL" } else { "NORMAL" };
        connection.pragma_update(None, "synchronous", level)?;
        *synced = sync;
    }
    // A transaction that begins as a reader may find that it cannot write any more.
    execute(
        connection,
        if access > Access::Read {
            "BEGIN IMMEDIATE"
        } else {
            "BEGIN"
        },
    )
}

fn within_savepoint<T>(
    connection: &Connection,
    access: Access,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if access == Access::Read {
        return work(connection);
    }
    if connection.is_autocommit() {
        return Err(rusqlite::Error::InvalidQuery);
    }
    execute(connection, "SAVEPOINT request")?;
    let done = work(connection);
    if done.is_err() {
        execute(connection, "ROLLBACK TO request")?;
    }
    execute(connection, "RELEASE request")?;
    done
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn start() -> (tempfile::TempDir, Db, DbThread) {
        let dir = tempfile::tempdir().expect("a directory");
        let connection = super::super::open(&dir.path().join("db")).expect("open");
        connection
            .execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY)")
            .expect("made");
        let (db, thread) = Db::start(connection).expect("started");
        (dir, db, thread)
    }

    fn insert(n: i64) -> impl FnOnce(&Connection) -> rusqlite::Result<usize> + Send {
        move |c| c.execute("INSERT INTO t VALUES (?1)", [n])
    }

    fn count(c: &Connection) -> rusqlite::Result<i64> {
        c.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
    }

    #[tokio::test]
    async fn a_request_that_fails_undoes_itself_alone() {
        let (_dir, db, thread) = start();
        let mut tickets = Vec::new();
        for n in [1, 2, 2, 3] {
            tickets.push(db.ticket(Access::Write, insert(n)).await.expect("queued"));
        }
        let mut done = Vec::new();
        for ticket in tickets {
            done.push(ticket.await.expect("answered").is_ok());
        }
        assert_eq!(done, [true, true, false, true]);
        assert_eq!(db.call(Access::Read, count).await.expect("counted"), 3);
        drop(db);
        assert!(thread.join());
    }

    #[tokio::test]
    async fn what_is_queued_happens_although_nobody_waits_and_is_seen_by_what_comes_after() {
        let (_dir, db, _thread) = start();
        for n in 0..500 {
            drop(db.ticket(Access::Durable, insert(n)).await.expect("queued"));
        }
        assert_eq!(db.call(Access::Read, count).await.expect("counted"), 500);
    }

    #[tokio::test]
    async fn requests_that_wait_together_share_a_commit() {
        let (_dir, db, _thread) = start();
        let (entered, is_in) = std::sync::mpsc::channel();
        let (leave, may_leave) = std::sync::mpsc::channel::<()>();
        let held = db.ticket(Access::Read, move |_| {
            entered.send(()).expect("heard");
            may_leave.recv().expect("told");
            Ok(())
        });
        let held = held.await.expect("queued");
        is_in.recv().expect("in the transaction");
        let log = Arc::new(Mutex::new(Vec::new()));
        for n in 0..50 {
            let (work, then) = (Arc::clone(&log), Arc::clone(&log));
            let queued = db.submit(
                Access::Durable,
                move |_| {
                    work.lock().expect("sound").push(("work", n));
                    Ok(())
                },
                move |_| then.lock().expect("sound").push(("then", n)),
            );
            queued.await.expect("queued");
        }
        leave.send(()).expect("heard");
        held.await.expect("answered").expect("fine");
        db.call(Access::Read, count)
            .await
            .expect("everything before is done");
        let works = (0..50).map(|n| ("work", n));
        let expected: Vec<_> = works.chain((0..50).map(|n| ("then", n))).collect();
        assert_eq!(*log.lock().expect("sound"), expected);
    }
}
