//! The ledger against its naive model, and across deaths.

use super::claim::Verdict;
use super::tables::{Durability, Tables};
use super::*;
use crate::limits::SEQ_GAP;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use uuid::Uuid;
use willcall_protocol::ids::SessionId;
use willcall_protocol::message::{Dispatch, LimitsAsked, StrategyAsked, ViewAsked};
use willcall_protocol::outcome::{Cause, RunState};

fn new_run(n: u8, body: u8, not_after_ms: Option<u64>, now_ms: u64, may_start: bool) -> NewRun {
    let dispatch = Dispatch {
        run: run(n),
        session: SessionId::unnamed(),
        principal: "test".into(),
        argv: vec![format!("body{body}")],
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: None,
        limits: LimitsAsked::default(),
        strategy: StrategyAsked::default(),
        view: ViewAsked::default(),
        reason: None,
        not_after_ms,
        turn: None,
    };
    NewRun {
        dispatch: Box::new(dispatch),
        timeout_ms: 7,
        may_start,
        now_ms,
    }
}

pub(super) fn plain(n: u8) -> NewRun {
    new_run(n, 0, None, 1, true)
}

pub(super) fn run(n: u8) -> RunId {
    RunId(Uuid::from_u128(n.into()))
}

fn report(n: u8) -> Report {
    Report::bare(run(n), SessionId::unnamed(), RunState::Exited)
}

pub(super) fn open(dir: &TempDir, boot: &str) -> Tables {
    Tables::open(&dir.path().join("ledger.db"), boot).expect("opens")
}

pub(super) fn claim(tables: &mut Tables, new: &NewRun) -> Verdict {
    tables
        .transact(Durability::Synced, |tables| tables.claim(new))
        .expect("written")
}

pub(super) fn finish(tables: &mut Tables, n: u8) -> u64 {
    tables
        .transact(Durability::Written, |tables| tables.finish(&report(n), 5))
        .expect("written")
}

#[derive(Debug, Clone)]
enum Op {
    Claim {
        run: u8,
        body: u8,
        not_after: Option<u64>,
        may_start: bool,
    },
    Cancel(u8),
    Finish(u8),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let claim = (
        0..6_u8,
        0..2_u8,
        proptest::option::of(0..60_u64),
        proptest::bool::weighted(0.8),
    );
    prop_oneof![
        5 => claim.prop_map(|(run, body, not_after, may_start)| {
            Op::Claim { run, body, not_after, may_start }
        }),
        2 => (0..6_u8).prop_map(Op::Cancel),
        2 => (0..6_u8).prop_map(Op::Finish),
        1 => Just(Op::Reopen),
    ]
}

/// What a ledger would be if nothing could fail.
#[derive(Default)]
struct Model {
    runs: BTreeMap<u8, (u8, Option<u64>, Option<u64>)>,
    canceled: BTreeSet<u8>,
    last_seq: u64,
}

impl Model {
    fn claim(
        &mut self,
        run: u8,
        body: u8,
        not_after: Option<u64>,
        may_start: bool,
        now: u64,
    ) -> Verdict {
        if let Some(&(first_body, first_not_after, seq)) = self.runs.get(&run) {
            if (first_body, first_not_after) != (body, not_after) {
                return Verdict::Conflict;
            }
            return seq.map_or(Verdict::Unfinished { timeout_ms: 7 }, |seq| {
                Verdict::Finished { seq }
            });
        }
        if self.canceled.contains(&run) {
            return Verdict::CanceledBefore;
        }
        match not_after {
            Some(by) if by < now => Verdict::Expired { late_ms: now - by },
            _ if !may_start => Verdict::Busy,
            _ => {
                self.runs.insert(run, (body, not_after, None));
                Verdict::First
            }
        }
    }

    fn finish(&mut self, run: u8) -> Option<u64> {
        let (_, _, seq) = self.runs.get_mut(&run)?;
        Some(*seq.get_or_insert_with(|| {
            self.last_seq += 1;
            self.last_seq
        }))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_history_is_answered_as_the_model_says(ops in proptest::collection::vec(op(), 1..60)) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut tables = open(&dir, "boot");
        let mut model = Model::default();
        for (op, now) in ops.into_iter().zip(1_u64..) {
            match op {
                Op::Claim { run, body, not_after, may_start } => {
                    let got = claim(&mut tables, &new_run(run, body, not_after, now, may_start));
                    prop_assert_eq!(got, model.claim(run, body, not_after, may_start, now));
                }
                Op::Cancel(n) => {
                    let standing = tables
                        .transact(Durability::Synced, |tables| tables.cancel(run(n), now))
                        .expect("written");
                    prop_assert_eq!(standing == Standing::Unknown, !model.runs.contains_key(&n));
                    if standing == Standing::Unknown {
                        model.canceled.insert(n);
                    }
                }
                Op::Finish(n) => {
                    if let Some(seq) = model.finish(n) {
                        prop_assert_eq!(finish(&mut tables, n), seq);
                    }
                }
                Op::Reopen => {
                    drop(tables);
                    tables = open(&dir, "boot");
                }
            }
        }
        let unfinished: Vec<RunId> =
            tables.unfinished().expect("read").into_iter().map(|u| u.dispatch.run).collect();
        let expected: Vec<RunId> = model
            .runs
            .iter()
            .filter(|(_, (_, _, seq))| seq.is_none())
            .map(|(n, _)| run(*n))
            .collect();
        prop_assert_eq!(unfinished, expected);
    }
}

