//! What need not be held any longer goes: at the start, and every hour. Runs do not wait for it: it has a thread of
//! its own, which holds no lock that they take, and asks the ledger for little at a time.

use crate::host::now_ms;
use crate::ledger::LedgerError;
use crate::limits::SWEEP_EVERY;
use crate::runs::{Runs, state_name};
use nix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::sleep;
use uuid::Uuid;
use willcall_daemon::in_words;
use willcall_outputs::capture::Captured;
use willcall_outputs::limits::Limits;
use willcall_outputs::media;
use willcall_outputs::record::{RECORD_VERSION, Record, StoredStream, Stream as Stored};
use willcall_outputs::retention::{Now, jump_ms};
use willcall_outputs::store::{OutputKey, Store, StoreError, Survey, Swept};
use willcall_outputs::view::Mode;
use willcall_protocol::ids::RunId;
use willcall_protocol::outcome::{Report, StreamReport};

/// Why a sweep did not take place. What is held stays until the next one.
#[derive(Debug, Error)]
enum SweepError {
    #[error("cannot list the held outputs")]
    List(#[source] io::Error),
    #[error("cannot tell when the last sweep was")]
    Clock(#[source] io::Error),
    /// Without it nobody knows which results still have to be delivered.
    #[error("cannot ask the ledger")]
    Ledger(#[from] LedgerError),
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// Sweeps for as long as it is polled. Cancel safe: a sweep that is dropped stops between two removals.
pub(crate) async fn serve(runs: &Runs) {
    let mut last = None;
    loop {
        match sweep(runs, last).await {
            Ok(look) => last = Some(look),
            Err(error) => tracing::error!("nothing is swept: {}", in_words(&error)),
        }
        sleep(SWEEP_EVERY).await;
    }
}

/// One look at the clocks.
#[derive(Debug, Clone, Copy)]
struct Look {
    wall_ms: u64,
    /// Milliseconds since the boot, with those in which the host was suspended.
    since_boot_ms: u64,
}

impl Look {
    fn now() -> io::Result<Self> {
        let since_boot = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?);
        Ok(Self {
            wall_ms: now_ms(),
            since_boot_ms: u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// The time of this look, after the last one of this process or of an earlier one.
    fn after(self, last: Option<Self>, store: &Store) -> io::Result<Now> {
        let jump_ms = match last {
            Some(last) => {
                let passed = self.since_boot_ms.saturating_sub(last.since_boot_ms);
                jump_ms(last.wall_ms, self.wall_ms, Some(passed))
            }
            None => jump_ms(store.last_sweep_ms()?, self.wall_ms, None),
        };
        let wall_ms = self.wall_ms;
        Ok(Now { wall_ms, jump_ms })
    }
}

async fn sweep(runs: &Runs, last: Option<Look>) -> Result<Look, SweepError> {
    let stop = StopOnDrop::default();
    let look = Look::now().map_err(SweepError::Clock)?;
    let now = look.after(last, runs.store()).map_err(SweepError::Clock)?;
    if now.jump_ms > 0 {
        let hours = now.jump_ms / 3_600_000;
        tracing::warn!(
            hours,
            "the clock ran ahead; what is held is held as much longer"
        );
    }
    let (store, stopped) = (Arc::clone(runs.store()), stop.flag());
    let survey = on_thread(move || store.survey(&stopped)).await?;
    let survey = survey.map_err(SweepError::List)?;
    // Only now: of what was listed, none is of a run that the ledger learns of later.
    let mut unsettled = runs.ledger().unsettled().await?;
    unsettled.append(&mut complete(runs, &survey, &unsettled).await?);
    let (store, stopped) = (Arc::clone(runs.store()), stop.flag());
    let retention = runs.outputs().retention;
    let swept = on_thread(move || {
        let swept = store.sweep(survey, &unsettled, now, &retention, &stopped);
        let noted = store.note_sweep(now.wall_ms);
        noted.map(|()| swept)
    });
    let swept = swept.await?.map_err(SweepError::Clock)?;
    report(&swept);
    forget(runs, now).await?;
    Ok(look)
}

/// Writes the records that found no room on the disk when their runs ended. Returns those runs: whether or not
/// there is room now, this is not the sweep that takes what a receipt has promised.
async fn complete(
    runs: &Runs,
    survey: &Survey,
    unsettled: &BTreeSet<Uuid>,
) -> Result<BTreeSet<Uuid>, SweepError> {
    let mut promised = BTreeSet::new();
    let settled = survey
        .without_record()
        .filter(|(_, run)| !unsettled.contains(run));
    for (session, run) in settled {
        let report = runs.ledger().report_of(RunId(run)).await?;
        let Some(report) = report.filter(|report| report.session.as_str() == session) else {
            continue;
        };
        let store = Arc::clone(runs.store());
        let written = on_thread(move || write_record(&store, &report)).await?;
        match written {
            Ok(false) => continue,
            Ok(true) => tracing::info!(%run, "the record of an output is made up for"),
            Err(error) => tracing::error!("{}", in_words(&error)),
        }
        promised.insert(run);
    }
    Ok(promised)
}

/// Whether the report promises a file; if so, the record of what is there is written.
fn write_record(store: &Store, report: &Report) -> Result<bool, StoreError> {
    let promised = [
        (Stored::Stdout, &report.stdout),
        (Stored::Stderr, &report.stderr),
        (Stored::Tty, &report.tty),
    ];
    let promised = promised
        .into_iter()
        .filter_map(|(stream, of)| Some((stream, of.as_ref()?)));
    let mut streams = BTreeMap::new();
    for (stream, told) in promised.filter(|(_, told)| told.saved) {
        let key = OutputKey {
            session: report.session.as_str().to_owned(),
            run: report.run.0,
            stream,
        };
        if let Ok(Some(left)) = store.left_of(&key, Limits::default(), Mode::Raw) {
            streams.insert(stream, told_of(&left, told));
        }
    }
    if streams.is_empty() {
        return Ok(false);
    }
    let now = now_ms();
    store.write_record(&Record {
        version: RECORD_VERSION,
        run: report.run.0,
        session: report.session.as_str().to_owned(),
        state: state_name(report.state),
        created_ms: now.saturating_sub(report.duration_ms),
        finished_ms: now,
        streams,
    })?;
    Ok(true)
}

/// What the file has is counted; what the command wrote was told.
fn told_of(left: &Captured, told: &StreamReport) -> StoredStream {
    let stored = left.total_size;
    StoredStream {
        stored,
        total_size: told.total_size,
        total_lines: told.total_lines,
        digest: told.digest.clone(),
        complete: told.complete && stored == told.total_size,
        dropped_bytes: told.total_size.saturating_sub(stored),
        mime: media::type_of(&left.head).to_owned(),
    }
}

async fn forget(runs: &Runs, now: Now) -> Result<(), SweepError> {
    runs.ledger().note_acked(now).await?;
    loop {
        let forgotten = runs.ledger().forget(now).await?;
        if forgotten.runs + forgotten.tombstones > 0 {
            tracing::debug!(?forgotten, "the ledger has forgotten what was old enough");
        }
        if !forgotten.more {
            return Ok(());
        }
    }
}

fn report(swept: &Swept) {
    let Swept {
        kept,
        kept_bytes,
        removed_bytes,
        locked,
        failed,
        sessions,
        ref removed,
    } = *swept;
    if removed.is_empty() && failed == 0 {
        tracing::debug!(kept, kept_bytes, locked, "nothing had to go");
    } else {
        tracing::info!(
            kept,
            kept_bytes,
            ?removed,
            removed_bytes,
            locked,
            sessions,
            "swept"
        );
    }
    if failed > 0 {
        tracing::error!(failed, "outputs could not be removed; they are tried again");
    }
}

/// Tells the thread when nobody waits for it any more.
#[derive(Debug, Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl StopOnDrop {
    fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does it on a thread of its own: pages and records have those of the runtime.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SweepError> {
    let (answer, answered) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sweep".into());
    let thread = thread.spawn(move || drop(answer.send(work())));
    let thread = thread.map_err(SweepError::Thread)?;
    match answered.await {
        Ok(done) => Ok(done),
        // The sender is only dropped by a panic, which is ours, too.
        Err(_) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Err(SweepError::Thread(io::Error::other("it ended early"))),
        },
    }
}
