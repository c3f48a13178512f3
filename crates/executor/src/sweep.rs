//! What need not be held any longer goes: at the start, and every hour. Runs do not wait for it: it has a thread of
//! its own, which holds no lock that they take, and asks the ledger for little at a time.

use crate::host::now_ms;
use crate::ledger::{LedgerError, in_words};
use crate::limits::SWEEP_EVERY;
use crate::runs::Runs;
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::sleep;
use willcall_outputs::retention::{Now, jump_ms};
use willcall_outputs::store::{Store, Swept};

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
    let unsettled = runs.ledger().unsettled().await?;
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