#[test]
fn openings_are_counted_and_the_ledger_keeps_its_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let first = open(&dir, "boot").identity();
    let second = open(&dir, "boot").identity();
    assert_eq!((first.incarnation, second.incarnation), (1, 2));
    assert_eq!(first.ledger, second.ledger);
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    drop(open(&dir, "boot"));
    let path = dir.path().join("ledger.db");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection
        .pragma_update(None, "user_version", 9)
        .expect("written");
    drop(connection);
    let refused = Tables::open(&path, "boot");
    assert!(matches!(
        refused,
        Err(LedgerError::Newer {
            found: 9,
            known: 1,
            ..
        })
    ));
}

#[test]
fn what_is_no_ledger_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("ledger.db");
    std::fs::write(
        &path,
        b"not a database at all, and long enough to be looked at as one".repeat(99),
    )
    .expect("written");
    let before = std::fs::read(&path).expect("read");
    assert!(matches!(
        Tables::open(&path, "boot"),
        Err(LedgerError::Open { .. })
    ));
    assert_eq!(std::fs::read(&path).expect("read"), before);
}

/// Every prefix of the log that a crash can leave opens, with the transactions that are whole in it.
#[test]
fn a_log_torn_at_any_page_opens_with_what_was_whole() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut tables = open(&dir, "boot");
    let (db, wal) = (
        dir.path().join("ledger.db"),
        dir.path().join("ledger.db-wal"),
    );
    let mut lens = Vec::new();
    for n in 0..5 {
        assert_eq!(claim(&mut tables, &plain(n)), Verdict::First);
        lens.push(std::fs::metadata(&wal).expect("there").len());
    }
    let (db, wal) = (
        std::fs::read(db).expect("read"),
        std::fs::read(wal).expect("read"),
    );
    for torn in [-1_i64, 0, 1, 1000] {
        for (whole, len) in lens.iter().enumerate() {
            let len = usize::try_from(len.saturating_add_signed(torn))
                .expect("small")
                .min(wal.len());
            let copy = tempfile::tempdir().expect("temporary directory");
            std::fs::write(copy.path().join("ledger.db"), &db).expect("written");
            std::fs::write(copy.path().join("ledger.db-wal"), &wal[..len]).expect("written");
            let expected = if torn < 0 { whole } else { whole + 1 };
            let unfinished = open(&copy, "boot").unfinished().expect("read");
            assert_eq!(
                unfinished.len(),
                expected,
                "torn {torn} bytes after claim {whole}"
            );
        }
    }
}

#[test]
fn result_numbers_rise_and_jump_after_a_reboot() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut tables = open(&dir, "boot 1");
    (0..4).for_each(|n| assert_eq!(claim(&mut tables, &plain(n)), Verdict::First));
    assert_eq!(
        (
            finish(&mut tables, 2),
            finish(&mut tables, 0),
            finish(&mut tables, 2)
        ),
        (1, 2, 1)
    );
    drop(tables);
    let mut tables = open(&dir, "boot 1");
    assert_eq!(finish(&mut tables, 1), 3);
    drop(tables);
    let mut tables = open(&dir, "boot 2");
    assert_eq!(finish(&mut tables, 3), 3 + SEQ_GAP + 1);
    let after = tables
        .result_after(3)
        .expect("read")
        .map(|(seq, report)| (seq, report.run));
    assert_eq!(after, Some((3 + SEQ_GAP + 1, run(3))));
}

/// Changes an open ledger's rows behind its back.
fn spoil(dir: &TempDir, sql: &str) {
    let path = dir.path().join("ledger.db");
    let connection = rusqlite::Connection::open(path).expect("opens");
    connection.execute_batch(sql).expect("written");
}

#[test]
fn a_row_that_cannot_be_read_holds_up_no_other() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut tables = open(&dir, "boot");
    (1..=8).for_each(|n| assert_eq!(claim(&mut tables, &plain(n)), Verdict::First));
    (5..=8).for_each(|n| assert_eq!(finish(&mut tables, n), u64::from(n) - 4));
    drop(tables);
    spoil(
        &dir,
        "UPDATE runs SET dispatch = '{', body_hash = x'00', session = 'mine' WHERE substr(run, 16) = x'02';
         UPDATE runs SET run = x'03' WHERE substr(run, 16) = x'03';
         UPDATE runs SET session = 'mine' WHERE substr(run, 16) = x'05';
         UPDATE results SET report = CAST(x'ff' AS TEXT) WHERE seq = 1;
         UPDATE results SET report = '', run = x'00' WHERE seq = 2;",
    );
    let mut tables = open(&dir, "boot");
    let unfinished = tables.unfinished().expect("read");
    let told: Vec<_> = unfinished
        .iter()
        .map(|one| {
            (
                one.dispatch.run,
                one.dispatch.session.as_str(),
                one.fault.is_some(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (run(1), "default", false),
            (run(2), "mine", true),
            (run(4), "default", false)
        ]
    );
    let (seq, lost) = tables.result_after(0).expect("read").expect("there");
    assert_eq!((seq, lost.run, lost.session.as_str()), (1, run(5), "mine"));
    assert_eq!(
        (lost.state, lost.cause),
        (RunState::Lost, Some(Cause::OutcomeUnknown))
    );
    let message = lost.message.expect("there");
    assert!(
        message.contains("ledger") && message.contains("cannot be read"),
        "{message}"
    );
    let next = tables.result_after(1).expect("read").expect("there");
    assert_eq!((next.0, next.1.run), (3, run(7)));
    assert_eq!(tables.result_at(2).expect("read"), None);
    assert_eq!(
        claim(&mut tables, &plain(2)),
        Verdict::Unfinished { timeout_ms: 7 }
    );
    assert_eq!(finish(&mut tables, 2), 5);
    assert_eq!(tables.unsettled().expect("read").len(), 6);
}

#[test]
fn a_failed_transaction_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut tables = open(&dir, "boot");
    assert_eq!(claim(&mut tables, &plain(1)), Verdict::First);
    let failed: Result<(), LedgerError> = tables.transact(Durability::Written, |tables| {
        assert_eq!(tables.finish(&report(1), 5).expect("written"), 1);
        Err(LedgerError::Behind)
    });
    assert!(failed.is_err());
    assert_eq!(tables.standing(run(1)).expect("read"), Standing::Unfinished);
    assert_eq!(finish(&mut tables, 1), 1);
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("runtime")
        .block_on(work)
}

#[test]
fn of_claims_at_the_same_time_one_is_first() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (ledger, thread) = Ledger::open(&dir.path().join("ledger.db"), "boot").expect("opens");
    let firsts = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..50 {
                    if block_on(ledger.claim(plain(n))).expect("written") == Verdict::First {
                        firsts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(firsts.into_inner(), 50);
    drop(ledger);
    thread.join();
}

#[test]
fn what_waits_is_committed_together() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut tables = open(&dir, "boot");
    let wal = dir.path().join("ledger.db-wal");
    let len = || std::fs::metadata(&wal).expect("there").len();
    let before = len();
    claim(&mut tables, &plain(255));
    let (alone, before) = (len() - before, len());
    let (requests, mut queue) = mpsc::channel(MAX_LEDGER_QUEUE);
    let mut answers = Vec::new();
    for n in 0..20 {
        let (answer, answered) = oneshot::channel();
        requests
            .try_send(Request::Claim(plain(n), answer))
            .expect("room");
        answers.push(answered);
    }
    let first = queue.try_recv().expect("waits");
    writer::Batch::gather(first, &mut queue).commit(&mut tables);
    for mut answer in answers {
        let verdict = answer.try_recv().expect("answered").expect("written");
        assert_eq!(verdict, Verdict::First);
    }
    let grown = len() - before;
    assert!(
        grown < 5 * alone,
        "{grown} bytes for twenty claims, {alone} for one"
    );
}

#[test]
fn a_ledger_that_was_never_opened_says_why() {
    let refused = block_on(Ledger::closed("the disk is on fire").claim(plain(1)));
    let error = refused.expect_err("closed").to_string();
    assert_eq!(error, "the ledger is closed: the disk is on fire");
}

#[test]
fn a_ledger_that_cannot_be_written_fails_each_request_and_recovers() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut tables = open(&dir, "boot");
    tables.limit_pages(1);
    let refused = tables.transact(Durability::Synced, |tables| {
        (0..200).try_for_each(|n| tables.claim(&plain(n)).map(drop))
    });
    assert!(
        matches!(refused, Err(LedgerError::Sql { .. })),
        "{refused:?}"
    );
    tables.limit_pages(1 << 20);
    assert_eq!(tables.unfinished().expect("read"), []);
    assert_eq!(claim(&mut tables, &plain(1)), Verdict::First);
}

#[test]
fn a_new_ledger_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().expect("temporary directory");
    drop(open(&dir, "boot"));
    let found = std::fs::metadata(dir.path().join("ledger.db")).expect("there");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
}
